"""Stated bounds, privacy profile, trade-off curve and plain words, from the checker's own fold."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.check.derivation import own_bound
from dpaudit.check.normal import gaussian_delta, normal_cdf, quantile
from dpaudit.check.reading import SLACK, Json, decimal, require, rounded_down, rounded_up
from dpaudit.exact import enclose, is_infinite, unknowns, working_precision
from dpaudit.nodes import Node

SIX_DIGITS = Fraction(11, 10**6)
FALSE_POSITIVE_RATE = Fraction(1, 1000)
TAIL = 12


def own_mu(root: Node, adjacency: str) -> Any:
    """The declaration's mu as a fraction or expression; None without one, or with symbols left."""
    mu = own_bound(root, "gdp", adjacency)
    return None if mu is None or is_infinite(mu) or unknowns(mu) else mu


def check_curves(predicate: Json, root: Node) -> None:
    """Errors: CertificateRejected for a bound, a curve or a word that does not follow."""
    curves = [g for g in predicate["derivation"]["upper_bounds"] if "curve" in g]
    _listed(predicate)
    names = [g["measure"] for g in curves if g["measure"] != "rdp"]
    require(len(set(names)) == len(names), "a curve is stated twice")
    words = predicate["in_plain_words"]
    if not (names or words):
        return
    mu = own_mu(root, predicate["scope"]["adjacency"])
    require(mu is not None, "curves or plain words, but no mu")
    with working_precision():
        ball = enclose(mu)
        for row in curves:
            if row["measure"] in CURVES:
                CURVES[row["measure"]](row["curve"], ball)
        if words:
            _plain_words(words, ball)


def _listed(predicate: Json) -> None:
    """The stated numbers are the claims' upper bounds, each once, in their order."""
    numbers = [g for g in predicate["derivation"]["upper_bounds"] if g["measure"] not in CURVES]
    found: list[Any] = []
    for row in predicate["claims"]:
        if row["upper"] is not None and row["upper"] not in found:
            found.append(row["upper"])
    require(numbers == found, "the upper bounds listed are not those of the claims")


def _profile(curve: Any, mu: Any) -> None:
    for epsilon, text in curve:
        exact = gaussian_delta(decimal(epsilon), mu) if mu > 0 else enclose(Fraction(0))
        held = _chance(text, exact, SLACK)
        require(held, f"privacy profile at epsilon {epsilon}: {text} is not its bound")


def _tradeoff(curve: Any, mu: Any) -> None:
    for alpha, text in curve:
        exact = normal_cdf(quantile(1 - enclose(decimal(alpha))) - mu)
        held = rounded_down(text, exact)
        require(held, f"trade-off curve at {alpha}: {text} is not its bound")


CURVES = {"profile": _profile, "tradeoff": _tradeoff}


def _plain_words(words: Json, mu: Any) -> None:
    power = normal_cdf(quantile(enclose(FALSE_POSITIVE_RATE)) + mu)
    stated = [
        ("membership guess", words["membership_guess_upper"], normal_cdf(mu / 2)),
        ("true-positive rate", words["true_positive_rate_at_0.001_upper"], power),
    ]
    for prior, text in words["posterior"]:
        stated.append((f"posterior of {prior}", text, _mean_posterior(decimal(prior), mu)))
    for name, text, exact in stated:
        held = _chance(text, exact, SIX_DIGITS)
        require(held, f"{name}: {text} is not its bound, rounded up")


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
