"""Find the source files of a root that its modules import, by parsing them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from dpaudit.storage.roots import PACKAGES, module_name, sources

DYNAMIC = frozenset({"importlib", "__import__", "exec", "eval", "runpy"})


def imported(
    root: Path, starts: Iterable[Path], packages: Sequence[str] = PACKAGES
) -> tuple[Path, ...]:
    """These files and all files of the root that they import, directly or indirectly.

    The order is that of import.  Imports inside functions count, and a module brings the
    ``__init__.py`` of its packages.  A file that names one of ``DYNAMIC`` may import anything, so
    that the result is then every file of the root.  ``packages``: the packages to look in.
    """
    files_by_name = {module_name(path, root): path for path in sources(root, packages)}
    names = {path: name for name, path in files_by_name.items()}
    pending, reached = [path for path in starts if path in names], set[Path]()
    while pending:
        path = pending.pop()
        if path in reached:
            continue
        reached.add(path)
        imports = _wanted(path.read_text("utf-8"), _package(names[path], path))
        if imports is None:
            return tuple(files_by_name.values())
        pending += _files([names[path], *imports], files_by_name)
    return tuple(path for path in files_by_name.values() if path in reached)


def _package(name: str, path: Path) -> str:
    """The package that a relative import of a file starts from."""
    return name if path.stem == "__init__" else name.rpartition(".")[0]


def _files(names: Iterable[str], file_of: Mapping[str, Path]) -> Iterator[Path]:
    """The files of dotted module names and of their parent packages."""
    for name in names:
        parts = name.split(".")
        above = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        yield from (file_of[name] for name in above if name in file_of)


@cache
def _wanted(text: str, package: str) -> tuple[str, ...] | None:
    """Dotted names that a source text may import; None if it imports dynamically."""
    names: list[str] = []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()  # a file with a syntax error cannot run, so it imports nothing
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Name) and node.id in DYNAMIC:
            return None
    return None if {name.partition(".")[0] for name in names} & DYNAMIC else tuple(names)


def _base(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    around = parts[: len(parts) - node.level + 1]
    return ".".join([*around, *([node.module] if node.module else [])])
