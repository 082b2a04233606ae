"""Where a series of closed transforms is evaluated: tilt, window, smoothing.  Only a choice.

Everything here is approximate, and whatever comes out, the bounds of
:mod:`dpaudit.profiles.fourier.smooth` are sound: they take the numbers of a plan and bound what
those leave out.  The cumulant K is tabulated at fixed tilts, once for a product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpaudit.grids.discrete import Reals
from dpaudit.profiles.fourier.search import gain
from dpaudit.profiles.grid.stack import Integers

LARGEST_LOG_TILT = 24.0  # Largest log of a tilt that is tried.
SMALLEST_LOG_TILT = -9.0  # Smallest log of a tilt that is tried.
LOG_TILT_STEP = 0.2  # Spacing of the logs.
# exp(-ALIASING_NATS) of delta may be lost to aliasing and to frequencies that are left out.
ALIASING_NATS = 30.0
# A tilt far below the best costs digits: delta's sum should stay above exp(-this) of its terms.
DIGITS_NATS = 18.5
TRIED_TILTS = 20  # Tilts below the best that are tried.
ROUND_ROUNDING = 1e-14  # Rounding error of one round, compared with the width.
ABSOLUTE_NATS = 26.0  # exp(-this) is left out if delta is bounded in absolute terms.
STEEP_NATS = 5.0  # The cost of a tilt there is at most exp(this).
DIGIT_COST = 7.0  # Nats by which delta may be smaller for a window shorter by a factor e.
FEW_ROUNDS = 300  # Rounds up to which fewer digits are lost,
FEW_ROUNDS_FACTOR = 3  # so that the nats above count this many times.
SMOOTHING_SHARE = 0.7  # Share of the requested width that smoothing may use.

# Frequencies up to which more than needed are used, because they are cheap.
CHEAP_FREQUENCIES = 2500
LEAST_SMOOTHING = 0.2  # Smallest factor by which the smoothing is then reduced.
WINDOW_MARGIN = 1.02  # Factor by which the ends of a window are moved outward.
# Divided by 1 + tilt: the epsilon below which a width counts as absolute, not relative.
LEAST_RELATIVE = 1e-2
# Tilts above 0.  1 + t is exact, so that -1 - t is the same tilt of the swapped pair.
POSITIVE_TILTS = (
    1
    + np.exp(np.arange(SMALLEST_LOG_TILT, LARGEST_LOG_TILT + LOG_TILT_STEP / 2, LOG_TILT_STEP))
    - 1
)
# All tilts in order, those above 0 last.
ALL_TILTS = np.concatenate((-1 - POSITIVE_TILTS[::-1], np.linspace(-1, 0, 9), POSITIVE_TILTS))
GAINS = np.array([gain(float(tilt)) for tilt in POSITIVE_TILTS])
# First loss, length, shifts.
Window = tuple[float, float, tuple[float, float]]


class Tabulated(Protocol):
    """The functions of a product that a plan needs."""

    def outline(self, tilts: Reals) -> Reals:
        """About K at many tilts."""
        ...

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest loss, without the normal factor's."""
        ...

    @property
    def rounds(self) -> float:
        """How many factors, repeats counted."""
        ...

    @property
    def mu(self) -> float:
        """mu of the normal factor, 0 without one."""
        ...


@dataclass(frozen=True)
class Plan:
    """A tilt, a window [first, first + period], shifts for Chernoff's bound beyond its ends.

    ``sigma``: of the smoothing that the width allows; ``frequencies``: about how many that needs;
    ``dropped``: minus the log of what may be left out; ``spread`` of the tilted loss, about;
    ``near``: about the epsilon that is looked for, from above.
    """

    tilt: float
    first: float
    period: float
    shifts: tuple[float, float]
    sigma: float
    frequencies: int
    dropped: float
    spread: float
    near: float


@dataclass(frozen=True)
class Table:
    """K at tilts below and above 0."""

    tilts: Reals
    cumulants: Reals
    product: Tabulated

    @staticmethod
    def of(product: Tabulated) -> Table:
        """The table of a product."""
        cumulants = product.outline(ALL_TILTS)
        finite = np.where(np.isnan(cumulants), np.inf, cumulants)
        return Table(ALL_TILTS, finite, product)

    def for_delta(
        self, log_delta: float, width: float, near: float = math.inf, sigma: float = math.inf
    ) -> Plan | None:
        """A plan for the epsilon at which delta is exp(log_delta), which ``near`` is not below.

        ``sigma``: at most so much smoothing.
        """
        best, first = self._chernoff(log_delta)
        return self._plan(best, min(first, near), log_delta, width, sigma)

    def for_part(self, log_delta: float, width: float, near: float, sigma: float) -> Plan | None:
        """A plan for one summand of delta, at an epsilon of about ``near`` or more."""
        return self._plan(self._chernoff(log_delta)[0], near, log_delta, width, sigma)

    def for_all(self, width: float, near: float, sigma: float) -> Plan | None:
        """A plan for delta at every epsilon up to ``near``: the tilt of the shortest period.

        Errors are absolute.  None where no tilt above 0 serves.
        """
        best: Plan | None = None
        places = np.arange(self._positive.start, len(self.tilts))
        lost = np.full(len(places), -ABSOLUTE_NATS)
        windows = self._windows(places, lost, near, self.product.mu)
        for k, window in zip(places, windows, strict=True):
            if window is None:
                continue
            tilt = float(self.tilts[k])
            spread = window[1] / (2 * math.sqrt(2 * ABSOLUTE_NATS))
            own = min(math.sqrt(SMOOTHING_SHARE * width * spread) / 3, sigma)
            place = np.array([k])
            [window] = self._windows(place, lost[:1], near, math.hypot(self.product.mu, own))
            if window is None or tilt * -min(window[0], -near) > STEEP_NATS:
                continue
            first, period, shifts = window
            if best is None or period < best.period:
                count = math.ceil(min(math.sqrt(2 * ABSOLUTE_NATS) / own * period / 6, 1e12)) + 2
                best = Plan(tilt, first, period, shifts, own, count, ABSOLUTE_NATS, spread, near)
        return best

    def largest(self, log_delta: float) -> float:
        """Chernoff's bound of epsilon, about."""
        return self._chernoff(log_delta)[1]

    def _chernoff(self, log_delta: float) -> tuple[int, float]:
        chernoff = (self._upper - log_delta) / self.tilts[self._positive]
        best = int(np.argmin(chernoff))
        return best, float(max(chernoff[best], 0.0))

    def for_epsilon(self, epsilon: float, width: float) -> Plan | None:
        """A plan for delta at epsilon, ``width`` relative to delta.

        :meth:`_plan` takes this width relative to epsilon; near 0, relative to the least epsilon
        that a tilt distinguishes from 0.
        """
        exponents = self._upper - self.tilts[self._positive] * epsilon
        best = int(np.argmin(exponents))
        log_delta = float(exponents[best])
        tilt = float(self.tilts[self._positive][best])
        part = max(epsilon, LEAST_RELATIVE / (1 + tilt))
        return self._plan(best, epsilon, log_delta, width / (1 + tilt) / part)

    def log_delta(self, epsilon: float) -> float:
        """About log of Chernoff's bound of delta."""
        return float(np.min(self._upper - self.tilts[self._positive] * epsilon))

    @property
    def _positive(self) -> slice:
        return slice(len(ALL_TILTS) - len(POSITIVE_TILTS), None)

    @property
    def _upper(self) -> Reals:
        upper: Reals = self.cumulants[self._positive] + GAINS
        return upper

    def _plan(
        self, steep: int, near: float, log_delta: float, width: float, most: float = math.inf
    ) -> Plan | None:
        """The cheapest window over tilts at and below the best one."""
        start = self._positive.start
        steepest = float(self.tilts[start + steep])
        allowed = width * min(max(near, LEAST_RELATIVE / (1 + steepest)), 1.0)
        sigma = min(math.sqrt(SMOOTHING_SHARE * allowed / (1 + steepest)), most)
        rounds = self.product.rounds
        digits = DIGIT_COST if rounds > FEW_ROUNDS else FEW_ROUNDS_FACTOR * DIGIT_COST
        least = min(DIGITS_NATS, math.log(width / (ROUND_ROUNDING * rounds)))
        best: tuple[float, Plan] | None = None
        places = np.arange(start + steep, max(start + steep - TRIED_TILTS, start) - 1, -1)
        # Log of the mean of the payoff under the tilted law.
        with np.errstate(invalid="ignore"):
            sizes = np.minimum(log_delta + self.tilts[places] * near - self.cumulants[places], 0.0)
        windows = self._windows(
            places, sizes - ALIASING_NATS, near, math.hypot(self.product.mu, sigma)
        )
        for k, size, window in zip(places, sizes.tolist(), windows, strict=True):
            if window is None:
                continue
            tilt = float(self.tilts[k])
            first, period, shifts = window
            dropped = ALIASING_NATS - size
            count = math.sqrt(2 * dropped) / sigma * period / (2 * math.pi)
            # More frequencies than needed, where they are cheap.
            less = (
                min(max(count / CHEAP_FREQUENCIES, LEAST_SMOOTHING), 1.0)
                if math.isinf(most)
                else 1.0
            )
            cost = period * math.exp(min(-size / digits + max(-size - least, 0.0), 600.0))
            plan = Plan(
                tilt,
                first,
                period,
                shifts,
                sigma * less,
                math.ceil(min(count / less, 1e12)) + 2,
                dropped,
                period / (2 * math.sqrt(2 * dropped)),
                near,
            )
            if best is None or cost < best[0]:
                best = cost, plan
        return None if best is None else best[1]

    def _windows(
        self, places: Integers, log_masses: Reals, near: float, mu: float
    ) -> list[Window | None]:
        """First loss, length, and shifts: tilted mass exp(log_mass) beyond either end, at tilts."""
        # Smoothing as well; infinite at the largest tilts, which are then not chosen.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            cumulants = (
                self.cumulants + (mu**2 - self.product.mu**2) * self.tilts * (self.tilts + 1) / 2
            )
            rises = cumulants - (cumulants[places] + log_masses)[:, None]
            shifts = self.tilts - self.tilts[places, None]
            ends = rises / shifts
        finite = np.isfinite(ends)
        highest = np.where(finite & (shifts > 0), ends, np.inf)
        lowest = np.where(finite & (shifts < 0), ends, -np.inf)
        above, below = highest.argmin(axis=1), lowest.argmax(axis=1)
        rows = np.arange(len(places))
        reaches = zip(
            highest[rows, above].tolist(),
            lowest[rows, below].tolist(),
            shifts[rows, above].tolist(),
            shifts[rows, below].tolist(),
            self.tilts[places].tolist(),
            log_masses.tolist(),
            strict=True,
        )
        (floor, ceiling), windows = self.product.bounds, list[Window | None]()
        for high, low, up, down, tilt, log_mass in reaches:
            room = 1e-9 * (abs(high) + abs(low))
            if not math.isfinite(room):
                windows.append(None)
                continue
            # Where all losses but a normal one are bounded, that one's own tail.
            reach = 1.01 * mu * math.sqrt(2 * -log_mass) + room
            # An end that is hardly nearer than what bounds all losses takes a rule out of reach.
            first = max(WINDOW_MARGIN * (low - room), floor - reach)
            last = min(WINDOW_MARGIN * (high + room), ceiling + mu * mu * (tilt + 0.5) + reach)
            first, last = min(first, 0.0), max(last, near * (1 + 1e-6))
            length = last - first
            windows.append((first, length, (up, down)) if math.isfinite(length) else None)
        return windows
