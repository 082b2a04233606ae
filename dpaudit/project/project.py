"""The mechanisms and suites of a project root, found by name.

dpaudit never imports a catalogue by name: the working folder or the target determines the root.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from dpaudit.errors import DpauditError, UnknownTarget
from dpaudit.storage.imported import imported
from dpaudit.storage.opened import importing
from dpaudit.storage.roots import (
    catalogue_root,
    digests,
    find_root,
    import_each,
    module_name,
    root_above,
    serve,
    sources,
)

if TYPE_CHECKING:
    from dpaudit.audit.suite import Suite
    from dpaudit.curator.mechanism import Mechanism

__all__ = [
    "Broken",
    "ClaimRow",
    "Project",
    "Row",
    "Target",
    "catalogue_root",
    "find_root",
    "foreign_catalogue",
    "foreign_files",
    "implementation",
    "load",
    "place",
    "resolve",
    "rows",
    "serve",
    "suite_file",
    "suite_of",
]

BROKEN = "audits.broken"
CATALOGUE_PREFIX = "catalogue:"

Found = TypeVar("Found")


@dataclass(frozen=True)
class Broken:
    """The mechanisms and suites below ``audits/broken``, which are wrong on purpose.

    ``mechanisms`` by name; ``suites`` by module and attribute (``diff2.half_the_noise``), because
    one mechanism may have many planted bugs.
    """

    mechanisms: Mapping[str, Mechanism]
    suites: Mapping[str, Suite]


@dataclass(frozen=True)
class Project:
    """A root's mechanisms by name, and its suites by the name of the mechanism they attack.

    ``refused``: for each file that does not import, and each suite of an unknown mechanism, the
    reason by its file (and line); the rest of the project is loaded.
    """

    root: Path
    mechanisms: Mapping[str, Mechanism]
    suites: Mapping[str, Suite]
    broken: Broken
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A mechanism, the suite that attacks it (None if there is none), and their project."""

    project: Project
    mechanism: Mechanism
    suite: Suite | None


@dataclass(frozen=True)
class ClaimRow:
    """One claim as text: the claim, its author and place, its reading, and the expected outcome."""

    claim: str
    by: str
    reading: str
    expected: str


@dataclass(frozen=True)
class Row:
    """One mechanism of a root as text for a listing; or a file or suite that was not loaded.

    ``error``: the reason why it was not loaded; empty for a mechanism.
    """

    name: str
    title: str
    source: str
    scope: str
    claims: tuple[ClaimRow, ...]
    error: str = ""


def load(root: Path) -> Project:
    """Serve a root, import every module of it, and collect its mechanisms and suites.

    Only module-level instances count; an instance imported from another module is not a duplicate.
    ``refused`` lists files that do not import (with line and cause) and suites of undefined
    mechanisms; the others are loaded.
    Errors: UnknownTarget for two objects of one name.
    """
    from dpaudit.audit.suite import Suite
    from dpaudit.curator.mechanism import Mechanism

    root = serve(root)
    with importing():
        modules, failed = import_each(root)
    refused = {path.relative_to(root).as_posix(): why for path, why in failed.items()}
    right = [m for m in modules if _within(m, "mechanisms")]
    audits = [m for m in modules if _within(m, "audits") and not _within(m, BROKEN)]
    wrong = [m for m in modules if _within(m, BROKEN)]
    mechanisms, suites = _by_key(right, Mechanism, _name), _by_key(audits, Suite, _attacked)
    all_mechanisms = _by_key([*right, *wrong], Mechanism, _name)
    planted = _without(_by_place(wrong, Suite), suites)
    for place, suite in (_by_place(audits, Suite) | planted).items():
        try:
            _mechanism_of(suite, all_mechanisms, place)
        except UnknownTarget as error:
            refused[_written(root, suite, [*audits, *wrong])] = str(error)
    suites, planted = (
        {name: suite for name, suite in some.items() if suite.mechanism in all_mechanisms}
        for some in (suites, planted)
    )
    return Project(
        root, mechanisms, suites, Broken(_without(all_mechanisms, mechanisms), planted), refused
    )


def resolve(target: str, cwd: Path) -> Target:
    """Serve the root that a target names, and find its mechanism there.

    ``name`` is looked up in the root at or above ``cwd``, and ``catalogue:name`` in the shipped
    catalogue.  ``name`` is the name of a mechanism, or ``module.attribute`` of a suite below
    ``audits/broken``.  ``path/to/file.py::Name`` is looked up in the root of that file; ``Name`` is
    the name of a mechanism, or the module attribute that holds a mechanism or a suite.
    Errors: UnknownTarget, with similar names.
    """
    path, separator, name = target.rpartition("::")
    if separator:
        return _resolve_file(cwd / path, name)
    if target.endswith(".py"):
        raise UnknownTarget(f"{target} names a file: say which mechanism, {target}::NAME")
    if target.startswith(CATALOGUE_PREFIX):
        return _named(load(catalogue_root()), target.removeprefix(CATALOGUE_PREFIX))
    return _named(load(find_root(cwd)), target)


def suite_of(project: Project, mechanism: Mechanism) -> Suite | None:
    """The suite that attacks a mechanism; None where the project has none for it.

    Errors: UnknownTarget if there is none and something in ``audits/`` was not loaded.  It may hold
    the mechanism's suite, and the default attack must not replace that silently.
    """
    suite = project.suites.get(mechanism.name)
    unloaded = {place: why for place, why in project.refused.items() if place.startswith("audits/")}
    if suite is None and unloaded:
        place, why = next(iter(unloaded.items()))
        raise UnknownTarget(
            f"{mechanism.name}: no suite attacks it, and {place} was not loaded: {why}"
        )
    return suite


def implementation(project: Project, mechanism: Mechanism, suite: Suite | None) -> dict[str, str]:
    """SHA-256 of every file of the project on which a mechanism and its suite depend.

    These are the files that define both, and the files that those import.  They are all files of
    the project if no file defines one of them, or a file imports without an import statement.
    """
    modules, _ = import_each(project.root)
    homes = [_home(part, modules, project.root) for part in (mechanism, suite) if part is not None]
    if None in homes:
        return digests(project.root, sources(project.root))
    return digests(project.root, imported(project.root, [home for home in homes if home]))


def suite_file(project: Project, suite: Suite | None) -> str:
    """The file, relative to the root, that defines a suite; empty where none does."""
    home = None if suite is None else _home(suite, import_each(project.root)[0], project.root)
    return "" if home is None else home.relative_to(project.root).as_posix()


def place(project: Project, mechanism: Mechanism) -> tuple[str, int] | None:
    """The file, relative to the root, and the line that define a mechanism; None if none does.

    The line is the first with the mechanism's name as a literal; without one, the file's first.
    """
    home = _home(mechanism, import_each(project.root)[0], project.root)
    if home is None:
        return None
    lines = [
        node.lineno
        for node in ast.walk(ast.parse(home.read_bytes()))
        if isinstance(node, ast.Constant) and node.value == mechanism.name
    ]
    return home.relative_to(project.root).as_posix(), min(lines, default=1)


def rows(project: Project) -> tuple[Row, ...]:
    """The mechanisms of a project as text, by name; then the files and suites not loaded."""
    named = tuple(_row(project.mechanisms[name]) for name in sorted(project.mechanisms))
    refused = (Row(place, "", "", "", (), why) for place, why in project.refused.items())
    return (*named, *refused)


def foreign_catalogue(root: Path) -> tuple[Row, ...]:
    """The mechanisms of a root that this process does not serve, read in a child process.

    Errors: UnknownTarget with the last line that the child printed, if it fails.
    """
    return tuple(
        Row(**row | {"claims": tuple(ClaimRow(**claim) for claim in row["claims"])})
        for row in _asked(root)
    )


def foreign_files(root: Path, name: str) -> tuple[str, ...]:
    """The files on which a mechanism of such a root and its suite depend, relative to the root.

    Errors: as :func:`foreign_catalogue`, and UnknownTarget for an unknown name.
    """
    return tuple(_asked(root, name))


def _asked(root: Path, *names: str) -> Any:
    command = [sys.executable, "-P", "-m", "dpaudit.project.project", str(root), *names]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode != 0:
        last = (child.stderr.strip().splitlines() or ["no message"])[-1]
        raise UnknownTarget(f"{root} could not be listed: {last}")
    return json.loads(child.stdout)


def main(arguments: Sequence[str]) -> int:
    """Print the mechanisms of one root as JSON rows, or the files of one of them.

    Output of the root's modules goes to standard error.
    """
    root, *names = arguments
    try:
        with contextlib.redirect_stdout(sys.stderr):
            project = load(Path(root))
            listed: list[Any] = [asdict(row) for row in rows(project)]
            for name in names:
                target = _named(project, name)
                listed = sorted(implementation(project, target.mechanism, target.suite))
    except DpauditError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    json.dump(listed, sys.stdout)
    return 0


def _within(module: ModuleType, package: str) -> bool:
    return f"{module.__name__}.".startswith(f"{package}.")


def _name(mechanism: Mechanism) -> str:
    return mechanism.name


def _attacked(suite: Suite) -> str:
    return suite.mechanism


def _by_place(modules: Iterable[ModuleType], kind: type[Found]) -> dict[str, Found]:
    """Module-level instances by module and attribute, each once.

    The prefix ``audits.broken.`` is removed from the key.
    """
    held: dict[int, tuple[str, Found]] = {}
    for module in modules:
        for attribute, value in vars(module).items():
            if isinstance(value, kind):
                place = f"{module.__name__}.{attribute}".removeprefix(f"{BROKEN}.")
                held.setdefault(id(value), (place, value))
    return dict(held.values())


def _home(wanted: object, modules: Iterable[ModuleType], root: Path) -> Path | None:
    """The file that defines an object: among the modules that hold it, the one with fewest imports.

    A module that re-exports the object imports the defining one, and so has more.
    """
    holders = [m for m in modules if any(value is wanted for value in vars(m).values())]
    files = [Path(m.__file__ or "") for m in holders]
    if len(files) < 2:
        return files[0] if files else None
    return min(files, key=lambda path: len(imported(root, [path])))


def _by_key(
    modules: Iterable[ModuleType], kind: type[Found], key: Callable[[Found], str]
) -> dict[str, Found]:
    by_name: dict[str, Found] = {}
    places: dict[str, str] = {}
    by_place = _by_place(modules, kind)
    # Suites listed in another's ``also`` belong to it, even if a module names them too.
    further = {id(suite) for value in by_place.values() for suite in getattr(value, "also", ())}
    for place, value in by_place.items():
        if id(value) in further:
            continue
        name = key(value)
        if name in by_name:
            raise UnknownTarget(
                f"two of type {kind.__name__} are for {name!r}: {places[name]} and {place}; "
                "rename or remove one"
                + ("; or name one in the other's also" if hasattr(value, "also") else "")
            )
        by_name[name], places[name] = value, place
    return by_name


def _without(values: Mapping[str, Found], excluded: Mapping[str, Found]) -> dict[str, Found]:
    originals = {id(value) for value in excluded.values()}
    return {name: value for name, value in values.items() if id(value) not in originals}


def _written(root: Path, suite: Suite, modules: Sequence[ModuleType]) -> str:
    """Where a suite is defined: its file from the root, and the line that gives it a name."""
    home = _home(suite, modules, root)
    assert home is not None  # noqa: S101  (a module of the project holds it)
    module = next(module for module in modules if module.__file__ == str(home))
    names = {name for name, value in vars(module).items() if value is suite}
    lines = [
        node.lineno
        for node in ast.walk(ast.parse(home.read_bytes()))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names
    ]
    return f"{home.relative_to(root).as_posix()}:{min(lines, default=1)}"


def _mechanism_of(suite: Suite, mechanisms: Mapping[str, Mechanism], place: str) -> Mechanism:
    if suite.mechanism not in mechanisms:
        raise UnknownTarget(
            f"the suite {place} attacks {suite.mechanism!r}, which no file of mechanisms/ "
            f"defines: {_suggestion(suite.mechanism, mechanisms)}"
        )
    return mechanisms[suite.mechanism]


def _named(project: Project, name: str) -> Target:
    mechanisms = {**project.mechanisms, **project.broken.mechanisms}
    planted = project.broken.suites.get(name)
    if planted is not None:
        return Target(project, mechanisms[planted.mechanism], planted)
    if name not in mechanisms:
        refused = "".join(f"; {why}" for why in list(project.refused.values())[:2])
        raise UnknownTarget(
            f"no mechanism {name!r} in {project.root}: {_suggestion(name, mechanisms)}; "
            f"`dpaudit list` shows all, `{CATALOGUE_PREFIX}NAME` is a shipped one{refused}"
        )
    return _target(project, mechanisms[name])


def _target(project: Project, mechanism: Mechanism) -> Target:
    if project.mechanisms.get(mechanism.name) is mechanism:
        return Target(project, mechanism, project.suites.get(mechanism.name))
    attacks = (s for s in project.broken.suites.values() if s.mechanism == mechanism.name)
    return Target(project, mechanism, next(attacks, None))


def _suggestion(name: str, names_held: Iterable[str]) -> str:
    names = sorted(names_held)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    shown = ", ".join(names[:5]) or "nothing"
    return f"it holds {shown}" + (" and more" if len(names) > 5 else "")


def _resolve_file(path: Path, name: str) -> Target:
    path = path.resolve()
    if not path.is_file():
        raise UnknownTarget(f"{path} is not a file; the form is path/to/file.py::NAME")
    root = root_above(path.parent)
    if root is None or path not in sources(root):
        raise UnknownTarget(
            f"{path} is no module of a project's mechanisms/ or audits/; move it into one, "
            "or start one with `dpaudit init`"
        )
    project = load(root)
    place = path.relative_to(root).as_posix()
    if place in project.refused:
        raise UnknownTarget(project.refused[place])
    return _held(project, sys.modules[module_name(path, root)], name)


def _held(project: Project, module: ModuleType, name: str) -> Target:
    from dpaudit.audit.suite import Suite
    from dpaudit.curator.mechanism import Mechanism

    candidates = {k: v for k, v in vars(module).items() if isinstance(v, (Mechanism, Suite))}
    named = {v.name: v for v in candidates.values() if isinstance(v, Mechanism)}
    target = candidates.get(name) or named.get(name)
    if isinstance(target, Suite):
        mechanisms = {**project.broken.mechanisms, **project.mechanisms}
        return Target(project, _mechanism_of(target, mechanisms, name), target)
    if target is None:
        raise UnknownTarget(
            f"no mechanism or suite {name!r} in {module.__file__}: "
            f"{_suggestion(name, {*candidates, *named})}"
        )
    return _target(project, target)


def _row(mechanism: Mechanism) -> Row:
    claims = tuple(
        ClaimRow(claim.text, claim.by, claim.reading, str(expected))
        for claim, expected in zip(mechanism.claims, mechanism.expectations, strict=True)
    )
    return Row(mechanism.name, mechanism.title, mechanism.source, str(mechanism.scope), claims)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
