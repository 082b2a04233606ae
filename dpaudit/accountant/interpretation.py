"""What a guarantee means for one observer: numbers in plain words, from mu of Gaussian DP.

All are upper bounds for any observer of all outputs, rounded up.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.exact import decimal_upper, enclose, is_infinite, upper_fraction, working_precision
from dpaudit.measures.convert import normal_cdf

PRIORS = ("0.01", "0.1", "0.5")
FALSE_POSITIVE_RATE = "0.001"
TAIL = 12


def in_plain_words(account: Account) -> dict[str, Any] | None:
    """The best guess's rate of success, power at FPR 0.001 and mean posteriors; None without mu."""
    if "gdp" not in account.routes() or is_infinite(account.step("gdp").value):
        return None
    with working_precision():
        end = upper_fraction(enclose(account.step("gdp").value))
        if end is None:
            return None  # finite, and beyond what any precision tells from infinity
        mu = enclose(end)
        return {
            "membership_guess_upper": _chance(normal_cdf(mu / 2)),
            f"true_positive_rate_at_{FALSE_POSITIVE_RATE}_upper": _chance(_power(mu)),
            "posterior": [[p, _chance(mean_posterior(Fraction(p), mu))] for p in PRIORS],
        }


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

    inner = flint.acb.integral(density, flint.acb(-TAIL), flint.acb(TAIL)).real
    return inner + 2 * normal_cdf(-enclose(Fraction(TAIL)))
