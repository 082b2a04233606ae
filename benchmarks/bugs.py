"""Wrong and right mechanisms, and any tool that looks for violations, under one protocol.

A tool is one function, ``flags(question) -> bool``: does the tool say that the claim is false?
``question`` holds the mechanism, two neighbouring data sets, the claim, how many draws of each data
set the tool may make, and the error rate at which it may be wrong; ``question.outputs(side)`` makes
them.  A tool is told neither the kind of bug nor where to look.

``python -m benchmarks.bugs`` (``make bench-bugs``) runs every tool on every mechanism and writes
docs/bugs.md.  ``--tool MODULE:FUNCTION`` adds one.  Answers are kept in build/bugs.jsonl under the
digest of the cases and the tool, so that a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import dpaudit as dp
from audits.blackbox import Case, catalogue, recorded
from benchmarks.side_by_side import ENVIRONMENT, Others, environment, say
from dpaudit.cli.terminal import Pace
from dpaudit.storage.files import write_atomically

FloatArray = npt.NDArray[np.float64]
ROOT = Path(__file__).resolve().parent.parent
KEPT, PAGE = ROOT / "build" / "bugs.jsonl", ROOT / "docs" / "bugs.md"
DRAWS = 20_000  # of each data set, for every tool
ERROR = 0.01  # of every tool, a mechanism
DELTA = "1e-3"  # at which a claim of another kind is told to tools that know (epsilon, delta) alone
LARGEST = 1e12  # outputs beyond are as large, for tools that know no infinities


@dataclass(frozen=True, eq=False)
class Question:
    """A mechanism and its claim.

    ``mechanism(data, rng, size)`` returns ``size`` independent outputs.  ``epsilon`` and ``delta``:
    the claim, or where it is of another kind an (epsilon, delta) that follows from it.
    """

    mechanism: Callable[..., Any]
    d0: Any
    d1: Any
    claim: Any
    epsilon: float
    delta: float
    draws: int
    error: float
    seed: int

    def outputs(self, side: int) -> FloatArray:
        """All draws of a data set, shape (draws, columns); the same for every tool that asks."""
        rng = np.random.default_rng([self.seed, side])
        drawn = self.mechanism((self.d0, self.d1)[side], rng, self.draws)
        return np.asarray(drawn, dtype=np.float64).reshape(self.draws, -1)


Tool: TypeAlias = Callable[[Question], bool]


# --- tools --------------------------------------------------------------------------------------


def dpaudit(question: Question) -> bool:
    """`audit_function` with its defaults."""
    return _audited(question, None)


def dpaudit_bits(question: Question) -> bool:
    """`audit_function(..., attack="bits")`: all digits of the outputs."""
    return _audited(question, "bits")


def _audited(question: Question, attack: str | None) -> bool:
    found = dp.audit_function(
        question.mechanism,
        question.d0,
        question.d1,
        claim=question.claim,
        trials=question.draws,
        refute_at=question.error,
        seed=question.seed,
        attack=attack,
    )
    return str(found.verdict) in ("refuted", "alarm")


def histogram(question: Question) -> bool:
    """StatDP's way, rebuilt: an event of the first column is chosen on half of the draws, from
    thresholds, intervals and missing outputs, and counted on the other half.

    Source: Ding, Wang, Wang, Zhang and Kifer (2018).
    """
    sides = [question.outputs(side)[:, 0] for side in (0, 1)]
    half = question.draws // 2
    known = np.concatenate([values[:half] for values in sides])
    known = known[np.isfinite(known)]
    edges = np.unique(np.quantile(known, np.linspace(0, 1, 21))) if known.size else np.zeros(1)
    tables = [_events(values, edges) for values in sides]
    best, flagged = -np.inf, False
    for first, second in ((0, 1), (1, 0)):
        p, q = tables[first][:half].mean(axis=0), tables[second][:half].mean(axis=0)
        spread = np.sqrt((p * (1 - p) + np.exp(2 * question.epsilon) * q * (1 - q) + 1e-9) / half)
        evidence = (p - np.exp(question.epsilon) * q - question.delta) / spread
        event = int(np.argmax(evidence))
        if evidence[event] > best:
            best = float(evidence[event])
            hits = int(tables[first][half:, event].sum())
            others = int(tables[second][half:, event].sum())
            flagged = _counts_refute(question, hits, others, half)
    return flagged


def classifier(question: Question) -> bool:
    """DP-Sniper's way, rebuilt: a logistic regression learns on half of the draws which data set
    an output is from; outputs above a threshold of its score are the event, counted on the rest.

    Source: Bichsel, Steffen, Bogunovic and Vechev (2021).
    """
    first, second = _scores(question)
    half = first.size // 2
    best, flagged = -np.inf, False
    for high, low in ((first, second), (-second, -first)):
        for level in np.quantile(np.concatenate([high[:half], low[:half]]), (0.5, 0.9, 0.99)):
            p, q = np.mean(high[:half] >= level), np.mean(low[:half] >= level)
            spread = np.sqrt((p + np.exp(2 * question.epsilon) * q + 1e-9) / half)
            evidence = float((p - np.exp(question.epsilon) * q - question.delta) / spread)
            if evidence > best:
                hits = int(np.count_nonzero(high[half:] >= level))
                others = int(np.count_nonzero(low[half:] >= level))
                best = evidence
                flagged = _counts_refute(question, hits, others, first.size - half)
    return flagged


def jax_privacy(question: Question) -> bool:
    """jax-privacy 2.0.0, `CanaryScoreAuditor`, on the classifier's scores; all thresholds, each at
    a share of the error, both ways at half of it.
    """
    return _bound_of(question, "jax Clopper-Pearson, all thresholds")


def privacy_estimates(question: Question) -> bool:
    """privacy-estimates 0.1.0, beta intervals, on the classifier's scores; the threshold from half
    of them, both ways at half of the error.
    """
    return _bound_of(question, "privacy-estimates beta, split")


TOOLS: dict[str, Tool] = {
    "dpaudit": dpaudit,
    "dpaudit, all digits": dpaudit_bits,
    "StatDP, rebuilt": histogram,
    "DP-Sniper, rebuilt": classifier,
    "jax-privacy": jax_privacy,
    "privacy-estimates": privacy_estimates,
}


def _bound_of(question: Question, tool: str) -> bool:
    """Whether a bound of another library, either way round, exceeds the claim."""
    first, second = _scores(question)
    others = _others()
    for sides in ((first, second), (-second, -first)):
        answer = others.ask(sides, question.delta, [tool], error=question.error / 2)[tool]
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        if answer["bound"] > question.epsilon:
            return True
    return False


@cache
def _others() -> Others:
    return Others(environment(ENVIRONMENT))


def _events(values: FloatArray, edges: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether each output is above an edge, below it, between it and the next, or missing."""
    column = values[:, None]
    with np.errstate(invalid="ignore"):
        above, below = column > edges, column <= edges
    between = above[:, :-1] & below[:, 1:]
    odd = np.stack([np.isnan(values), np.isinf(values)], axis=1)
    return np.concatenate([above, below, between, odd], axis=1)


def _scores(question: Question) -> tuple[FloatArray, FloatArray]:
    """Scores of the second half of the draws by a classifier that the first half trained."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    sides = [_features(question.outputs(side)) for side in (0, 1)]
    half = question.draws // 2
    learned = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    learned.fit(np.concatenate([sides[0][:half], sides[1][:half]]), np.repeat([1, 0], [half, half]))
    first, second = (learned.decision_function(side[half:]) for side in sides)
    return first, second


def _features(outputs: FloatArray) -> FloatArray:
    """The outputs, clipped to what is usual for them, their squares, and which are missing."""
    odd = ~np.isfinite(outputs)
    plain = np.nan_to_num(outputs, nan=0.0, posinf=LARGEST, neginf=-LARGEST)
    low, high = np.quantile(plain, (0.001, 0.999), axis=0)
    plain = np.clip(plain, low, high)
    return np.concatenate([plain, plain**2, odd], axis=1)


def _counts_refute(question: Question, hits: int, others: int, trials: int) -> bool:
    """Clopper-Pearson: is the event likelier than the claim allows, at half of the error?

    Half, since the counts of both data sets are bounded; each at a quarter.
    """
    from scipy.stats import beta

    error = question.error / 2
    low = beta.ppf(error, hits, trials - hits + 1) if hits else 0.0
    high = beta.ppf(1 - error, others + 1, trials - others) if others < trials else 1.0
    return bool(low > np.exp(question.epsilon) * high + question.delta)


# --- running ------------------------------------------------------------------------------------


def question_of(case: Case, draws: int, seed: int) -> Question:
    """The question that every tool is asked about a case."""
    parameters = case.claim.parameters
    if isinstance(case.claim, (dp.PureDP, dp.ApproxDP)):
        epsilon, delta = float(parameters["epsilon"]), float(parameters.get("delta", 0.0))
    else:
        epsilon, delta = _implied(case.claim), float(DELTA)
    return Question(
        case.mechanism, case.d0, case.d1, case.claim, epsilon, delta, draws, ERROR, seed
    )


@cache
def _implied(claim: Any) -> float:
    """The epsilon at DELTA that follows from a claim of another kind."""
    return float(dp.account(claim, dp.central("replace_one")).epsilon(DELTA).upper)


@dataclass(frozen=True)
class Answer:
    """A tool's answer on a case; ``failed`` says what it raised instead."""

    tool: str
    case: str
    flagged: bool
    seconds: float
    failed: str = ""


def ask(name: str, tool: Tool, case: Case, draws: int, seed: int) -> Answer:
    """Ask a tool about a case; an error of the tool is no flag."""
    question, started = question_of(case, draws, seed), time.perf_counter()
    try:
        flagged, failed = bool(tool(question)), ""
    except Exception as error:  # noqa: BLE001 (whatever a tool raises is its answer)
        flagged, failed = False, f"{type(error).__name__}: {error}"[:200]
    return Answer(name, case.name, flagged, round(time.perf_counter() - started, 3), failed)


def digest(tool: Tool) -> str:
    """SHA-256 over the cases and the tool's own source, as hex."""
    found = hashlib.sha256()
    folders = ["audits/blackbox"] + ["dpaudit/audit"] * (tool in (dpaudit, dpaudit_bits))
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    source = inspect.getsource(inspect.getmodule(tool) or tool)
    found.update(source.partition(f"# --- {'running'}")[0].encode())
    return found.hexdigest()


def run(
    tools: dict[str, Tool],
    cases: Sequence[Case],
    draws: int,
    seed: int,
    kept: Path | None = KEPT,
) -> list[Answer]:
    """Every tool's answer on every case; those in the file are not asked for again."""
    answers = []
    for name, tool in tools.items():
        place = [name, draws, seed, ERROR, digest(tool)]
        done, pace = _known(place, kept), Pace()
        for number, case in enumerate(cases):
            if case.name not in done:
                done[case.name] = ask(name, tool, case, draws, seed)
                _keep(place, done[case.name], kept)
            if number % 25 == 24:
                say(f"{name}: {number + 1} of {len(cases)}{pace.left(number + 1, len(cases))}")
        answers += [done[case.name] for case in cases]
    return answers


def _known(place: list[Any], kept: Path | None) -> dict[str, Answer]:
    rows: Iterable[str] = kept.read_text("utf-8").splitlines() if kept and kept.exists() else ()
    known = {}
    for row in rows:
        try:
            table = json.loads(row)
        except ValueError:
            continue  # cut short by a kill
        if table.pop("place") == place:
            known[table["case"]] = Answer(**table)
    return known


def _keep(place: list[Any], answer: Answer, kept: Path | None) -> None:
    if kept is None:
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    cut = kept.exists() and not kept.read_bytes().endswith(b"\n")
    with kept.open("a", encoding="utf-8") as stream:
        stream.write("\n" * cut + json.dumps({"place": place, **vars(answer)}) + "\n")


# --- the page -----------------------------------------------------------------------------------


def page(answers: Sequence[Answer], cases: Sequence[Case], draws: int, seed: int) -> str:
    """The page: tools against each other, then kinds of bugs, and the cases one by one."""
    tools = list(dict.fromkeys(answer.tool for answer in answers))
    found = {(answer.tool, answer.case): answer for answer in answers}
    wrong, right = ([c for c in cases if c.correct is flag] for flag in (False, True))
    lines = [
        "# Which tools find which bugs",
        "",
        f"{len(wrong)} wrong mechanisms and {len(right)} right ones of the literature, as "
        "functions (`audits/blackbox`), each with a claim and two neighbouring data sets that show "
        "the most. "
        f"Of {sum(case.chances is not None for case in wrong)} wrong ones the probabilities of the "
        "event that breaks the claim are known exactly. Each tool may draw "
        f"{draws:,} outputs of each data set, and may be wrong with probability {ERROR:g}. It is "
        "told neither the kind of bug nor where to look.",
        "",
        "`make bench-bugs` measures this page again. The cases were written with dpaudit, whose "
        "authors knew its strengths; send wrong mechanisms that it misses.",
        "",
        "| tool | wrong ones found | right ones flagged | failed | median seconds |",
        "|---|---|---|---|---|",
    ]
    for tool in tools:
        hits = sum(found[tool, case.name].flagged for case in wrong)
        alarms = sum(found[tool, case.name].flagged for case in right)
        failed = sum(bool(found[tool, case.name].failed) for case in cases)
        seconds = np.median([found[tool, case.name].seconds for case in cases])
        lines.append(
            f"| {tool} | {hits} of {len(wrong)} | {alarms} of {len(right)} | {failed} | "
            f"{seconds:.2g} |"
        )
    lines += ["", "| tool | what was run |", "|---|---|"]
    for tool in tools:
        lines.append(f"| {tool} | {_about(tool)} |")
    families = list(dict.fromkeys(case.family for case in wrong))
    lines += ["", "## Kinds of bugs", "", f"| kind of bug | {' | '.join(tools)} |"]
    lines.append("|---" * (len(tools) + 1) + "|")
    for family in families:
        few = [case for case in wrong if case.family == family]
        shares = [sum(found[tool, case.name].flagged for case in few) for tool in tools]
        lines.append(f"| {family}, {len(few)} | {' | '.join(map(str, shares))} |")
    lines += ["", *_LIBRARIES, *_recorded(wrong, tools, found)]
    lines += ["", "## Right mechanisms that were flagged", ""]
    flagged = [f"- {t}: `{c.name}`" for t in tools for c in right if found[t, c.name].flagged]
    lines += flagged or ["None."]
    lines += ["", "## Wrong mechanisms that no tool found", ""]
    missed = [c for c in wrong if not any(found[tool, c.name].flagged for tool in tools)]
    lines += [f"- `{c.name}` ({c.family}): {c.text.splitlines()[0]}" for c in missed] or ["None."]
    return "\n".join([*lines, "", *_ADD, f"*{draws:,} draws, seed {seed}.*", ""])


_LIBRARIES = """\
## Violations that were found in libraries

Re:cord-play (Cebere, Erb, Bellet, Desfontaines and Fitzsimons 2026, arXiv 2602.17454) found 13
violations in 12 libraries. Those that an issue of the library or a test of the paper's artifact
describes are rebuilt here in a few lines, each beside its mend (`audits/blackbox/recorded.py`).
Not rebuilt: what we found no public description of, which is that of mbi (its issue 65), the
sensitivity in dpmm, and MOSTLY AI's beyond its kind. SmartNoise's odometer (its issue 621) states
too large an epsilon, and is among the right ones.

| mechanism | source | tools that found it |
|---|---|---|
""".splitlines()


def _recorded(
    wrong: Sequence[Case], tools: Sequence[str], found: dict[tuple[str, str], Answer]
) -> list[str]:
    """A row for each violation of a library: where it is described, and which tools found it."""
    rows = []
    for case in wrong:
        if case.family == recorded.FAMILY.name:
            names = [tool for tool in tools if found[tool, case.name].flagged]
            every = "all" if len(names) == len(tools) else "; ".join(names) or "none"
            rows.append(f"| `{case.name}`: {case.text.splitlines()[0]} | {case.source} | {every} |")
    return rows


_ADD = """\
## Add a tool

```python
# mytool.py
def flags(question):
    first, second = question.outputs(0), question.outputs(1)  # arrays (draws, columns)
    return my_test(first, second, question.epsilon, question.delta, question.error)
```

```
python -m benchmarks.bugs --tool mytool:flags
```

`question.mechanism`, `d0`, `d1`, `claim` and `seed` are there for tools that draw by themselves.
Where a claim is of zCDP, Renyi DP or GDP, `epsilon` is what follows from it at `delta` 1e-3.

Not run here, since they do not install from PyPI: dp_auditorium, dp-recorder, and StatDP's and
DP-Sniper's own programs. The ways of the last two are rebuilt above. dp-recorder reads what a
program gives to its noise, which its outputs alone do not show.

""".splitlines()


def _about(name: str) -> str:
    tool = TOOLS.get(name)
    text = inspect.getdoc(tool) if tool else None
    return " ".join((text or "a tool of yours").replace("|", "/").split())


def main() -> int:
    """Run the tools and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--tool", action="append", default=[], help="MODULE:FUNCTION, a further one"
    )
    parser.add_argument("--only", nargs="+", choices=sorted(TOOLS), help="of the tools that ship")
    parser.add_argument("--draws", type=int, default=DRAWS, help="of each data set")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    tools = {name: tool for name, tool in TOOLS.items() if name in (options.only or TOOLS)}
    for name in options.tool:
        module, _, function = name.partition(":")
        tools[name] = getattr(import_module(module), function)
    cases = catalogue()
    answers = run(tools, cases, options.draws, options.seed)
    for answer in answers:
        if answer.failed:
            say(f"{answer.tool}: {answer.case}: {answer.failed}")
    write_atomically(options.out, page(answers, cases, options.draws, options.seed).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
