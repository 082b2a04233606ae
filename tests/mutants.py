"""Mutation testing of this repository: are its rules, checker, curator and estimators tested?

``python -m tests.mutants run`` makes mutants with cosmic-ray, draws some by a seed, and runs on
each the tests that are about its module; it resumes where it was stopped.  ``survivors`` runs those
again that no test had killed, with more tests.  Figures go to docs/mutation/tests.json.  A mutant
is made in a copy of the sources, never in the checkout; a session keeps the sources that it began
with, and tests that fail on these are left out: remove build/mutants to begin anew.

Equivalent by reason, and not drawn: a change inside an annotation, which nothing evaluates, and one
that compiles to the same byte code.  Equivalent after reading, each with its reason:
``docs/mutation/equivalent.json``.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import fcntl
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("dpaudit", "mechanisms", "audits", "tests", "docs", "reports", "experiments", "lab")
FILES = ("pyproject.toml", "README.md", "dpaudit.toml", "CHANGELOG.md")
TOOL = ROOT / "build" / "cosmic-ray"
RESULTS = ROOT / "docs" / "mutation" / "tests.json"
EQUIVALENT = RESULTS.with_name("equivalent.json")
GROUPS = {
    "rules": ("dpaudit/families/*/rules.py", "dpaudit/measures/convert.py"),
    "checker": (
        "dpaudit/check/*.py",
        "dpaudit/check/profile/*.py",
        "dpaudit/families/*/theorem.py",
    ),
    "curator": ("dpaudit/curator/*.py",),
    "estimators": ("dpaudit/audit/bounds/*.py",),
}  # fmt: skip
REPLAYER = ("replayer", "latent")  # of the curator's modules, a group of their own

# What is run on a mutant, in this order, until a test fails: about the module, then the group.
# Folders of tests/ by their first letter: u(nit), p(roperty), r(eference).
CHECKED = "u/check u/check_claims u/check_inequalities u/check_forgeries u/check_adversary p/check"
PROFILED = (
    "r/sampled_transforms u/check_profile u/check_profile_witness u/check_values u/check_mixtures "
    "u/check_profile_certificates u/check_inequalities p/check_references u/check_adversary"
)
TESTS = {
    "families/adaptive": "u/adaptive_rules u/filters u/filter_caps",
    "families/additive": "u/rules u/calculus u/bounds",
    "families/composition": "u/rules u/calculus u/bounds u/nodes",
    "families/correlated": "u/correlated_rules u/correlated_participation r/correlated",
    "families/discrete": "u/discrete_rules r/discrete u/delta_answers",
    "families/events": "u/event_rules r/events p/event_trees",
    "families/opaque": "u/rules u/calculus u/convert u/curves",
    "families/sampling": "u/sampling_rules u/sampling_renyi r/sampling u/allocated r/allocated",
    "families/selection": "u/selection_rules r/selection u/threshold_posterior",
    "families/stability": "u/stability_rules r/stability",
    "families/tabular": "u/tabular_family",
    "measures/convert": "u/convert u/curves p/convert u/calculus",
    "check/profile": PROFILED,
    "check/empirical": "u/membership_certificate u/membership_reports",
    "check/conformance": "u/check_adversary u/check",
    "check/assumptions": "u/check_adversary u/check u/certify u/verdict",
    "check/file": "u/certificate u/certificate_schema u/check u/check_values",
    "check/process": "u/check_values u/check u/check_adversary",
    "check": CHECKED,
    "curator/replayer": "u/replayer u/latent u/srgd_rows u/audit_batches",
    "curator/latent": "u/latent u/audit_batches u/replayer",
    "curator/entitlement": "u/entitlement u/curator u/latent u/batches",
    "curator/uses": "u/entitlement u/curator u/user_level_kernels",
    "curator/spending": "u/curator u/docs_filters u/filters u/kl_filter",
    "curator/mechanism": "u/mechanism u/project",
    "curator/locations": "u/places u/residuals u/examine",
    "curator/participation": "u/correlated_participation u/correlated_kernel",
    "curator": "u/curator u/entitlement u/batches u/replayer p/curator",
    "bounds/bands": "u/bands",
    "bounds/betting": "u/betting",
    "bounds/binormal": "u/binormal",
    "bounds/budget": "u/budget u/verdict",
    "bounds/estimators": "u/estimators u/power",
    "bounds/extremes": "u/joint u/estimators",
    "bounds/guessing": "u/canaries u/membership",
    "bounds/joint": "u/joint u/selection",
    "bounds/one_run": "u/one_run u/canaries u/one_run_curves",
    "bounds/one_run_curves": "u/one_run_curves u/one_run",
    "bounds/paired_bets": "u/variational u/betting",
    "bounds/power": "u/power",
    "bounds/selection": "u/selection u/power u/binormal",
    "bounds/thresholds": "u/joint u/estimators u/one_run",
    "bounds/variational": "u/variational u/blackbox_divergence",
    "bounds/variational_mu": "u/variational",
}
MORE = {
    "rules": "u/account u/check u/claim u/consensus",
    "checker": "u/check u/certificate u/check_profile_certificates",
    "curator": "u/curator u/attack u/graybox u/observed",
    "replayer": "u/replayer u/attack u/graybox u/observed",
    "estimators": "u/estimators u/joint u/verdict u/blackbox_entry",
}
FOLDERS = {"u": "unit", "p": "property", "r": "reference"}
MEMORY = 5 << 30
QUICK, WHOLE = 12.0, 60.0  # processor seconds of tests on a mutant, and on one that survived these


def group_of(module: str) -> str:
    """Which of the groups of the table a module belongs to."""
    for name, patterns in GROUPS.items():
        if any(Path(module).match(pattern) for pattern in patterns):
            return "replayer" if name == "curator" and Path(module).stem in REPLAYER else name
    raise ValueError(f"module {module!r}: in no group of tests/mutants.py")


def tests_of(module: str) -> list[str]:
    """Test files to run on a mutant of a module, those about it first."""
    inside = module.removeprefix("dpaudit/").removeprefix("audit/").removesuffix(".py")
    places = [place for place in TESTS if inside.startswith(place)]
    about = TESTS[max(places, key=len)] if places else ""
    if module.endswith("theorem.py"):
        about += " " + CHECKED
    names = dict.fromkeys([*about.split(), *MORE[group_of(module)].split()])
    return [f"tests/{FOLDERS[n[0]]}/test_{n[2:]}.py" for n in names]


# --- which mutants ----------------------------------------------------------------------------


def modules(root: Path) -> list[Path]:
    """The modules that are mutated, relative to the root."""
    found = [p for patterns in GROUPS.values() for g in patterns for p in root.glob(g)]
    names = {p.relative_to(root) for p in found if not p.stem.startswith("__main")}
    return sorted(names)


def annotated(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """From where to where annotations go: nothing evaluates them."""
    found: list[ast.expr | None] = []
    tree = ast.parse(source)
    lazy = any(
        isinstance(n, ast.ImportFrom)
        and n.module == "__future__"
        and any(a.name == "annotations" for a in n.names)
        for n in tree.body
    )
    for node in ast.walk(tree) if lazy else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(node.returns)
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            found.append(node.annotation)
    return [
        ((n.lineno, n.col_offset), (n.end_lineno or 0, n.end_col_offset or 0))
        for n in found
        if n is not None
    ]


def stripped(code: CodeType) -> tuple[Any, ...]:
    """What a code object does, without its places."""
    inner = [stripped(c) if isinstance(c, CodeType) else (type(c), c) for c in code.co_consts]
    return (code.co_code, tuple(map(repr, inner)), code.co_names, code.co_varnames, code.co_flags)


def mutated(root: Path, item: dict[str, Any]) -> str:
    """The source of a mutant."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (root / item["module"]).read_text("utf-8")
    changed = mutate_code(source, get_operator(item["operator"])(), item["occurrence"])
    if changed is None:
        raise ValueError(f"{item['module']}: no mutant {item['operator']} {item['occurrence']}")
    return str(changed)


def every(root: Path) -> list[dict[str, Any]]:
    """Every mutant that cosmic-ray makes of the modules, but for those inside annotations."""
    from cosmic_ray.commands.init import _all_work_items

    found = []
    lines: dict[str, list[Any]] = {}
    for item in _all_work_items([root / m for m in modules(root)], {}):
        (change,) = item.mutations
        module = str(change.module_path.relative_to(root))
        if module not in lines:
            lines[module] = annotated((root / module).read_text("utf-8"))
        start = tuple(change.start_pos)
        if any(first <= start < last for first, last in lines[module]):
            continue
        found.append(
            {
                "module": module,
                "operator": change.operator_name,
                "occurrence": change.occurrence,
                "line": change.start_pos[0],
                "place": list(start),
            }
        )
    return found


def drawn(root: Path, count: int, seed: int) -> tuple[list[dict[str, Any]], int, int]:
    """So many mutants, as many of each group: a place drawn by the seed, then one of its mutants.

    Also how many there are, and how many that were drawn change no code.  An operator of
    arithmetic has a dozen mutants and a condition one or two, so that places are drawn first.
    """
    known = every(root)
    chance = random.Random(seed)
    sites: dict[str, dict[tuple[Any, ...], list[dict[str, Any]]]] = {g: {} for g in MORE}
    for item in known:
        site = (item["module"], *item["place"])
        sites[group_of(item["module"])].setdefault(site, []).append(item)
    orders = {g: chance.sample(sorted(found), len(found)) for g, found in sites.items()}
    found: list[dict[str, Any]] = []
    same = 0
    while len(found) < count and any(orders.values()):
        for group, order in orders.items():
            changed = False
            while order and not changed:
                item = chance.choice(sites[group][order.pop()])
                changed = _changes(root, item)
                same += not changed
            if changed:
                found.append(item)
    return found[:count], len(known), same


def _changes(root: Path, item: dict[str, Any]) -> bool:
    """Whether a mutant compiles to other byte code."""
    source = (root / item["module"]).read_text("utf-8")
    try:
        right, wrong = (compile(s, "m", "exec") for s in (source, mutated(root, item)))
    except SyntaxError:
        return False
    return stripped(right) != stripped(wrong)


def shown(root: Path, item: dict[str, Any]) -> list[str]:
    """The lines that a mutant changes, before and after."""
    import difflib

    source = (root / item["module"]).read_text("utf-8")
    pair = source.splitlines(), mutated(root, item).splitlines()
    return [
        line
        for line in difflib.unified_diff(*pair, lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]


# --- running ----------------------------------------------------------------------------------


def preload() -> None:
    """Import what tests import, but nothing of this repository: a forked child begins with it."""
    import dp_accounting  # noqa: F401
    import flint  # noqa: F401
    import hypothesis.strategies  # noqa: F401
    import joblib  # noqa: F401
    import jsonschema  # noqa: F401
    import mpmath  # noqa: F401
    import pytest  # noqa: F401
    import rfc8785  # noqa: F401
    import sympy  # noqa: F401

    assert not any(n.partition(".")[0] == "dpaudit" for n in sys.modules)


def tested(root: Path, files: Iterable[str], seconds: float) -> tuple[int, float, str]:
    """Run test files in a forked child: exit status (negative: a signal), CPU seconds, the end."""
    log = root.parent / f"output.{os.getpid()}.txt"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = os.fork()
    if pid == 0:
        _child(root, list(files), seconds, log)
    # Threads may sleep for ever: processor time alone does not end them.
    deadline = time.monotonic() + 12 * seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    text = log.read_text("utf-8", errors="replace")
    return os.waitstatus_to_exitcode(status), spent, text[-3000:]


def _child(root: Path, files: list[str], seconds: float, log: Path) -> None:
    code = 99
    with contextlib.suppress(BaseException):
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        sys.dont_write_bytecode = False
        os.chdir(root)
        sys.path[:] = [str(root), *(p for p in sys.path if p not in ("", str(ROOT)))]
        os.environ["PYTHONPATH"] = str(root)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        import pytest

        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]
        code = int(pytest.main([*options, *files]))
        sys.stdout.flush()
    os._exit(code)


def write_new(path: Path, text: str) -> None:
    """Write a source, and drop what was compiled from it: two writes of a second look alike."""
    path.write_text(text, "utf-8")
    for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        cached.unlink()


def copied(build: Path, *, sources: bool) -> Path:
    """The copy in which mutants are made; its tests are always those of the checkout."""
    tree = build / "tree"
    ignored = shutil.ignore_patterns("__pycache__", ".cache", "utility", "catalogue")
    for part in PARTS if sources else ("tests",):
        shutil.rmtree(tree / part, ignore_errors=True)
        shutil.copytree(ROOT / part, tree / part, ignore=ignored)
    right = build / "right" / "dpaudit"
    if sources:
        shutil.rmtree(right, ignore_errors=True)
        shutil.copytree(ROOT / "dpaudit", right, ignore=ignored)
    for module in modules(build / "right"):
        # A run that was stopped may have left a mutant.
        source = (build / "right" / module).read_text("utf-8")
        if (tree / module).read_text("utf-8") != source:
            write_new(tree / module, source)
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    return tree


def opened(build: Path, count: int, seed: int) -> dict[str, Any]:
    """The session: mutants, and what is known of them.  A new one copies the sources."""
    path = build / "session.json"
    if path.exists():
        session: dict[str, Any] = json.loads(path.read_text("utf-8"))
        copied(build, sources=False)
        return session
    tree = copied(build, sources=True)
    items, known, same = drawn(tree, count, seed)
    for item in items:
        item["change"] = shown(tree, item)
    session = {"seed": seed, "known": known, "same": same, "baseline": {}, "mutants": items}
    kept(build, session)
    return session


def kept(build: Path, session: dict[str, Any]) -> None:
    """Write the session, whole or not at all."""
    path = build / "session.json"
    path.with_suffix(".new").write_text(json.dumps(session, indent=1), "utf-8")
    path.with_suffix(".new").replace(path)


def run(build: Path, count: int, seed: int, minutes: float, *, survivors: bool) -> None:
    """Run what has not been run yet; with ``survivors``, those again that no test had killed."""
    build.mkdir(parents=True, exist_ok=True)
    lock = (build / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two runs would mutate one another's copy
    session = opened(build, count, seed)
    tree, baseline = build / "tree", session["baseline"]
    stop = time.monotonic() + 60 * minutes
    preload()
    for item in session["mutants"]:
        again = survivors and item.get("status") == "survived"
        if item.get("status") and not again:
            continue
        if time.monotonic() > stop:
            break
        files = []
        for name in tests_of(item["module"]):
            if name not in baseline:
                code, spent, _text = tested(tree, [name], 120)
                baseline[name] = round(spent, 2) if code == 0 else None
                if code:
                    pass
            whole = sum(baseline[f] for f in files)
            if baseline[name] is not None and whole + baseline[name] <= (WHOLE if again else QUICK):
                files.append(name)
        item.update(_judged(tree, item, files, 10 + 3 * sum(baseline[f] for f in files)))
        kept(build, session)
        sys.stdout.flush()


def _alone(tree: Path, name: str, baseline: dict[str, Any]) -> float | None:
    """Processor seconds of a test file on the right sources; None where it fails on them."""
    digest = sha256((tree / name).read_bytes()).hexdigest()
    if name not in baseline or baseline[name][1] != digest:
        code, spent, text = tested(tree, [name], 120)
        baseline[name] = [round(spent, 2) if code == 0 else None, digest]
        if code:
            sys.stderr.write(f"{name}: fails on the sources as they are: {text[-400:]}\n")
    seconds: float | None = baseline[name][0]
    return seconds


def _judged(tree: Path, item: dict[str, Any], files: list[str], seconds: float) -> dict[str, Any]:
    path = tree / item["module"]
    right = path.read_text("utf-8")
    try:
        write_new(path, mutated(tree, item))
        code, spent, text = tested(tree, files, seconds)
    finally:
        write_new(path, right)
    said = next((row for row in text.splitlines() if row.startswith(("FAILED", "ERROR"))), "")
    status = "survived" if code == 0 else "killed"
    by = said[:160] or ("" if code == 0 else f"exit status {code}")
    first = item.get("first", status)
    return {"status": status, "first": first, "seconds": round(spent, 1), "by": by}


# --- what is said of it -----------------------------------------------------------------------


def results(session: dict[str, Any], named: dict[str, str]) -> dict[str, Any]:
    """Figures and survivors of a session; ``named``: why a survivor is equivalent, by its name."""
    rows = [m for m in session["mutants"] if m.get("status") in ("killed", "survived")]
    for row in rows:
        row["name"] = f"{row['module']}:{row['operator'].removeprefix('core/')}:{row['occurrence']}"
        if row["status"] == "survived" and row["name"] in named:
            row["status"] = "equivalent"
    left = [r for r in rows if r["status"] == "survived"]
    return {
        "tool": "cosmic-ray 8.7.0",
        "seed": session["seed"],
        "made": session["known"],
        "same_code": session["same"],
        "drawn": len(session["mutants"]),
        "run": len(rows),
        "killed_at_first": sum(r["first"] == "killed" for r in rows),
        "groups": {g: _counts(r for r in rows if group_of(r["module"]) == g) for g in MORE},
        "operators": {
            o: _counts(r for r in rows if _kind(r) == o) for o in sorted(set(map(_kind, rows)))
        },
        "equivalent": {r["name"]: named[r["name"]] for r in rows if r["status"] == "equivalent"},
        "survivors": {r["name"]: [r["line"], *r["change"]] for r in left},
    }


def _kind(row: dict[str, Any]) -> str:
    return str(row["operator"].removeprefix("core/").partition("_")[0])


def _counts(rows: Iterator[dict[str, Any]]) -> dict[str, int]:
    count = Counter(row["status"] for row in rows)
    return {status: count[status] for status in ("killed", "survived", "equivalent")}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("verb", choices=("run", "survivors", "results"))
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=240)
    asked = parser.parse_args()
    sys.path.append(str(TOOL))  # last: what it brings along replaces nothing that is installed
    if asked.verb != "results":
        again = asked.verb == "survivors"
        run(asked.build, asked.count, asked.seed, asked.minutes, survivors=again)
    session = json.loads((asked.build / "session.json").read_text("utf-8"))
    named = json.loads(EQUIVALENT.read_text("utf-8"))["tests"]
    found = results(session, named)
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
