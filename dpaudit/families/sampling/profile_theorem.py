"""Dominating pairs under sampling, stated a second time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import Table, Theorem, register
from dpaudit.exact import canonical, is_symbolic, sqrt
from dpaudit.families.sampling.theorem import drawn_as_reached, interchangeable
from dpaudit.nodes import postorder
from dpaudit.pairs import (
    Allocated,
    Atoms,
    Branched,
    Losses,
    Mixed,
    Normal,
    Opposed,
    Pair,
    Replaced,
    Spliced,
    product,
)
from dpaudit.pairs.core import gaussian_shifts

Change = Callable[[Pair], Pair]
GAUSSIANS = {"Gaussian", "Compose", "Repeat"}


def _changed(base: Losses, upper: tuple[Change, Change], reached: tuple[Change, Change]) -> Losses:
    """Each side's pairs changed: (remove, add) of the dominating, then of the reached ones."""
    return Losses(
        tuple(map(upper[0], base.remove)),
        tuple(map(upper[1], base.add)),
        tuple(map(reached[0], base.reached_remove)),
        tuple(map(reached[1], base.reached_add)),
        base.slack,
        base.in_one_part,
    )


def _towards(share: Any) -> Change:
    """(P, Q) to ((1 - q) Q + q P, Q)."""
    return lambda pair: Mixed(pair, share)


def _away(share: Any) -> Change:
    """(P, Q) to (P, (1 - q) P + q Q)."""
    return lambda pair: Mixed(pair.swapped, share).swapped


def _poisson(node: Any, base: Losses) -> Losses:
    """Without the record both runs are the run without it.

    Source: Zhu, Dong, Wang 2022, Theorem 11.
    """
    changes = _towards(node.rate), _away(node.rate)
    return _changed(base, changes, changes)


def _in_its_sample(node: Any, base: Losses) -> Losses:
    """Poisson samples of a replaced record: an upper bound given its coin, the same on both sides.

    Attained below: all other records equal the replacement, so that a batch without the record
    looks like one of the second data set, and the coin stays secret.
    If an absent record adds zero, and noise is Gaussian: half a move in one direction against half
    a move in the other; records that add so much attain it.
    Source: van Erven, Harremoes 2014, Theorem 13; dpaudit 2026, proofs at the rule and in
    pairs.opposed.
    """
    if node.rate == 1:
        return base
    gaussian = {type(part).__name__ for part in postorder(node.child)} <= GAUSSIANS
    shifts = gaussian_shifts(base.remove) if gaussian else []
    if node.undrawn == "zero" and shifts:
        halves = (Opposed(canonical(shifts[0] / 2), node.rate),)
        return Losses(halves, halves, halves, halves)

    def told(pair: Pair) -> Pair:
        out, nothing = 1 - node.rate, Atoms(((Fraction(1), Fraction(1)),))
        return Branched(((out, out, nothing), (node.rate, node.rate, pair)))

    if not (interchangeable(node.child) and drawn_as_reached(node.child)):
        base = replace(base, reached_remove=(), reached_add=())
    return _changed(base, (told, told), (_towards(node.rate), _away(node.rate)))


def _without_replacement(node: Any, base: Losses) -> Losses:
    """For x >= 1 the first of the two above dominates, whatever the other records hold.

    delta(x) = 1 - x + x delta'(1/x) with the swapped pair gives x < 1 from the other direction.
    Reached: all other records hold what the replaced record is replaced by.
    Where records have places, only the runs with the same draws are compared.
    Below Gaussian noise three answers, each two at most 1 / z noises apart: that of the batch with
    the record, with what replaces it, and with neither; queries choose them, so all are reached.
    Source: Zhu, Dong, Wang 2022, Theorem 11; dpaudit 2026, profiles.grid.triangles.
    """
    if not interchangeable(node.child):
        return Losses(base.remove, base.add, (), (), base.slack, base.in_one_part)
    share = node.batch_size / node.population
    if type(node.child).__name__ == "Gaussian" and node.batch_size != node.population:
        triple = Replaced(1 / node.child.noise_multiplier, share)
        one_way = Mixed(Normal(1 / node.child.noise_multiplier), share)
        reached = (one_way, triple), (one_way.swapped, triple)
        return Losses((triple,), (triple,), *reached, base.slack, base.in_one_part)
    above, below = _towards(share), _away(share)

    def joined(pair: Pair) -> Pair:
        return Spliced(above(pair), below(pair))

    if share != 1 and not drawn_as_reached(node.child):
        base = replace(base, reached_remove=(), reached_add=())
    return _changed(base, (joined, joined), (above, below))


def _allocated(node: Any, base: Losses) -> Losses:
    """Normal moves of length 1/z, one in a uniform slot; else no further apart than the child.

    The likelihood ratio of a release depends on the length of its move alone, so every move can be
    taken along one axis of t; adaptive directions change no law.  Releases of one slot that all
    have normal noise are one: squares of moves over noise add, for any adaptive choice.
    Several slots a record: at most as many allocations of one slot each, to parts of the slots, and
    at least the sum of all releases.
    Source: Chua et al. 2024 (balls and bins); Feldman, Shenfeld 2025 (several slots); van Erven,
    Harremoes 2014, Theorem 13.
    """
    draws = 1 if node.draws is None else node.draws
    known_slot = _changed(base, (_often(draws),) * 2, (_often(draws),) * 2)
    if draws == node.slots:
        return replace(known_slot, slack=base.slack * draws)
    if {type(part).__name__ for part in postorder(node.child)} - GAUSSIANS:
        return Losses(
            known_slot.remove, known_slot.add, (), (), base.slack * node.slots, base.in_one_part
        )
    shifts = gaussian_shifts(base.remove)
    if not shifts:
        return replace(known_slot, slack=base.slack * node.slots)
    (mu,) = shifts[:1]
    if draws == 1:
        pair = Allocated(canonical(1 / mu), node.slots)
        return Losses((pair,), (pair.swapped,), (pair,), (pair.swapped,))
    least = Normal(canonical(draws * mu / sqrt(node.slots)))
    if is_symbolic(node.slots) or is_symbolic(draws):
        return Losses(known_slot.remove, known_slot.add, (least,), (least,))
    parts = [len(range(start, int(node.slots), int(draws))) for start in range(int(draws))]
    most = product(
        (Normal(mu) if size == 1 else Allocated(canonical(1 / mu), Fraction(size)), Fraction(n))
        for size, n in Counter(parts).items()
    )
    return Losses((most,), (most.swapped,), (least,), (least,))


def _often(times: Any) -> Change:
    """So many runs in sequence."""
    return lambda pair: pair if times == 1 else product([(pair, times)])


def _in_its_slot(node: Any, base: Losses) -> Losses:
    """Random allocation of a replaced record: an upper bound given its slot.

    Attained below, for Gaussian noise: all other records equal the replacement, at a full move
    from the record, so that only the record's slot is moved.
    Source: van Erven, Harremoes 2014, Theorem 13; dpaudit 2026.
    """
    draws = 1 if node.draws is None else node.draws
    known_slot = _changed(base, (_often(draws),) * 2, (_often(draws),) * 2)
    if draws == node.slots:
        return replace(known_slot, slack=base.slack * draws)
    events = node.slots * base.slack
    gaussian = {type(part).__name__ for part in postorder(node.child)} <= GAUSSIANS
    if not gaussian or not gaussian_shifts(base.remove):
        return Losses(known_slot.remove, known_slot.add, slack=events, in_one_part=base.in_one_part)
    moved = _allocated(node, base)
    reached = moved.reached_remove, moved.reached_add
    return Losses(known_slot.remove, known_slot.add, *reached, events, base.in_one_part)


PROFILE_SAMPLING: Table = {
    ("profile", "PoissonSampled"): Theorem(
        "poisson_profile",
        _poisson,
        frozenset({"add_remove", "zero_out"}),
        also=Theorem("replaced_in_a_sample", _in_its_sample, frozenset({"replace_one"})),
    ),
    ("profile", "RandomAllocation"): Theorem(
        "allocated_profile",
        _allocated,
        frozenset({"add_remove", "zero_out"}),
        also=Theorem("replaced_in_a_slot", _in_its_slot, frozenset({"replace_one"})),
    ),
    ("profile", "SampledWithoutReplacement"): Theorem(
        "batch_profile", _without_replacement, frozenset({"replace_one"})
    ),
}

register(PROFILE_SAMPLING)
