"""Which source files of a root one of its modules imports, read from the files' own text."""

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
    """These files and every file of the root that they import, at any depth, in order of import.

    Imports anywhere in a file count, in functions too, and a module brings the ``__init__.py`` of
    the packages around it.  A file that names one of ``DYNAMIC`` may import anything: then it is
    every file of the root.  ``packages``: of the root, whose files are looked at.
    """
    known = {module_name(path, root): path for path in sources(root, packages)}
    names = {path: name for name, path in known.items()}
    pending, found = [path for path in starts if path in names], set[Path]()
    while pending:
        path = pending.pop()
        if path in found:
            continue
        found.add(path)
        wanted = _wanted(path.read_text("utf-8"), _package(names[path], path))
        if wanted is None:
            return tuple(known.values())
        pending += _files([names[path], *wanted], known)
    return tuple(path for path in known.values() if path in found)


def _package(name: str, path: Path) -> str:
    """The package that a relative import of a file starts from."""
    return name if path.stem == "__init__" else name.rpartition(".")[0]


def _files(names: Iterable[str], known: Mapping[str, Path]) -> Iterator[Path]:
    """The files behind dotted names, with those of the packages around them."""
    for name in names:
        parts = name.split(".")
        above = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        yield from (known[one] for one in above if one in known)


@cache
def _wanted(text: str, package: str) -> tuple[str, ...] | None:
    """Dotted names that a source text may import, or None if only running it could tell."""
    names: list[str] = []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()  # it imports nothing, for it does not run
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
