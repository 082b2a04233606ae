"""``dpaudit.toml``: facts about a release that a person states, because no program can know them.

A project's root holds one such file.  ``[fields]`` holds for all mechanisms, ``[mechanisms.NAME]``
for one; ``[budgets."DATA SOURCE"]`` holds the budgets for `dpaudit ledger total`; ``[settings]``
holds defaults of the command line, which :mod:`dpaudit.cli.settings` reads.  The same names are the
keys of a plan's ``[fields]`` and of ``--field NAME=TEXT``.  Statements are those of whoever runs a
mechanism: the shipped catalogue's file speaks for the catalogue's own reports only.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.storage.roots import catalogue_root, is_root, root_above
from dpaudit.storage.toml import read_toml

FILE = "dpaudit.toml"
SECTIONS = ("fields", "mechanisms", "budgets", "settings")  # of `dpaudit.toml`
LONGEST_TEXT = 4_000  # characters of one text
MOST_LINES = 100  # texts in one field

RELEASE_TYPES = ("one release", "many releases")  # how often a mechanism releases
# In the order in which a report lists them, with what `dpaudit fields` asks.
QUESTIONS = {
    "purpose": "What is the result used for?",
    "legal_basis": "On which legal basis are the data processed?",
    "data_source": "Where do the data come from?",
    "data_period": "Which time do the data span?",
    "changes": "What changed since the release before?",
    "publication_date": "When is the result published (YYYY-MM-DD)?",
    "release_type": "Is this 'one release', or one of 'many releases'?",
    "controller": "Who answers for the data?",
    "processor": "Who processes the data for them?",
    "contact": "Who answers questions, at which address?",
    "approver": "Who approved the release?",
    "review_date": "When is it reviewed again (YYYY-MM-DD)?",
    "expires": "After which day should nobody rely on it (YYYY-MM-DD)?",
    "licence": "Under which licence may the result be used?",
    "retention": "How long are data and result kept?",
    "tuning": "Which numbers were chosen by looking at the data?",
    "exploratory_accesses": "Who looked at the data otherwise, and why?",
    "post_processing": "What is done to the result after the noise?",
    "justification": "Why is this epsilon acceptable?",
    "sbom": "Which file lists the software (a path)?",
    "product_type": "Which kind of product is it?",
    "region": "Where do the people live?",
    "sector": "Which sector is it for?",
}
FIELDS = tuple(QUESTIONS)
DATES = frozenset({"publication_date", "review_date", "expires"})
OPTIONAL = frozenset({"changes", "expires", "licence", "sbom", "product_type", "region", "sector"})

Fields = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class ProjectFields:
    """The content of one ``dpaudit.toml``; all empty where a project has none.

    ``budgets``: for each data source the keys ``unit``, ``epsilon``, ``delta`` or ``rho``, and
    ``days``, as texts.
    """

    common: Fields = field(default_factory=dict)
    own: Mapping[str, Fields] = field(default_factory=dict)
    budgets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, mechanism: str) -> dict[str, list[str]]:
        """The fields of one mechanism for its certificate; its own override the common ones."""
        merged = {**self.common, **self.own.get(mechanism, {})}
        return {name: list(merged[name]) for name in FIELDS if name in merged}


def read_fields(root: Path, mechanisms: Iterable[str] = ()) -> ProjectFields:
    """The fields of a project's root.

    ``mechanisms``: the allowed names of ``[mechanisms.NAME]``; empty allows any.
    Errors: InvalidParameter, with the file and the key, for an unknown or malformed entry.
    """
    path = root / FILE
    content = read_toml(path) if path.exists() else {}
    refuse_unknown(content, SECTIONS, f"{path}")
    sections = {name: _table(content.get(name, {}), f"{path}: [{name}]") for name in content}
    by_mechanism = sections.get("mechanisms", {})
    allowed = tuple(mechanisms)
    if allowed:
        refuse_unknown(by_mechanism, allowed, f"{path}: [mechanisms]")
    budgets = sections.get("budgets", {})
    return ProjectFields(
        _fields(sections.get("fields", {}), f"{path}: [fields]", root),
        {
            name: _fields(rows, f"{path}: [mechanisms.{name}]", root)
            for name, rows in by_mechanism.items()
        },
        {name: _budget(rows, f"{path}: [budgets.{name!r}]") for name, rows in budgets.items()},
    )


def stated_in(root: Path, mechanisms: Iterable[str], start: Path) -> ProjectFields:
    """The statements for certificates of a root's mechanisms, made by somebody in ``start``.

    They are those of the root's file.  For the shipped catalogue, seen from a folder outside of it,
    they are the ``[fields]`` of the nearest file above ``start``: its ``[mechanisms.NAME]`` are for
    mechanisms of that project.
    Errors: as :func:`read_fields`.
    """
    if root != catalogue_root() or root_above(start) == root:
        return read_fields(root, mechanisms)
    return stated_above(start)


def stated_above(start: Path) -> ProjectFields:
    """The ``[fields]`` of the nearest file at or above a folder, up to a project's root.

    The catalogue's own file is nobody else's, so nothing is read from it.
    Errors: as :func:`read_fields`.
    """
    for folder in (start.resolve(), *start.resolve().parents):
        if folder == catalogue_root():
            break
        if (folder / FILE).is_file():
            return ProjectFields(read_fields(folder).common)
        if is_root(folder):
            break
    return ProjectFields()


def settings_above(start: Path) -> tuple[Path, dict[str, Any]]:
    """The ``[settings]`` of the nearest file at or above a folder, up to a project's root.

    They are defaults of the command line, by name; none without a file.
    Errors: InvalidParameter, with the file, for a file that is not TOML, or other sections.
    """
    for folder in (start.resolve(), *start.resolve().parents):
        path = folder / FILE
        if path.is_file():
            content = read_toml(path)
            refuse_unknown(content, SECTIONS, f"{path}")
            return path, _table(content.get("settings", {}), f"{path}: [settings]")
        if is_root(folder):
            break
    return start / FILE, {}


def fields_given(texts: Sequence[str]) -> dict[str, list[str]]:
    """The fields of options ``NAME=TEXT``; a name that is repeated has several lines.

    Errors: InvalidParameter for an unknown name, an empty text, or a date that is none.
    """
    table: dict[str, list[str]] = {}
    for text in texts:
        name, separator, line = text.partition("=")
        if not separator:
            raise InvalidParameter(f"--field {text[:60]!r}: expected NAME=TEXT")
        table.setdefault(name.strip(), []).append(line)
    return fields_of(table, "--field", Path())


def fields_of(value: Any, place: str, folder: Path) -> dict[str, list[str]]:
    """The fields of a table, in order; ``sbom`` is a file's path from ``folder``.

    Errors: InvalidParameter, with the place and the key.
    """
    read = _fields(value, place, folder)
    return {name: list(read[name]) for name in FIELDS if name in read}


def merged(*sources: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Fields of several sources in order; a later source replaces a field of an earlier one."""
    last = {name: lines for source in sources for name, lines in source.items()}
    return {name: list(last[name]) for name in FIELDS if name in last}


def missing(fields: Mapping[str, Any]) -> list[str]:
    """The required fields that the certificate does not state."""
    return [name for name in FIELDS if name not in OPTIONAL and not fields.get(name)]


def _table(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidParameter(f"{place} = {value!r:.60}: expected a table")
    return value


def refuse_unknown(table: Iterable[str], names: Iterable[str], place: str) -> None:
    """Errors: InvalidParameter for a name that is none of ``names``, with the nearest one."""
    allowed = sorted(names)
    for name in table:
        if name not in allowed:
            close = difflib.get_close_matches(name, allowed, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(allowed)}"
            raise InvalidParameter(f"{place}: nothing is called {name[:60]!r}; {hint}"[:500])


def _fields(value: Any, place: str, root: Path) -> dict[str, tuple[str, ...]]:
    table = _table(value, place)
    refuse_unknown(table, FIELDS, place)
    lines_by_field = {name: _lines(table[name], f"{place} {name}") for name in table}
    for name in DATES & set(lines_by_field):
        _date(lines_by_field[name], f"{place} {name}")
    if lines_by_field.get("release_type", RELEASE_TYPES[:1])[0] not in RELEASE_TYPES:
        raise InvalidParameter(
            f"{place} release_type = {lines_by_field['release_type'][0][:40]!r}: expected one of "
            f"{' or '.join(map(repr, RELEASE_TYPES))}"
        )
    if "sbom" in lines_by_field:
        lines_by_field["sbom"] = (_digest(root / lines_by_field["sbom"][0], f"{place} sbom"),)
    return lines_by_field


def _lines(value: Any, place: str) -> tuple[str, ...]:
    if isinstance(value, date):
        return (value.isoformat()[:10],)
    lines = tuple(value) if isinstance(value, list) else (value,)
    if len(lines) > MOST_LINES or not all(
        isinstance(line, str) and line.strip() and len(line) <= LONGEST_TEXT for line in lines
    ):
        raise InvalidParameter(
            f"{place} = {value!r:.60}: expected a text, or a list of at most {MOST_LINES}, each "
            f"not empty and at most {LONGEST_TEXT} characters"
        )
    return tuple(line.strip() for line in lines)


def _date(lines: tuple[str, ...], place: str) -> None:
    try:
        (line,) = lines
        date.fromisoformat(line)
    except ValueError:
        raise InvalidParameter(f"{place} = {lines[0][:40]!r}: expected one YYYY-MM-DD") from None


def _digest(path: Path, place: str) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidParameter(f"{place}: {path}: {error.strerror}") from None
    return f"{path.name}, SHA-256 {hashlib.sha256(content).hexdigest()}"


def _budget(value: Any, place: str) -> dict[str, str]:
    table = _table(value, place)
    refuse_unknown(table, ("unit", "epsilon", "delta", "rho", "days"), place)
    texts = {name: str(item) for name, item in table.items()}
    numbers = {name: text for name, text in texts.items() if name != "unit"}
    for name, text in numbers.items():
        if not isinstance(table[name], str) and isinstance(table[name], float):
            raise InvalidParameter(
                f'{place} {name} = {text}: write it as a text, {name} = "{text}", so that it is '
                "read exactly"
            )
        if not re.fullmatch(r"[0-9]{1,30}(\.[0-9]{1,60})?([eE]-?[0-9]{1,3})?", text):
            raise InvalidParameter(f"{place} {name} = {text[:40]!r}: expected a number >= 0")
        if name == "days" and not re.fullmatch("[0-9]{1,5}", text):
            raise InvalidParameter(f"{place} days = {text[:40]!r}: expected a whole number of days")
    if set(numbers) - {"days"} not in ({"epsilon"}, {"epsilon", "delta"}, {"rho"}):
        raise InvalidParameter(f"{place}: expected epsilon, epsilon with delta, or rho")
    return texts
