"""The shipped catalogue as an importable package, beside a project's own ``mechanisms/``.

``from dpaudit.catalogue.papers.srgd.catalogue import dp_srgd`` works in any project, also where
``mechanisms`` is a package of its own.  The files are those of the catalogue's ``mechanisms/``;
they name each other as ``mechanisms....``, which is read here as ``dpaudit.catalogue....``.
Submodules are imported at their first use: ``from dpaudit.catalogue.papers import srgd`` gives
``srgd.catalogue.dp_srgd``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from dpaudit.storage.roots import catalogue_root

SHIPPED = "mechanisms"

# Submodules are found in the catalogue's folder, wherever it is installed.
__path__ = [str(catalogue_root() / SHIPPED)]


def _named(module: str) -> str:
    """The name here of a module that the catalogue's files name ``mechanisms....``."""
    top, *inner_names = module.split(".")
    return ".".join([__name__, *inner_names]) if top == SHIPPED else module


class _Renamed(ast.NodeTransformer):
    """Absolute imports of ``mechanisms`` as imports of this package."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        """``from mechanisms.a import b``."""
        if node.module is not None and node.level == 0:
            node.module = _named(node.module)
        return node

    def visit_Import(self, node: ast.Import) -> ast.Import:
        """``import mechanisms.a as b``; without ``as`` the name bound would be another."""
        for alias in node.names:
            if _named(alias.name) != alias.name and alias.asname is None:
                raise ImportError(f"import {alias.name}: the catalogue's files import by `from`")
            alias.name = _named(alias.name)
        return node


class _Loader(SourceFileLoader):
    """Runs a file of the catalogue from its source: a compiled file has the other names."""

    def get_code(self, fullname: str) -> CodeType:
        """The code of a module with its imports renamed."""
        tree = _Renamed().visit(ast.parse(self.get_data(self.path), self.path))
        code: CodeType = compile(tree, self.path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        """Run a module; a package imports its submodules at their first use."""
        super().exec_module(module)
        if hasattr(module, "__path__"):
            vars(module).setdefault("__getattr__", partial(_submodule, module.__name__))


class _Finder(MetaPathFinder):
    """Finds the modules below this package in the usual way, and loads them renamed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The interpreter's spec with the loader of this package."""
        if not name.startswith(f"{__name__}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader, spec.cached = _Loader(name, spec.loader.path), None
        return spec


def _submodule(package: str, name: str) -> Any:
    """A submodule by attribute; errors: AttributeError for one that does not exist."""
    full = f"{package}.{name}"
    try:
        return import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}") from None


sys.meta_path.insert(0, _Finder())


def __getattr__(name: str) -> Any:
    return _submodule(__name__, name)
