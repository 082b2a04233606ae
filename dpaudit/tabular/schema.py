"""The public schema of a private table: who a row belongs to, and what its columns may hold.

Nothing of a schema is read off the data.  Bounds, keys and limits are choices made in advance;
one that was made by looking is listed in ``read_off_data``, and every page of a release says so.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
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
WHOLE = Fraction(1)  # the step of a column of numbers that states none
LARGEST_CODE = 2**52  # whole numbers up to 2^52, and their halves, are floats
MOST_KEYS = 1_000_000  # of a category
MOST_EDGES = 1_000  # of a column that is cut into keys; each is a case of its SQL
MOST_ROWS = 2**31  # of a unit
# Sizes of a plan's numbers: fourth powers, summed over 2^200 rows, are still floats.
SMALLEST, LARGEST = Fraction(1, 10**60), 10**60


@dataclass(frozen=True)
class Within:
    """Rows whose code is one of ``codes``, or from ``codes[0]`` to ``codes[1]`` for a number."""

    column: str
    codes: tuple[int, ...]


@dataclass(frozen=True)
class Number:
    """A column of numbers, put on the grid ``lower``, ``lower + step``, ..., ``upper``.

    ``missing``: what an empty value or a NaN does: ``error`` stops the release before anything is
    spent, ``drop`` leaves the row out of every item that needs the column.  ``outside``: what a
    value outside the bounds or between the steps does: it counts as the ``nearest`` one, or is an
    ``error``; then margins cover all that the column can be off.  ``missing_codes``: numbers and
    texts that stand for a missing value, such as -99.  ``decimal``: the sign before the decimals
    of a text, a point or a comma.  ``of``: the table's column that it is read from, if that has
    another name than in the schema.
    ``says_step``: whether its step was stated, or is the usual one of 1.
    Errors: InvalidParameter for bounds that are not multiples of ``step``, or not in order.
    """

    lower: Fraction
    upper: Fraction
    step: Fraction = WHOLE
    missing: str = ERROR
    outside: str = NEAREST
    missing_codes: tuple[Any, ...] = ()
    of: str = field(default="", kw_only=True)
    decimal: str = field(default=".", kw_only=True)
    says_step: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "says_step", self.step is not WHOLE)
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
        _policy(self.decimal, "Number.decimal", (".", ","))
        given = _codes_of(self.missing_codes, "Number.missing_codes")
        object.__setattr__(self, "missing_codes", given)

    @property
    def numeric(self) -> bool:
        """Whether its cells are numbers, or dates that are read as numbers."""
        return True

    @cached_property
    def missing_values(self) -> tuple[Fraction, ...]:
        """The missing codes that are numbers, which count in every spelling."""
        return tuple(v for v in map(self._value_of, self.missing_codes) if v is not None)

    def _value_of(self, code: str) -> Fraction | None:
        return _number_in(code)

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
        policy |= {} if self.decimal == "." else {"decimal": self.decimal}
        policy |= _codes_row(self.missing_codes) | _of_row(self.of)
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
    decimal: str = field(default=".", init=False)
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
    ``missing_codes``: texts that stand for a missing value.  ``recode``: texts that count as one of
    the keys.  ``edges``: the cells are numbers, of which those below the first edge count as the
    first key, those from it to below the second as the second, and so on.  ``of``: as of numbers.
    Errors: InvalidParameter for no key, a key twice, an ``other`` that is none of these, a missing
    code that is a key, a text that is recoded twice, and edges that do not part the keys.
    """

    keys: tuple[str, ...]
    missing: str = ERROR
    other: str = ERROR
    missing_codes: tuple[str, ...] = ()
    recode: Mapping[str, str] = field(default_factory=dict, kw_only=True, hash=False)
    edges: tuple[Fraction, ...] = field(default=(), kw_only=True)
    of: str = field(default="", kw_only=True)

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
        if not self.edges and (both := set(map(spelled, codes)) & set(self.spelled)):
            raise InvalidParameter(
                f"Category.missing_codes: {min(map(str, both))} is a key; a value is a key or "
                "missing"
            )
        self._check_recode(set(map(spelled, codes)))
        self._check_edges()

    def _check_recode(self, missing: set[str | None]) -> None:
        given: Any = self.recode
        if not isinstance(given, Mapping):
            raise InvalidParameter(
                "Category.recode: expected texts, each with the key it counts as"
            )
        recode = {str(text): _key(key) for text, key in given.items()}
        object.__setattr__(self, "recode", recode)
        texts = list(map(spelled, recode))
        for text, key in recode.items():
            if key not in self.keys:
                raise InvalidParameter(f"Category.recode.{text} = {key!r}: no such key")
            if spelled(text) is None:
                raise InvalidParameter(
                    "Category.recode: a blank and NaN are missing values; see missing_codes"
                )
            if spelled(text) in missing | set(self.spelled) or texts.count(spelled(text)) > 1:
                raise InvalidParameter(
                    f"Category.recode.{text}: it is a key, a missing code or recoded twice (cells "
                    "are compared as they are spelled without blanks)"
                )

    def _check_edges(self) -> None:
        given: Any = self.edges
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise InvalidParameter("Category.edges: expected a list of growing numbers")
        edges = tuple(number(edge, "Category.edges") for edge in given)
        object.__setattr__(self, "edges", edges)
        if not edges:
            return
        if any(a >= b for a, b in pairwise(edges)) or len(edges) > MOST_EDGES:
            raise InvalidParameter(
                f"Category.edges: expected growing numbers, at most {MOST_EDGES}"
            )
        if len(self.keys) != len(edges) + 1:
            raise InvalidParameter(
                f"Category.edges: {len(edges)} edges part numbers into {len(edges) + 1} keys, and "
                f"there are {len(self.keys)}"
            )
        if self.recode or self.other != ERROR:
            raise InvalidParameter(
                "Category.edges: every number has a key; leave recode and other out"
            )

    @property
    def numeric(self) -> bool:
        """Whether its cells are numbers, which edges turn into keys."""
        return bool(self.edges)

    @cached_property
    def missing_values(self) -> tuple[Fraction, ...]:
        """The missing codes that are numbers."""
        return tuple(v for v in map(_number_in, self.missing_codes) if v is not None)

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
            **({"recode": self.recode} if self.recode else {}),
            **({"edges": [str(edge) for edge in self.edges]} if self.edges else {}),
            **_of_row(self.of),
        }


@dataclass(frozen=True)
class Text:
    """A column whose keys are not known in advance; only thresholded counts may use it.

    ``missing``: ``error`` or ``drop``.  ``missing_codes``: texts that stand for a missing value.
    ``of``: as of numbers.
    """

    missing: str = ERROR
    missing_codes: tuple[str, ...] = ()
    of: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        _policy(self.missing, "Text.missing", (ERROR, DROP))
        codes = _codes_of(self.missing_codes, "Text.missing_codes")
        object.__setattr__(self, "missing_codes", codes)

    @property
    def numeric(self) -> bool:
        """Whether its cells are numbers: they are texts."""
        return False

    def row(self) -> dict[str, Any]:
        """Everything as JSON."""
        codes = _codes_row(self.missing_codes) | _of_row(self.of)
        return {"kind": "text", "missing": self.missing, **codes}


Column: TypeAlias = Number | Category | Text
KINDS: dict[str, type[Column]] = {
    "number": Number,
    "date": Date,
    "period": Period,
    "category": Category,
    "text": Text,
}


@dataclass(frozen=True)
class Join:
    """A table whose columns are joined to the rows, where its key is the row's; else they miss.

    ``data``: a path, frame or relation, as of a table.  ``on``: columns of the table, each with
    that of the joined one that it is equal to, compared as texts.  ``unit``: of a private table,
    its column of units, which are joined to their own rows alone; "" for a public table.
    ``encoding``: as of a schema.  ``dataset``: of a private table, what a ledger calls its data
    set, whose account is charged too; "" to charge none.
    Errors: InvalidParameter for a join on nothing, and for a data set of a public table.
    """

    data: Any = field(repr=False, compare=False)
    on: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    encoding: str = UTF8
    dataset: str = ""

    def __post_init__(self) -> None:
        given: Any = self.on
        columns: list[Any] = [*given, *given.values()] if isinstance(given, Mapping) else [None]
        for name in (*columns, *([self.unit] if self.unit else [])):
            if not isinstance(name, str) or not name.strip():
                raise InvalidParameter("Join: on, unit: expected the names of columns")
        if not self.on and not self.unit:
            raise InvalidParameter(
                "Join: expected on = {column = column of the joined table}, or the unit of a "
                "private table"
            )
        named: Any = self.dataset
        if not isinstance(named, str) or (named and not (named.strip() and self.unit)):
            raise InvalidParameter(
                "Join.dataset: expected the name that a ledger has for a private table, which has "
                "a unit"
            )
        object.__setattr__(self, "on", dict(self.on))
        object.__setattr__(self, "encoding", _encoding(self.encoding))

    def row(self) -> dict[str, Any]:
        """Everything but the data, as JSON."""
        more = {"unit": self.unit, "dataset": self.dataset}
        return {"on": dict(self.on), **{name: text for name, text in more.items() if text}}


@dataclass(frozen=True)
class Schema:
    """Public facts about a table.

    ``name``: the data set, as a ledger knows it.  ``unit``: the column that says whose row it is
    (a person, household, firm); None where every row is a unit of its own.  ``entity``: what a unit
    is, in words.  ``rows``: how many rows of one unit are used.  ``excess``: what further ones do:
    they are ``cut`` (left out), or an ``error``, which stops the release before it is charged.
    ``columns``: by name.  ``read_off_data``: what of this was chosen by looking at the data, and is
    therefore not private.  ``encoding``: of a file of text, by its name in Python.  ``files``:
    which files of a folder are read, as a pattern of their names; "" for all.  ``where``:
    conditions on columns, as of an item; the rows of a unit are bounded among those that meet all.
    ``joins``: tables by name; a column that is read ``of`` "NAME.COLUMN" is theirs.
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
    files: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    joins: Mapping[str, Join] = field(default_factory=dict)
    conditions: tuple[Within, ...] = field(default=(), init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", _encoding(self.encoding))
        _pattern(self.files)
        object.__setattr__(self, "columns", dict(self.columns))
        object.__setattr__(self, "read_off_data", tuple(self.read_off_data))
        _named(self.name, "Schema.name")
        if not self.columns:
            raise InvalidParameter("Schema.columns: expected at least one column")
        columns: Mapping[Any, Any] = self.columns
        names: tuple[Any, ...] = (*self.columns, *([] if self.unit is None else [self.unit]))
        sources = (getattr(column, "of", "") for column in columns.values())
        for name in (*names, *filter(None, sources)):
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
        if self.unit is not None and self.unit in (*self.columns, *self.sources[:-1]):
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
        self._check_joins()
        self._check_where()

    def _check_joins(self) -> None:
        given: Any = self.joins
        if not isinstance(given, Mapping) or not all(isinstance(j, Join) for j in given.values()):
            raise InvalidParameter("Schema.joins: expected joins by name")
        object.__setattr__(self, "joins", dict(given))
        for name, join in self.joins.items():
            _named(name, "Schema.joins")
            if join.unit and self.unit is None:
                raise InvalidParameter(
                    f"Schema.joins.{name}.unit: a private table is joined by its units, and this "
                    "one has no unit column"
                )

    def _check_where(self) -> None:
        given: Any = self.where
        if not isinstance(given, Mapping):
            raise InvalidParameter("Schema.where: expected a table of columns")
        object.__setattr__(self, "where", dict(given))
        object.__setattr__(self, "conditions", self.within(self.where, "Schema.where"))

    @property
    def charged(self) -> tuple[str, ...]:
        """The data sets of joined private tables whose accounts are charged too, each once."""
        named = (join.dataset for join in self.joins.values())
        return tuple(dict.fromkeys(name for name in named if name and name != self.name))

    @property
    def read(self) -> tuple[str, ...]:
        """The names of the columns that are read from a table, that of the unit last."""
        return (*self.columns, *([] if self.unit is None else [self.unit]))

    @property
    def sources(self) -> tuple[str, ...]:
        """The table's name for each of the columns that are read."""
        named = (column.of or name for name, column in self.columns.items())
        return (*named, *([] if self.unit is None else [self.unit]))

    def joined(self, source: str) -> tuple[str, str]:
        """The name of the join that a source is a column of, "" for the table, and the column's."""
        join, _, column = source.partition(".")
        return (join, column) if join in self.joins and column else ("", source)

    @cached_property
    def own(self) -> tuple[str, ...]:
        """The names read from the table itself: columns and keys of joins, the unit last."""
        columns = [column for join, column in map(self.joined, self.sources) if not join]
        keys = [name for join in self.joins.values() for name in join.on]
        unit = [] if self.unit is None else [self.unit]
        return (*(n for n in dict.fromkeys([*columns, *keys]) if n not in unit), *unit)

    @cached_property
    def prepared(self) -> Schema:
        """The schema of a table whose columns were joined and recoded; it filters rows as this."""
        columns = {
            name: replace(column, of="", recode={}, edges=())
            if isinstance(column, Category)
            else replace(column, of="")
            for name, column in self.columns.items()
        }
        return replace(self, columns=columns, joins={})

    def within(self, where: Mapping[str, Any], place: str) -> tuple[Within, ...]:
        """Conditions on columns, in codes.

        A key, or a list of keys, of a category; ``{from, to}`` of numbers and dates.
        Errors: InvalidParameter for keys that are not public, and ends that are not on the grid.
        """
        return tuple(
            self._condition(name, condition, f"{place}.{name}") for name, condition in where.items()
        )

    def _condition(self, name: str, asked: Any, place: str) -> Within:
        column = self.column(name, place)
        if isinstance(column, Text):
            raise InvalidParameter(f"{place}: the keys of {name!r} are not public")
        if isinstance(column, Category):
            keys = [asked] if isinstance(asked, str | int) else asked
            if not isinstance(keys, list | tuple):
                raise InvalidParameter(f"{place}: expected a key of {name!r}, or a list of keys")
            domain = column.domain
            unknown = [str(k) for k in keys if str(k) not in domain]
            if unknown:
                raise InvalidParameter(f"{place}: {', '.join(unknown)} is no key of {name!r}")
            return Within(name, tuple(sorted({domain.index(str(k)) for k in keys})))
        if not isinstance(asked, Mapping):
            raise InvalidParameter(f"{place}: expected {{from = ..., to = ...}}")
        refuse_unknown(asked, {"from", "to"}, place)
        ends = [
            on_grid(column, asked.get("from", column.lower), place),
            on_grid(column, asked.get("to", column.upper), place),
        ]
        if ends[0] > ends[1]:
            raise InvalidParameter(f"{place}: from is above to")
        return Within(name, tuple(ends))

    def column(self, name: str, place: str) -> Column:
        """A column by name.

        Errors: InvalidParameter for one that the schema does not hold.
        """
        given: Any = name
        if not isinstance(given, str):
            raise InvalidParameter(f"{place}: {str(given)[:40]}: expected the name of a column")
        if name not in self.columns:
            names = ", ".join(self.columns)
            raise InvalidParameter(f"{place}: the schema has no column {name!r}; it has {names}")
        return self.columns[name]

    def number(self, name: str, place: str) -> Number:
        """A column of numbers; errors: InvalidParameter where it is none."""
        column = self.ordered(name, place)
        if isinstance(column, Period):
            raise InvalidParameter(
                f"{place}: column {name!r} holds dates; count by them, or ask for their quantiles"
            )
        return column

    def ordered(self, name: str, place: str) -> Number:
        """A column of numbers or dates; errors: InvalidParameter where it is none."""
        column = self.column(name, place)
        if not isinstance(column, Number):
            raise InvalidParameter(f"{place}: column {name!r} holds no numbers")
        return column

    def category(self, name: str, place: str) -> Category:
        """A column of public keys; errors: InvalidParameter where it is none."""
        column = self.column(name, place)
        if not isinstance(column, Category):
            raise InvalidParameter(f"{place}: column {name!r} has no public keys")
        return column

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
            **({"files": self.files} if self.files else {}),
            **({"where": self._where_row()} if self.conditions else {}),
            **({"joins": {n: join.row() for n, join in self.joins.items()}} if self.joins else {}),
        }

    def _where_row(self) -> list[dict[str, Any]]:
        return [{"column": w.column, "codes": list(map(str, w.codes))} for w in self.conditions]

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical content."""
        return digest(self.row())


def schema_of(table: Mapping[str, Any], place: str = "table", *, folder: Path = Path()) -> Schema:
    """The schema that a TOML table states; see ``docs/releases.md`` for its keys.

    ``folder``: where the files of joins are looked up from.
    Errors: InvalidParameter naming the key.
    """
    keys = {"name", "unit", "entity", "rows", "columns", "read_off_data", "excess", "encoding"}
    refuse_unknown(table, keys | {"files", "where", "joins"}, place)
    columns = table.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise InvalidParameter(f"{place}.columns: expected a table of columns by name")
    columns_made = {
        name: _column_of(row, f"{place}.columns.{name}") for name, row in columns.items()
    }
    others = {key: value for key, value in table.items() if key != "columns"}
    if "joins" in others:
        others["joins"] = _joins_of(others["joins"], f"{place}.joins", folder)
    if "name" not in others:
        raise InvalidParameter(f"{place}.name: expected the name of the data set")
    if "unit" in others:
        # Left out, one row would count, of what is called a row: nobody would notice.
        for key, text in (("entity", "what a unit is, in words"), ("rows", "how many rows of one")):
            if key not in others:
                raise InvalidParameter(
                    f"{place}.{key}: rows of one {others['unit']!r} belong together; say {text}"
                    f"{' unit count (the others are left out)' * (key == 'rows')}"
                )
    return Schema(columns=columns_made, **others)


def _joins_of(joins: Any, place: str, folder: Path) -> dict[str, Join]:
    if not isinstance(joins, Mapping):
        raise InvalidParameter(f"{place}: expected a table of joins by name")
    joins_made = {}
    for name, row in joins.items():
        if not isinstance(row, Mapping) or not isinstance(row.get("data"), str):
            raise InvalidParameter(f"{place}.{name}: expected data = a file, and on or unit")
        refuse_unknown(row, {field.name for field in fields(Join)}, f"{place}.{name}")
        try:
            joins_made[name] = Join(**{**row, "data": folder / row["data"]})
        except InvalidParameter as error:
            raise InvalidParameter(f"{place}.{name}: {error}") from None
    return joins_made


def _column_of(row: Any, place: str) -> Column:
    if not isinstance(row, Mapping):
        raise InvalidParameter(f"{place}: expected a table with kind = ...")
    kind = KINDS.get(str(row.get("kind")))
    if kind is None:
        raise InvalidParameter(
            f"{place}.kind = {row.get('kind')!r}: expected one of {', '.join(KINDS)}"
        )
    given = {key: value for key, value in row.items() if key != "kind"}
    refuse_unknown(given, {field.name for field in fields(kind) if field.init}, place)
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


def on_grid(column: Number, value: Any, place: str) -> int:
    """A value as steps of its column's grid.

    Errors: InvalidParameter for one that is not on the grid, or outside its bounds.
    """
    steps = column.value(value, place) / column.step
    if steps.denominator != 1 or not column.low <= steps <= column.high:
        raise InvalidParameter(
            f"{place}: {value} is not on the column's grid from {shown_in(column, column.lower)} "
            f"to {shown_in(column, column.upper)} by "
            f"{column.every if isinstance(column, Period) else column.step}"
        )
    return int(steps)


def shown_in(column: Number, value: Fraction | int) -> str:
    """A value of a column, as it is published."""
    if isinstance(column, Period):
        return column.text(value)
    return text_of(Fraction(value))[0]


def text_of(value: Fraction) -> tuple[str, bool]:
    """A number as decimal digits, and whether they are all of it; else 15 significant ones."""
    from decimal import Context, Decimal

    denominator = value.denominator
    for factor in (2, 5):
        while denominator % factor == 0:
            denominator //= factor
    if denominator == 1:
        digits = len(str(value.numerator)) + len(str(value.denominator)) * 4
        exact = Context(prec=max(28, digits)).divide(
            Decimal(value.numerator), Decimal(value.denominator)
        )
        return f"{exact.normalize(Context(prec=max(28, digits))):f}", True
    short = Context(prec=15).divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{short:f}", False


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


def _pattern(files: Any) -> None:
    """Errors: InvalidParameter for what is no pattern of names."""
    if not isinstance(files, str) or "/" in files:
        raise InvalidParameter(
            f"Schema.files = {str(files)[:40]!r}: expected a pattern of file names, such as "
            "'2026-*.csv'"
        )


def _encoding(name: Any) -> str:
    """The canonical name of an encoding of text.  Errors: InvalidParameter."""
    try:
        codec = codecs.lookup(name)
        "".encode(codec.name)  # refuses codecs of bytes, such as base64
    except (LookupError, TypeError, ValueError):
        raise InvalidParameter(
            f"Schema.encoding = {str(name)[:40]!r}: no encoding of text; expected utf-8, cp1252, "
            "iso8859-15, utf-16, ..."
        ) from None
    return str(codec.name)


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


def _of_row(of: str) -> dict[str, Any]:
    return {"of": of} if of else {}


def _number_in(code: str) -> Fraction | None:
    """A missing code as a number; None where it is a text."""
    try:
        return number(code, "")
    except InvalidParameter:
        return None


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
