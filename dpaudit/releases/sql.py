"""A small SQL for counts, sums, means and quantiles: what it says as items of a release.

``SELECT region, count(*), avg(cost) FROM people WHERE age >= 18 GROUP BY region``: aggregates of
one table, conditions that AND joins, public keys.  sqlglot reads it; what else SQL has is refused,
with its place in the text, before data are touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from dpaudit.errors import InvalidParameter, optional
from dpaudit.tabular import Category, Number, Schema, Text
from dpaudit.tabular.schema import ERROR, number, shown_in

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST = 60  # characters of a refused part that are quoted
SAID = {"query", "column", "by", "where", "per_group", "at"}  # settings that the text decides
KNOWN = "count(*), count(DISTINCT unit), sum, avg, var_pop, median, quantile(column, share)"
Settings: TypeAlias = dict[str, Any]


def stated(row: Mapping[str, Any], schema: Schema, place: str) -> list[Mapping[str, Any]]:
    """The items that a table of a plan states: with ``sql`` one an aggregate, else itself.

    Its other settings are those of each aggregate.  The name of one is its alias or its text,
    after the table's own ``name`` where there are several.
    Errors: InvalidParameter for SQL beyond the dialect, and for a setting that the text decides.
    """
    if "sql" not in row:
        return [row]
    if both := SAID & set(row):
        raise InvalidParameter(f"{place}.{min(both)}: the SQL says it; leave one of them out")
    others = {key: value for key, value in row.items() if key not in ("sql", "name")}
    aggregates = aggregates_of(row["sql"], schema, place)
    name = row.get("name")
    if name is not None:
        several = len(aggregates) > 1
        aggregates = [
            {**i, "name": f"{name}: {i['name']}" if several else name} for i in aggregates
        ]
    return [{**others, **item} for item in aggregates]


def aggregates_of(text: Any, schema: Schema, place: str) -> list[Settings]:
    """The aggregates that a SELECT asks for, each as the settings of an item.

    Errors: InvalidParameter, with line and column, for what the dialect does not hold; for columns
    and keys that the schema does not hold.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidParameter(f"{place}: expected a SELECT, as text")
    with optional("sql", f"{place}: SQL"):
        from sqlglot import exp, parse
        from sqlglot.errors import SqlglotError
    try:
        statements = parse(text)
        select = statements[0]
        if len(statements) != 1 or not isinstance(select, exp.Select):
            raise InvalidParameter(f"{place}: expected one SELECT, and nothing beside it")
        return list(_Reader(text, schema, place).items(select))
    except SqlglotError as error:
        errors: list[Any] = getattr(error, "errors", [])
        where = f" near line {errors[0]['line']}, column {errors[0]['col']}" if errors else ""
        raise InvalidParameter(f"{place}: no SQL{where}; expected one SELECT") from None
    except RecursionError:  # of sqlglot, which reads a part within a part
        raise InvalidParameter(
            f"{place}: the SQL has too many parts within parts; make several shorter SELECTs"
        ) from None


@dataclass(frozen=True)
class _Reader:
    """Reads one SELECT."""

    text: str
    schema: Schema
    place: str

    def refused(self, node: exp.Expr, said: str) -> InvalidParameter:
        """The error that a part of the text is beyond the dialect: where it begins, a way out."""
        starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        where = ""
        if starts:
            before = self.text[: min(starts)]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            where = f" at line {line}, column {column}"
        part = node.sql()
        part = part if len(part) <= LONGEST else f"{part[: LONGEST - 3]}..."
        return InvalidParameter(f"{self.place}: {part!r}{where}: {said}")

    def items(self, select: exp.Select) -> Iterator[Settings]:
        """The aggregates, with the conditions and keys of all."""
        from sqlglot import exp

        accepted = {"expressions", "from", "from_", "where", "group"}
        self.only(select, accepted, "expected SELECT ... FROM ... WHERE ... GROUP BY ... alone")
        self.table(select)
        where = select.args.get("where")
        shared: Settings = {"where": self.conditions(where.this)} if where else {}
        by = self.keys(select.args.get("group"))
        aggregates = 0
        for written in select.expressions:
            node = written.unalias()
            if isinstance(node, exp.Column):
                if self.column(node) not in by:
                    raise self.refused(written, "a column that is no key; name it in GROUP BY")
                continue
            aggregates += 1
            item = self.aggregate(node)
            name = written.alias or node.sql()
            yield self.grouped(written, item, by) | shared | {"name": name.replace("/", " per ")}
        if not aggregates:
            raise self.refused(select, f"no aggregate; expected some of {KNOWN}")

    def only(self, node: exp.Expr, accepted: set[str], said: str) -> None:
        """Refuse a node with another part than the known ones."""
        from sqlglot import exp

        for key, value in node.args.items():
            parts = value if isinstance(value, list) else [value]
            for part in parts:
                if key not in accepted and part:
                    raise self.refused(part if isinstance(part, exp.Expr) else node, said)

    def table(self, select: exp.Select) -> None:
        """Refuse another table than the schema's."""
        from sqlglot import exp

        source = select.args.get("from_") or select.args.get("from")
        quoted = f'expected FROM "{self.schema.name}"'
        if source is None or not isinstance(source.this, exp.Table):
            raise self.refused(select if source is None else source, quoted)
        self.only(source.this, {"this"}, f"{quoted}, without an alias")
        if source.this.name.lower() != self.schema.name.lower():
            raise self.refused(source, quoted)

    def column(self, node: exp.Expr) -> str:
        """The schema's name of a column; SQL does not tell cases apart where nothing is quoted."""
        from sqlglot import exp

        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise self.refused(node, "expected the name of a column; recode it in the schema")
        table, name = node.args.get("table"), node.name
        if table is not None and table.name.lower() != self.schema.name.lower():
            raise self.refused(node, f'expected a column of "{self.schema.name}"')
        alike = [n for n in self.schema.columns if n.lower() == name.lower()]
        if name in self.schema.columns:
            return name
        if len(alike) == 1 and not node.this.args.get("quoted"):
            return alike[0]
        raise self.refused(node, f"no such column; the schema has {', '.join(self.schema.columns)}")

    # --- aggregates and keys ----------------------------------------------------------------------

    def keys(self, group: exp.Expr | None) -> list[str]:
        """The columns of GROUP BY."""
        if group is None:
            return []
        self.only(group, {"expressions"}, "expected columns after GROUP BY")
        return [self.column(node) for node in group.expressions]

    def aggregate(self, node: exp.Expr) -> Settings:
        """The query that one function of the SELECT asks for."""
        from sqlglot import exp

        kinds: dict[type[exp.Expr], str] = {
            exp.Sum: "sum",
            exp.Avg: "mean",
            exp.VariancePop: "variance",
        }
        if isinstance(node, exp.Count):
            return self.count(node)
        if type(node) in kinds:
            self.only(node, {"this"}, f"expected one of {KNOWN}")
            return {"query": kinds[type(node)], "column": self.column(node.this)}
        if isinstance(node, exp.Median):
            return self.quantile(node.this, Fraction(1, 2))
        if isinstance(node, exp.Quantile | exp.ApproxQuantile):
            self.only(node, {"this", "quantile"}, f"expected one of {KNOWN}")
            return self.quantile(node.this, self.number(node.args["quantile"]))
        if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.PercentileCont):
            order = node.expression.expressions
            if len(order) == 1 and not order[0].args.get("desc"):
                return self.quantile(order[0].this, self.number(node.this.this))
        raise self.refused(node, f"expected one of {KNOWN}")

    def count(self, node: exp.Count) -> Settings:
        """Rows, or units."""
        from sqlglot import exp

        self.only(node, {"this", "big_int"}, f"expected one of {KNOWN}")
        argument = node.this
        if argument is None:
            raise self.refused(node, f"expected one of {KNOWN}")
        if isinstance(argument, exp.Distinct):
            unit, named = self.schema.unit, argument.expressions
            if unit is None or len(named) != 1 or not self.is_unit(named[0], unit):
                raise self.refused(
                    node, f"only units are counted once: {unit or 'the schema has none'}"
                )
            return {"query": "count", "per_group": 1}
        if isinstance(argument, exp.Star):
            self.only(argument, set(), "expected count(*)")
        else:
            name = self.column(argument)
            if self.schema.columns[name].missing != ERROR:
                raise self.refused(
                    node, "rows without a value would count in no group; write count(*)"
                )
        return {"query": "count"}

    def is_unit(self, node: exp.Expr, unit: str) -> bool:
        """Whether a node is the column of units, which is none of the schema's."""
        from sqlglot import exp

        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return False
        table, exactly = node.args.get("table"), node.this.args.get("quoted")
        if table is not None and table.name.lower() != self.schema.name.lower():
            return False
        return node.name == unit or (not exactly and node.name.lower() == unit.lower())

    def quantile(self, node: exp.Expr, share: Fraction) -> Settings:
        return {"query": "quantiles", "column": self.column(node), "at": (share,)}

    def grouped(self, node: exp.Expr, item: Settings, by: list[str]) -> Settings:
        """An item by keys; counts by one column of unknown keys are thresholded."""
        if not by:
            return item
        if item["query"] == "quantiles":
            raise self.refused(node, "quantiles have no groups; ask for one key in WHERE")
        for name in by:
            column = self.schema.columns[name]
            if isinstance(column, Text):
                if len(by) > 1 or item["query"] != "count":
                    raise self.refused(
                        node, f"the keys of {name!r} are not public; count by it alone"
                    )
                return {**item, "query": "groups", "column": name}
            if type(column) is Number:
                raise self.refused(
                    node,
                    f"{name!r} holds numbers; give the schema a category of it, with edges",
                )
        return {**item, "by": by}

    # --- conditions -------------------------------------------------------------------------------

    def conditions(self, node: exp.Expr) -> dict[str, Any]:
        """The conditions of a WHERE, as an item has them: by column."""
        conditions: dict[str, Any] = {}
        for name, allowed, condition in self.each(node):
            column = self.schema.columns[name]
            before = conditions.get(name)
            if isinstance(column, Category):
                keys = [key for key in column.domain if key in allowed]
                conditions[name] = (
                    keys if before is None else [key for key in before if key in keys]
                )
                if not conditions[name]:
                    raise self.refused(condition, "no key meets all conditions")
            else:
                low, high = allowed
                if before is not None:
                    low, high = max(low, before["from"]), min(high, before["to"])
                if low > high:
                    raise self.refused(condition, f"no value of {name!r} meets all conditions")
                conditions[name] = {"from": low, "to": high}
        return conditions

    def each(self, node: exp.Expr) -> Iterator[tuple[str, Any, exp.Expr]]:
        """Each condition: its column, and the keys or the ends (in units) that it allows."""
        from sqlglot import exp

        node = node.unnest()
        if isinstance(node, exp.And):
            yield from self.each(node.left)
            yield from self.each(node.right)
            return
        negated = isinstance(node, exp.Not)
        inner = node.this.unnest() if negated else node
        accepted = {"this", "expression", "expressions", "low", "high"}
        self.only(inner, accepted, "expected a column, compared with values")
        if isinstance(inner, exp.In):
            texts = [self.literal(value) for value in inner.expressions]
            yield self.among(inner, inner.this, texts, negated=negated)
        elif isinstance(inner, exp.EQ | exp.NEQ) and not negated:
            column, value = self.sides(inner)
            text, is_equal = [self.literal(value)], isinstance(inner, exp.EQ)
            if is_equal and isinstance(self.schema.columns[self.column(column)], Number):
                yield self.between(inner, column, value, value)
            else:
                yield self.among(inner, column, text, negated=not is_equal)
        elif isinstance(inner, exp.Between) and not negated:
            yield self.between(inner, inner.this, inner.args["low"], inner.args["high"])
        elif isinstance(inner, exp.GT | exp.GTE | exp.LT | exp.LTE) and not negated:
            yield self.compared(inner)
        else:
            raise self.refused(node, "expected =, <>, IN, BETWEEN, <, <=, >, >=, joined by AND")

    def sides(self, node: Any) -> tuple[exp.Expr, exp.Expr]:
        """The column of a comparison, and what it is compared with."""
        from sqlglot import exp

        first, second = node.this.unnest(), node.expression.unnest()
        return (first, second) if isinstance(first, exp.Column) else (second, first)

    def among(
        self, node: exp.Expr, column: exp.Expr, texts: list[str], *, negated: bool
    ) -> tuple[str, Any, exp.Expr]:
        name = self.column(column)
        column_kept = self.schema.columns[name]
        if not isinstance(column_kept, Category):
            raise self.refused(
                node, f"{name!r} has no public keys; compare it with <, <=, >, >=, BETWEEN"
            )
        if unknown := [text for text in texts if text not in column_kept.domain]:
            raise self.refused(node, f"{unknown[0]!r} is no key of {name!r}")
        # A missing value is unequal to nothing, as everywhere in SQL.
        domain = column_kept.keys if negated else column_kept.domain
        return name, [key for key in domain if (key in texts) is not negated], node

    def compared(self, node: Any) -> tuple[str, Any, exp.Expr]:
        """A comparison with one end, on the column's grid."""
        from sqlglot import exp

        column, value = self.sides(node)
        name, column_kept = self.ordered(node, column)
        flipped = column is not node.this.unnest()
        upward = isinstance(node, exp.GT | exp.GTE) is not flipped
        steps = self.value(column_kept, value) / column_kept.step
        strict = isinstance(node, exp.GT | exp.LT)
        if upward:
            first = math.floor(steps) + 1 if strict else math.ceil(steps)
            ends = max(first, column_kept.low), column_kept.high
        else:
            last = math.ceil(steps) - 1 if strict else math.floor(steps)
            ends = column_kept.low, min(last, column_kept.high)
        return self.ends(node, name, column_kept, *ends)

    def between(
        self, node: exp.Expr, column: exp.Expr, low: Any, high: Any
    ) -> tuple[str, Any, exp.Expr]:
        name, column_kept = self.ordered(node, column)
        first = math.ceil(self.value(column_kept, low) / column_kept.step)
        last = math.floor(self.value(column_kept, high) / column_kept.step)
        return self.ends(
            node, name, column_kept, max(first, column_kept.low), min(last, column_kept.high)
        )

    def ends(
        self, node: exp.Expr, name: str, column: Number, low: int, high: int
    ) -> tuple[str, Any, exp.Expr]:
        if low > high:
            ends = " to ".join(shown_in(column, end) for end in (column.lower, column.upper))
            raise self.refused(
                node, f"no value of {name!r} from {ends}, on its grid, is among them"
            )
        return name, (low * column.step, high * column.step), node

    def ordered(self, node: exp.Expr, column: exp.Expr) -> tuple[str, Number]:
        name = self.column(column)
        column_kept = self.schema.columns[name]
        if not isinstance(column_kept, Number):
            raise self.refused(node, f"{name!r} holds keys, which have no order; use = or IN")
        return name, column_kept

    def value(self, column: Number, node: exp.Expr) -> Fraction:
        return column.value(self.literal(node), f"{self.place}: WHERE")

    def number(self, node: exp.Expr) -> Fraction:
        return number(self.literal(node), f"{self.place}: a share")

    def literal(self, node: exp.Expr) -> str:
        """A number, text, date, true or false of the query, as text."""
        from sqlglot import exp

        reads: dict[type[exp.Expr], Callable[[Any], str]] = {
            exp.Literal: lambda n: str(n.this),
            exp.Boolean: lambda n: "true" if n.this else "false",
            exp.Neg: lambda n: f"-{self.literal(n.this)}",
        }
        if type(node) in reads:
            return reads[type(node)](node)
        if isinstance(node, exp.Cast) and node.is_type("date"):
            return self.literal(node.this)
        raise self.refused(node, "expected a number, a text in single quotes, or a date")
