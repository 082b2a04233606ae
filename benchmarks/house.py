"""What the package's walls measure: ``python -m benchmarks.house`` prints the table of
``docs/architecture.md``, and the two walks below it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import quantiles
from types import CodeType, FrameType
from typing import Any

import grimp
import numpy as np

import dpaudit as dp

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dpaudit"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def files() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


LONG = 20  # lines of code of a function, beyond the ninth decile


def called_once() -> dict[str, int]:
    """Private functions that their module names once besides the definition, by what they are.

    ``all``: every private function.  ``named once``: those of the count before the rebuilding.  Of
    these: ``handed on``: registered, in a table, or passed as a value, so that no line calls them,
    or a method that a class and one above it have, so that one line calls them all;
    ``tested``: some test names them; ``branching``: they return from several places, yield, or
    define functions; ``within``: called inside a comprehension, a lambda or a condition, which
    hold no statements; ``long``: their caller would have more than ``LONG`` lines; ``movable``: the
    rest, which could stand where they are called.
    """
    tests = set(re.findall(r"\w+", " ".join(f.read_text() for f in ROOT.glob("tests/**/*.py"))))
    found = Counter[str]()
    trees = [ast.parse(file.read_text()) for file in files()]
    hooks = overridden(node for tree in trees for node in ast.walk(tree))
    for tree in trees:
        names = Counter(filter(None, map(named, ast.walk(tree))))
        calls = {named(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        above = {below: node for node in ast.walk(tree) for below in ast.iter_child_nodes(node)}
        for function in functions(tree):
            if not is_private(function.name):
                continue
            found["all"] += 1
            if names[function.name] == 1:
                found["named once"] += 1
                call = calls.get(function.name)
                if function.name in hooks:
                    call = None
                found[kind_of(function, call, above, tested=function.name in tests)] += 1
    return dict(found)


def overridden(nodes: Iterable[ast.AST]) -> set[str]:
    """Names of methods that a class and one that it is derived from both define."""
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    own = {n: {f.name for f in c.body if isinstance(f, Function)} for n, c in classes.items()}
    found: set[str] = set()
    for name in classes:
        above = [named(base) for base in classes[name].bases]
        while above:
            base = above.pop()
            if base in classes and base != name:
                found |= own[name] & own[base]
                above += [named(further) for further in classes[base].bases]
    return found


def kind_of(
    function: Function, call: ast.Call | None, above: dict[ast.AST, ast.AST], *, tested: bool
) -> str:
    """What a function that is named once is, in the words of :func:`called_once`."""
    if call is None or function.decorator_list:
        return "handed on"
    if tested:
        return "tested"
    if branches(function):
        return "branching"
    path: list[ast.AST] = [call]
    while path[-1] in above and not isinstance(path[-1], (Function, ast.ClassDef)):
        path.append(above[path[-1]])
    one_line = sum(isinstance(n, ast.stmt) for line in function.body for n in ast.walk(line)) == 1
    if not one_line and any(isinstance(node, INLINE) for node in path):
        return "within"
    caller = path[-1]
    fits = isinstance(caller, Function) and code_lines(caller) + code_lines(function) - 2 <= LONG
    return "movable" if fits else "long"


INLINE = (ast.comprehension, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
INLINE += (ast.IfExp, ast.BoolOp, ast.While)


def code_lines(function: Function) -> int:
    """Lines of a function without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return 1 + (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 1


def named(node: ast.AST) -> str:
    """The name that an expression reads, "" for none."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def branches(function: Function) -> bool:
    """Whether it ends in more than one place, yields, or holds functions of its own."""
    inside = [node for line in function.body for node in ast.walk(line)]
    returns = sum(isinstance(node, ast.Return) for node in inside)
    return returns > 1 or any(isinstance(n, (ast.Yield, ast.YieldFrom, Function)) for n in inside)


def is_private(name: str) -> bool:
    """Whether a name starts with one underscore."""
    return name.startswith("_") and not name.startswith("__")


def longest_functions() -> int:
    """Lines of code of a function, ninth decile; blank lines and docstrings are no code."""
    lengths = []
    for file in files():
        lines = file.read_text().splitlines()
        for function in functions(ast.parse("\n".join(lines))):
            first = function.body[0]
            skipped = ast.get_docstring(function) is not None
            start = (first.end_lineno or first.lineno) + 1 if skipped else function.lineno
            end = function.end_lineno or function.lineno
            code = [line for line in lines[start - 1 : end] if line.strip()]
            lengths.append(len(code) + skipped)
    return round(quantiles(lengths, n=10)[8])


def rooms(graph: grimp.ImportGraph) -> tuple[int, list[tuple[str, str]]]:
    """(arrows between top-level rooms, pairs of rooms that import each other)."""
    arrows = {
        (one, two)
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
        if (one := room(module)) and (two := room(other)) and one != two
    }
    return len(arrows), sorted((a, b) for a, b in arrows if a < b and (b, a) in arrows)


def room(module: str) -> str:
    """The first name below the package; families' theorems and nodes belong to the checker."""
    parts = module.split(".")
    if parts[1:2] == ["families"] and parts[-1].rpartition("_")[2] in ("node", "theorem"):
        return "families, as the checker loads them"
    return parts[1] if len(parts) > 1 else ""


def circles(graph: grimp.ImportGraph) -> int:
    """Pairs of modules of which each imports the other, at any depth."""
    above = {module: graph.find_upstream_modules(module) for module in graph.modules}
    return sum(module in above[other] for module in above for other in above[module]) // 2


def importing() -> tuple[float, list[str]]:
    """Milliseconds of ``import dpaudit``, the best of 5 processes, and the modules it loads."""
    program = (
        "import sys, time, __future__, importlib, typing; before = set(sys.modules);"
        "start = time.perf_counter(); import dpaudit; end = time.perf_counter();"
        "print(1000 * (end - start), *sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(5)]
    rows = [run.stdout.split() for run in runs]
    return min(float(row[0]) for row in rows), rows[0][1:]


def module_of(code: CodeType) -> str:
    """A function's module below the package, with slashes; "" for another's."""
    path = Path(code.co_filename)
    inside = path.is_relative_to(PACKAGE)
    return str(path.relative_to(PACKAGE).with_suffix("")) if inside else ""


def watched(work: Callable[[], object], look: Callable[[FrameType, str], None]) -> None:
    """Run something, and show each call and return of the package's functions to ``look``."""

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "return") and module_of(frame.f_code):
            look(frame, event)

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)


def walk_of_a_claim() -> tuple[list[str], list[str]]:
    """Rooms in which a claim's check runs, in order, and calls from a lower one to a higher."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = max((contract["layers"] for contract in contracts["contracts"]), key=len)
    depth = {name: i for i, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    seen: dict[str, None] = {}
    climbs: dict[str, None] = {}

    def look(frame: FrameType, event: str) -> None:
        below = module_of(frame.f_code).partition("/")[0]
        seen.setdefault(below)
        caller = frame.f_back
        above = module_of(caller.f_code).partition("/")[0] if caller is not None else ""
        if above and depth[below] < depth[above] and event == "call":
            climbs.setdefault(f"{above} to {below}")

    scope = dp.central("replace_one")
    claim = dp.Claim(dp.ApproxDP(2, "1e-5"), by="its author")
    # Once before, so that families are loaded; a declaration of its own, so that nothing is known.
    claim.check(dp.Gaussian("mean", noise_multiplier=2), scope)
    declared = dp.Gaussian("mean", noise_multiplier="3.14159265")
    watched(lambda: claim.check(declared, scope), look)
    return list(seen), list(climbs)


def walk_of_noise() -> list[str]:
    """Modules in which some function holds a noise multiplier, or its product with a sensitivity.

    From the declaration of one release to its sample; numbers are told by their value.
    """
    multiplier, radius = 3.1415, 0.25
    tell = {multiplier, 2 * radius * multiplier}
    seen: dict[str, None] = {}

    def holds(value: Any) -> bool:
        if isinstance(value, (dp.Node, str, type(None))):
            return False
        try:
            return any(np.allclose(float(np.ravel(value)[0]), one, rtol=1e-9) for one in tell)
        except (TypeError, ValueError, IndexError, AttributeError):
            return False

    def look(frame: FrameType, event: str) -> None:
        if event == "return" and any(map(holds, frame.f_locals.values())):
            seen.setdefault(module_of(frame.f_code))

    scope, records = dp.central("replace_one"), dp.Records(np.zeros((2, 1)))
    query = dp.ClippedMean(lambda rows: rows[None], radius=radius, divisor=1)

    def release() -> None:
        node = dp.Gaussian("mean", noise_multiplier=multiplier)
        rng = np.random.default_rng(0)
        dp.Sampler(node, scope, records, rng=rng).release("mean", query)

    release()
    watched(release, look)
    return list(seen)


def table() -> dict[str, object]:
    """Every measurement, by its name."""
    # What only a type checker imports is no import of a running program.
    graph = grimp.build_graph("dpaudit", cache_dir=None, exclude_type_checking_imports=True)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = max(len(contract["layers"]) for contract in contracts["contracts"])
    private = called_once()
    milliseconds, loaded = importing()
    arrows, both_ways = rooms(graph)
    packages = [file.parent for file in files() if file.name == "__init__.py"]
    loose = [f for f in PACKAGE.glob("*.py") if f.name not in ("__init__.py", "__main__.py")]
    checked = [*PACKAGE.glob("check/**/*.py"), *PACKAGE.glob("families/*/*theorem.py")]
    return {
        "files": len(files()),
        "lines": sum(len(file.read_text().splitlines()) for file in files()),
        "packages": len(packages),
        "loose modules at the top": len(loose),
        "layers of imports": layers,
        "arrows between rooms": arrows,
        "rooms that import each other": len(both_ways),
        "circles of modules": circles(graph),
        "checker, files": len(checked),
        "checker, lines": sum(len(file.read_text().splitlines()) for file in checked),
        "function lines, ninth decile": longest_functions(),
        "private functions": private["all"],
        "of which named once": f"{round(100 * private['named once'] / private['all'])}%",
        "of these registered, in a table, passed on or overridden": private["handed on"],
        "of these tested by name": private["tested"],
        "of these with branches of their own": private["branching"],
        "of these called inside a comprehension or a condition": private["within"],
        f"of these with a caller that would exceed {LONG} lines": private["long"],
        "of these, what could stand where it is called": private["movable"],
        "`import dpaudit`, milliseconds": f"{milliseconds:.1f}",
        "`import dpaudit` loads": ", ".join(loaded),
    }


def main() -> None:
    """Print the table and the walks."""
    for name, value in table().items():
        print(f"| {name} | {value} |")
    rooms_seen, climbs = walk_of_a_claim()
    print(f"a claim: {len(rooms_seen)} rooms ({', '.join(rooms_seen)}),", end=" ")
    print(f"{len(climbs)} climb{'s'[: len(climbs) != 1]}: {', '.join(climbs)}")
    held = walk_of_noise()
    print(f"noise_multiplier: {len(held)} files ({', '.join(held)})")


if __name__ == "__main__":
    main()
