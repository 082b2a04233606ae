"""Bytecode of the modules that ``verify.html`` loads when it is opened.

``bytecode.mjs`` runs this module in the page's own Python, whose bytecode no other version reads.
Compiling them took half of the time until the page was ready.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import marshal
import sys
import warnings
import zipfile
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

IMPORTED: dict[str, bytes] = {}  # bytecode files by the paths of their sources
UNCHECKED_HASH = (1).to_bytes(4, "little")  # PEP 552: the bytecode is not compared with a source
# Syntax that has docstrings.
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # attributes that hold statements
Archives = dict[Path, str]  # each archive, and the folder from which its modules were loaded


def compiled(source: bytes, name: str) -> CodeType:
    """A module's code, without docstrings and line numbers; assertions stay."""
    tree = ast.parse(source)
    for node in _statements(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.copy_location(ast.Pass(), node.body[0])]
    return _without_lines(compile(tree, name, "exec", dont_inherit=True))


def bytecode(source: bytes, code: CodeType) -> bytes:
    """The bytecode file of a module."""
    head = importlib.util.MAGIC_NUMBER + UNCHECKED_HASH + importlib.util.source_hash(source)
    return head + marshal.dumps(code)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module and its statements at any depth; expressions, most of a tree, hold none."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        for block in BLOCKS:
            pending += getattr(node, block, ())


def _without_lines(code: CodeType) -> CodeType:
    """Code without its table of lines, which is a third of a compressed file."""
    inner = (_without_lines(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_linetable=b"", co_consts=tuple(inner))


def import_compiled(root: str) -> None:
    """Import modules below a folder as :func:`compiled` makes them, each compiled once."""

    def source_to_code(
        self: SourceFileLoader, data: bytes, path: str, *, _optimization: int = -1
    ) -> CodeType:
        code = compiled(data, path.removeprefix(f"{root}/"))
        IMPORTED[path] = bytecode(data, code)
        return code

    SourceFileLoader.source_to_code = source_to_code  # type: ignore[assignment, method-assign]


def compile_archives(archives: Archives) -> None:
    """Put bytecode in the place of each module of these archives that this process has loaded.

    Members are stored as they are: the page compresses an archive as a whole.
    """
    warnings.simplefilter("ignore", SyntaxWarning)
    specs = (getattr(module, "__spec__", None) for module in list(sys.modules.values()))
    loaded = {spec.origin for spec in specs if spec is not None}
    for path, root in archives.items():
        stream = io.BytesIO()
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(stream, "w") as made:
            for name in sorted(source.namelist()):
                content = source.read(name)
                if name.endswith(".py") and f"{root}/{name}" in loaded:
                    made_before = IMPORTED.get(f"{root}/{name}")
                    content = made_before or bytecode(content, compiled(content, name))
                    name = f"{name}c"
                made.writestr(zipfile.ZipInfo(name), content)
        path.write_bytes(stream.getvalue())
