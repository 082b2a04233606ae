"""Stated bounds, privacy profile, trade-off curve and plain words, from the checker's own fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from dpaudit.check.derivation import Value, own_bound
from dpaudit.check.normal import gaussian_delta, normal_cdf, quantile
from dpaudit.check.reading import SLACK, Json, decimal, require, rounded_down, rounded_up
from dpaudit.exact import enclose, is_infinite, unknowns, working_precision
from dpaudit.nodes import Node

SIX_DIGITS = Fraction(11, 10**6)
FALSE_POSITIVE_RATE = Fraction(1, 1000)
TAIL = 12  # standard deviations; the normal mass beyond is added as an error

Points: TypeAlias = Sequence[tuple[Fraction, Fraction]]


def own_mu(root: Node, adjacency: str) -> Any:
    """The declaration's mu as a fraction or expression; None without one, or with symbols left."""
    mu = own_bound(root, "gdp", adjacency)
    return None if mu is None or is_infinite(mu) or unknowns(mu) else mu


def check_curves(predicate: Json, root: Node, values: Sequence[Value]) -> None:
    """Errors: CertificateRejected for a bound, a curve or a word that does not follow."""
    curves = [g for g in predicate["derivation"]["upper_bounds"] if "curve" in g]
    _listed(predicate)
    names = [g["measure"] for g in curves if g["measure"] != "rdp"]
    require(len(set(names)) == len(names), "a curve is stated twice")
    words = predicate["in_plain_words"]
    if not (names or words):
        return
    mu = own_mu(root, predicate["scope"]["adjacency"])
    if mu is None:
        _from_points(predicate, root, values, {g["measure"]: g["curve"] for g in curves})
        return
    with working_precision():
        ball = enclose(mu)
        for row in curves:
            if row["measure"] in CURVES:
                CURVES[row["measure"]](row["curve"], ball)
        if words:
            power = normal_cdf(quantile(enclose(FALSE_POSITIVE_RATE)) + ball)
            _confirm(words, normal_cdf(ball / 2), power, lambda prior: _mean_posterior(prior, ball))


def _listed(predicate: Json) -> None:
    """The stated numbers are the claims' upper bounds, each once, in their order."""
    numbers = [g for g in predicate["derivation"]["upper_bounds"] if g["measure"] not in CURVES]
    uppers: list[Any] = []
    for row in predicate["claims"]:
        if row["upper"] is not None and row["upper"] not in uppers:
            uppers.append(row["upper"])
    require(numbers == uppers, "the upper bounds listed are not those of the claims")


def _profile(curve: Any, mu: Any) -> None:
    for epsilon, text in curve:
        exact = gaussian_delta(decimal(epsilon), mu) if mu > 0 else enclose(Fraction(0))
        follows = _chance(text, exact, SLACK)
        require(follows, f"privacy profile at epsilon {epsilon}: {text} is not its bound")


def _tradeoff(curve: Any, mu: Any) -> None:
    for alpha, text in curve:
        exact = normal_cdf(quantile(1 - enclose(decimal(alpha))) - mu)
        follows = rounded_down(text, exact)
        require(follows, f"trade-off curve at {alpha}: {text} is not its bound")


CURVES = {"profile": _profile, "tradeoff": _tradeoff}


def _confirm(words: Json, guess: Any, power: Any, posterior: Callable[[Fraction], Any]) -> None:
    stated = [
        ("membership guess", words["membership_guess_upper"], guess),
        ("true-positive rate", words["true_positive_rate_at_0.001_upper"], power),
    ]
    for prior, text in words["posterior"]:
        stated.append((f"posterior of {prior}", text, posterior(decimal(prior))))
    for name, text, exact in stated:
        follows = _chance(text, exact, SIX_DIGITS)
        require(follows, f"{name}: {text} is not its bound, rounded up")


def _chance(text: str, exact: Any, slack: Fraction) -> bool:
    """Whether a decimal is a probability from above; 1 is above every probability."""
    if text == "1":
        return bool(exact * (1 + enclose(slack)) >= 1)
    return rounded_up(text, exact, slack)


def _mean_posterior(prior: Fraction, mu: Any) -> Any:
    """E[1 / (1 + exp(-(logit(prior) + mu^2/2 + mu Z)))], Z standard normal; the tails are added."""
    import flint

    require(0 < prior < 1, "a prior is outside (0, 1)")
    shift = enclose(prior / (1 - prior)).log() + mu * mu / 2

    def weighted(z: Any, analytic: Any) -> Any:
        normal = (-z * z / 2).exp() / (2 * flint.acb.pi()).sqrt()
        return normal / (1 + (-(shift + mu * z)).exp())

    inside = flint.acb.integral(weighted, flint.acb(-TAIL), flint.acb(TAIL)).real
    return inside + 2 * normal_cdf(-enclose(Fraction(TAIL)))


# --- without mu: from points (epsilon, delta) that steps of the derivation conclude ---------------


def _from_points(predicate: Json, root: Node, values: Sequence[Value], curves: Json) -> None:
    """Steps that only the accountant computed conclude no point."""
    steps = predicate["derivation"]["steps"]
    shown = {
        (row["conclusion"]["epsilon"], row["conclusion"]["delta"])
        for row, value in zip(steps, values, strict=True)
        if value.doubt is None
        and not value.on_trust
        and row["node"] == root.digest
        and row["conclusion"]["measure"] == "approx_dp"
    }
    rows = curves.get("profile", [])
    require(rows, "curves or plain words, but neither mu nor a privacy profile")
    for row in rows:
        require(tuple(row) in shown, f"privacy profile at epsilon {row[0]}: no step concludes it")
    points = [(decimal(epsilon), decimal(delta)) for epsilon, delta in rows]
    require(points == sorted(points), "the points of the privacy profile are out of order")
    with working_precision():
        for alpha, text in curves.get("tradeoff", []):
            follows = rounded_down(text, _missed(points, decimal(alpha)))
            require(follows, f"trade-off curve at {alpha}: {text} is not its bound")
        words = predicate["in_plain_words"]
        if words:
            far = _total_variation(points)
            power = 1 - _missed(points, FALSE_POSITIVE_RATE)
            _confirm(words, (1 + far) / 2, power, lambda prior: _posterior(prior, points, far))


def _missed(points: Points, alpha: Fraction) -> Any:
    """The largest of 0, 1 - delta - e^epsilon alpha and (1 - delta - alpha) e^-epsilon."""
    best = enclose(Fraction(0))
    for epsilon, delta in points:
        times = enclose(epsilon).exp()
        best = best.max(enclose(1 - delta) - times * enclose(alpha))
        best = best.max(enclose(1 - delta - alpha) / times)
    return best


def _total_variation(points: Points) -> Any:
    """The least of 1 - 2 (1 - delta) / (1 + e^epsilon): the hockey stick is convex, and 1 at 0."""
    best = enclose(Fraction(1))
    for epsilon, delta in points:
        best = best.min(1 - 2 * enclose(1 - delta) / (1 + enclose(epsilon).exp()))
    return best


def _posterior(prior: Fraction, points: Points, far: Any) -> Any:
    """p plus the integral of 2 p q^2 ((p u + q)^-3 + (q u + p)^-3) E_u over u >= 1.

    E_u is at most the chord between two points, and level beyond the last; on each interval the
    integral of (k + m u) / s^3, s = a u + b, is taken in s: u = (s - b) / a.
    """
    require(0 < prior < 1, "a prior is outside (0, 1)")
    p, q = enclose(prior), enclose(1 - prior)
    us = [enclose(Fraction(1)), *(enclose(e).exp() for e, _ in points if e > 0)]
    heights = [far, *(enclose(d) for e, d in points if e > 0)]
    integral = heights[-1] * sum(_cubed(a, b, us[-1]) for a, b in ((p, q), (q, p)))
    for i in range(len(us) - 1):
        m = (heights[i + 1] - heights[i]) / (us[i + 1] - us[i])
        for a, b in ((p, q), (q, p)):
            # k + m u = (k - m b / a) + (m / a) s, with k the chord at u = 0.
            constant = heights[i] - m * us[i] - m * b / a
            integral += constant * (_cubed(a, b, us[i]) - _cubed(a, b, us[i + 1]))
            integral += m / a * (1 / (a * us[i] + b) - 1 / (a * us[i + 1] + b)) / a
    return p + 2 * p * q * q * integral


def _cubed(a: Any, b: Any, start: Any) -> Any:
    """The integral of (a u + b)^-3 from ``start`` on."""
    return 1 / (2 * a * (a * start + b) ** 2)
