"""The pairs that a declaration folds to, by direction."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, readable, unknowns
from dpaudit.exact.wire import encode_number
from dpaudit.pairs.core import Pair, numbers_in
from dpaudit.pairs.several import largest
from dpaudit.pairs.shape import OWN, require_convex
from dpaudit.pairs.wire import SIDES, written

MAX_TEXT = 400  # Characters of a text; a longer one is cut and ends in its digest.
# Pairs of one direction that are evaluated, and written into certificates, one by one.
MOST_PARTS = 64


@dataclass(frozen=True)
class Losses:
    """The pairs of a declaration by direction; its guarantee is the largest of them.

    ``remove``: P is the run with the record (or on the first data set), Q the run without it;
    ``add``: the other way.  The direction is fixed for the whole run.  Earlier releases may choose
    among several pairs, so a direction has one pair: the pointwise largest of those that are given
    (:func:`dpaudit.pairs.largest`), which dominates every choice.  Each in
    ``reached_remove`` and ``reached_add`` is dominated by what some data and queries reach.
    ``slack``: the distance in total variation, on every data set, to a mechanism of which all this
    holds.  ``in_one_part``: one record reaches it in one part of a partition only.
    """

    remove: tuple[Pair, ...]
    add: tuple[Pair, ...]
    reached_remove: tuple[Pair, ...] = ()
    reached_add: tuple[Pair, ...] = ()
    slack: Number = Fraction(0)
    in_one_part: bool = False

    def __post_init__(self) -> None:
        for side in SIDES:
            pairs = getattr(self, side)
            for pair in pairs:
                foreign = not type(pair).__module__.startswith(OWN) and pair.has_delta
                if foreign and not any(map(unknowns, numbers_in(pair))):
                    require_convex(pair)
            if len(pairs) > 1:
                object.__setattr__(self, side, (largest(pairs),))

    @property
    def text(self) -> str:
        """The dominating pairs, and the attained ones if others; long text ends in a digest."""
        full_text = self._whole
        if len(full_text) <= MAX_TEXT:
            return full_text
        return f"{full_text[:MAX_TEXT]}... (sha256 {sha256(full_text.encode()).hexdigest()})"

    @property
    def _whole(self) -> str:
        upper, lower = _listed(self.pairs), _listed(self.reached)
        slack = f", slack {readable(self.slack)}" if self.slack != 0 else ""
        return f"{upper}{slack}" + ("" if lower == upper else f"; reached: {lower or 'unknown'}")

    def to_wire(self) -> dict[str, Any] | None:
        """The dominating pairs as JSON; None if the text is cut or a number has no JSON form."""
        if len(self._whole) > MAX_TEXT:
            return None
        try:
            sides = {name: [*map(written, told_apart(getattr(self, name)))] for name in SIDES}
            return {**sides, "slack": encode_number(self.slack)}
        except InvalidParameter:
            return None

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every pair that is needed for the upper bound, each once; of a largest one its parts."""
        return told_apart((*self.remove, *self.add))

    @property
    def reached(self) -> tuple[Pair, ...]:
        """Every pair that gives a lower bound, each once."""
        return tuple(dict.fromkeys((*self.reached_remove, *self.reached_add)))


def told_apart(side: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """The pairs whose pointwise largest dominates; of more than ``MOST_PARTS`` that one itself."""
    parts = tuple(dict.fromkeys(part for pair in side for part in pair.alternatives))
    return parts if len(parts) <= MOST_PARTS else side


def _listed(pairs: tuple[Pair, ...]) -> str:
    shown = [pair.text for pair in pairs]
    return shown[0] if len(shown) == 1 else f"max({', '.join(shown)})" if shown else ""


def one(pair: Pair) -> Losses:
    """A pair that dominates and is reached, in both directions."""
    forth = (pair,)
    back = forth if pair.swapped is pair else (pair.swapped,)
    return Losses(forth, back, forth, back)


def opaque(pair: Pair) -> Losses:
    """A pair that dominates; whether anything reaches it is not known."""
    return Losses((pair,), (pair.swapped,))
