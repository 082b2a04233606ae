"""Confirms privacy profiles: delta of a pair at an epsilon, from above and from below.

Every number is the checker's own: closed forms and one-step masses in its own arithmetic, Fourier
sums on a grid twice as fine as the witness's, its own bounds of every error.  From the witness it
takes the step and the tilt alone, for which any choice gives true bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.arithmetic import is_symbolic
from dpaudit.check.profile_cells import Cells, Grid, NotConfirmed, cells, is_known
from dpaudit.check.profile_closed import (
    closed_at_least,
    closed_at_most,
    has_closed,
    largest_loss_at_least,
    largest_loss_at_most,
)
from dpaudit.check.profile_fourier import delta_bound
from dpaudit.check.profile_nodes import lower_nodes, upper_nodes
from dpaudit.check.reading import require
from dpaudit.pairs import Pair

Row = Mapping[str, Any]
# What one step may leave out, as a part of delta: it moves delta by that part at most.
LEFT_OUT, SMALLEST = 1e-9, 1e-290
MOST_FACTORS = 10**10
LONGEST = 400


def on_trust(pair: Pair) -> bool:
    """Whether the checker has no way to confirm numbers of this pair."""
    return not (has_closed(pair) or all(is_known(factor) for factor, _ in pair.factors))


def confirm_upper(pair: Pair, epsilon: Fraction, delta: Fraction, row: Row) -> bool:
    """Whether delta of the pair at ``epsilon`` is shown to be at most ``delta``."""
    if delta < 0 or epsilon < 0:
        return False
    if has_closed(pair):
        return closed_at_most(pair, epsilon, delta) or largest_loss_at_most(pair, epsilon)
    if delta == 0 or row.get("form") == "largest loss":
        return largest_loss_at_most(pair, epsilon)
    try:
        return _composed(pair, epsilon, delta, row, 1) <= delta
    except NotConfirmed:
        return False


def confirm_lower(pair: Pair, epsilon: Fraction, delta: Fraction, row: Row) -> bool:
    """Whether delta of the pair is shown to be at least ``delta`` at every smaller epsilon."""
    if epsilon == 0 and delta >= 0:
        return True
    if delta <= 0 or epsilon < 0:
        return delta == 0 and epsilon > 0 and largest_loss_at_least(pair, epsilon)
    if has_closed(pair):
        return closed_at_least(pair, epsilon, delta)
    try:
        return _composed(pair, epsilon, delta, row, -1) >= delta
    except NotConfirmed:
        return False


def _composed(pair: Pair, epsilon: Fraction, delta: Fraction, row: Row, sign: int) -> Fraction:
    """The checker's own bound of delta of independent factors."""
    step, tilt = _number(row["step"]) / 2, float(_number(row["tilt"]))
    counts = [_whole(times) for _, times in pair.factors]
    tail = max(float(delta) / sum(counts) * LEFT_OUT, SMALLEST)
    grid = Grid(step, 2.0 ** math.floor(math.log2(tail)))
    made = [_cells(factor, grid) for factor, _ in pair.factors]
    nodes = [upper_nodes(c) if sign > 0 else lower_nodes(c, grid.h) for c in made]
    return delta_bound(list(zip(nodes, counts, strict=True)), step, tilt, epsilon, sign)


def _number(text: str) -> Fraction:
    require(len(text) <= LONGEST, "a number of the witness is too long")
    return Fraction(text)


def _whole(times: Any) -> int:
    if is_symbolic(times) or times.denominator != 1 or not 0 < times <= MOST_FACTORS:
        raise NotConfirmed(f"{times} factors")
    return int(times)


@lru_cache(maxsize=8)
def _cells(factor: Pair, grid: Grid) -> Cells:
    return cells(factor, grid)
