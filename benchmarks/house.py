"""What the package's walls measure: ``python -m benchmarks.house`` prints the table of
``docs/architecture.md``.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dpaudit"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def files() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def private_with_one_caller() -> tuple[int, int]:
    """(private functions that their module names once besides the definition, all of them)."""
    once = private = 0
    for file in files():
        tree = ast.parse(file.read_text())
        named = Counter[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                named[node.id] += 1
            elif isinstance(node, ast.Attribute):
                named[node.attr] += 1
        own = [function.name for function in functions(tree) if is_private(function.name)]
        private += len(own)
        once += sum(named[name] == 1 for name in own)
    return once, private


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


def table() -> dict[str, object]:
    """Every measurement, by its name."""
    # What only a type checker imports is no import of a running program.
    graph = grimp.build_graph("dpaudit", cache_dir=None, exclude_type_checking_imports=True)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = max(len(contract["layers"]) for contract in contracts["contracts"])
    one, private = private_with_one_caller()
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
        "private functions with one caller": f"{round(100 * one / private)}% of {private}",
    }


if __name__ == "__main__":
    for name, value in table().items():
        print(f"| {name} | {value} |")
