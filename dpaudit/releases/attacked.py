"""The audit of a plan: neighbouring tables made up for it, the worst of some, and its certificate.

Nothing here reads private data.  A record is a unit with all its rows; the unit that differs has
more rows than may count, so that the engine's bounding is attacked too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import BATCH_TRIALS, Suite
from dpaudit.certificate.order import Order
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.kernels.query import Array, Records
from dpaudit.releases.items.item import Choice, Declared
from dpaudit.releases.plan import Plan, Release, numbers_of
from dpaudit.releases.program import GeneratedTables, PartQuery, ReleaseProgram, rows_a_record
from dpaudit.scope import Adjacency
from dpaudit.tabular import Category, Number, Schema

BYSTANDERS = 3  # units besides the one that differs
# The engine bounds the rows that it is given; a query that made them may have mixed units.
DEPENDS = (
    "the query or program that made the table, if a row of it depends on more than one {entity} "
    "and public tables (a total over others, a join that repeats rows under another {entity}); "
    "whoever made the table answers for that"
)
AT_ONCE = 2**24  # numbers of trials that are attacked together, 8 bytes each, some times over


def mechanism_of(plan: Plan) -> Mechanism:
    """The plan as a mechanism whose claim is its budget; it holds no data."""
    release, schema = plan.release, plan.release.schema
    rows = "one row" if schema.rows == 1 else f"at most {schema.rows} rows"
    return Mechanism(
        name=release.name,
        title=release.title,
        source=f"plan {release.digest}",
        program=ReleaseProgram(plan, GeneratedTables(release)),
        scope=release.scope,
        claims=(plan.claim,),
        setting=Setting(
            controller=release.controller,
            unit_entity=schema.entity,
            unit_bound=f"{rows} of {schema.name!r} count, the others are left out",
            covered=tuple(f"{item.name}: {item.query}" for item in release.items),
            uncovered=(
                *(f"{name}: read off the data" for name in schema.read_off_data),
                DEPENDS.format(entity=schema.entity),
            ),
            notes=(
                *_prepared(schema),
                *filter(None, [release.accounts]),
                *plan.rules,
                *([] if release.synthetic is None else [release.synthetic.text]),
            ),
            data=schema.name,
        ),
        records_like=partial(records_like, plan),
    )


def _prepared(schema: Schema) -> Iterator[str]:
    """The engine's steps before it bounds rows, in words."""
    for name, join in schema.joins.items():
        kind = f"rows of the same {schema.entity}" if join.unit else "a public table"
        keys = f" by {', '.join(join.on)}" if join.on else ""
        yield f"joined to {name!r}, {kind}{keys}, before rows of one {schema.entity} are bounded"
    if schema.where:
        yield f"rows are those that meet conditions on {', '.join(schema.where)}"


def records_like(plan: Plan, rng: np.random.Generator) -> Records:
    """Units as the schema allows them, a few, at random."""
    kinds = rng.integers(0, len(KINDS), 2 * BYSTANDERS)
    units = np.stack([_unit(plan, KINDS[kind]) for kind in kinds])
    units[:, :, 0] = rng.random(units.shape[:2]) < 0.7
    return Records(units)


def order_of(plan: Plan) -> Order:
    """The order to certify a plan."""
    digests = {"plan": plan.release.digest}
    mechanism, suite = mechanism_of(plan), suite_of(plan)
    # The program that is attacked is the mechanism's own.
    return Order(
        mechanism,
        replace(suite, program=mechanism.program),
        "project",
        digests,
        _fields(plan.release),
        suite_file="plan",
    )


def _fields(release: Release) -> dict[str, list[str]]:
    """The statements on a release; of a correction, first that it is one."""
    fields = {name: list(lines) for name, lines in release.fields.items()}
    if release.corrects:
        correction = f"Corrects {release.corrects!r}: use this release in its place."
        fields["changes"] = [correction, *fields.get("changes", ())]
    return fields


def suite_of(plan: Plan, trials: int = 20_000) -> Suite:
    """The audit of a plan on the generated neighbours that move it most."""
    return Suite(
        mechanism=plan.release.name,
        program=ReleaseProgram(plan, GeneratedTables(plan.release)),
        neighbours=neighbours_of(plan),
        trials=trials,
        together=int(np.clip(AT_ONCE // numbers_of(plan.parts.values()), 1, BATCH_TRIALS)),
    )


@dataclass(frozen=True)
class _Kind:
    """How the rows of a made-up unit look: which end of its bounds, and whether keys differ."""

    high: bool
    spread: bool
    other: int = 0


KINDS = tuple(
    _Kind(high, spread, other)
    for high in (True, False)
    for spread in (False, True)
    for other in (0, 1)
)


def neighbours_of(plan: Plan) -> Neighbours:
    """The pair of tables, apart by one made-up unit, that moves the parts most."""
    release = plan.release
    others = np.stack([_unit(plan, kind) for kind in KINDS[:BYSTANDERS]])
    others[:, 1:, 0] = 0.0  # a row each: they move nothing
    pairs = [
        _pair(others, _unit(plan, kind), _unit(plan, against), release.adjacency)
        for kind in KINDS
        for against in (KINDS if release.adjacency is Adjacency.REPLACE_ONE else KINDS[:1])
    ]
    program = ReleaseProgram(plan, GeneratedTables(release))
    first, second = max(pairs, key=lambda pair: _moved(program, *pair))
    return Neighbours(first, second, release.adjacency, f"one {release.schema.entity} differs")


def _pair(
    others: Array, row: Array, against: Array, adjacency: Adjacency
) -> tuple[Records, Records]:
    records = Records(np.concatenate([others, row[None]]))
    if adjacency is Adjacency.ADD_REMOVE:
        return records, Records(others)
    if adjacency is Adjacency.ZERO_OUT:
        present = np.ones(len(records), dtype=bool)
        present[-1] = False
        return records, Records(records.values, present)
    return records, Records(np.concatenate([others, against[None]]))


def _moved(program: ReleaseProgram, first: Records, second: Records) -> float:
    """The squared distances of all parts, each over its noise."""
    total = 0.0
    for label, part in program.plan.parts.items():
        if isinstance(part, Declared):
            continue  # its queries depend on what was released before
        query = PartQuery(part, program.reader, "l2")
        gap = query.value(first) - query.value(second)
        leaf: Any = program.plan.leaves[label]
        if isinstance(part, Choice):
            spread = 2 * part.by(program.plan.release.adjacency) / float(leaf.epsilon)
            total += float(np.square(np.abs(gap).max() / spread))
        else:
            variance = float(leaf.variance) if hasattr(leaf, "variance") else float(leaf.scale) ** 2
            total += float(np.square(gap).sum() / variance)
    return total


def _unit(plan: Plan, kind: _Kind) -> Array:
    """The rows of one unit, (rows, 1 + columns)."""
    schema = plan.release.schema
    rows = np.zeros((rows_a_record(schema), 1 + len(schema.columns)))
    rows[:, 0] = 1.0
    wanted = dict(_wanted(plan, schema))
    for place, (name, column) in enumerate(schema.columns.items(), start=1):
        number = np.arange(len(rows)) if kind.spread else np.zeros(len(rows), dtype=int)
        if isinstance(column, Number):
            end = column.upper if kind.high else column.lower
            rows[:, place] = float(end)
            if name in wanted:
                rows[:, place] = float(wanted[name][-1 if kind.high else 0] * column.step)
        else:
            size = len(column.keys) if isinstance(column, Category) else 4
            codes = wanted.get(name)
            rows[:, place] = (
                [codes[i % len(codes)] for i in number] if codes else (number + kind.other) % size
            )
    return rows


def _wanted(plan: Plan, schema: Schema) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Codes that conditions ask of a row; the last on each column, which is the schema's."""
    items = (item.conditions(schema) for item in plan.release.items)
    for condition in (*chain.from_iterable(items), *schema.conditions):
        yield condition.column, condition.codes
