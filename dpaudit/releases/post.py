"""Post-processing: steps that use released numbers only, and no budget.

``consistent``: counts of several items become sums of one table of whole numbers, by least squares
with each count weighted by the variance of its noise.  ``non_negative``: numbers below 0 become 0.
``round``: numbers are rounded to a multiple of ``to``.  ``expand``: a sample's counts and sums are
also published as estimates of the population, with a margin of noise and sampling.
After ``consistent`` the next two steps change the table, so that totals stay the sums of their
cells.

Every step carries the 95% margin.  The margin after ``consistent`` is simulated from the noise.
The others take an interval [x - m, x + m] that holds the truth, cut at 0 where the truth is not
negative; the margin of the number that they publish reaches to the further end of it, and is never
below m. Rounding adds how far it can move a number, whatever the number is: less would tell what it
was.

Where each unit was sampled with probability 1/w, independently, the estimate w times the sum has
the variance (w - 1) sum y^2, at most (w - 1) c T, of a total T of numbers y from 0 to c.  With
weights w_i instead, w is their largest.  The T with |T - estimate| <= z sqrt((w - 1) c T) are the
interval; of a simple random sample of the same size it is the wider one.  In a stratified sample
each stratum h has its weight w_h.  Its estimates are those above; their sum has the sum of their
variances, and of their noise, which is independent from cell to cell until steps mix it: then the
margins of normal noise add up at most.
Source: Dwork, Roth 2014, Proposition 2.1 (post-processing); Horvitz, Thompson 1952; Wilson 1927.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from dpaudit.releases.families import Family, as_counts, family_of, weights_of
from dpaudit.releases.items.averages import Mean, Variance, short_up
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.item import Floats, Item, Margins, Row, Vector, texts
from dpaudit.releases.items.keys import Groups
from dpaudit.scope import Adjacency
from dpaudit.tabular import Category, Schema
from dpaudit.tabular.schema import number, refuse_unknown

CONSISTENT, NON_NEGATIVE, ROUND, EXPAND = "consistent", "non_negative", "round", "expand"
ORDER = (CONSISTENT, NON_NEGATIVE, ROUND, EXPAND)  # in which steps may follow one another
NORMAL_95 = 1.959964  # deviations of normal noise; that of consistent counts is a sum of many


@dataclass(frozen=True)
class Step:
    """One step of post-processing, on the items named.

    ``strata``: of ``expand``, the column of a stratified sample's strata; ``weights``: how many
    units one in the sample stands for, by its key, in the place of ``to``.
    """

    kind: str
    items: tuple[str, ...]
    to: Fraction = Fraction(1)
    strata: str = ""
    weights: Mapping[str, Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in ORDER:
            raise InvalidParameter(
                f"post.step = {self.kind!r}: expected {', '.join(ORDER[:-1])} or {EXPAND}"
            )
        object.__setattr__(self, "items", texts(self.items))
        object.__setattr__(self, "to", number(self.to, f"post {self.kind}: to"))
        if not self.items:
            raise InvalidParameter(f"post {self.kind}: items: expected names of items")
        if self.to <= 0:
            raise InvalidParameter(f"post {self.kind}: to = {self.to}: expected a positive number")
        weights = {
            name: number(weight, f"post {self.kind}: weights.{name}")
            for name, weight in self.weights.items()
        }
        object.__setattr__(self, "weights", weights)
        if bool(self.strata) != bool(weights) or (weights and self.kind != EXPAND):
            raise InvalidParameter(
                f"post {self.kind}: expected strata = a column and weights by its keys, both of "
                f"{EXPAND}, or none"
            )
        if weights and (min(weights.values()) < 1 or self.to != 1):
            raise InvalidParameter(
                f"post {self.kind}: weights: expected 1 or more each, and no `to` beside them"
            )

    def row(self) -> dict[str, Any]:
        """Everything as JSON."""
        weights = {name: str(weight) for name, weight in self.weights.items()}
        strata = {"strata": self.strata, "weights": weights} if self.strata else {}
        return {"step": self.kind, "items": list(self.items), "to": str(self.to), **strata}

    @property
    def text(self) -> str:
        """The step in words, for the certificate."""
        if self.kind == EXPAND:
            assumption = "a unit was sampled independently, and one in the sample stands for"
            each = ", ".join(f"{weight} ({name})" for name, weight in self.weights.items())
            whom = f"{each}, by stratum of {self.strata}" if each else str(self.to)
            return f"expanded to the population: {', '.join(self.items)}; {assumption} {whom}"
        to = f" to {self.to}" if self.kind == ROUND else ""
        step_text = f"{self.kind.replace('_', '-')}{to}: {', '.join(self.items)}"
        return f"post-processing, of released numbers only: {step_text}"

    def check(self, schema: Schema, items: Mapping[str, Item], before: Sequence[Step]) -> None:
        """Errors: InvalidParameter for items that it makes wrong, and steps that it undoes."""
        for name in self.items:
            if name not in items:
                raise InvalidParameter(f"post {self.kind}: no item is called {name!r}")
            if self.kind == EXPAND:
                _largest(schema, items[name], self)
            elif self.kind != CONSISTENT:
                _refuse(self, schema, items[name])
        self._check_order(schema, items, before)
        if self.kind == CONSISTENT:
            _family(schema, items, self)

    def _check_order(
        self, schema: Schema, items: Mapping[str, Item], before: Sequence[Step]
    ) -> None:
        for step in before:
            shared = [name for name in step.items if name in self.items]
            if shared and self.kind == CONSISTENT:
                raise InvalidParameter(
                    f"post consistent: {shared[0]!r} is in the step {step.kind!r} before it; put "
                    "consistent first, once for each item"
                )
            if shared and step.kind == EXPAND:
                raise InvalidParameter(f"post {self.kind}: put {EXPAND} last, once")
            if shared and step.kind == CONSISTENT and self.kind != EXPAND:
                self._check_family(schema, items, step, before)

    def _check_family(
        self, schema: Schema, items: Mapping[str, Item], made: Step, before: Sequence[Step]
    ) -> None:
        """Totals stay the sums of their cells only where a step changes all of them together."""
        others = [name for name in made.items if name not in self.items]
        if others:
            raise InvalidParameter(
                f"post {self.kind}: {', '.join(others)} would no longer fit the others; name all "
                f"items of the consistent step: {', '.join(made.items)}"
            )
        late = [step for step in before if step.kind == ROUND and set(step.items) & set(made.items)]
        if late:
            raise InvalidParameter(
                f"post {self.kind}: {made.items[0]!r} is rounded before; put {ROUND} last, once"
            )
        if self.kind != ROUND:
            return
        if self.to.denominator != 1:
            raise InvalidParameter(f"post round: to = {self.to}: counts need a whole number")
        if not _family(schema, items, made).chain:
            raise InvalidParameter(
                f"post round: {', '.join(made.items)} do not nest, so that rounded totals would "
                "not be the sums of rounded cells; round the cells alone, without consistent, or "
                "keep items of which each has all keys of the one before"
            )


def _refuse(step: Step, schema: Schema, item: Item) -> None:
    """Errors: InvalidParameter for an item whose numbers the step would make wrong."""
    place = f"post {step.kind}: {item.name!r}"
    if not isinstance(item, Count | Sum | Mean | Variance | Groups):
        raise InvalidParameter(
            f"{place} is a {item.query}, whose numbers belong together or have no margin; this "
            "step takes count, sum, mean, variance and groups"
        )
    if step.kind == NON_NEGATIVE and isinstance(item, Sum | Mean):
        column = schema.number(item.column, place)
        if column.low < 0:
            raise InvalidParameter(
                f"{place}: its true value can be below 0, because {item.column!r} goes down to "
                f"{column.lower}; leave the step out, or raise the column's lower bound"
            )


def _largest(schema: Schema, item: Item, step: Step) -> tuple[Fraction, Fraction]:
    """A unit's largest contribution to a number, without its weight; and the largest weight.

    Errors: InvalidParameter for an item of which neither is known, or which may be negative.
    """
    place = f"post expand: {item.name!r}"
    if not isinstance(item, Count | Sum):
        raise InvalidParameter(f"{place} is a {item.query}; this step takes count and sum")
    (part,) = item.parts(schema)
    assert isinstance(part, Vector)  # noqa: S101  (what counts and sums are)
    (added,) = part.contributions
    if added.low < 0:
        raise InvalidParameter(f"{place}: a unit may add a negative number; leave the step out")
    most = added.high * part.step
    if step.strata:
        _check_strata(schema, item, step, place)
    if not isinstance(item, Sum) or item.weights is None:
        return most, step.to
    if step.to != 1 or step.strata:
        raise InvalidParameter(f"{place} has weights of its own; leave to and strata out")
    weight = schema.number(item.weights, place).upper
    return most / weight, weight


def _check_strata(schema: Schema, item: Count | Sum, step: Step, place: str) -> None:
    """Errors: InvalidParameter for an item without the strata's keys, and for other keys."""
    column = schema.columns.get(step.strata)
    if step.strata not in item.by or not isinstance(column, Category):
        raise InvalidParameter(
            f"{place}: strata = {step.strata!r}: each stratum has its own weight; give the item "
            "this column of keys in `by`"
        )
    if set(step.weights) != set(column.domain):
        raise InvalidParameter(
            f"{place}: weights: expected one for each of {', '.join(map(str, column.domain))}"
        )


def _expanded(
    schema: Schema, items: Mapping[str, Item], step: Step, rows: Sequence[Row]
) -> list[Row]:
    """Estimates of the population's numbers; of strata, their sums too."""
    estimates, sums = list[Row](), dict[Any, list[tuple[Row, Fraction, float]]]()
    for row in rows:
        most, weight = _largest(schema, items[row.item], step)
        times = step.weights[dict(row.keys)[step.strata]] if step.strata else step.to
        weight = times if step.strata else weight
        assert row.value is not None and row.error is not None  # noqa: S101, PT018  (of counts)
        value, noise = row.value * times, row.error * times
        spread = NORMAL_95**2 * float((weight - 1) * most)
        upper = float(max(value, Fraction(0)) + noise)
        sampling = spread / 2 + (spread * upper + spread**2 / 4) ** 0.5 if spread else 0.0
        made = replace(row, statistic=f"{row.statistic} of the population", value=value)
        estimates.append(_with_sampling(made, float(noise), sampling))
        keys = tuple((name, key) for name, key in row.keys if name != step.strata)
        sums.setdefault((row.item, row.statistic, keys), []).append((made, noise, sampling))
    for (_, _, keys), parts in sums.items() if step.strata else ():
        first = parts[0][0]
        noises = [float(noise) for _, noise, _ in parts]
        mixed = any(row.processed for row, _, _ in parts)
        together = sum(noises) if mixed else float(np.hypot.reduce(noises))
        population_total = sum(
            (row.value for row, _, _ in parts if row.value is not None), Fraction(0)
        )
        made = replace(first, keys=keys, value=population_total)
        sampled = float(np.hypot.reduce([sampling for _, _, sampling in parts]))
        estimates.append(_with_sampling(made, together, sampled))
    return estimates


def _with_sampling(row: Row, noise: float, sampling: float) -> Row:
    """An estimate with the margin of both, and each in its note."""
    error = short_up(Fraction((noise**2 + sampling**2) ** 0.5))
    said = f"sampling alone: +- {sampling:.6g}; noise alone: +- {noise:.6g}"
    return replace(row, error=error, note=said, sampled=True)


def _family(schema: Schema, items: Mapping[str, Item], step: Step) -> Family:
    return family_of(schema, [items[name] for name in step.items])


def steps_of(table: Any) -> tuple[Step, ...]:
    """The steps that TOML states, [[post]] with step and items.  Errors: InvalidParameter."""
    if not isinstance(table, list) or not all(isinstance(row, Mapping) for row in table):
        raise InvalidParameter("plan.post: expected [[post]]")
    steps = []
    for place, row in enumerate(table):
        optional = {"items", "to", "strata", "weights"}
        refuse_unknown(row, {"step", *optional}, f"post[{place}]")
        if not isinstance(row.get("weights", {}), Mapping) or not isinstance(
            row.get("strata", ""), str
        ):
            raise InvalidParameter(f"post[{place}]: expected strata = a column, weights by its key")
        given = {"items": (), **{name: row[name] for name in optional & set(row)}}
        steps.append(Step(str(row.get("step")), **given))
    return tuple(steps)


def steps_by_default(schema: Schema, items: Sequence[Item]) -> tuple[Step, ...]:
    """Steps of a plan that states none: counts of one table become consistent."""
    columns_left = sorted(
        (item for item in items if isinstance(item, Count)), key=lambda item: -len(item.by)
    )
    steps = []
    while columns_left:
        last, *others = columns_left
        margins = [item for item in others if _is_margin(schema, item, last)]
        if margins:
            steps.append(Step(CONSISTENT, tuple(item.name for item in (*margins[::-1], last))))
        columns_left = [item for item in others if item not in margins]
    return tuple(steps)


def _is_margin(schema: Schema, item: Count, last: Count) -> bool:
    try:
        family_of(schema, (item, last))
    except InvalidParameter:
        return False
    return set(item.by) <= set(last.by) and item.by != last.by


def processed(
    schema: Schema,
    items: Mapping[str, Item],
    steps: Sequence[Step],
    rows: Sequence[Row],
    margins: Margins,
    halves: Mapping[str, int],
) -> list[Row]:
    """The rows after all steps; ``halves``: margins of :func:`halves_of`."""
    rows_so_far = list(rows)
    families = [(_family(schema, items, step), step) for step in steps if step.kind == CONSISTENT]
    for step in steps:
        if step.kind == EXPAND:
            own = [row for row in rows_so_far if row.item in step.items]
            rows_so_far += _expanded(schema, items, step, own)
            continue
        if step.kind == CONSISTENT:
            (family,) = (family for family, step_of_family in families if step_of_family is step)
            rows_so_far = _consistent(family, rows_so_far, margins, halves)
            continue
        together = [
            family
            for family, step_of_family in families
            if set(step_of_family.items) & set(step.items)
        ]
        for family in together:
            rows_so_far = _table_changed(family, step, rows_so_far, margins)
        inside = frozenset().union(*(family.names for family in together))
        alone = set(step.items) - inside
        rows_so_far = [_changed(step, row) if row.item in alone else row for row in rows_so_far]
    return rows_so_far


def _changed(step: Step, row: Row) -> Row:
    """One number after a step on it alone."""
    if row.value is None:
        return row
    if step.kind == NON_NEGATIVE:
        return _above_zero(row, max(row.value, Fraction(0)))
    return _rounded(row, round(row.value / step.to) * step.to, step.to, _moved(step, row.item))


def _moved(step: Step, name: str, family: Family | None = None) -> Fraction:
    """How far rounding moves a number of an item at most, alone or in a consistent table."""
    return step.to / 2 if family is None or name == family.chain[0].name else step.to


def added(
    schema: Schema, items: Mapping[str, Item], steps: Sequence[Step], name: str
) -> tuple[Fraction, bool]:
    """How much the steps add to the margin of an item, and whether it is that of consistent counts.

    Errors: InvalidParameter for a step that makes a margin of the numbers that are drawn.
    """
    total, family = Fraction(0), None
    for step in steps:
        if name not in step.items:
            continue
        if step.kind == CONSISTENT:
            family = _family(schema, items, step)
        elif step.kind == ROUND:
            total += _moved(step, name, family)
        elif step.kind == EXPAND or family is not None:
            # Alone, non_negative keeps the margin: it moves a number to 0, nearer to the truth.
            which = " of consistent counts" if step.kind == NON_NEGATIVE else ""
            raise InvalidParameter(
                f"item {name!r}: error_95: its margin after the step {step.kind!r}{which} follows "
                "from the numbers that are drawn, so that no plan knows it; leave out the step, or "
                "the target"
            )
    return total, family is not None


def _above_zero(row: Row, value: Fraction) -> Row:
    """A row whose true value is not negative, moved to ``value`` on that ground."""
    assert row.value is not None  # noqa: S101  (its callers)
    error = row.error
    if error is not None:
        low, high = max(row.value - error, Fraction(0)), row.value + error
        error = max(error, value - low, high - value)
    moved = replace(row, value=value, error=error)
    return moved if value == row.value else _noted(moved, "negative numbers set to 0")


def _rounded(row: Row, value: Fraction, to: Fraction, most: Fraction) -> Row:
    """A row rounded to a multiple of ``to``, which moved it by at most ``most``."""
    error = None if row.error is None else row.error + most
    return _noted(replace(row, value=value, error=error), f"rounded to a multiple of {to}")


def _noted(row: Row, said: str) -> Row:
    note = "; ".join(filter(None, (row.note, said)))
    return replace(row, note=note, processed=True)


def _of_items(
    family: Family, rows: Sequence[Row], change: Callable[[Count, list[Row]], list[Row]]
) -> list[Row]:
    """The rows, of which each item of the family changes its own, all at a time."""
    changed = {
        item.name: iter(change(item, [row for row in rows if row.item == item.name]))
        for item in family.items
    }
    return [next(changed[row.item]) if row.item in changed else row for row in rows]


def halves_of(
    schema: Schema, items: Mapping[str, Item], steps: Sequence[Step], margins: Margins, seed: int
) -> dict[str, int]:
    """The 95% margins of counts after ``consistent``, by item, simulated before any data are read.

    ``seed``: of the draws, public, because noise that is simulated is not the release's.
    """
    halves: dict[str, int] = {}
    for step in steps:
        if step.kind == CONSISTENT:
            halves |= _family(schema, items, step).halves(margins, seed)
    return halves


def weights_for(
    schema: Schema, adjacency: Adjacency, items: Mapping[str, Item], steps: Sequence[Step]
) -> dict[str, Fraction]:
    """The weights of counts that are made consistent, by item; those with targets keep theirs."""
    weights: dict[str, Fraction] = {}
    for step in steps:
        if step.kind == CONSISTENT and all(items[name].error_95 is None for name in step.items):
            weights |= _family(schema, items, step).weights(schema, adjacency)
    return weights


@dataclass(frozen=True)
class Consistent(Margins):
    """Public facts about the noise, where counts are made consistent; ``halves``: of these."""

    noise: Margins
    halves: Mapping[str, int]

    def half(self, label: str, share: Fraction = Fraction(1, 20)) -> int:
        return self.noise.half(label, share)

    def deviation(self, label: str) -> float:
        if label in self.halves:
            return self.halves[label] / NORMAL_95
        return self.noise.deviation(label)

    def deviations(self, label: str) -> float:
        return NORMAL_95 if label in self.halves else self.noise.deviations(label)

    def draws(self, label: str, count: int, rng: np.random.Generator) -> Floats:
        return self.noise.draws(label, count, rng)

    def epsilon(self, label: str) -> float:
        return self.noise.epsilon(label)


def counted(
    schema: Schema,
    items: Mapping[str, Item],
    steps: Sequence[Step],
    released: Mapping[str, Any],
    margins: Margins,
) -> dict[str, Any]:
    """The released values, with counts after they are made consistent."""
    values = dict(released)
    for step in steps:
        if step.kind == CONSISTENT:
            family = _family(schema, items, step)
            released_counts = {
                name: np.array(released[name], dtype=np.float64) for name in family.names
            }
            table = family.least_squares(released_counts, weights_of(family, margins))
            for item in family.items:
                values[item.name] = [int(n) for n in family.counts(item, table).ravel()]
    return values


def _consistent(
    family: Family, rows: list[Row], margins: Margins, halves: Mapping[str, int]
) -> list[Row]:
    """Least squares in whole numbers: every count is a sum of cells."""
    table = family.least_squares(_seen(family, rows), weights_of(family, margins))

    def change(item: Count, own: list[Row]) -> list[Row]:
        return [
            _noted(
                replace(row, value=value, error=Fraction(halves[item.name])),
                "consistent with its margins, by least squares",
            )
            for row, value in zip(own, as_counts(family.counts(item, table)), strict=True)
        ]

    return _of_items(family, rows, change)


def _table_changed(family: Family, step: Step, rows: list[Row], margins: Margins) -> list[Row]:
    """A step on a consistent table: its cells change, and every count is their sum again."""
    # Consistent counts are those of the table that gives their least squares.
    table = family.solved(_seen(family, rows), weights_of(family, margins))
    table = np.rint(table) if family.last in family.items else table
    if step.kind == NON_NEGATIVE:
        if all((counts >= 0).all() for counts in _seen(family, rows).values()):
            return rows
        table = family.non_negative(table, weights_of(family, margins))
        table = family.rounded(table, 1, family.whole_levels)
    else:
        table = family.rounded(table, int(step.to), [item.by for item in family.chain])

    def change(item: Count, own: list[Row]) -> list[Row]:
        values = as_counts(family.counts(item, table))
        if step.kind == NON_NEGATIVE:
            return [_above_zero(row, value) for row, value in zip(own, values, strict=True)]
        most = _moved(step, item.name, family)
        return [_rounded(row, v, step.to, most) for row, v in zip(own, values, strict=True)]

    return _of_items(family, rows, change)


def _seen(family: Family, rows: Sequence[Row]) -> dict[str, Array]:
    """The counts of each item of the family, as floats."""
    return {
        name: np.array([float(row.value or 0) for row in rows if row.item == name])
        for name in family.names
    }
