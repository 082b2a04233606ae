"""How much noise a stable release needs: the constants as printed, and the least by the profile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, decimal_upper, exact
from dpaudit.exact.domains import positive
from dpaudit.families.additive import Laplace
from dpaudit.families.discrete import TruncatedDiscreteLaplace
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.stability import Distance, StableRelease
from dpaudit.families.stability.kernel import LARGEST_KAPPA, TruncatedDiscreteLaplaceLaw
from dpaudit.families.stability.rules import lowest
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit, choose
from mechanisms.papers.common.budgets import epsilon_delta, rational

USERS = Scope(Adjacency.REPLACE_ONE, Unit.USER, Trust.CENTRAL, Released.TRANSCRIPT)
GAUSSIAN_CONSTANTS = ("sqrt2ln", "2sqrtln")
SHARES = tuple(Fraction(k, 20) for k in range(4, 13))
MOST_KAPPA = 2_000  # that a search for the least noise tries
DIGITS = 6


class Noise(StrEnum):
    """What is added to a vector that passes; ``LAPLACE``: to one number."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


@dataclass(frozen=True)
class Constants:
    """A threshold's epsilon and kappa, and sigma in units (Delta, or D under "diameter").

    ``noise``: "gaussian", or "laplace" for one number, whose scale is ``noise_multiplier`` units.
    Errors: InvalidParameter for numbers outside their domain.
    """

    epsilon_bar: Number
    kappa: int
    noise_multiplier: Number
    distance: str = Distance.PATH
    noise: str = Noise.GAUSSIAN

    def __post_init__(self) -> None:
        for name in ("epsilon_bar", "noise_multiplier"):
            value = exact(getattr(self, name), f"Constants.{name}")
            positive(value, f"Constants.{name}")
            object.__setattr__(self, name, value)
        if not (hasattr(self.kappa, "__index__") and 1 <= self.kappa <= LARGEST_KAPPA):
            raise InvalidParameter(f"Constants.kappa = {self.kappa}: expected 1 to {LARGEST_KAPPA}")
        object.__setattr__(self, "distance", choose(Distance, self.distance, "Constants.distance"))
        object.__setattr__(self, "noise", choose(Noise, self.noise, "Constants.noise"))

    @property
    def fewest_users(self) -> int:
        """4 kappa + 2: with fewer users nothing is ever released."""
        return 4 * self.kappa + 2

    @property
    def farthest(self) -> int:
        """How many units apart two neighbours' vectors are, if one passes with more than p(0).

        Its score is then below 2 kappa and the other's at most 2 kappa: s + t + 2 units (path).
        """
        return 4 * self.kappa + 1 if self.distance == Distance.PATH else 2

    def leaf(self, label: str) -> Node:
        """The declaration of one release."""
        if self.noise == Noise.GAUSSIAN:
            return StableRelease(
                label, self.epsilon_bar, self.kappa, self.noise_multiplier, self.distance
            )
        test = TruncatedDiscreteLaplace("threshold", 1 / self.epsilon_bar, self.kappa)
        release = Laplace(label, self.noise_multiplier / self.farthest)
        return ProposeTestRelease(test, release, _lowest_upper(self.epsilon_bar, self.kappa))


def del_output_pert_paper(
    epsilon: object, delta: object, gaussian_constant: str = "sqrt2ln"
) -> Constants:
    """eps_bar = eps/2, delta_bar = delta/(e^eps_bar+2), kappa = 1 + ceil(ln(1/delta_bar)/eps_bar).

    sigma = 8 kappa Delta c / eps_bar, rounded up; c = sqrt(2 ln(2/delta_bar)) ("sqrt2ln") or
    2 sqrt(ln(2/delta_bar)) ("2sqrtln"): either reading of a lost root sign is private.
    Errors: InvalidParameter for epsilon outside (0, 1] or delta outside (0, 1/2]: the theorem's.
    Source: Ghazi et al. 2023, Algorithm 1 and Theorem 3.3.
    """
    budget = epsilon_delta(epsilon, delta)
    if not (budget[0] <= 1 and budget[1] <= Fraction(1, 2)):
        raise InvalidParameter(
            f"({epsilon}, {delta}): Theorem 3.3 is stated for epsilon in (0, 1] and delta in "
            "(0, 1/2]; calibrate by the exact profile instead"
        )
    return printed_constants(*budget, gaussian_constant)


def printed_constants(
    epsilon: Fraction, delta: Fraction, gaussian_constant: str = "sqrt2ln"
) -> Constants:
    """The printed formulas, in or out of their theorem's range."""
    if gaussian_constant not in GAUSSIAN_CONSTANTS:
        raise InvalidParameter(
            f"gaussian_constant = {gaussian_constant!r}: expected {', '.join(GAUSSIAN_CONSTANTS)}"
        )
    half = float(epsilon) / 2
    share = float(delta) / (math.exp(half) + 2)
    kappa = 1 + math.ceil(math.log(1 / share) / half)
    root = math.sqrt((2 if gaussian_constant == "sqrt2ln" else 4) * math.log(2 / share))
    return Constants(epsilon / 2, kappa, _up(8 * kappa * root / half))


def calibrate_del_output_pert(
    epsilon: object,
    delta: object,
    *,
    epsilon_bar: object = None,
    kappa: int | None = None,
    distance: str = Distance.PATH,
) -> Constants:
    """The least noise found whose exact profile is (epsilon, delta).

    Where not given, eps_bar is one of nine shares of epsilon, and kappa rises until the noise does:
    the least of those tried.  The search is in floating point; the result is confirmed by the
    accountant, and raised until its upper bound of epsilon at delta is at most the one asked for.
    Errors: InvalidParameter where no noise suffices: p(0) is not below delta.
    Source: the exact profile over all pairs of scores (dpaudit 2026).
    """
    budget = epsilon_delta(epsilon, delta)
    chosen = choose(Distance, distance, "distance")
    if epsilon_bar is None:
        bars = [share * budget[0] for share in SHARES]
    else:
        bars = [rational(epsilon_bar, "epsilon_bar")]
    found = [c for bar in bars for c in _candidates(budget, bar, kappa, chosen)]
    if not found:
        raise InvalidParameter(
            f"({epsilon}, {delta}): no noise suffices at this epsilon_bar and kappa: the lowest "
            "threshold alone has probability above delta; raise kappa"
        )
    noise, bar, size = min(found)
    return _confirmed(budget, bar, size, noise, chosen)


def laplace_constants(epsilon: object, delta: object) -> Constants:
    """The least Laplace noise found, for one number, by (eps_bar + (4 kappa + 1) units / b, p(0)).

    kappa is the least with p(0) <= delta, eps_bar one of the shares of epsilon that are tried.
    Errors: InvalidParameter for a budget outside its domain, or one that needs a larger kappa.
    Source: Kohli, Laskowski 2021 add Laplace noise to one number; this threshold is that of Ghazi
    et al. 2023, not theirs.
    """
    budget = epsilon_delta(epsilon, delta)
    found = []
    for bar in (share * budget[0] for share in SHARES):
        kappa = _least_kappa(bar, budget[1])
        if kappa is not None:
            found.append(((4 * kappa + 1) / (budget[0] - bar), bar, kappa))
    if not found:
        raise InvalidParameter(f"({epsilon}, {delta}): needs a kappa above {MOST_KAPPA}")
    scale, bar, kappa = min(found)
    return Constants(bar, kappa, scale, noise=Noise.LAPLACE)


def _least_kappa(bar: Fraction, delta: Fraction) -> int | None:
    """The least kappa with p(0) <= delta: found in floats, confirmed with outward rounding."""
    shrunk = np.exp(-float(bar) * np.arange(1, MOST_KAPPA + 1))
    near = shrunk / (1 + 2 * (1 - shrunk) / math.expm1(float(bar)))
    first = np.flatnonzero(near <= float(delta) * (1 + 1e-9)) + 1
    return next((int(k) for k in first[:2] if _lowest_upper(bar, int(k)) <= delta), None)


def _lowest_upper(bar: Number, kappa: int) -> Fraction:
    """p(0), rounded up."""
    return Fraction(decimal_upper(lowest(bar, Fraction(kappa))))


def profile(epsilon: float, law: TruncatedDiscreteLaplaceLaw, z: float, distance: str) -> float:
    """delta(epsilon) over all neighbours and functions, in floating point: a search's, no bound.

    max over |s - t| = 1 of [Q_s - e^epsilon Q_t]_+ + P_s g(mu, epsilon + ln(P_t / P_s)), g the
    Gaussian's profile, mu = (s + t + 2) / z (path) or 2 / z (diameter).
    """
    low = np.arange(2 * law.kappa + 1)
    s, t = np.concatenate([low, low + 1]), np.concatenate([low + 1, low])
    passes, bottoms = law.log_passes, law.log_bottoms
    mu = (s + t + 2.0 if distance == Distance.PATH else np.full(len(s), 2.0)) / z
    with np.errstate(all="ignore"):
        bottom = np.maximum(np.exp(bottoms[s]) - np.exp(epsilon + bottoms[t]), 0.0)
        moved = epsilon + passes[t] - passes[s]
        released = np.exp(passes[s]) * _gaussian_delta(mu, moved)
    released = np.where(np.isneginf(passes[t]), np.exp(passes[s]), released)
    return float((bottom + np.where(np.isneginf(passes[s]), 0.0, released)).max())


def _gaussian_delta(mu: Array, epsilon: Array) -> Array:
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return np.asarray(np.exp(first) - np.exp(second))


def _candidates(
    budget: tuple[Fraction, Fraction], bar: Fraction, kappa: int | None, distance: str
) -> list[tuple[float, Fraction, int]]:
    """(noise, eps_bar, kappa): kappa given, or rising until the noise stops falling."""
    found: list[tuple[float, Fraction, int]] = []
    if kappa is not None:
        noise = _least(budget, bar, kappa, distance)
        return [] if noise is None else [(noise, bar, kappa)]
    for size in range(1, MOST_KAPPA + 1):
        noise = _least(budget, bar, size, distance)
        if noise is None:
            continue
        if found and noise >= found[-1][0]:
            break
        found.append((noise, bar, size))
    return found[-1:]


def _least(
    budget: tuple[Fraction, Fraction], bar: Fraction, kappa: int, distance: str
) -> float | None:
    epsilon, delta = map(float, budget)
    law = TruncatedDiscreteLaplaceLaw(float(bar), kappa)
    if math.exp(law.log_masses[0]) >= delta or bar > budget[0]:
        return None

    def excess(log_z: float) -> float:
        return math.log(profile(epsilon, law, math.exp(log_z), distance) / delta)

    top = 40.0
    if excess(top) > 0:
        return None
    if excess(-10.0) < 0:
        return math.exp(-10.0)
    return math.exp(brentq(excess, -10.0, top, xtol=1e-9))


@lru_cache(maxsize=64)
def _confirmed(
    budget: tuple[Fraction, Fraction], bar: Fraction, kappa: int, noise: float, distance: Distance
) -> Constants:
    from dpaudit.accountant.account import Account

    for more in (1e-7, 1e-6, 1e-5, 1e-4):
        constants = Constants(bar, kappa, _up(noise * (1 + more)), distance)
        account = Account(constants.leaf("release"), USERS)
        if account.epsilon(budget[1]).upper <= budget[0]:
            return constants
    raise InvalidParameter(
        f"({budget[0]}, {budget[1]}): the accountant does not confirm the noise that was found; "
        "give epsilon_bar and kappa"
    )


def _up(value: float) -> Fraction:
    """The next decimal above, of six digits behind the point, or behind the leading digit."""
    digits = max(DIGITS, DIGITS - math.floor(math.log10(value)))
    return Fraction(math.ceil(value * 10**digits), 10**digits)
