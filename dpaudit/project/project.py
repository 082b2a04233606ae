"""What a project root defines: its mechanisms and suites, found by name.

dpaudit never imports a catalogue by name: the root comes from the working folder or the target.
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
    "suite_of",
]

BROKEN = "audits.broken"
CATALOGUE_PREFIX = "catalogue:"

Found = TypeVar("Found")


@dataclass(frozen=True)
class Broken:
    """What ``audits/broken`` holds, wrong on purpose.

    ``mechanisms`` by name; ``suites`` by module and attribute (``diff2.half_the_noise``), for
    many bugs may be planted in one mechanism.
    """

    mechanisms: Mapping[str, Mechanism]
    suites: Mapping[str, Suite]


@dataclass(frozen=True)
class Project:
    """A root's mechanisms by name, and its suites by the name of the mechanism they attack.

    ``refused``: why a file does not import, or a suite has nothing to attack, by its place; what
    the rest of the project defines is there all the same.
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
    """One claim as text: what, who states it where, how it is read, what is expected of it."""

    claim: str
    by: str
    reading: str
    expected: str


@dataclass(frozen=True)
class Row:
    """One mechanism of a root as text, for a listing; or a place in it that defines none.

    ``error``: why a file does not import, or a suite attacks nothing; empty for a mechanism.
    """

    name: str
    title: str
    source: str
    scope: str
    claims: tuple[ClaimRow, ...]
    error: str = ""


def load(root: Path) -> Project:
    """Serve a root, import every module of it, and collect its mechanisms and suites.

    Only module-level instances count; an instance imported from another module is no duplicate.
    A file that does not import (with file, line and cause), and a suite of a mechanism that nobody
    defines, are listed in ``refused`` and break nothing else.
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
    known = _by_key([*right, *wrong], Mechanism, _name)
    planted = _without(_by_place(wrong, Suite), suites)
    for place, suite in (_by_place(audits, Suite) | planted).items():
        try:
            _mechanism_of(suite, known, place)
        except UnknownTarget as error:
            refused[place] = str(error)
    suites, planted = (
        {name: suite for name, suite in some.items() if suite.mechanism in known}
        for some in (suites, planted)
    )
    return Project(root, mechanisms, suites, Broken(_without(known, mechanisms), planted), refused)


def resolve(target: str, cwd: Path) -> Target:
    """Serve the root that a target names, and find its mechanism there.

    ``name`` is looked up in the root at or above ``cwd``, ``catalogue:name`` in the shipped
    catalogue; it is a mechanism's, or ``module.attribute`` of a suite below ``audits/broken``.
    ``path/to/file.py::Name`` is looked up in the file's own root; ``Name`` is a mechanism's name,
    or the module attribute that holds a mechanism or a suite.
    Errors: UnknownTarget, with the names that come close.
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

    Errors: UnknownTarget where there is none and something in ``audits/`` was not loaded: the
    mechanism's own suite may be there, and another attack must not stand in its place.
    """
    suite = project.suites.get(mechanism.name)
    unloaded = {
        place: why
        for place, why in project.refused.items()
        if place.startswith(("audits/", "audits."))
    }
    if suite is None and unloaded:
        place, why = next(iter(unloaded.items()))
        raise UnknownTarget(
            f"{mechanism.name}: no suite attacks it, and {place} was not loaded: {why}"
        )
    return suite


def implementation(project: Project, mechanism: Mechanism, suite: Suite | None) -> dict[str, str]:
    """SHA-256 of every file of the project that a mechanism and its suite are made of.

    These are the files that define both and what they import; all files where an object is
    defined nowhere, or a file imports by other means than an import statement.
    """
    modules, _ = import_each(project.root)
    homes = [_home(one, modules, project.root) for one in (mechanism, suite) if one is not None]
    if None in homes:
        return digests(project.root, sources(project.root))
    return digests(project.root, imported(project.root, [home for home in homes if home]))


def place(project: Project, mechanism: Mechanism) -> tuple[str, int] | None:
    """The file, relative to the root, and the line that define a mechanism; None if none does.

    The line is the first that holds the mechanism's name as a literal, else the first of the file.
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
    """The mechanisms of a project as text, by name; then what keeps others from being there."""
    named = tuple(_row(project.mechanisms[name]) for name in sorted(project.mechanisms))
    refused = (Row(place, "", "", "", (), why) for place, why in project.refused.items())
    return (*named, *refused)


def foreign_catalogue(root: Path) -> tuple[Row, ...]:
    """The mechanisms of a root that this process does not serve, read in a child process.

    Errors: UnknownTarget with the child's last line if it fails.
    """
    return tuple(
        Row(**row | {"claims": tuple(ClaimRow(**claim) for claim in row["claims"])})
        for row in _asked(root)
    )


def foreign_files(root: Path, name: str) -> tuple[str, ...]:
    """The files that a mechanism of such a root and its suite are made of, relative to the root.

    Errors: as :func:`foreign_catalogue`, and for a name that the root does not hold.
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

    What the root's modules print goes to stderr.
    """
    root, *names = arguments
    try:
        with contextlib.redirect_stdout(sys.stderr):
            project = load(Path(root))
            found: list[Any] = [asdict(row) for row in rows(project)]
            for name in names:
                target = _named(project, name)
                found = sorted(implementation(project, target.mechanism, target.suite))
    except DpauditError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    json.dump(found, sys.stdout)
    return 0


def _within(module: ModuleType, package: str) -> bool:
    return f"{module.__name__}.".startswith(f"{package}.")


def _name(mechanism: Mechanism) -> str:
    return mechanism.name


def _attacked(suite: Suite) -> str:
    return suite.mechanism


def _by_place(modules: Iterable[ModuleType], kind: type[Found]) -> dict[str, Found]:
    """Module-level instances by module and attribute, ``audits.broken.`` left out; each once."""
    held: dict[int, tuple[str, Found]] = {}
    for module in modules:
        for attribute, value in vars(module).items():
            if isinstance(value, kind):
                place = f"{module.__name__}.{attribute}".removeprefix(f"{BROKEN}.")
                held.setdefault(id(value), (place, value))
    return dict(held.values())


def _home(wanted: object, modules: Iterable[ModuleType], root: Path) -> Path | None:
    """The file that defines an object: of those that hold it, the one that imports the fewest."""
    holders = [m for m in modules if any(value is wanted for value in vars(m).values())]
    files = [Path(m.__file__ or "") for m in holders]
    if len(files) < 2:
        return files[0] if files else None
    return min(files, key=lambda path: len(imported(root, [path])))


def _by_key(
    modules: Iterable[ModuleType], kind: type[Found], key: Callable[[Found], str]
) -> dict[str, Found]:
    found: dict[str, Found] = {}
    places: dict[str, str] = {}
    by_place = _by_place(modules, kind)
    # A suite's further worst cases are part of it, whether or not they have names of their own.
    further = {id(one) for value in by_place.values() for one in getattr(value, "also", ())}
    for place, value in by_place.items():
        if id(value) in further:
            continue
        name = key(value)
        if name in found:
            raise UnknownTarget(
                f"two of type {kind.__name__} are for {name!r}: {places[name]} and {place}; "
                "rename or remove one"
                + ("; or name one in the other's also" if hasattr(value, "also") else "")
            )
        found[name], places[name] = value, place
    return found


def _without(found: Mapping[str, Found], known: Mapping[str, Found]) -> dict[str, Found]:
    originals = {id(value) for value in known.values()}
    return {name: value for name, value in found.items() if id(value) not in originals}


def _mechanism_of(suite: Suite, known: Mapping[str, Mechanism], place: str) -> Mechanism:
    if suite.mechanism not in known:
        raise UnknownTarget(
            f"the suite {place} attacks {suite.mechanism!r}, which no file of mechanisms/ "
            f"defines: {_suggestion(suite.mechanism, known)}"
        )
    return known[suite.mechanism]


def _named(project: Project, name: str) -> Target:
    known = {**project.mechanisms, **project.broken.mechanisms}
    planted = project.broken.suites.get(name)
    if planted is not None:
        return Target(project, known[planted.mechanism], planted)
    if name not in known:
        refused = "".join(f"; {why}" for why in list(project.refused.values())[:2])
        raise UnknownTarget(
            f"no mechanism {name!r} in {project.root}: {_suggestion(name, known)}; "
            f"`dpaudit list` shows all, `{CATALOGUE_PREFIX}NAME` is a shipped one{refused}"
        )
    return _target(project, known[name])


def _target(project: Project, mechanism: Mechanism) -> Target:
    if project.mechanisms.get(mechanism.name) is mechanism:
        return Target(project, mechanism, project.suites.get(mechanism.name))
    attacks = (s for s in project.broken.suites.values() if s.mechanism == mechanism.name)
    return Target(project, mechanism, next(attacks, None))


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
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

    held = {k: v for k, v in vars(module).items() if isinstance(v, (Mechanism, Suite))}
    named = {v.name: v for v in held.values() if isinstance(v, Mechanism)}
    found = held.get(name) or named.get(name)
    if isinstance(found, Suite):
        known = {**project.broken.mechanisms, **project.mechanisms}
        return Target(project, _mechanism_of(found, known, name), found)
    if found is None:
        raise UnknownTarget(
            f"no mechanism or suite {name!r} in {module.__file__}: "
            f"{_suggestion(name, {*held, *named})}"
        )
    return _target(project, found)


def _row(mechanism: Mechanism) -> Row:
    claims = tuple(
        ClaimRow(claim.text, claim.by, claim.reading, str(expected))
        for claim, expected in zip(mechanism.claims, mechanism.expectations, strict=True)
    )
    return Row(mechanism.name, mechanism.title, mechanism.source, str(mechanism.scope), claims)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
