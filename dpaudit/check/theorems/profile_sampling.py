"""Dominating pairs under sampling, stated a second time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpaudit.check.theorems.core import Table, Theorem
from dpaudit.pairs import Losses, Mixed, Pair, Spliced

Change = Callable[[Pair], Pair]


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


def _without_replacement(node: Any, base: Losses) -> Losses:
    """For x >= 1 the first of the two above dominates, whatever the other records hold.

    delta(x) = 1 - x + x delta'(1/x) with the swapped pair gives x < 1 from the other direction.
    Reached: all other records hold what the replaced record is replaced by.
    Source: Zhu, Dong, Wang 2022, Theorem 11.
    """
    share = node.batch_size / node.population
    above, below = _towards(share), _away(share)

    def joined(pair: Pair) -> Pair:
        return Spliced(above(pair), below(pair))

    return _changed(base, (joined, joined), (above, below))


PROFILE_SAMPLING: Table = {
    ("profile", "PoissonSampled"): Theorem("poisson_profile", _poisson, frozenset({"add_remove"})),
    ("profile", "SampledWithoutReplacement"): Theorem(
        "batch_profile", _without_replacement, frozenset({"replace_one"})
    ),
}
