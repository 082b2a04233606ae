"""Made-up records: worlds that all other rows are in, and rows to put one record's place with.

Every world has a few kinds of rows, so that a query over many records stays quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.audit.examine.shapes import Shape
from dpaudit.kernels.query import Array, Records

KINDS = 6  # distinct random rows of a made-up data set
HUGE = 1e6  # multiple of a random row, beyond every clip
NAMED = "all of the number "  # how the names of rows of a number that code names begin
MEETS = " that meets "  # in the names of rows made for a condition
OTHERS = 4  # more random rows, ten and a hundred times as long
LARGE, BEYOND = 100.0, 10.0  # a constant from LARGE on is tried BEYOND times as large, too


@dataclass(frozen=True, eq=False)
class World:
    """All rows of a data set before one of them is changed."""

    name: str
    values: Array

    def records(self) -> Records:
        """The world as it is."""
        return Records(self.values)

    def with_row(self, row: int, values: Array) -> Records:
        """The world with one row changed."""
        changed = self.values.copy()
        changed[row] = values
        return Records(changed)


def rows_of(
    shape: Shape,
    rng: np.random.Generator,
    constants: Sequence[float] = (),
    like: Array | None = None,
) -> Mapping[str, Array]:
    """Rows to change one into: extreme, opposite, labelled, empty, and no numbers at all.

    The first few are tried wherever time is short.  ``constants``: numbers that the program's code
    names, each a row of its own: what is special to it may be what it treats specially.  ``like``:
    records as the mechanism's hook makes them.  Where entries are keys, one row can hold several
    that no other does: whole numbers, what code names, or entries of other rows, each another.
    """
    size = int(np.prod(shape.row))
    base = rng.standard_normal(shape.row)
    labelled = base.copy()
    labelled[..., -1] = 1.0
    turned = labelled.copy()
    turned[..., -1] = -1.0
    signs = np.where(np.arange(size) % 2, -1.0, 1.0).reshape(shape.row)
    unit = base / np.linalg.norm(base.reshape(-1))
    first, last = np.zeros(size), np.zeros(size)
    first[0], last[-1] = 1.0, 1.0
    broken = base.copy()
    broken.reshape(-1)[0] = np.nan
    far = 1e3 * labelled
    far[..., -1] = 1.0
    opposite = far.copy()
    opposite[..., -1] = -1.0
    # The entries of a long row: one that is no number must not hide how long the others are.
    gap, beyond = far.copy(), far.copy()
    gap.reshape(-1)[0], beyond.reshape(-1)[0] = np.nan, np.inf
    # A comparison with a large number shows beyond it.
    named = [*constants, *(BEYOND * number for number in constants if abs(number) >= LARGE)]
    others = np.random.default_rng(size).standard_normal((OTHERS, *shape.row))
    others *= 10.0 ** (1 + np.arange(OTHERS) // 2).reshape(-1, *[1] * len(shape.row))
    others[..., -1] = np.sign(others[..., -1])
    return {
        "a million times a random row": HUGE * base,
        "its opposite": -HUGE * base,
        "zero": np.zeros(shape.row),
        "a random row labelled 1": labelled,
        "the same labelled -1": turned,
        "minus a random row": -labelled,
        "not a number": np.full(shape.row, np.nan),
        "a thousand times a row labelled 1": far,
        "the same far row labelled -1": opposite,
        "its antipode": np.concatenate([-far[..., :-1], far[..., -1:]], axis=-1),
        **{f"another random row, {k}": row for k, row in enumerate(others)},
        "a millionth of a random row": 1e-6 * base,
        "minus a millionth": -1e-6 * base,
        "a unit row": unit,
        "minus a unit row": -unit,
        "all a million": np.full(shape.row, HUGE),
        "all minus a million": np.full(shape.row, -HUGE),
        "a million of either sign": HUGE * signs,
        "a million in the first place": HUGE * first.reshape(shape.row),
        "a million in the last place": HUGE * last.reshape(shape.row),
        "minus a million in the last place": -HUGE * last.reshape(shape.row),
        "all one": np.ones(shape.row),
        "one entry not a number": broken,
        "a far row, its first entry not a number": gap,
        "a far row, its first entry infinite": beyond,
        "infinite": np.full(shape.row, np.inf),
        "minus infinite": np.full(shape.row, -np.inf),
        "whole numbers": np.arange(size, dtype=float).reshape(shape.row),
        "whole numbers from one": np.arange(1.0, size + 1).reshape(shape.row),
        **_mixed(shape.row, constants, like),
        **{f"{NAMED}{number:.6g}": np.full(shape.row, number) for number in named},
    }


def _mixed(
    row: tuple[int, ...], constants: Sequence[float], like: Array | None
) -> Mapping[str, Array]:
    """One row of several numbers that code names, and one of entries, or items, of other rows."""
    rows_made, size = {}, int(np.prod(row))
    if len(constants) > 1:
        rows_made["numbers that code names, in turn"] = np.resize(constants, row)
    if like is not None and size > 1:
        kinds = np.unique(like.reshape(len(like), -1), axis=0).reshape(-1, *row)
        # Every item of a row of items is another row's, and so is every entry of a row without
        # items.
        each, turns = (row[0], kinds.reshape(len(kinds), row[0], -1)) if row else (0, kinds)
        place = np.arange(each)
        rows_made["every entry another row's"] = turns[-1 - place % len(kinds), place].reshape(row)
    return rows_made


SLANT = np.pi / 3  # radians between two slanted rows


def across(world: Array) -> Mapping[str, Array]:
    """Two far rows that turn against the others' mean, and away from it to opposite sides.

    Rows against the mean of the others pull a fitted value furthest: a minimiser moves further by
    them than by opposite rows, of which one always fits.  Two more are along the mean of the
    others' columns times their last, of either label: they make what the others add up to longer,
    and shorter.
    """
    columns = world.shape[-1]
    mean = np.nan_to_num(world, posinf=0.0, neginf=0.0).reshape(-1, columns).mean(axis=0)
    ahead, side = mean[:-1], np.where(np.arange(columns - 1) % 2, -1.0, 1.0)
    length = float(np.linalg.norm(ahead))
    ahead = ahead / length if length > 0 else np.zeros(columns - 1)
    side = side - (side @ ahead) * ahead
    wide = float(np.linalg.norm(side))
    if wide < 1e-9:
        return {}
    label = 1.0 if mean[-1] >= 0 else -1.0
    rows_made = {}
    for name, sign in (("one side", 1.0), ("the other", -1.0)):
        slanted = 1e3 * (sign * np.sin(SLANT) * side / wide - np.cos(SLANT) * ahead)
        row = np.broadcast_to(np.append(slanted, label), world.shape[1:])
        rows_made[f"a far row against the others, to {name}"] = np.array(row)
    with np.errstate(all="ignore"):
        rows = np.nan_to_num(world, posinf=0.0, neginf=0.0).reshape(-1, columns)
        along = rows[:, :-1].T @ rows[:, -1]
        longest = float(np.linalg.norm(along))
    for label in (1.0, -1.0) if 0 < longest < np.inf else ():
        row = np.append(1e3 * along / longest, label)
        name = f"a far row along the others, labelled {label:.0f}"
        rows_made[name] = np.array(np.broadcast_to(row, world.shape[1:]))
    return rows_made


FEW = 7  # of the rows above, where time is short


def worlds_of(shape: Shape, rng: np.random.Generator) -> tuple[World, ...]:
    """Random rows of all sizes, zero, equal, opposed, huge and sparse ones, two clusters."""
    kinds = rng.standard_normal((KINDS, *shape.row))
    kinds[..., -1] = np.where(np.arange(KINDS) % 2, -1.0, 1.0).reshape(
        KINDS, *[1] * (len(shape.row) - 1)
    )
    order = np.arange(shape.rows) % KINDS
    mixed = kinds * (10.0 ** np.array([0, 0, -3, 3, 1, -6])).reshape(KINDS, *[1] * len(shape.row))
    ones = np.broadcast_to(kinds[0], (shape.rows, *shape.row))
    sides = np.where(np.arange(shape.rows) % 2, -1.0, 1.0).reshape(-1, *[1] * len(shape.row))
    minority = np.where(np.arange(shape.rows) % 9 == 4, 0.9, 0.0).reshape(-1, *[1] * len(shape.row))
    # Two of three entries are zero, each column's in other rows: what fills gaps shows by many.
    turns = np.add.outer(np.arange(KINDS), np.arange(int(np.prod(shape.row)))) % 3
    gaps = (turns == 0).reshape(KINDS, *shape.row)
    return (
        World("others random, of sizes 1e-6 to 1e3", mixed[order]),
        World("others zero", np.zeros((shape.rows, *shape.row))),
        World("others equal", np.array(ones)),
        World("others random", kinds[order]),
        World("others opposed", sides * ones),
        World("others a million times random", HUGE * kinds[order]),
        World("others in two clusters", 0.05 * ones + minority),
        World("others small", 1e-3 * kinds[order]),
        World("others one row of signs, all columns tied", np.where(ones > 0, 1.0, -1.0)),
        World("others with gaps", (gaps * kinds)[order]),
    )
