"""Confirms privacy profiles: delta of a pair at an epsilon, from above and from below.

Every number is the checker's own: closed forms and one-step masses in its own arithmetic, Fourier
sums on a grid twice as fine as the witness's, its own bounds of every error.  From the witness it
takes the step and the tilt alone, for which any choice gives true bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from dpaudit.check.profile.cells import Cells, Grid, NotConfirmed
from dpaudit.check.profile.closed import (
    closed_at_least,
    closed_at_most,
    has_closed,
    largest_loss_at_least,
    largest_loss_at_most,
)
from dpaudit.check.profile.coarse import coarser, is_computed
from dpaudit.check.profile.crowd import crowd_at_least, crowd_at_most
from dpaudit.check.profile.fourier import delta_bound
from dpaudit.check.profile.game import Shape, played_delta
from dpaudit.check.profile.inner import inner_at_most
from dpaudit.check.profile.nodes import Nodes, lower_nodes, rounded_down, upper_nodes
from dpaudit.check.profile.noise import aligned, has_atoms
from dpaudit.check.profile.onestep import cells, is_known
from dpaudit.check.profile.polls import polled_at_most
from dpaudit.check.profile.sampled import is_sampled
from dpaudit.check.profile.slots import slots_below
from dpaudit.check.profile.transforms import (
    FEW_INTEGRALS,
    Choices,
    has_transforms,
    is_smooth,
    smooth_bound,
)
from dpaudit.check.profile.values import has_values, nodes_below, value_nodes
from dpaudit.check.reading import decimal, is_plain, require
from dpaudit.exact import (
    Number,
    decimal_upper,
    enclose,
    infinity,
    is_symbolic,
    unknowns,
    working_precision,
)
from dpaudit.pairs import (
    Losses,
    Pair,
    numbers_in,
    product,
)

Row = Mapping[str, Any]
# The mass that one step may leave out, as a part of delta: it moves delta by that part at most.
LEFT_OUT, SMALLEST = 1e-9, 1e-290
# Powers of 2 from one such mass to the next, so that questions of several deltas share the nodes
# at which a profile is computed.
BETWEEN_TAILS = 13
SMALLEST_STEP, LARGEST_STEP = 1e-12, 10
MOST_FACTORS = 10**10  # rounds of one kind: floats hold the number exactly
# How much coarser than the witness's steps are tried first, and up to what.
COARSENINGS, COARSEST = (1024, 256, 64, 16, 4), Fraction(1, 64)
# And of formulas of compositions.
INNER_COARSENINGS = 4, 1
# And what is tried where the witness's own is finer than is computed with.
DOUBLED = 2, 4, 8
LONGEST, LONGEST_EXPONENT, SHOWN = 400, 4, 80
# The fields of a row besides its pair and value, by form; "" is an end that says nothing.  A lower
# row may be of some factors alone, whose places it names.
SUMS = ("fourier", "closed transforms")
COMMON = {"step", "side", "epsilon", "delta", "tilt", "window_first", "period", "frequencies"}
FIELDS: dict[str, set[str]] = {
    "": set(),
    "closed": {"epsilon"},
    "crowd": {"epsilon"},
    "poll": {"epsilon"},
    "largest loss": set(),
    "inner": {"epsilon", "step"},
    "game": {
        "side",
        "epsilon",
        "delta",
        "step",
        "nodes",
        "cells",
        "parts",
        "tilt",
        "tail",
    },
    "fourier": COMMON
    | {"nodes", "window_centre", "infinite", "round_off", "aliasing", "truncation", "masses"},
    "closed transforms": COMMON
    | {"smoothing", "error", "aliasing", "truncation", "caps", "apart_tilt", "apart_smoothing"},
}
# The accountant's float and its decimal of 12 digits.
ROUNDED = Fraction(1, 10**8)
# Forms that need no more than the number that they show.
AT_MOST = {"crowd": crowd_at_most, "poll": polled_at_most}
AT_LEAST = {"crowd": crowd_at_least}
OWN_PARAMETERS = (
    "windows, frequencies and error terms that Fourier witnesses record: the checker has its own"
)


@dataclass(frozen=True)
class Doubt:
    """Upper bounds that the checker could not confirm: their pairs, what is left of delta."""

    losses: Losses
    delta: Fraction
    rows: tuple[tuple[Pair, Row], ...]

    def holds_at(self, epsilon: Fraction) -> bool:
        """Whether crude bounds confirm this larger epsilon."""
        delta_left = _left(self.losses, self.delta, epsilon)
        return all(confirm_upper(pair, epsilon, delta_left, row) for pair, row in self.rows)


@dataclass(frozen=True)
class Profiled:
    """A confirmed epsilon (it may be infinite), what is reached, and what was not confirmed.

    ``doubt``: of the upper bound; ``reached_doubted``: whether what is reached was not confirmed.
    """

    epsilon: Number
    reached: Fraction | None
    trusted: tuple[str, ...]
    doubt: Doubt | None = None
    reached_doubted: bool = False


def confirm_conversion(losses: Losses, delta: Fraction, text: str, witness: Row) -> Profiled | None:
    """The (epsilon, delta) that a witness shows for pairs; None where it does not.

    ``upper``: a row for every pair that dominates, epsilon being the largest of theirs; ``lower``:
    at most one row, for a pair that is reached.  A slack s takes (1 + e^epsilon) s off delta.
    """
    if any(map(unknowns, (*numbers_in((losses.pairs, losses.reached)), losses.slack))):
        return None
    above: list[tuple[Pair, Row]] = []
    below: list[tuple[Pair, Row]] = []
    epsilon = infinity() if text == "inf" else _upper(losses, delta, witness["upper"], above)
    reached = _lower(losses, delta, witness["lower"], below)
    if epsilon is None or reached is None:
        return None
    if text != "inf" and epsilon != decimal(text):
        return None
    trusted = [
        _trust(side, decimal(row["value"]), delta, pair)
        for side, doubts in (("upper", above), ("lower", below))
        for pair, row in doubts
    ]
    if any(row.get("form") in SUMS for row in (*witness["upper"], *witness["lower"])):
        trusted.append(OWN_PARAMETERS)
    return Profiled(
        epsilon,
        reached if witness["lower"] else None,
        tuple(trusted),
        Doubt(losses, delta, tuple(above)) if above else None,
        bool(below),
    )


def _is_consistent(row: Row, side: str, slack: Number) -> bool:
    """Whether a row holds the fields of its form, and says what its value says.

    With a slack the value is the epsilon at which that is paid for, after the row's own.
    """
    form = row.get("form", "")
    if form not in FIELDS or set(row) != {"pair", "value"} | FIELDS[form] | ({"form"} & set(row)):
        return False
    value = decimal(row["value"])
    if form in ("closed", "crowd", "poll", "inner"):
        own = _number(row["epsilon"])
        return own == value or (slack != 0 and own <= value)
    if form in (*SUMS, "game"):
        beyond = (value - _number(row["epsilon"])) * (1 if side == "upper" else -1)
        chance = 0 <= _number(row["delta"]) <= 1
        return chance and row["side"] == side and beyond >= -ROUNDED * (1 + value)
    return form == "largest loss" or value == 0


def _upper(
    losses: Losses, delta: Fraction, rows: Sequence[Row], doubts: list[tuple[Pair, Row]]
) -> Fraction | None:
    if len(rows) != len(losses.pairs):
        return None
    for number, (pair, row) in enumerate(zip(losses.pairs, rows, strict=True)):
        epsilon = decimal(row["value"])
        confirmed = confirm_upper(pair, epsilon, _left(losses, delta, epsilon), row)
        crowd = row.get("form") == "crowd"
        if row["pair"] != str(number) or not (confirmed or not (is_computed(pair) or crowd)):
            return None
        if not _is_consistent(row, "upper", losses.slack):
            return None
        if not confirmed:
            doubts.append((pair, row))
    return max(decimal(row["value"]) for row in rows)


def _left(losses: Losses, delta: Fraction, epsilon: Fraction) -> Fraction:
    """The delta that remains beside the failure probability, rounded down."""
    if losses.slack == 0:
        return delta
    with working_precision():
        return delta - Fraction(decimal_upper((1 + enclose(epsilon).exp()) * enclose(losses.slack)))


def _lower(
    losses: Losses, delta: Fraction, rows: Sequence[Row], doubts: list[tuple[Pair, Row]]
) -> Fraction | None:
    """The epsilon that is reached: 0 without a row."""
    if not rows:
        return Fraction(0)
    (row,) = rows
    named = {str(place): pair_reached for place, pair_reached in enumerate(losses.reached)}
    require(row["pair"] in named, "a lower row of a pair that is not reached")
    pair, epsilon = named[row["pair"]], decimal(row["value"])
    if "factors" in row:
        pair, row = _marginal(pair, row["factors"]), {k: row[k] for k in row if k != "factors"}
    if "rounds" in row:
        pair, row = _first(pair, row["rounds"]), {k: row[k] for k in row if k != "rounds"}
    if losses.slack != 0 or not _is_consistent(row, "lower", 0):
        return None
    if confirm_lower(pair, epsilon, delta, row):
        return epsilon
    doubts.append((pair, row))
    return None if is_computed_below(pair) else epsilon


def _marginal(pair: Pair, places_kept: str) -> Pair:
    """Some of a product's factors: a projection of either law, so that no delta is larger."""
    names = {str(place): place for place in range(len(pair.factors))}
    places = [names.get(place, -1) for place in places_kept.split()]
    valid = places != [] and places == sorted(set(places)) and places[0] >= 0
    valid = valid and places_kept == " ".join(map(str, places))
    require(valid, "factors of a lower row: expected places of the pair's own, each once")
    return product(pair.factors[place] for place in places)


def _first(pair: Pair, rounds: str) -> Pair:
    """So many of all equal rounds: a projection of either law, so that no delta is larger."""
    (factor, times), *others = pair.factors
    number = int(rounds) if rounds.isascii() and rounds.isdecimal() and len(rounds) < 20 else 0
    valid = not others and rounds == str(number) and 1 <= number <= times
    require(valid, "rounds of a lower row: expected a number of the pair's own, all equal")
    return product([(factor, Fraction(number))])


def _trust(side: str, epsilon: Fraction, delta: Fraction, pair: Pair) -> str:
    return (
        f"the {side} epsilon {decimal_upper(epsilon, 6)} at delta {decimal_upper(delta, 6)} of "
        f"{pair.text[:SHOWN]}: only the accountant computed it"
    )


def is_computed_below(pair: Pair) -> bool:
    """Whether the checker computes lower bounds of this pair's own profile."""
    return has_closed(pair) or all(is_known(f) for f, _ in pair.factors)


def confirm_upper(pair: Pair, epsilon: Fraction, delta: Fraction, row: Row) -> bool:
    """Whether delta of the pair at ``epsilon`` is shown to be at most ``delta``.

    Where the checker does not compute it, of a pair that dominates it.
    """
    if delta < 0 or epsilon < 0:
        return False
    try:
        if delta > 0 and row.get("form") in AT_MOST:
            return AT_MOST[row["form"]](pair, epsilon, delta)
        pair = coarser(pair)
    except NotConfirmed:
        return False
    if has_closed(pair):
        return closed_at_most(pair, epsilon, delta) or largest_loss_at_most(pair, epsilon)
    if delta == 0 or row.get("form") == "largest loss":
        return largest_loss_at_most(pair, epsilon)
    try:
        return _is_at_most(pair, epsilon, delta, row)
    except NotConfirmed:
        return False


def _is_at_most(pair: Pair, epsilon: Fraction, delta: Fraction, row: Row) -> bool:
    """By the witness's form, or by sums on coarser grids and on its own.  Errors: NotConfirmed."""
    if row.get("form") == "inner":
        return _confirmed_by_inner(pair, epsilon, row, delta)
    if row.get("form") in OWN_BOUNDS:
        return OWN_BOUNDS[row["form"]](pair, epsilon, row, 1) <= delta
    for times in _coarser_steps(pair, row):
        with suppress(NotConfirmed):
            if _composed(pair, epsilon, delta, {**row, "step": times}, 1) <= delta:
                return True
    return _at_its_step(pair, epsilon, delta, row, 1) <= delta


def _at_its_step(
    pair: Pair, epsilon: Fraction, delta: Fraction, row: Row, sign: int, *, on_atoms: bool = False
) -> Fraction:
    """The bound at the witness's step, or at the next coarser one that is computed with.

    Half of a step that was as fine as the accountant computes with may be finer than that.
    ``on_atoms``: at steps a little smaller, of which the losses of atoms of noise are multiples.
    Errors: NotConfirmed where none of a few is; with ``on_atoms`` of no grid, or without atoms.
    """
    by_grid = "step" in row and not _by_transforms(pair, row)
    if on_atoms and not (by_grid and any(map(has_atoms, dict(pair.factors)))):
        raise NotConfirmed("no atoms of noise on a grid")
    if by_grid:
        for times in (1, *DOUBLED):
            with suppress(NotConfirmed):
                shown = {**row, "step": str(times * _number(row["step"]))}
                return _composed(pair, epsilon, delta, shown, sign, on_atoms=on_atoms)
    return _composed(pair, epsilon, delta, row, sign)


def _coarser_steps(pair: Pair, row: Row) -> Iterator[str]:
    """Steps to try before a tiny one, where every node of a profile costs special functions.

    A bound holds at any step; the accountant's may have been chosen for its end from below.
    """
    # A grid of costly deltas is thinned, however fine its step.
    costly = any(not is_known(f) and f.delta_cost == 1 for f, _ in pair.factors)
    if not costly or "step" not in row or _by_transforms(pair, row):
        return
    step = _number(row["step"])
    for times in COARSENINGS:
        if times * step < COARSEST:
            yield str(times * step)


def confirm_lower(pair: Pair, epsilon: Fraction, delta: Fraction, row: Row) -> bool:
    """Whether delta of the pair is shown to be at least ``delta`` at every smaller epsilon."""
    if epsilon == 0 and delta >= 0:
        return True
    if delta <= 0 or epsilon < 0:
        return delta == 0 and epsilon > 0 and largest_loss_at_least(pair, epsilon)
    if has_closed(pair):
        return closed_at_least(pair, epsilon, delta)
    try:
        if row.get("form") in AT_LEAST:
            return AT_LEAST[row["form"]](pair, epsilon, delta)
        if row.get("form") in OWN_BOUNDS:
            return OWN_BOUNDS[row["form"]](pair, epsilon, row, -1) >= delta
    except NotConfirmed:
        return False
    for on_atoms in (False, True):
        with suppress(NotConfirmed):
            if _at_its_step(pair, epsilon, delta, row, -1, on_atoms=on_atoms) >= delta:
                return True
    return False


def _composed(
    pair: Pair, epsilon: Fraction, delta: Fraction, row: Row, sign: int, *, on_atoms: bool = False
) -> Fraction:
    """The checker's own bound of delta of independent factors."""
    if not {"tilt", "step"} <= set(row):
        raise NotConfirmed("no tilt")
    tilt = float(_number(row["tilt"]))
    counts = [_whole(times) for _, times in pair.factors]
    if _by_transforms(pair, row):
        sigma = _number(row.get("smoothing", "0"))
        factors = [(f, n) for (f, _), n in zip(pair.factors, counts, strict=True)]
        caps = tuple(float(_number(cap)) for cap in row.get("caps", "").split())
        other = (_number(row.get(f"apart_{name}", "0")) for name in ("tilt", "smoothing"))
        choices = Choices(caps, float(next(other)), next(other))
        if any(is_sampled(factor) for factor, _ in factors):
            with suppress(NotConfirmed):
                near = smooth_bound(factors, tilt, epsilon, sign, sigma, choices, FEW_INTEGRALS)
                if sign * near <= sign * delta:
                    return near
        return smooth_bound(factors, tilt, epsilon, sign, sigma, choices)
    step = _finer(pair, row)
    if on_atoms:
        step = aligned([(f, n) for (f, _), n in zip(pair.factors, counts, strict=True)], step)
    return delta_bound(_on_grid(pair, step, delta, sign, tilt), step, tilt, epsilon, sign)


def _finer(pair: Pair, row: Row) -> Fraction:
    """A part of the witness's step.  Errors: NotConfirmed."""
    # Losses of clones lie on lattices: only a much finer grid is nearer for certain.
    finer = 8 if any(f.report is not None and f.report.rest is None for f, _ in pair.factors) else 2
    step = _number(row["step"]) / finer
    if not SMALLEST_STEP < step < LARGEST_STEP:
        raise NotConfirmed(f"step {float(step)}")
    return step


def _on_grid(
    pair: Pair, step: Fraction, delta: Fraction, sign: int, tilt: float
) -> list[tuple[Nodes, int]]:
    """Each factor's masses, and how often it occurs; they leave out little of ``delta``."""
    counts = [_whole(times) for _, times in pair.factors]
    tail = max(float(delta) / sum(counts) * LEFT_OUT, SMALLEST)
    grid = Grid(step, 2.0 ** math.floor(math.log2(tail)))
    nodes = (_nodes(factor, grid, sign, tilt) for factor, _ in pair.factors)
    return list(zip(nodes, counts, strict=True))


def _by_transforms(pair: Pair, row: Row) -> bool:
    by_grid = row.get("form") == "fourier" and any(is_sampled(f) for f, _ in pair.factors)
    smoothed = _number(row.get("smoothing", "0")) > 0 and has_transforms(pair)
    return (is_smooth(pair) or smoothed) and not by_grid


def _played(pair: Pair, epsilon: Fraction, row: Row, sign: int) -> Fraction:
    """delta of rounds that choose their triples by what was released before."""
    (factor, times), *others = pair.factors
    record = factor.replacement
    if others or record is None:
        raise NotConfirmed("no game")
    nodes, cells, parts = (int(_number(row[name])) for name in ("nodes", "cells", "parts"))
    step, tilt, tail = (float(_number(row[name])) for name in ("step", "tilt", "tail"))
    shape = Shape(step, nodes, cells * max(parts, 1), tilt, tail)
    at = max(math.nextafter(float(epsilon), -sign * math.inf), 0.0)
    return Fraction(played_delta(record, _whole(times), at, shape, sign))


def _confirmed_by_inner(pair: Pair, epsilon: Fraction, row: Row, delta: Fraction) -> bool:
    """Whether delta of a formula of compositions is at most ``delta``, by coarse grids first.

    Errors: NotConfirmed for any other pair: formulas need not grow with the deltas inside.
    """
    if not pair.is_over_compositions:
        raise NotConfirmed("no formula of compositions")
    for times in INNER_COARSENINGS:
        step = times * _finer(pair, row)
        if step < COARSEST:
            factors_of = cache(lambda inside, h=step: _on_grid(coarser(inside), h, delta, 1, 1.0))
            if inner_at_most(pair, epsilon, step, factors_of) <= delta:
                return True
    return False


OWN_BOUNDS = {"game": _played}


def _is_far_apart(factor: Pair) -> bool:
    """Whether outcomes are single ones, sampled or not."""
    return factor.noise.is_discrete


def _nodes(factor: Pair, grid: Grid, sign: int, tilt: float) -> Nodes:
    """From below the better one at the tilt, of outcomes that may lie far apart."""
    if sign > 0 and not is_known(factor):
        power = BETWEEN_TAILS * math.floor(math.log2(grid.tail) / BETWEEN_TAILS)
        return _values(factor, Grid(grid.step, 2.0**power))
    if sign < 0:
        factor = factor.lower
    if not is_known(factor) and has_closed(factor) and has_values(factor):
        return _below(factor, grid)
    factor_cells = _cells(factor, grid) if is_known(factor) else _slots(factor, grid)
    if sign > 0:
        return upper_nodes(factor_cells)
    if not _is_far_apart(factor):
        return lower_nodes(factor_cells, grid.h)
    down = rounded_down(factor_cells)
    try:
        lowered = lower_nodes(factor_cells, grid.h)
    except NotConfirmed:
        return down
    return max(down, lowered, key=lambda nodes: nodes.log_moment(tilt, grid.h))


def _number(text: str) -> Fraction:
    exponent = text.lower().partition("e")[2].lstrip("+-")
    short = len(text) <= LONGEST and len(exponent) <= LONGEST_EXPONENT and is_plain(text)
    require(short, "a number of the witness is too long, or no plain one")
    return Fraction(text)


def _whole(times: Any) -> int:
    if is_symbolic(times) or times.denominator != 1 or not 0 < times <= MOST_FACTORS:
        raise NotConfirmed(f"{times} factors")
    return int(times)


@lru_cache(maxsize=8)
def _cells(factor: Pair, grid: Grid) -> Cells:
    return cells(factor, grid)


@lru_cache(maxsize=8)
def _slots(factor: Pair, grid: Grid) -> Cells:
    """Cells of less than the pair, in either direction."""
    cells_below = slots_below(factor.unswapped, grid)
    return cells_below.swapped(grid.h) if factor.is_swapped else cells_below


@lru_cache(maxsize=8)
def _below(factor: Pair, grid: Grid) -> Nodes:
    return nodes_below(factor, grid)


@lru_cache(maxsize=8)
def _values(factor: Pair, grid: Grid) -> Nodes:
    return value_nodes(factor, grid)
