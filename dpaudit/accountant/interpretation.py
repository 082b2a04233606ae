"""The meaning of a guarantee for one observer: numbers in plain words.

From mu of Gaussian DP where there is one, else from points (epsilon, delta) of the privacy profile.
All are upper bounds for any observer of all outputs, rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

from dpaudit.accountant.account import Account
from dpaudit.exact import (
    decimal_lower,
    decimal_upper,
    enclose,
    is_infinite,
    lower_fraction,
    upper_fraction,
    working_precision,
)
from dpaudit.measures.convert import normal_cdf

# An attacker's chances of guessing membership before the release, in reports.
PRIORS = ("0.01", "0.1", "0.5")
FALSE_POSITIVE_RATE = "0.001"
# Standard deviations that are integrated; the normal mass beyond is added as an error.
INTEGRATED_DEVIATIONS = 12

Point: TypeAlias = tuple[Fraction, Fraction]
"""(epsilon, delta) that hold together."""


def in_plain_words(account: Account, points: Sequence[Point] = ()) -> dict[str, Any] | None:
    """The best guess's rate of success, power at FPR 0.001 and mean posteriors.

    ``points``: guarantees (epsilon, delta) of the account, used where it has no finite mu.
    None without either.
    """
    if not has_mu(account):
        return _from_points(points) if points else None
    with working_precision():
        end = upper_fraction(enclose(account.step("gdp").value))
        if end is None:
            return None  # finite, but no precision can distinguish it from infinity
        mu = enclose(end)
        return _words(normal_cdf(mu / 2), _power(mu), lambda prior: mean_posterior(prior, mu))


def has_mu(account: Account) -> bool:
    """Whether Gaussian DP answers for the whole declaration."""
    return "gdp" in account.routes() and not is_infinite(account.step("gdp").value)


def _words(guess: Any, power: Any, posterior: Callable[[Fraction], Any]) -> dict[str, Any]:
    return {
        "membership_guess_upper": _chance(guess),
        f"true_positive_rate_at_{FALSE_POSITIVE_RATE}_upper": _chance(power),
        "posterior": [[p, _chance(posterior(Fraction(p)))] for p in PRIORS],
    }


def _from_points(points: Sequence[Point]) -> dict[str, Any]:
    with working_precision():
        advantage = _advantage(points)
        chords = _Chords.of(points, advantage)
        power = 1 - Fraction(missed_lower(points, Fraction(FALSE_POSITIVE_RATE)))
        return _words((1 + advantage) / 2, enclose(power), chords.mean_posterior)


def missed_lower(points: Sequence[Point], alpha: Fraction) -> str:
    """Lower bound of the false-negative rate of every test at a false-positive rate.

    (epsilon, delta)-DP gives 1 - delta - e^epsilon alpha and e^-epsilon (1 - delta - alpha).
    Source: Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015, Theorem 2.1.
    """
    with working_precision():
        bounds = []
        for epsilon, delta in points:
            grown = enclose(epsilon).exp()
            bounds += [
                enclose(1 - delta) - grown * enclose(alpha),
                enclose(1 - delta - alpha) / grown,
            ]
        lowest = [lower_fraction(bound) or Fraction(0) for bound in bounds]
        return decimal_lower(max(Fraction(0), *lowest))


def _advantage(points: Sequence[Point]) -> Any:
    """Ball of the least (e^epsilon - 1 + 2 delta) / (e^epsilon + 1): total variation is no larger.

    Source: Kairouz, Oh and Viswanath 2015 (randomised response that fails with chance delta).
    """
    balls = [
        (enclose(epsilon).exp() - 1 + 2 * enclose(delta)) / (enclose(epsilon).exp() + 1)
        for epsilon, delta in points
    ]
    return min(balls, key=lambda ball: float(ball.upper()))


@dataclass(frozen=True)
class _Chords:
    """delta as a function of u = e^epsilon >= 1, from above: chords between points, then level.

    E_u(P, Q) = sup P(S) - u Q(S) is convex in u and falls, so that chords are upper bounds.
    """

    knots: tuple[tuple[Any, Any], ...]

    @classmethod
    def of(cls, points: Sequence[Point], advantage: Any) -> _Chords:
        beyond = [(enclose(e).exp(), enclose(d)) for e, d in sorted(points) if e > 0]
        return cls(((enclose(Fraction(1)), advantage), *beyond))

    def mean_posterior(self, prior: Fraction) -> Any:
        """Ball above E[posterior] over runs that hold the record.

        E_Q[g(P/Q)] with g(t) = p t^2 / (p t + q), q = 1 - p, is g(1) = p plus the integral over
        u >= 1 of (g''(u) + u^-3 g''(1/u)) E_u, and g''(u) = 2 p q^2 / (p u + q)^3.
        Source: Sason and Verdu 2016, Proposition 3 (f-divergences as integrals of E_u).
        """
        p, q = enclose(prior), enclose(1 - prior)
        total = p
        for (start, above), (end, below) in pairwise(self.knots):
            slope = (below - above) / (end - start)
            for a, b in ((p, q), (q, p)):
                total += 2 * p * q * q * _of_line(a, b, start, end, above - slope * start, slope)
        last, level = self.knots[-1]
        tails = [1 / (2 * a * (a * last + b) ** 2) for a, b in ((p, q), (q, p))]
        return total + 2 * p * q * q * level * (tails[0] + tails[1])


def _of_line(a: Any, b: Any, start: Any, end: Any, constant: Any, slope: Any) -> Any:
    """The integral of (constant + slope u) / (a u + b)^3 over [start, end], a and b positive."""

    def antiderivative(u: Any) -> Any:
        s = a * u + b
        return -constant / (2 * a * s**2) + slope * (b / (2 * s**2) - 1 / s) / a**2

    return antiderivative(end) - antiderivative(start)


def _chance(ball: Any) -> str:
    return decimal_upper(min(upper_fraction(ball) or Fraction(1), Fraction(1)), digits=6)


def _power(mu: Any) -> Any:
    """1 - f(alpha) = Phi(Phi^{-1}(alpha) + mu)."""
    import flint

    alpha = enclose(Fraction(FALSE_POSITIVE_RATE))
    return normal_cdf(mu + flint.arb(2).sqrt() * (2 * alpha - 1).erfinv())


def mean_posterior(prior: Fraction, mu: Any) -> Any:
    """Ball above E[posterior] over runs that hold the record: E[sigmoid(logit p + mu^2/2 + mu Z)].

    The mean posterior is the integral of p P^2 / (p P + (1-p) Q), jointly convex and homogeneous in
    (P, Q), so that the dominating Gaussian pair gives an upper bound.
    Source: Dong, Roth and Su 2022, Theorem 2.10 (Blackwell: dominated pairs are post-processings).
    """
    import flint

    odds = enclose(prior / (1 - prior)).log()
    shift = odds + mu * mu / 2

    def density(z: Any, analytic: Any) -> Any:
        weight = (-z * z / 2).exp() / (2 * flint.acb.pi()).sqrt()
        return weight / (1 + (-(shift + mu * z)).exp())

    inner = flint.acb.integral(
        density, flint.acb(-INTEGRATED_DEVIATIONS), flint.acb(INTEGRATED_DEVIATIONS)
    ).real
    return inner + 2 * normal_cdf(-enclose(Fraction(INTEGRATED_DEVIATIONS)))
