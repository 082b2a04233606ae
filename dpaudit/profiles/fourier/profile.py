"""One composition as a two-sided function of epsilon, tilted anew where that is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from dpaudit.grids.discrete import NEGLIGIBLE_MASS, Side, TooFine
from dpaudit.profiles.fourier.compose import Composition, Delta, compose, delta_at
from dpaudit.profiles.fourier.search import Parts, Solved, stack_of, tilt_for_epsilon
from dpaudit.profiles.fourier.steps import aligned, first_step
from dpaudit.profiles.grid.stack import Stack

FIRST_DELTA = 1e-20  # Delta for which the first grid is made, before the real one is known.
SMALLEST_GUESS = 1e-290  # near the smallest float
FIRST_WIDTH = 1e-2  # Relative width of the first grid.
FEW_ATTEMPTS = 4  # Coarse grids that are tried while every cut is above delta.
MAX_ATTEMPTS = 7  # Coarse grids that are tried in all.
LEAST_BETWEEN = 1e20  # The search ends when the ratio of its two bounds is below this.
NEAR_POWER = 0.75  # A cut is accepted if delta is at most this power of it.
# A delta of finite losses below this share of the mass at an infinite loss does not matter.
INFINITE_SHARE = 1e-9
MAX_TILT = 16.0  # The largest tilt there.
TILT_RATIO = 0.2  # tilts are kept at ratios of e^.2
LESS_TILTED = (0, 1, 2, 3, 5)  # Smaller tilts that are tried, in steps of ``TILT_RATIO``.
SMALL_ERROR = 1e-2  # Errors below this share of a bound are small enough.
LARGEST_STEP = 0.125  # nats of a cell
LEAST_LOG = -690.0  # Log of about the smallest positive float.


@dataclass
class OneSide:
    """Bounds of delta from one side; compositions are kept, at tilts 20% apart."""

    stack: Stack
    kept: dict[int, Composition | None] = field(default_factory=dict)

    def solved(self, epsilon: float, error: float = 0.0) -> Solved | None:
        """The bound at epsilon with its composition; None where only a trivial one is known.

        By a composition that was made for another epsilon, where it errs by ``error`` at most.
        Else at about the best tilt.  Where the errors there are no small part of the bound, some
        smaller ones are tried, as errors grow fast with the tilt: a bound holds at any.
        """
        for composition in self.kept.values() if error else ():
            if composition is not None and composition.lowest <= epsilon <= composition.highest:
                solved = Solved(epsilon, delta_at(composition, epsilon), composition)
                if errors(solved.delta) <= error:
                    return solved
        tilt, _ = tilt_for_epsilon(self.stack, epsilon)
        key = round(math.log(tilt) / TILT_RATIO)
        best: Solved | None = None
        for less in LESS_TILTED:
            candidate = self._at(key - less, epsilon)
            if candidate is None and best is not None:
                break
            best = (
                candidate
                if best is None or (candidate and self._is_better(candidate, best))
                else best
            )
            if best is not None and worst(best.delta) <= SMALL_ERROR:
                break
        return best

    def _is_better(self, candidate: Solved, best: Solved) -> bool:
        own, other = candidate.delta.value, best.delta.value
        return own < other if self.stack.side is Side.UPPER else own > other

    def _at(self, key: int, epsilon: float) -> Solved | None:
        if key not in self.kept:
            self.kept[key] = _composed(self.stack, math.exp(key * TILT_RATIO))
        composition = self.kept[key]
        if composition is None or epsilon > composition.highest:
            return None
        if epsilon < composition.lowest:
            # Delta falls with epsilon: what is reached further on is reached here.
            if self.stack.side is Side.UPPER:
                return None
            epsilon = composition.lowest
        return Solved(epsilon, delta_at(composition, epsilon), composition)

    def chernoff(self, epsilon: float) -> float:
        """Chernoff's upper bound of delta."""
        tilt, _ = tilt_for_epsilon(self.stack, epsilon)
        bound = self.stack.cumulant(tilt) - tilt * epsilon + self.stack.slack
        # An upper end must not underflow to 0.
        finite = math.exp(min(max(bound, LEAST_LOG), 0.0)) * 1.001
        return min(finite + self.stack.infinite + self.stack.total * 10 * NEGLIGIBLE_MASS, 1.0)


def _composed(stack: Stack, tilt: float) -> Composition | None:
    try:
        return compose(stack, tilt)
    except TooFine:
        return None


@dataclass(frozen=True)
class Profile:
    """Both sides on one grid; ``lower`` is None where no lower profile is known."""

    step: float
    upper: OneSide
    lower: OneSide | None

    def upper_at(self, epsilon: float, error: float = 0.0) -> tuple[float, Solved | None]:
        """An upper bound of delta, with its composition where it has one.

        ``error``: what suffices, where that is less work than the nearest bound.
        """
        least = max(0.0, -math.expm1(min(epsilon, 1.0)))
        solved = self.upper.solved(epsilon, error)
        value = self.upper.chernoff(epsilon) if solved is None else solved.delta.value
        # So that it does not rise with epsilon, where nothing but these is left.
        value = max(value, self.upper.stack.total * 20 * NEGLIGIBLE_MASS)
        return max(value, least), solved

    def lower_at(self, epsilon: float, error: float = 0.0) -> tuple[float, Solved | None]:
        """A lower bound of delta, with its composition where it has one; ``error`` as above."""
        least = max(0.0, -math.expm1(min(epsilon, 1.0)) * (1 - 1e-15))
        if self.lower is None:
            return least, None
        solved = self.lower.solved(epsilon, error)
        value = self.lower.stack.infinite * (1 - 1e-9) if solved is None else solved.delta.value
        return (least, None) if value <= least else (value, solved)


def profile_of(parts: Parts, epsilon: float, width: float) -> Profile:
    """A profile whose delta at epsilon is about ``width`` wide, relative to delta."""
    guess, tilt = _guess(parts, epsilon)
    total = max(sum(times for _, times in parts), 1)
    step = aligned(parts, min(math.sqrt(0.5 * width / (tilt * total)), LARGEST_STEP))
    return on_grid(parts, step, guess)


def on_grid(parts: Parts, step: float, delta: float) -> Profile:
    """Both sides at one step; cut off is what changes the given delta by its 1e-7th part."""
    while True:
        try:
            upper = stack_of(parts, Fraction(step), delta, Side.UPPER)
            lower = stack_of(parts, Fraction(step), delta, Side.LOWER)
            if upper is None:
                raise TooFine("no upper profile")
            return Profile(step, OneSide(upper), OneSide(lower) if lower else None)
        except TooFine:
            step = aligned(parts, 2.5 * step)
            if step > 2.0**20:
                raise


def _guess(parts: Parts, epsilon: float) -> tuple[float, float]:
    """The order of magnitude of delta at epsilon, and the tilt there, from a coarse grid.

    The cut mass is lowered until it is below the delta that is found.  A grid that cuts less than
    its pairs allow is a far looser one: if delta is then far above the cut mass, cuts in between
    are tried.  The least bound of all grids, cut mass included, says where delta is.
    """
    guess, tilt = FIRST_DELTA, 1.0
    guesses: list[tuple[float, float, float]] = []
    coarse, fine = 1.0, 0.0
    for attempt in range(MAX_ATTEMPTS):
        stack = on_grid(parts, first_step(parts, FIRST_WIDTH), guess).upper.stack
        tilt, log_delta = tilt_for_epsilon(stack, epsilon)
        delta = max(math.exp(min(max(log_delta, -700.0), 0.0)), SMALLEST_GUESS)
        if delta < INFINITE_SHARE * stack.infinite and guess < stack.infinite:
            # All but nothing of delta is at an infinite loss: no less need be cut, nor finely.
            return max(guess, INFINITE_SHARE * stack.infinite), min(tilt, MAX_TILT)
        guesses.append((delta + stack.infinite, guess, tilt))
        if delta >= guess:
            if attempt == 0 or delta <= guess**NEAR_POWER:
                return min(delta, 1.0), tilt
            fine = guess
        else:
            coarse = guess
            if not fine:
                guess = delta * 1e-3
                if attempt + 1 == FEW_ATTEMPTS:
                    return guess, tilt
                continue
        if fine > coarse / LEAST_BETWEEN:
            break
        guess = math.sqrt(coarse) * math.sqrt(fine)
    return min(guesses)[1:]


def errors(delta: Delta) -> float:
    """Error terms of a bound."""
    return delta.round_off + delta.alias + delta.truncation


def worst(delta: Delta) -> float:
    """Error terms of a bound relative to it."""
    return errors(delta) / max(delta.value, 1e-320)
