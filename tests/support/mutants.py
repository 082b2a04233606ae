"""Mutation testing of this repository: are its rules, checker, curator and estimators tested?

``python -m tests.support.mutants run`` makes mutants with cosmic-ray, draws some by a seed, and
runs on
each the tests that run its statement; it resumes where it was stopped.  ``survivors`` runs those
again that no test had killed, with more tests, in a process of their own.  Figures are
printed, and kept in build/mutants/results.json.  A mutant is made in a copy of the sources, never
in the checkout; a session keeps the sources that it began with, and tests that fail on these are
left out: remove build/mutants to begin anew.

Equivalent by reason, and not drawn: a change inside an annotation, which nothing evaluates, and one
that compiles to the same byte code.  Equivalent after reading, each with its reason, by
the line that it changes: ``tests/support/mutants_equivalent.json``.
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import gc
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import _lru_cache_wrapper, partial
from hashlib import sha256
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = "dpaudit mechanisms audits tests docs reports experiments benchmarks changelog.d".split()
FILES = ("pyproject.toml", "README.md", "dpaudit.toml", "CHANGELOG.md")
TOOL = ROOT / "build" / "cosmic-ray"
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.json")
GROUPS = {
    "rules": ("dpaudit/families/*/rules.py", "dpaudit/measures/convert.py"),
    "checker": (
        "dpaudit/check/*.py",
        "dpaudit/check/profile/*.py",
        "dpaudit/families/*/theorem.py",
    ),
    "curator": ("dpaudit/curator/*.py", "dpaudit/accountant/filters/spending.py"),
    "estimators": ("dpaudit/audit/bounds/*.py",),
}  # fmt: skip
REPLAYER = ("replayer", "latent")  # of the curator's modules, a group of their own

# What is run on a mutant, in this order, until a test fails: about the module, then the group.
PARTS_OF_TESTS = ("library", "catalogue")
# Folders of a part of tests/ by their first letter: u(nit), p(roperty), r(eference), c(li).
CHECKED = "u/check u/check_claims u/check_inequalities u/check_forgeries u/check_adversary p/check"
FOURIER = "r/fourier_enclosure r/check_profile_rows r/sampled_transforms u/check_profile"
PROFILED = (
    "p/check_rule u/check_profile r/sampled_transforms u/check_profile_witness u/check_values "
    "u/check_mixtures u/check_profile_certificates u/check_inequalities p/check_references "
    "u/check_adversary"
)
TESTS = {
    "families/adaptive": "u/adaptive_rules u/filters u/filter_caps",
    "families/additive": "u/rules u/calculus u/bounds",
    "families/composition": "u/rules u/calculus u/bounds u/nodes",
    "families/correlated": "u/correlated_rules u/correlated_participation r/correlated",
    "families/discrete": "u/discrete_rules r/discrete u/delta_answers",
    "families/events": "u/event_rules r/events p/event_trees",
    "families/iterates": "u/last_iterate u/certified_families u/check_conclusions",
    "families/local": "u/local_family u/certified_families u/check_conclusions",
    "families/opaque": "u/rules u/calculus u/convert u/curves",
    "families/sampling": "u/sampling_rules u/sampling_renyi r/sampling u/allocated r/allocated",
    "families/selection": "u/selection_rules r/selection u/threshold_posterior",
    "families/stability": "u/stability_rules r/stability",
    "families/tabular": "u/tabular_family u/rules",
    "families/tuning": "u/tuning_family u/certified_families u/check_conclusions",
    "measures/convert": "u/convert u/curves p/convert u/calculus",
    "check/profile": PROFILED,
    "check/profile/cells": FOURIER,
    "check/profile/clones": f"u/local_family {PROFILED}",
    "check/profile/tallied": f"u/local_family {PROFILED}",
    "check/profile/coarse": f"r/stability {PROFILED}",
    "check/profile/fourier": FOURIER,
    "check/profile/nodes": FOURIER,
    "check/profile/onestep": f"{FOURIER} u/check_mixtures",
    "check/empirical": "u/membership_certificate u/membership_reports",
    "check/conformance": "u/check_conformance u/check_adversary u/check",
    "check/assumptions": "u/check_conformance u/check_adversary u/check u/certify u/verdict",
    "check/file": "u/certificate u/certificate_schema u/check u/check_values",
    "check/pairs": f"u/check_conclusions {CHECKED}",
    "check/process": "u/check_values u/check u/check_adversary",
    "check": CHECKED,
    "curator/replayer": "u/replayer u/latent u/srgd_rows u/audit_batches",
    "curator/latent": "u/latent u/audit_batches u/replayer",
    "curator/coins": "u/batches u/graybox_batches u/curator",
    "curator/files": "u/training u/curator",
    "curator/guarded": "u/covered u/curator",
    "curator/entitlement": "u/entitlement u/curator u/latent u/batches",
    "curator/uses": "u/entitlement u/curator u/user_level_kernels",
    "accountant/filters/spending": "u/curator u/docs_filters u/filters u/kl_filter",
    "curator/mechanism": "u/mechanism u/project",
    "curator/locations": "u/places u/residuals u/examine",
    "curator/scales": "u/curator u/correlated_kernel u/kl_filter",
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
    "rules": "u/account u/check u/claim u/consensus c/account_commands u/check_conclusions "
    "u/value_types",
    "checker": "u/check u/certificate u/check_profile_certificates u/check_conclusions "
    "u/value_types",
    "curator": "u/curator u/attack u/graybox u/observed u/value_types",
    "replayer": "u/replayer u/attack u/graybox u/observed u/value_types",
    "estimators": "u/estimators u/joint u/verdict u/blackbox_entry u/value_types",
}
FOLDERS = {"u": "unit", "p": "property", "r": "reference", "c": "cli"}
CACHED = ("dpaudit.", "mechanisms.", "audits.", "tests.")
MEMORY = 8 << 30
FILES_AT_FIRST, ENOUGH = 4, 12  # files of tests on a mutant, or fewer with so many that run it
QUICK, WHOLE = 6.0, 30.0  # processor seconds of tests on a mutant, and on one that survived these
TIMED = 15.0  # processor seconds at most to time a file of tests


def group_of(module: str) -> str:
    """Which of the groups of the table a module belongs to."""
    for name, patterns in GROUPS.items():
        if any(Path(module).match(pattern) for pattern in patterns):
            return "replayer" if name == "curator" and Path(module).stem in REPLAYER else name
    raise ValueError(f"module {module!r}: in no group of tests/support/mutants.py")


def name_of(item: dict[str, Any]) -> str:
    """A mutant's name."""
    return f"{item['module']}:{item['operator'].removeprefix('core/')}:{item['occurrence']}"


def change_of(item: dict[str, Any]) -> str:
    """What a mutant changes, in one line: by this it is named equivalent."""
    return f"{item['module']}: {' '.join(' '.join(item['change']).split())}"


def waiting(session: dict[str, Any], *, again: bool) -> list[dict[str, Any]]:
    """Mutants not run yet; or those again that survived and that nobody named equivalent."""
    if not again:
        return [m for m in session["mutants"] if m.get("status") is None]
    named = json.loads(EQUIVALENT.read_text("utf-8"))
    left = [m for m in session["mutants"] if m.get("status") == "survived"]
    return [m for m in left if change_of(m) not in named]


def tests_of(module: str) -> list[str]:
    """Test files to run on a mutant of a module, those about it first."""
    inside = module.removeprefix("dpaudit/").removeprefix("audit/").removesuffix(".py")
    places = [place for place in TESTS if inside.startswith(place)]
    about = TESTS[max(places, key=len)] if places else ""
    if module.endswith("theorem.py"):
        about += " " + CHECKED
    names = dict.fromkeys([*about.split(), *MORE[group_of(module)].split()])
    return [_test_file(FOLDERS[name[0]], name[2:]) for name in names]


def _test_file(folder: str, name: str) -> str:
    """A test file's path from the root, in whichever part of the tests it is.

    Errors: ValueError where there is none.
    """
    for part in PARTS_OF_TESTS:
        path = f"tests/{part}/{folder}/test_{name}.py"
        if (ROOT / path).is_file():
            return path
    raise ValueError(f"{folder}/test_{name}.py: in no part of tests/")


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


# --- which tests ------------------------------------------------------------------------------


def statement(tree: ast.Module, line: int, column: int) -> tuple[int, int]:
    """First and last line of the innermost statement at a place; of a block, of its head."""
    found = line, line  # a decorator is in no statement
    for node in ast.walk(tree):  # the outer before the inner
        if isinstance(node, ast.stmt) and (node.lineno, node.col_offset) <= (line, column):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or 0
            if last >= line:
                found = node.lineno, last
    return found


class Watch:
    """Which of some lines a test runs, and which of their modules it enters at all."""

    def __init__(self, lines: dict[str, set[int]]) -> None:
        self.lines = lines  # by file name
        self.ranges: dict[CodeType, set[int]] = {}
        self.start()

    def start(self) -> None:
        """Forget what the last test ran."""
        self.entered: set[str] = set()
        self.seen: dict[str, set[int]] = {name: set() for name in self.lines}

    def __call__(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        """The trace function of a process: follows only code with lines not seen yet."""
        code = frame.f_code
        name = code.co_filename
        if name not in self.lines:
            return None
        self.entered.add(name)
        if code not in self.ranges:
            own = {line for _, _, line in code.co_lines() if line is not None}
            self.ranges[code] = own & self.lines[name]
        return None if self.ranges[code] <= self.seen[name] else self.line

    def line(self, frame: FrameType, event: str, _arg: Any) -> Any:
        """The trace function of a frame."""
        if event == "line":
            name = frame.f_code.co_filename
            if frame.f_lineno in self.lines[name]:
                self.seen[name].add(frame.f_lineno)
        return self.line


def watched(root: Path, mutants: list[dict[str, Any]]) -> dict[str, set[int]]:
    """The lines of the statements that hold mutants, by file name."""
    lines: dict[str, set[int]] = {}
    trees: dict[str, ast.Module] = {}
    for item in mutants:
        module = item["module"]
        if module not in trees:
            trees[module] = ast.parse((root / module).read_text("utf-8"))
        first, last = statement(trees[module], *item["place"])
        item["lines"] = [first, last]
        lines.setdefault(str(root / module), set()).update(range(first, last + 1))
    return lines


def runs(item: dict[str, Any], test: dict[str, Any]) -> bool:
    """Whether a test runs a mutant's statement."""
    first, last = item["lines"]
    return any(first <= line <= last for line in test["ran"].get(item["module"], ()))


def chosen(
    item: dict[str, Any], known: dict[str, dict[str, Any]], budget: float
) -> tuple[list[str], float]:
    """Tests to run on a mutant, and their processor seconds.

    First those that run its statement, the quickest first, then others of the same files, which
    may look at what these have made.  Where no test runs it (it runs at import), those that enter
    its module and then all others, with the files about it first.
    """
    module = item["module"]
    rank = {name: i for i, name in enumerate(tests_of(module))}
    ordered = []
    for name, test in known.items():
        if test["seconds"] is not None:
            file = name.partition("::")[0]
            far = 0 if runs(item, test) else 1 if module in test["ran"] else 2
            ordered.append((far, test["seconds"], name, file))
    beside = {file for far, _, _, file in ordered if far == 0}
    if beside:
        ordered = sorted(row for row in ordered if row[3] in beside and row[0] < 2)
    else:
        ordered.sort(key=lambda row: (row[0], rank.get(row[3], len(rank)), row[1]))
    names, spent = [], 0.0
    for _, seconds, name, _ in ordered:
        if spent + seconds <= budget:
            names.append(name)
            spent += seconds
    return names, spent


# --- running ----------------------------------------------------------------------------------


class Runner:
    """A plugin: where pytest would run its tests, it times them, and then runs them on mutants.

    Everything is imported and collected once; each run is a forked child.
    """

    def __init__(self, build: Path, session: dict[str, Any], stop: float, *, again: bool) -> None:
        self.build, self.tree, self.session = build, build / "tree", session
        self.stop, self.again = stop, again
        self.items: dict[str, pytest.Item] = {}
        path = build / "baseline.json"
        self.baseline = json.loads(path.read_text("utf-8")) if path.exists() else {}
        self.digests: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All there is to run."""
        gc.unfreeze()  # of tests/conftest.py: functions to be changed are found by it
        self.items = {item.nodeid: item for item in session.items}
        self.lines = watched(self.tree, self.session["mutants"])
        for item in waiting(self.session, again=self.again):
            if time.monotonic() > self.stop:
                break
            self._judge(item)
            kept(self.build / "session.json", self.session)
        session.testsfailed = 0
        return True

    def _timed(self, file: str) -> dict[str, dict[str, Any]]:
        """Processor seconds and lines of a file's tests on the right sources; anew if it changed.

        Without those that fail on these, and those that a long file does not come to.
        """
        if file not in self.digests:
            self.digests[file] = sha256((self.tree / file).read_bytes()).hexdigest()
        digest, was = self.digests[file], self.baseline.get(file)
        if was is None or was["digest"] != digest:
            names = [name for name in self.items if name.partition("::")[0] == file]
            out = self.build / "timed.jsonl"
            out.unlink(missing_ok=True)
            spent = forked(self.build, TIMED, partial(self._time, names, self.lines, out))[1]
            rows = out.read_text("utf-8").splitlines() if out.exists() else []
            tests = dict(json.loads(row) for row in rows)
            bad = [n for n, test in tests.items() if test["seconds"] is None]
            told(f"{file}: {len(tests)} of {len(names)} tests in {spent:.1f} s; they fail: {bad}")
            self.baseline[file] = {"digest": digest, "tests": tests}
            kept(self.build / "baseline.json", self.baseline)
        found: dict[str, dict[str, Any]] = self.baseline[file]["tests"]
        return found

    def _time(self, names: list[str], lines: dict[str, set[int]], out: Path) -> int:
        watch = Watch(lines)
        with out.open("w") as sink:
            for name in names:
                watch.start()
                before = time.process_time()
                sys.settrace(watch)
                passed = self._passes(name, None)
                sys.settrace(None)
                seconds = round(time.process_time() - before, 3) if passed else None
                ran = {
                    str(Path(n).relative_to(self.tree)): sorted(watch.seen[n])
                    for n in watch.entered
                }
                sink.write(json.dumps([name, {"seconds": seconds, "ran": ran}]) + "\n")
                sink.flush()
        return 0

    def _passes(self, name: str, following: str | None) -> bool:
        item = self.items[name]
        item.session.testsfailed = 0
        after = self.items[following] if following else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        return not item.session.testsfailed

    def _choose(self, item: dict[str, Any]) -> tuple[list[str], float]:
        """Tests to run on a mutant, of as few files as will do, and their processor seconds."""
        known: dict[str, dict[str, Any]] = {}
        for file in tests_of(item["module"])[: None if self.again else FILES_AT_FIRST]:
            known |= self._timed(file)
            if not self.again and sum(runs(item, test) for test in known.values()) >= ENOUGH:
                break
        return chosen(item, known, WHOLE if self.again else QUICK)

    def _judge(self, item: dict[str, Any]) -> None:
        """Run a mutant, and note what became of it; one that survived, on new tests at first."""
        path = self.tree / item["module"]
        right = path.read_text("utf-8")
        wrong = mutated(self.tree, item)
        pairs = changed(compile(right, str(path), "exec"), compile(wrong, str(path), "exec"))
        # What runs at import, and what has survived, is imported anew.
        fresh = self.again or any(not old.co_flags & CO_OPTIMIZED for old, _ in pairs)
        code, spent, text, names = 0, 0.0, "", list[str]()
        for choose in (self._written, self._choose) if self.again else (self._choose,):
            names, seconds = choose(item)
            if not names:
                continue
            work = partial(self._anew, names) if fresh else partial(self._patched, names, pairs)
            try:
                # For processes that tests start, and modules not imported yet.
                write_new(path, wrong)
                code, more, text = forked(self.build, 15 + 3 * seconds, work)
            finally:
                write_new(path, right)
            spent += more
            if code:
                break
        said = next((r for r in text.splitlines() if r.startswith(("FAILED", "ERROR"))), "")
        status = "survived" if code == 0 else "killed"
        by = said[:160] or ("" if code == 0 else f"exit status {code}")
        whole = spent + item.get("seconds", 0.0)  # both times, if run again
        item.update(status=status, tests=len(names), seconds=round(whole, 1), by=by)
        item.setdefault("first", status)
        told(f"{status} {name_of(item)} {spent:.1f} s, {len(names)} tests {by}")

    def _written(self, item: dict[str, Any]) -> tuple[list[str], float]:
        """Tests younger than the session, of the files about a mutant's module; not timed."""
        old, files = set(self.session["tests"]), set(tests_of(item["module"]))
        names = [n for n in self.items if n.partition("::")[0] in files]
        return [n for n in names if function_of(n) not in old], WHOLE

    def _anew(self, names: list[str]) -> int:
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]
        command = [sys.executable, "-m", "pytest", *options, *names]
        os.execv(sys.executable, command)  # noqa: S606

    def _patched(self, names: list[str], pairs: list[tuple[CodeType, CodeType]]) -> int:
        patch(pairs, gc.get_objects())
        for name, following in zip(names, [*names[1:], None], strict=True):
            if not self._passes(name, following):
                print(f"\nFAILED {name}")  # noqa: T201
                return 1
        return 0


def changed(right: CodeType, wrong: CodeType) -> list[tuple[CodeType, CodeType]]:
    """The outermost functions that differ, and what is inside them on the way to the change."""
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (right, wrong)]
    same = len(inner[0]) == len(inner[1])
    pairs = (
        [p for p in zip(*inner, strict=True) if stripped(p[0]) != stripped(p[1])] if same else []
    )
    found = [pair for old, new in pairs for pair in changed(old, new)]
    if right.co_flags & CO_OPTIMIZED or not same or shell(right) != shell(wrong):
        return [(right, wrong), *found]
    return found


def shell(code: CodeType) -> tuple[Any, ...]:
    """What a code object does, but for the code inside it."""
    own = [c for c in code.co_consts if not isinstance(c, CodeType)]
    return (code.co_code, tuple(map(repr, own)), code.co_names, code.co_varnames)


def patch(pairs: list[tuple[CodeType, CodeType]], things: list[Any]) -> None:
    """Give functions their new code, and forget what was computed with the old."""
    new = {(old.co_filename, old.co_qualname, old.co_firstlineno): code for old, code in pairs}
    for thing in things:
        if isinstance(thing, FunctionType):
            code = thing.__code__
            fresh = new.get((code.co_filename, code.co_qualname, code.co_firstlineno))
            if fresh is not None:
                thing.__code__ = fresh
        elif isinstance(thing, _lru_cache_wrapper) and thing.__module__.startswith(CACHED):
            thing.cache_clear()


def forked(build: Path, seconds: float, work: Callable[[], int]) -> tuple[int, float, str]:
    """Work in a forked child: exit status (negative: a signal), CPU seconds, the end of its log."""
    log = build / f"output.{os.getpid()}.txt"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = os.fork()
    if pid == 0:
        _child(seconds, log, work)
    # Threads may sleep for ever: processor time alone does not end them.
    deadline = time.monotonic() + 20 * seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    text = log.read_text("utf-8", errors="replace") if log.exists() else ""
    return os.waitstatus_to_exitcode(status), spent, text[-3000:]


def _child(seconds: float, log: Path, work: Callable[[], int]) -> None:
    code = 99
    try:
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(seconds + used.ru_utime + used.ru_stime) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        code = work()
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def told(text: str) -> None:
    """A line of progress, where no test captures it."""
    os.write(2, (text + "\n").encode())


def write_new(path: Path, text: str) -> None:
    """Write a source, and drop what was compiled from it: two writes of a second look alike."""
    path.write_text(text, "utf-8")
    for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        cached.unlink()


def copied(build: Path, *, sources: bool) -> Path:
    """The copy in which mutants are made; its tests are always those of the checkout."""
    tree = build / "tree"
    ignored = shutil.ignore_patterns("__pycache__", ".cache")
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
    session = {"seed": seed, "known": known, "same": same, "mutants": items}
    session |= {"code": revision(), "tests": sorted(tests_in(tree))}
    kept(path, session)
    return session


def tests_in(root: Path) -> set[str]:
    """The tests of a checkout, by file and function."""
    found = set()
    for path in (root / "tests").rglob("test_*.py"):
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        names = (n.name for n in nodes if isinstance(n, ast.FunctionDef))
        file = path.relative_to(root).as_posix()
        found |= {f"{file}::{name}" for name in names if name.startswith("test_")}
    return found


def revision() -> str:
    """The commit of the checkout, in short."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def function_of(test: str) -> str:
    """File and function of a test that is named with its parameters, and with what it said."""
    return test.partition("[")[0].partition(" ")[0]


def at_first(item: dict[str, Any], tests: set[str]) -> bool:
    """Whether a mutant was killed when it was first run, by a test as old as the session."""
    said, failed, test = item["by"].partition("FAILED ")
    known = not failed or said or function_of(test) in tests
    return item["first"] == "killed" and bool(known)


def kept(path: Path, value: dict[str, Any]) -> None:
    """Write a file of results, whole or not at all."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value), "utf-8")  # with an indent it is ten times slower
    new.replace(path)


def run(build: Path, count: int, seed: int, minutes: float, *, survivors: bool) -> None:
    """Run what has not been run yet; with ``survivors``, those again that no test had killed."""
    build.mkdir(parents=True, exist_ok=True)
    lock = (build / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two runs would mutate one another's copy
    stop = time.monotonic() + 60 * minutes
    session = opened(build, count, seed)
    tree = build / "tree"
    wanted = waiting(session, again=survivors)
    most = None if survivors else FILES_AT_FIRST
    about = dict.fromkeys(f for m in wanted for f in tests_of(m["module"])[:most])
    os.chdir(tree)
    sys.path[:] = [str(tree), *(p for p in sys.path if p not in ("", str(ROOT)))]
    for name in [n for n in sys.modules if n.partition(".")[0] == "tests"]:
        del sys.modules[name]  # the package, as of the checkout
    os.environ["PYTHONPATH"] = str(tree)
    runner = Runner(build, session, stop, again=survivors)
    options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(tree)]
    pytest.main([*options, *about], plugins=[runner])


# --- what is said of it -----------------------------------------------------------------------


def results(session: dict[str, Any], named: dict[str, str]) -> dict[str, Any]:
    """Figures and survivors of a session; ``named``: why one is equivalent, by its change."""
    rows = [m for m in session["mutants"] if m.get("status") in ("killed", "survived")]
    for row in rows:
        row["name"] = name_of(row)
        row["changed"] = change_of(row)
        if row["status"] == "survived" and row["changed"] in named:
            row["status"] = "equivalent"
    left = [r for r in rows if r["status"] == "survived"]
    return {
        "tool": "cosmic-ray 8.7.0",
        "seed": session["seed"],
        "code": session["code"],
        "made": session["known"],
        "same_code": session["same"],
        "drawn": len(session["mutants"]),
        "run": len(rows),
        "killed_at_first": sum(at_first(row, set(session["tests"])) for row in rows),
        "seconds": round(sum(r["seconds"] for r in rows) / max(1, len(rows)), 1),
        "groups": {g: _counts(r for r in rows if group_of(r["module"]) == g) for g in MORE},
        "operators": {
            o: _counts(r for r in rows if _kind(r) == o) for o in sorted(set(map(_kind, rows)))
        },
        "equivalent": {
            r["changed"]: named[r["changed"]] for r in rows if r["status"] == "equivalent"
        },
        "survivors": {r["name"]: [r["line"], *r["change"]] for r in left},
    }


def _kind(row: dict[str, Any]) -> str:
    return str(row["operator"].removeprefix("core/").partition("_")[0])


def _counts(rows: Iterator[dict[str, Any]]) -> dict[str, int]:
    count = Counter(row["status"] for row in rows)
    return {status: count[status] for status in ("killed", "survived", "equivalent")}


def summary(found: dict[str, Any]) -> Iterator[str]:
    """The figures in lines: each group, each kind of change, the survivors, and the sum."""
    for kind in ("groups", "operators"):
        for name, count in found[kind].items():
            yield f"{name:24} {_share(count)}"
    for name, (line, *change) in found["survivors"].items():
        yield f"SURVIVED {name} (line {line}): {' '.join(' '.join(change).split())}"
    yield (
        f"{found['run']} of {found['drawn']} mutants were run, {found['seconds']} processor "
        f"seconds each; {found['killed_at_first']} were killed by tests as old as the code at "
        f"{found['code']}"
    )
    yield f"all: {_share(sum((Counter(c) for c in found['groups'].values()), Counter()))}"


def _share(count: Mapping[str, int]) -> str:
    """How many of the mutants that are not equivalent were killed."""
    told = count["killed"] + count["survived"]
    share = f" ({count['killed'] / told:.1%})" if told else ""
    return f"{count['killed']} of {told} killed{share}, {count['equivalent']} equivalent"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("verb", choices=("run", "survivors", "results"))
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=240)
    asked = parser.parse_args()
    asked.build = asked.build.resolve()  # a run changes the working folder
    sys.path.append(str(TOOL))  # last: what it brings along replaces nothing that is installed
    if asked.verb != "results":
        again = asked.verb == "survivors"
        run(asked.build, asked.count, asked.seed, asked.minutes, survivors=again)
    session = json.loads((asked.build / "session.json").read_text("utf-8"))
    named = json.loads(EQUIVALENT.read_text("utf-8"))
    found = results(session, named)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (asked.build / "results.json").write_text(text, "utf-8")
    sys.stdout.write("".join(f"{line}\n" for line in summary(found)))


if __name__ == "__main__":
    main()
