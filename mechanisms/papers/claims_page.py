"""What the papers print and what its certificates say of it: two README pages of the catalogue.

Made from the claims of the catalogue and the outcomes that certificates must have: `dpaudit certify
--all` fails where a certificate says otherwise.  No row is written by hand.

    python -m mechanisms.papers.claims_page ROOT
"""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path

from dpaudit.accountant.claim import Claim
from dpaudit.curator.mechanism import Mechanism
from dpaudit.exact import enclose
from dpaudit.measures.convert import gaussian_mu
from dpaudit.report.svg import drawing
from mechanisms.papers.common.free import short
from mechanisms.papers.srgd.constants import Reading
from mechanisms.papers.user_level.catalogue import INTENDED, SMALL
from mechanisms.papers.user_level.entries import LIPSCHITZ, LOSS, RADIUS, SMOOTHNESS
from mechanisms.papers.user_level.every_size import MOST, EverySize
from mechanisms.papers.user_level.problem import Problem

PAPERS = {
    "diff2": ("catalogue",),
    "srgd": ("catalogue", "printed", "baselines_catalogue", "batches_catalogue"),
    "kl": ("catalogue", "adaptive_catalogue", "adaptive_readings", "baselines_catalogue"),
    "stable_erm": ("catalogue", "rows_catalogue", "baselines_catalogue"),
    "user_level": ("catalogue", "options_catalogue", "baselines_catalogue"),
}
NAMES = {
    "diff2": "Murata and Suzuki 2023",
    "srgd": "Choquette-Choo, Ganesh and Thakurta 2024",
    "kl": "Menart, Ullah, Arora, Bassily, Guzman 2023",
    "stable_erm": "Ghazi, Kamath, Kumar, Manurangsi, Meka, Zhang 2023",
    "user_level": "Lowy, Liu and Asi 2024",
}
PLOT = "corollary_5_7.svg"
BEGIN = "<!-- papers: made by python -m mechanisms.papers.claims_page -->"
END = "<!-- end of papers -->"
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(3), Fraction(10))
# The ranges of Corollary 5.7's page, from corner to corner; CLOSE is far above what floats lose.
BUDGETS = tuple(map(Fraction, ("0.001", "0.01", "0.05", "0.1", "0.5", "1", "3", "10", "100")))
DELTAS = tuple(Fraction(1, 10**k) for k in (2, 6, 10, 20))
ROUNDS, CLOSE = (2, 3, 4, 31, 32, 1024, 10**6), 1e-6
COLUMNS = ("statement", "certificate", "claim", "reading", "released", "outcome")
ORDER = ("proved", "unproved", "unsupported", "refuted")


@dataclass(frozen=True)
class Printed:
    """One claim of a paper at one instance: the statement, its entry, and the outcome."""

    paper: str
    statement: str
    mechanism: Mechanism
    claim: Claim
    outcome: str


def printed() -> Iterator[Printed]:
    """Every claim of the catalogue that a paper itself states, by paper and statement."""
    for paper, modules in PAPERS.items():
        found = []
        for name in modules:
            module = import_module(f"mechanisms.papers.{paper}.{name}")
            own = [m for m in vars(module).values() if isinstance(m, Mechanism)]
            for mechanism in {one.name: one for one in own}.values():
                for claim, outcome in zip(mechanism.claims, mechanism.expectations, strict=True):
                    statement = claim.by.removeprefix(f"{NAMES[paper]}, ")
                    if statement != claim.by:
                        found.append(Printed(paper, statement, mechanism, claim, str(outcome)))
        unique = {(p.mechanism.name, p.claim.text, p.claim.reading, p.statement): p for p in found}
        yield from sorted(unique.values(), key=lambda p: (p.statement, p.mechanism.name))


def page() -> str:
    """mechanisms/papers/README.md."""
    lines = [
        "# What the papers print",
        "",
        "Made by `python -m mechanisms.papers.claims_page .` from the catalogue's claims and the",
        "outcomes that their certificates must have (`make certify-all` fails where one differs).",
        "One row is one instance of a statement, at numbers chosen here unless it says otherwise,",
        "in one reading: *proved* and *refuted* speak of that instance, *unproved* of what no",
        "bound decides. *Released* is all of a run that the outcome speaks of, as the certificate",
        "states it: whoever sees less of it may learn less.",
    ]
    paper = ""
    for row in printed():
        if row.paper != paper:
            paper = row.paper
            lines += ["", f"## {NAMES[paper]}", "", "| " + " | ".join(COLUMNS) + " |"]
            lines.append("|" + "---|" * len(COLUMNS))
        cells = (row.statement, f"`{row.mechanism.name}`", row.claim.text, row.claim.reading or "")
        released = "; ".join(row.mechanism.setting.covered)
        lines.append("| " + " | ".join((*cells, released, row.outcome)) + " |")
    return "\n".join([*lines, *over_sizes(), *over_budgets()]) + "\n"


def over_sizes() -> list[str]:
    """Theorem 3.1 of Lowy, Liu and Asi at every number of users from some on."""
    lines = [
        "",
        f"### Theorem 3.1 at every n up to 1e{len(str(MOST)) - 1}",
        "",
        f"Reading: {INTENDED}; q = 1/10, m = d = 10, delta = {float(SMALL):g}, and T_i, whose",
        "constant the paper leaves open, as `user_level_phased_erm_paper` has it. Shown by the",
        "closed bound of `mechanisms/papers/user_level/every_size.py`, in balls over all n; where",
        "that bound is too large nothing is said, but for the instances above.",
        "",
        "| epsilon | least n of the hypothesis | proved from |",
        "|---|---|---|",
    ]
    for epsilon in EPSILONS:
        one = EverySize(
            Problem(LOSS, 1, 10, 10, RADIUS, LIPSCHITZ), epsilon, SMALL, float(SMOOTHNESS)
        )
        cells = (f"{float(epsilon):g}", f"{one.hypothesis():,}", f"{one.least():,}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def over_budgets() -> list[str]:
    """Corollary 5.7 of Choquette-Choo, Ganesh and Thakurta over (epsilon, delta, T)."""
    lines = [
        "",
        "### Corollary 5.7 over (epsilon, delta, T)",
        "",
        f"Reading: {Reading.AS_PRINTED}, a clip, any losses, zero_out.",
        "Neither n nor d changes the verdict. T rounds on the tree are mu-GDP, and some data and",
        "losses attain it, so that the exact curve decides each cell: *P* proved, *R* refuted,",
        "*o* too close to say. At T = 1 the printed noise is 0.",
        "",
        f"![Corollary 5.7: proved, refuted and open]({PLOT})",
        "",
        "| delta | T | " + " | ".join(f"epsilon = {float(e):g}" for e in BUDGETS) + " |",
        "|---|---|" + "---|" * len(BUDGETS),
    ]
    for delta in DELTAS:
        for rounds in ROUNDS:
            cells = (decided(rounds, epsilon, delta) for epsilon in BUDGETS)
            lines.append(f"| {short(delta)} | {rounds:,} | " + " | ".join(cells) + " |")
    return lines


def decided(rounds: int, epsilon: Fraction, delta: Fraction) -> str:
    """Whether Corollary 5.7's noise for T rounds is (epsilon, delta)-DP: P, R, or o for open.

    A record moves floor(log2 T) + 1 nodes of the tree by one clip each.
    """
    levels = Fraction(rounds.bit_length())
    noise = enclose(Reading.AS_PRINTED.multiplier(Fraction(rounds), epsilon, delta))
    spent = float((enclose(levels).sqrt() / noise).mid())
    most = float(enclose(gaussian_mu(epsilon, delta)).mid())
    if abs(spent / most - 1) < CLOSE:
        return "o"
    return "P" if spent < most else "R"


def drawn() -> str:
    """The cells of :func:`over_budgets` as a plot, a panel a delta: SVG."""
    shades = {"P": 0.9, "o": 0.5, "R": 0.15}
    with drawing() as (figure, _):
        figure.clear()
        figure.set_size_inches(11.0, 3.0)
        panels = figure.subplots(1, len(DELTAS), sharey=True)
        for axes, delta in zip(panels, DELTAS, strict=True):
            letters = [[decided(rounds, e, delta) for e in BUDGETS] for rounds in ROUNDS]
            shaded = [[shades[letter] for letter in row] for row in letters]
            axes.grid(visible=False)
            axes.imshow(shaded, cmap="gray", vmin=0.0, vmax=1.0, aspect="auto")
            for y, row in enumerate(letters):
                for x, letter in enumerate(row):
                    axes.text(
                        x,
                        y,
                        letter,
                        ha="center",
                        va="center",
                        color="white" if letter == "R" else "black",
                    )
            axes.set_xticks(range(len(BUDGETS)), [f"{float(e):g}" for e in BUDGETS], fontsize=6)
            axes.set_yticks(range(len(ROUNDS)), [f"{rounds:,}" for rounds in ROUNDS], fontsize=7)
            axes.set_title(f"delta = {short(delta)}", fontsize=8)
            axes.set_xlabel("epsilon", fontsize=7)
        panels[0].set_ylabel("rounds T", fontsize=7)
        target = io.StringIO()
        undated = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(target, format="svg", metadata=undated, facecolor="white")
    return target.getvalue()


def table() -> str:
    """README's rows: each statement of a paper, and how many instances came out how."""
    lines = [BEGIN, "| package | paper | statements, and how their instances come out |"]
    lines.append("|---|---|---|")
    for paper, name in NAMES.items():
        counts: dict[str, Counter[str]] = {}
        for row in printed():
            if row.paper == paper:
                counts.setdefault(row.statement, Counter())[row.outcome] += 1
        said = "; ".join(f"{statement}: {_counted(n)}" for statement, n in counts.items())
        lines.append(f"| `{paper}` | {name} | {said} |")
    return "\n".join([*lines, END])


def _counted(outcomes: Counter[str]) -> str:
    return ", ".join(f"{outcomes[word]} {word}" for word in ORDER if outcomes[word])


def inserted(readme: str) -> str:
    """The catalogue's README with its table made anew.

    Errors: ValueError where its markers are missing.
    """
    if BEGIN not in readme or END not in readme:
        raise ValueError(f"mechanisms/README.md: expected {BEGIN} and {END}")
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: table(), readme, flags=re.S)


def main(root: Path) -> None:
    """Write both files."""
    folder = root / "mechanisms"
    (folder / "papers" / "README.md").write_text(page(), "utf-8")
    (folder / "papers" / PLOT).write_text(drawn(), "utf-8")
    readme = folder / "README.md"
    readme.write_text(inserted(readme.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
