"""Project roots: folders holding ``mechanisms/`` and ``audits/``, found as pytest finds tests.

A root may hold ``experiments/`` too.

A process serves one root, which is first on ``sys.path``.  Its modules are imported normally, so
that worker processes can unpickle the objects that they define.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from dpaudit.errors import UnknownTarget, missing_extra

PACKAGES = ("mechanisms", "audits")  # that a project has
EXPERIMENTS = "experiments"  # a package that a root may have; no certificate depends on it

_served: Path | None = None
# SHA-256 of the source of each module that ran, by its file.
_ran: dict[str, str] = {}


def catalogue_root() -> Path:
    """The shipped catalogue: ``dpaudit/catalogue`` in a wheel, the checkout when editable."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "catalogue"
    return shipped if (shipped / PACKAGES[0]).is_dir() else package.parent


def is_root(folder: Path) -> bool:
    """Whether the folder holds both packages; an unreadable folder is not a root."""
    return all(os.path.isdir(folder / package) for package in PACKAGES)  # noqa: PTH112


def optional(root: Path) -> tuple[str, ...]:
    """The optional packages that a root has; each needs an ``__init__.py``."""
    return (EXPERIMENTS,) if (root / EXPERIMENTS / "__init__.py").is_file() else ()


def root_above(folder: Path) -> Path | None:
    """The nearest root at or above a folder, None if there is none."""
    folder = folder.resolve()
    return next((above for above in (folder, *folder.parents) if is_root(above)), None)


def find_root(start: Path) -> Path:
    """The nearest root at or above ``start``, else the shipped catalogue.

    Errors: UnknownTarget if a folder on the way up holds only one of the two packages.  It is
    probably a project that lost a folder, and the catalogue must not silently replace it.
    """
    for folder in (start.resolve(), *start.resolve().parents):
        held = [package for package in PACKAGES if (folder / package / "__init__.py").is_file()]
        if is_root(folder):
            return folder
        if held:
            (lost,) = set(PACKAGES) - set(held)
            raise UnknownTarget(
                f"{folder} holds {held[0]}/ and no {lost}/: a project has both; "
                f"make {lost}/__init__.py, or start a project with `dpaudit init`"
            )
    return catalogue_root()


def serve(root: Path) -> Path:
    """Put a root first on ``sys.path``, so that its modules can be imported; return its full path.

    Errors: UnknownTarget if it is not a root, a package lacks ``__init__.py``, this process serves
    another root, or another ``mechanisms`` or ``audits`` is already imported.
    """
    global _served
    root = root.resolve()
    if _served == root:
        return root
    if _served is not None:
        raise UnknownTarget(
            f"{root} cannot be served: this process serves {_served}; run one command for each"
        )
    for package in (*PACKAGES, *optional(root)):
        _refuse_missing(root / package)
        _refuse_foreign(root / package)
    sys.path.insert(0, str(root))
    if not any(isinstance(finder, _Served) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Served())
    importlib.invalidate_caches()
    _served = root
    return root


def served() -> Path | None:
    """The root that this process serves; None before :func:`serve`."""
    return _served


def sources(root: Path, packages: Sequence[str] = PACKAGES) -> tuple[Path, ...]:
    """The source files of a root in order of import, without hidden files and folders."""
    return tuple(_sources(root, packages))


def module_name(path: Path, root: Path) -> str:
    """The dotted name under which a source file of a root imports."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_all(root: Path, packages: Sequence[str] = PACKAGES) -> tuple[ModuleType, ...]:
    """Import every module of these packages of the root that is served.

    Errors: UnknownTarget with the file, line and cause of the first that fails.
    """
    return tuple(_import(module_name(path, root), root) for path in sources(root, packages))


def import_each(
    root: Path, packages: Sequence[str] = PACKAGES
) -> tuple[tuple[ModuleType, ...], dict[Path, str]]:
    """Import all modules that can be imported; for each other file, the reason by its path."""
    modules, refused = [], {}
    for path in sources(root, packages):
        try:
            modules.append(_import(module_name(path, root), root))
        except UnknownTarget as error:
            refused[path] = str(error)
    return tuple(modules), refused


class Recorded(SourceFileLoader):
    """A loader that hashes exactly the source that it runs.

    It ignores compiled files, which may stem from other source.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of a module, from one reading of its file."""
        content = self.get_data(self.path)
        _ran[self.path] = hashlib.sha256(content).hexdigest()
        code: CodeType = self.source_to_code(content, self.path)
        return code


class _Served(MetaPathFinder):
    """Finds modules of the served root in the usual places, and loads them by :class:`Recorded`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The interpreter's module spec, with :class:`Recorded` as its loader."""
        if name.partition(".")[0] not in (*PACKAGES, EXPERIMENTS):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader, spec.cached = Recorded(name, spec.loader.path), None
        return spec


def digests(root: Path, paths: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of files below a root, as hex by relative POSIX path.

    Errors: UnknownTarget for a file that has changed since this process ran it.
    """
    by_name = {}
    for path in paths:
        name = path.relative_to(root).as_posix()
        by_name[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        if _ran.get(str(path), by_name[name]) != by_name[name]:
            raise UnknownTarget(f"{path}: it was changed while this command ran; run it again")
    return by_name


@cache
def code_digest() -> str:
    """SHA-256 over every file of dpaudit except the shipped catalogue, as hex."""
    package = Path(__file__).resolve().parent.parent
    total = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        place = path.relative_to(package)
        shipped = place.parts[0] == "catalogue" and place.as_posix() != "catalogue/__init__.py"
        if path.is_file() and not shipped and "__pycache__" not in place.parts:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{place.as_posix()}\0{content}\n".encode())
    return total.hexdigest()


def _refuse_missing(package: Path) -> None:
    if not (package / "__init__.py").is_file():
        raise UnknownTarget(
            f"{package.parent} is no project root: {package / '__init__.py'} is missing; "
            "create it empty, or start with `dpaudit init`"
        )


def _refuse_foreign(package: Path) -> None:
    module = sys.modules.get(package.name)
    places = [Path(place).resolve() for place in getattr(module, "__path__", [])]
    if module is not None and places != [package]:
        elsewhere = places[0] if places else getattr(module, "__file__", None)
        raise UnknownTarget(
            f"{package} cannot be served: another {package.name} is already imported from "
            f"{elsewhere}; run dpaudit in a process of its own"
        )


def _sources(root: Path, packages: Sequence[str]) -> Iterator[Path]:
    for package in packages:
        for path in sorted((root / package).rglob("*.py"), key=_package_first):
            if not any(part.startswith(".") for part in path.relative_to(root).parts):
                yield path


def _package_first(path: Path) -> tuple[str, ...]:
    return path.parent.parts if path.stem == "__init__" else (*path.parent.parts, path.stem)


def _import(
    name: str, root: Path, way_out: str = "mend the file or take it out of the project"
) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        cause = missing_extra(error) or f"{type(error).__name__}: {_first_line(error)}"
        raise UnknownTarget(
            f"{_place(error, name, root)}: {name} does not import: {cause}; {way_out}"
        ) from error


def attribute_of(target: str) -> tuple[ModuleType, Any]:
    """The module of ``MODULE:NAME`` and what it calls NAME, from this folder or the path.

    Errors: UnknownTarget, with the file and line at fault, where the module does not import or has
    no such name.
    """
    name, _, attribute = target.partition(":")
    if not name or not attribute:
        raise UnknownTarget(f"{target}: expected MODULE:NAME, as in mypackage.train:fit")
    here = Path.cwd()
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    try:
        module = _import(name, here, "mend the file, or install what is missing")
    except UnknownTarget as error:
        missing = error.__cause__
        absent = isinstance(missing, ModuleNotFoundError) and f"{name}.".startswith(
            f"{missing.name}."
        )
        if not absent:
            raise
        raise UnknownTarget(
            f"{target}: there is no module {name!r} in {here} or among the installed packages; "
            "expected MODULE:NAME that can be imported"
        ) from None
    if not hasattr(module, attribute):
        raise UnknownTarget(f"{target}: the module {name} has no {attribute!r}")
    return module, getattr(module, attribute)


def _first_line(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return (message.strip().splitlines() or ["no message"])[0]


def _place(error: BaseException, name: str, root: Path) -> str:
    if isinstance(error, SyntaxError) and Path(error.filename or "").is_relative_to(root):
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(root)]
    return f"{inside[-1].filename}:{inside[-1].lineno}" if inside else f"{root} ({name})"
