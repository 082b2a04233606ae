"""The public schema of a private table: who a row belongs to, and what its columns may hold.

Nothing of a schema is read off the data.  Bounds, keys and limits are choices made in advance;
one that was made by looking is listed in ``read_off_data``, and every page of a release says so.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import rational
from dpaudit.exact.wire import digest
from dpaudit.storage.data import UTF8
from dpaudit.tabular.cells import spelled
from dpaudit.tabular.dates import DAY, Calendar

ERROR, DROP, COUNT = "error", "drop", "count"
NEAREST, CUT = "nearest", "cut"
MISSING = "(missing)"
LARGEST_CODE = 2**52
MOST_KEYS = 1_000_000
MOST_ROWS = 2**31
# Sizes of a plan's numbers: fourth powers, summed over 2^200 rows, are still floats.
SMALLEST, LARGEST = Fraction(1, 10**60), 10**60


@dataclass(frozen=True)
class Number:
    """A column of numbers, put on the grid ``lower``, ``lower + step``, ..., ``upper``.

    ``missing``: what an empty value or a NaN does: ``error`` stops the release before anything is
    spent, ``drop`` leaves the row out of every item that needs the column.  ``outside``: what a
    value outside the bounds or between the steps does: it counts as the ``nearest`` one, or is an
    ``error``; then margins cover all that the column can be off.  ``missing_codes``: numbers and
    texts that stand for a missing value, such as -99.
    Errors: InvalidParameter for bounds that are not multiples of ``step``, or not in order.
    """

    lower: Fraction
    upper: Fraction
    step: Fraction = Fraction(1)
    missing: str = ERROR
    outside: str = NEAREST
    missing_codes: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "step"):
            object.__setattr__(self, name, self.value(getattr(self, name), f"Number.{name}"))
        if self.step <= 0:
            raise InvalidParameter(f"Number.step = {self.step}: expected a positive number")
        if not self.lower < self.upper:
            raise InvalidParameter(
                f"Number: lower = {self.lower} is not below upper = {self.upper}"
            )
        for name in ("lower", "upper"):
            value: Fraction = getattr(self, name)
            if (value / self.step).denominator != 1:
                raise InvalidParameter(
                    f"Number.{name} = {value}: not a multiple of step = {self.step}; choose bounds "
                    "on the grid"
                )
        if max(abs(self.low), abs(self.high)) > LARGEST_CODE:
            raise InvalidParameter("Number: over 2^52 steps from 0; choose a larger step")
        _policy(self.missing, "Number.missing", (ERROR, DROP))
        _policy(self.outside, "Number.outside", (NEAREST, ERROR))
        given = _codes_of(self.missing_codes, "Number.missing_codes")
        object.__setattr__(self, "missing_codes", given)

    @cached_property
    def missing_values(self) -> tuple[Fraction, ...]:
        """The missing codes that are numbers, which count in every spelling."""
        return tuple(v for v in map(self._value_of, self.missing_codes) if v is not None)

    def _value_of(self, code: str) -> Fraction | None:
        try:
            return number(code, "")
        except InvalidParameter:
            return None

    def value(self, given: Any, place: str) -> Fraction:
        """A value of a plan as a number.  Errors: InvalidParameter."""
        return number(given, place)

    @cached_property
    def low(self) -> int:
        """The lower bound in steps."""
        return int(self.lower / self.step)

    @cached_property
    def high(self) -> int:
        """The upper bound in steps."""
        return int(self.upper / self.step)

    def row(self) -> dict[str, Any]:
        """Everything as JSON."""
        numbers = {k: str(getattr(self, k)) for k in ("lower", "upper", "step")}
        # A policy that is the default is left out: accounts name schemas by their digest.
        policy = {} if self.outside == NEAREST else {"outside": self.outside}
        policy |= _codes_row(self.missing_codes)
        return {"kind": "number", **numbers, "missing": self.missing, **policy}


@dataclass(frozen=True)
class Period(Number):
    """A column of months, quarters or years, or of dates that are read as their period.

    ``lower`` and ``upper``: the first and the last period that counts.  ``every``: day, month,
    quarter or year.  ``format``: of the cells, such as ``%d.%m.%Y``; "" for ISO 8601.
    Its numbers are those of :mod:`dpaudit.tabular.dates`.
    Errors: InvalidParameter as :class:`Number`, and for bounds that name no period.
    """

    step: Fraction = field(default=Fraction(1), init=False)
    every: str = field(default="", kw_only=True)
    format: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        Calendar(self.every, self.format)  # refuses what is none before a bound is read
        super().__post_init__()

    @cached_property
    def calendar(self) -> Calendar:
        """How its cells are read."""
        return Calendar(self.every, self.format)

    def value(self, given: Any, place: str) -> Fraction:
        """A date or text of a plan, always in ISO 8601, as a number.

        Errors: InvalidParameter.
        """
        if isinstance(given, Fraction):
            return given
        code = None
        if isinstance(given, date) and not isinstance(given, datetime):
            code = self.calendar.of(given)
        elif isinstance(given, str | int):
            code = Calendar(self.every).code(str(given).strip())
        if code is None:
            raise InvalidParameter(
                f"{place} = {str(given)[:40]!r}: expected a {self.every}, such as "
                f"{Calendar(self.every).text(Calendar(self.every).of(date(2026, 3, 5)))}"
            )
        return Fraction(code)

    def text(self, code: Fraction | int) -> str:
        """The name of a period."""
        return self.calendar.text(int(code))

    def _value_of(self, code: str) -> Fraction | None:
        number_of = self.calendar.code(code)
        return None if number_of is None else Fraction(number_of)

    def row(self) -> dict[str, Any]:
        """Everything as JSON."""
        ends = {"lower": self.text(self.lower), "upper": self.text(self.upper)}
        named = {"format": self.format} if self.format else {}
        return super().row() | {"kind": "period", "every": self.every, **ends, **named}


@dataclass(frozen=True)
class Date(Period):
    """A column of dates; a :class:`Period` of days."""

    every: str = field(default=DAY, init=False)


@dataclass(frozen=True)
class Category:
    """A column whose ``keys`` are public, as text.

    ``missing``: ``error``, ``drop``, or ``count`` for a key of its own, "(missing)".  ``other``:
    what a value does that is none of the keys: ``error``, ``drop``, or the key it counts as.
    ``missing_codes``: texts that stand for a missing value.
    Errors: InvalidParameter for no key, a key twice, an ``other`` that is none of these, or a
    missing code that is a key.
    """

    keys: tuple[str, ...]
    missing: str = ERROR
    other: str = ERROR
    missing_codes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given: Any = self.keys
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise InvalidParameter("Category.keys: expected a list of texts")
        keys = tuple(map(_key, given))
        if not 0 < len(keys) <= MOST_KEYS:
            raise InvalidParameter(f"Category.keys: {len(keys)} keys; expected 1 to {MOST_KEYS}")
        object.__setattr__(self, "keys", keys)
        counts = Counter((*self.spelled, MISSING))
        if None in counts:
            raise InvalidParameter("Category.keys: a blank or NaN is no key; it is a missing value")
        twice = sorted(str(key) for key, count in counts.items() if count > 1)
        if twice:
            raise InvalidParameter(f"Category.keys: {', '.join(twice[:9])} occurs twice")
        _policy(self.missing, "Category.missing", (ERROR, DROP, COUNT))
        if self.other not in (ERROR, DROP, *keys):
            raise InvalidParameter(
                f"Category.other = {self.other!r}: expected error, drop, or one of the keys"
            )
        codes = _codes_of(self.missing_codes, "Category.missing_codes")
        object.__setattr__(self, "missing_codes", codes)
        if both := sorted(set(map(spelled, codes)) & set(self.spelled), key=str):
            raise InvalidParameter(
                f"Category.missing_codes: {both[0]} is a key; a value is a key or missing"
            )

    @cached_property
    def spelled(self) -> tuple[str | None, ...]:
        """The keys as cells are compared with them: "True" is true, and "1.0" is 1."""
        return tuple(map(spelled, self.keys))

    @property
    def domain(self) -> tuple[str, ...]:
        """The keys that a row may count under, "(missing)" last where it is counted."""
        return (*self.keys, MISSING) if self.missing == COUNT else self.keys

    def row(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {
            "kind": "category",
            "keys": list(self.keys),
            "missing": self.missing,
            "other": self.other,
            **_codes_row(self.missing_codes),
        }


@dataclass(frozen=True)
class Text:
    """A column whose keys are not known in advance; only thresholded counts may use it.

    ``missing``: ``error`` or ``drop``.  ``missing_codes``: texts that stand for a missing value.
    """

    missing: str = ERROR
    missing_codes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _policy(self.missing, "Text.missing", (ERROR, DROP))
        codes = _codes_of(self.missing_codes, "Text.missing_codes")
        object.__setattr__(self, "missing_codes", codes)

    def row(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {"kind": "text", "missing": self.missing, **_codes_row(self.missing_codes)}


Column: TypeAlias = Number | Category | Text
KINDS: dict[str, type[Column]] = {
    "number": Number,
    "date": Date,
    "period": Period,
    "category": Category,
    "text": Text,
}


@dataclass(frozen=True)
class Schema:
    """What is public about a table.

    ``name``: the data set, as a ledger knows it.  ``unit``: the column that says whose row it is
    (a person, household, firm); None where every row is a unit of its own.  ``entity``: what a unit
    is, in words.  ``rows``: how many rows of one unit are used.  ``excess``: what further ones do:
    they are ``cut`` (left out), or an ``error``, which stops the release before it is charged.
    ``columns``: by name.  ``read_off_data``: what of this was chosen by looking at the data, and is
    therefore not private.  ``encoding``: of a file of text, by its name in Python.
    Errors: InvalidParameter for anything that does not fit.
    """

    name: str
    columns: Mapping[str, Column]
    unit: str | None = None
    entity: str = "row"
    rows: int = 1
    read_off_data: tuple[str, ...] = field(default=())
    excess: str = CUT
    encoding: str = UTF8

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", _encoding(self.encoding))
        object.__setattr__(self, "columns", dict(self.columns))
        object.__setattr__(self, "read_off_data", tuple(self.read_off_data))
        _named(self.name, "Schema.name")
        if not self.columns:
            raise InvalidParameter("Schema.columns: expected at least one column")
        columns: Mapping[Any, Any] = self.columns
        names: tuple[Any, ...] = self.read
        for name in names:
            if not isinstance(name, str) or not name or name != name.strip():
                raise InvalidParameter(
                    f"Schema: {name!r} cannot be a column's name; expected a text without blanks "
                    "around it"
                )
        for name, column in columns.items():
            if not isinstance(column, Number | Category | Text):
                raise InvalidParameter(
                    f"Schema.columns.{name}: expected a Number, Category or Text"
                )
        if self.unit is not None and self.unit in self.columns:
            raise InvalidParameter(
                f"Schema.unit = {self.unit!r} is a column of the schema too; no item may use it"
            )
        whole_number(self.rows, "Schema.rows")
        _policy(self.excess, "Schema.excess", (CUT, ERROR))
        if self.unit is None and self.excess != CUT:
            raise InvalidParameter(
                "Schema.excess: without a unit column every row is a unit, and none is cut"
            )
        if self.rows > MOST_ROWS:
            raise InvalidParameter(f"Schema.rows = {self.rows}: expected at most {MOST_ROWS}")
        if self.unit is None and self.rows != 1:
            raise InvalidParameter(
                f"Schema.rows = {self.rows}: without a unit column every row is a unit, of one row"
            )

    @property
    def read(self) -> tuple[str, ...]:
        """The names of the columns that are read from a table, that of the unit last."""
        return (*self.columns, *([] if self.unit is None else [self.unit]))

    def column(self, name: str, place: str) -> Column:
        """A column by name.

        Errors: InvalidParameter for one that the schema does not hold.
        """
        given: Any = name
        if not isinstance(given, str):
            raise InvalidParameter(f"{place}: {str(given)[:40]}: expected the name of a column")
        if name not in self.columns:
            known = ", ".join(self.columns)
            raise InvalidParameter(f"{place}: the schema has no column {name!r}; it has {known}")
        return self.columns[name]

    def number(self, name: str, place: str) -> Number:
        """A column of numbers; errors: InvalidParameter where it is none."""
        found = self.ordered(name, place)
        if isinstance(found, Period):
            raise InvalidParameter(
                f"{place}: column {name!r} holds dates; count by them, or ask for their quantiles"
            )
        return found

    def ordered(self, name: str, place: str) -> Number:
        """A column of numbers or dates; errors: InvalidParameter where it is none."""
        found = self.column(name, place)
        if not isinstance(found, Number):
            raise InvalidParameter(f"{place}: column {name!r} holds no numbers")
        return found

    def category(self, name: str, place: str) -> Category:
        """A column of public keys; errors: InvalidParameter where it is none."""
        found = self.column(name, place)
        if not isinstance(found, Category):
            raise InvalidParameter(f"{place}: column {name!r} has no public keys")
        return found

    def row(self) -> dict[str, Any]:
        """Everything as JSON; its digest names the schema in a ledger."""
        return {
            "name": self.name,
            "unit": self.unit,
            "entity": self.entity,
            "rows": str(self.rows),
            "columns": [{"name": name, **column.row()} for name, column in self.columns.items()],
            "read_off_data": list(self.read_off_data),
            **({} if self.excess == CUT else {"excess": self.excess}),
            **({} if self.encoding == UTF8 else {"encoding": self.encoding}),
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical content."""
        return digest(self.row())


def schema_of(table: Mapping[str, Any], place: str = "table") -> Schema:
    """The schema that a TOML table states; see ``docs/releases.md`` for its keys.

    Errors: InvalidParameter naming the key.
    """
    known = {"name", "unit", "entity", "rows", "columns", "read_off_data", "excess", "encoding"}
    refuse_unknown(table, known, place)
    columns = table.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise InvalidParameter(f"{place}.columns: expected a table of columns by name")
    made = {name: _column_of(row, f"{place}.columns.{name}") for name, row in columns.items()}
    rest = {key: value for key, value in table.items() if key != "columns"}
    if "name" not in rest:
        raise InvalidParameter(f"{place}.name: expected the name of the data set")
    if "unit" in rest:
        # Left out, one row would count, of what is called a row: nobody would notice.
        for key, what in (("entity", "what a unit is, in words"), ("rows", "how many rows of one")):
            if key not in rest:
                raise InvalidParameter(
                    f"{place}.{key}: rows of one {rest['unit']!r} belong together; say {what}"
                    f"{' unit count (the others are left out)' * (key == 'rows')}"
                )
    return Schema(columns=made, **rest)


def _column_of(row: Any, place: str) -> Column:
    if not isinstance(row, Mapping):
        raise InvalidParameter(f"{place}: expected a table with kind = ...")
    kind = KINDS.get(str(row.get("kind")))
    if kind is None:
        raise InvalidParameter(
            f"{place}.kind = {row.get('kind')!r}: expected one of {', '.join(KINDS)}"
        )
    given = {key: value for key, value in row.items() if key != "kind"}
    refuse_unknown(given, {known.name for known in fields(kind) if known.init}, place)
    try:
        return kind(**given)
    except TypeError:
        needed = "keys" if kind is Category else "lower and upper"
        raise InvalidParameter(f"{place}: expected {needed}") from None
    except InvalidParameter as error:
        raise InvalidParameter(f"{place}: {error}") from None


def refuse_unknown(given: Mapping[str, Any], known: set[str], place: str) -> None:
    """Errors: InvalidParameter for a key that nobody reads, which may be a typing error."""
    for key in given:
        if key not in known:
            raise InvalidParameter(
                f"{place}.{key}: no such setting; expected one of {', '.join(sorted(known))}"
            )


def number(value: Any, place: str) -> Fraction:
    """A number of a plan: 0, or of a size that sums and squares of it are floats.

    Errors: InvalidParameter.
    """
    given = rational(value, place)
    if given and not SMALLEST <= abs(given) <= LARGEST:
        raise InvalidParameter(
            f"{place}: the number is too {'small' if abs(given) < 1 else 'large'} "
            "for floats; expected 0, or a size from 1e-60 to 1e60"
        )
    return given


def whole_number(value: Any, place: str) -> None:
    """Errors: InvalidParameter for anything but 1, 2, 3, ..."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidParameter(f"{place} = {value!r}: expected a whole number, 1 or up")


def _named(value: Any, place: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidParameter(f"{place}: expected a text")


def _policy(value: str, place: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidParameter(f"{place} = {value!r}: expected one of {', '.join(known)}")


def _encoding(name: Any) -> str:
    """The canonical name of an encoding of text.  Errors: InvalidParameter."""
    try:
        found = codecs.lookup(name)
        "".encode(found.name)  # refuses codecs of bytes, such as base64
    except (LookupError, TypeError, ValueError):
        raise InvalidParameter(
            f"Schema.encoding = {str(name)[:40]!r}: no encoding of text; expected utf-8, cp1252, "
            "iso8859-15, utf-16, ..."
        ) from None
    return str(found.name)


def _codes_of(given: Any, place: str) -> tuple[str, ...]:
    """Missing codes as text, each once.  Errors: InvalidParameter."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidParameter(f"{place}: expected a list, such as [-99]")
    for code in given:
        if isinstance(code, bool) or not isinstance(code, int | float | str | Fraction):
            raise InvalidParameter(f"{place}: {str(code)[:40]!r} is neither a number nor a text")
    codes = [spelled(str(code)) for code in given]
    if None in codes:
        raise InvalidParameter(f"{place}: a blank and NaN are always missing; leave them out")
    return tuple(dict.fromkeys(str(code) for code in codes))


def _codes_row(codes: Sequence[str]) -> dict[str, Any]:
    return {"missing_codes": list(codes)} if codes else {}


def _key(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise InvalidParameter(
            f"Category.keys: {str(value)[:40]!r} is neither text nor a whole number"
        )
    return value
