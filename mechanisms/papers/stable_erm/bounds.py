"""Formulas of the paper: how large a unit has to be (utility only), and error rates.

A unit that is too small costs bottoms, one that is too large costs noise; neither costs privacy.
All logarithms are natural.  Source: Ghazi et al. 2023, as each function says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from dpaudit.errors import InvalidParameter

DELTA_RULES = ("line3", "paper", "tight")
LINE_3 = 10 * math.sqrt(5)


@dataclass(frozen=True)
class Size:
    """Users, items of each user, and the probability that a bound of utility may fail with.

    Errors: InvalidParameter for counts that are not positive, a beta outside (0, 1/e).
    """

    users: int
    items: int
    beta: float

    def __post_init__(self) -> None:
        for name in ("users", "items"):
            value = getattr(self, name)
            if not (hasattr(value, "__index__") and value > 0):
                raise InvalidParameter(f"{name} = {value}: expected a positive whole number")
        if not 0 < self.beta < 1 / math.e:
            raise InvalidParameter(f"beta = {self.beta}: expected in (0, 1/e)")


def erm_deletion_sensitivity_bound(
    lipschitz: float, modulus: float, size: Size, kappa: int, rule: str = "paper"
) -> float:
    """Delta with Delta_{4 kappa} f <= Delta with probability 1 - beta over who gets which items.

    "paper": 5 G sqrt((r+1) ln n + ln(1/beta)) / (mu (n-r-1) sqrt(m)), r = 4 kappa; "line3":
    10 sqrt(5) G sqrt(kappa ln n + ln(1/beta)) / (mu n sqrt(m)), its constant made explicit;
    "tight": by the transductive McDiarmid inequality with an exact count of subsets.
    Errors: InvalidParameter for n <= 4 kappa + 1, an unknown rule, constants that are not positive.
    Source: Ghazi et al. 2023, Corollary 3.7 and Algorithm 2, line 3; El-Yaniv and Pechyony 2009.
    """
    _check(lipschitz, modulus)
    deleted, n = 4 * kappa, size.users
    left = n - deleted - 1
    if left < 1:
        raise InvalidParameter(f"{n} users: kappa = {kappa} needs at least {deleted + 2}")
    tail, root = math.log(1 / size.beta), math.sqrt(size.items)
    if rule == "line3":
        inside = kappa * math.log(n) + tail
        return LINE_3 * lipschitz * math.sqrt(inside) / (modulus * n * root)
    if rule == "paper":
        inside = (deleted + 1) * math.log(n) + tail
        return 5 * lipschitz * math.sqrt(inside) / (modulus * left * root)
    if rule == "tight":
        inside = 2 * (log_pairs(n, deleted) + tail) / (1 - 1 / (2 * left * size.items))
        return lipschitz * (1 + math.sqrt(inside)) / (modulus * left * root)
    raise InvalidParameter(f"delta_rule = {rule!r}: expected one of {', '.join(DELTA_RULES)}")


def log_pairs(users: int, deleted: int) -> float:
    """log of sum_{k <= r} C(n, k) (n - k): how many steps a stability test looks at."""
    k = np.arange(deleted + 1)
    logs = gammaln(users + 1) - gammaln(k + 1) - gammaln(users - k + 1) + np.log(users - k)
    return float(logsumexp(logs))


def without_replacement_vector_bound(
    lipschitz: float, items: int, population: int, beta: float, rule: str = "paper"
) -> float:
    """||sum of m vectors drawn without replacement|| <= this with probability 1 - beta.

    The N vectors sum to 0 and have norm at most G.  "paper": 5 G sqrt(m ln(1/beta)); "tight":
    sqrt(m) G (1 + sqrt(2 ln(1/beta) / (1 - 1/(2 (N-m))))), for N - m >= m.
    Source: Ghazi et al. 2023, Lemma 3.8; El-Yaniv and Pechyony 2009.
    """
    _check(lipschitz, 1.0)
    tail = math.log(1 / Size(population, items, beta).beta)
    if rule == "paper":
        return 5 * lipschitz * math.sqrt(items * tail)
    if rule != "tight" or population < 2 * items:
        raise InvalidParameter(
            f"rule = {rule!r} with {items} of {population}: expected paper, or tight with at most "
            "half of the population drawn"
        )
    inside = 2 * tail / (1 - 1 / (2 * (population - items)))
    return math.sqrt(items) * lipschitz * (1 + math.sqrt(inside))


def gradient_radius(lipschitz: float, size: Size, rule: str = "tight") -> float:
    """gamma: all users' centred mean gradients are within it with probability 1 - beta.

    "paper": 5 G sqrt(ln(n/beta) / m); "tight": G (1 + sqrt(2 ln(n/beta))) / sqrt(m).
    Source: Ghazi et al. 2023, Appendix C.
    """
    _check(lipschitz, 1.0)
    tail = math.log(size.users / size.beta)
    if rule not in ("paper", "tight"):
        raise InvalidParameter(f"rule = {rule!r}: expected paper or tight")
    factor = 5 * math.sqrt(tail) if rule == "paper" else 1 + math.sqrt(2 * tail)
    return lipschitz * factor / math.sqrt(size.items)


def erm_population_distance_bound(lipschitz: float, modulus: float, size: Size) -> float:
    """||theta*(x) - theta*(D)|| <= 30 G sqrt(ln(2/beta)) / (mu sqrt(n m)) w.p. 1 - beta, i.i.d.

    Source: Ghazi et al. 2023, Proposition B.1.
    """
    _check(lipschitz, modulus)
    root = math.sqrt(size.users * size.items)
    return 30 * lipschitz * math.sqrt(math.log(2 / size.beta)) / (modulus * root)


def erm_population_excess_bound(lipschitz: float, modulus: float, size: Size) -> float:
    """Expected excess population risk of the minimiser: 4 G^2 / (mu n m).

    Source: Shalev-Shwartz, Shamir, Srebro, Sridharan 2009, Theorem 6.
    """
    _check(lipschitz, modulus)
    return 4 * lipschitz**2 / (modulus * size.users * size.items)


def gaussian_norm_bound(dimension: int, beta: float) -> float:
    """||N(0, I_d)|| <= sqrt(d) + sqrt(2 ln(1/beta)) with probability 1 - beta."""
    return math.sqrt(dimension) + math.sqrt(2 * math.log(1 / beta))


def excess_risk(
    level: str, objective: str, lipschitz: float, radius: float, dimension: int, size: Size
) -> float:
    """Table 1 without logarithms and powers of 1/epsilon, convex losses, a domain of radius R.

    "user", "erm": R G sqrt(d) / (n sqrt(m)); "user", "sco": that plus R G / sqrt(n m); "item": the
    same at one item a user.
    Source: Ghazi et al. 2023, Table 1, Theorems 4.1 and 5.1.
    """
    if level not in ("user", "item") or objective not in ("erm", "sco"):
        raise InvalidParameter(f"{level!r}, {objective!r}: expected user or item, erm or sco")
    items = size.items if level == "user" else 1
    private = math.sqrt(dimension) / (size.users * math.sqrt(items))
    sampled = 1 / math.sqrt(size.users * items) if objective == "sco" else 0.0
    return lipschitz * radius * (private + sampled)


def strongly_convex_risk(
    level: str, objective: str, lipschitz: float, modulus: float, dimension: int, size: Size
) -> float:
    """Table 1 as :func:`excess_risk`, mu-strongly convex losses: the same squared, G/mu for R.

    "user", "erm": G^2 d / (mu n^2 m); "user", "sco": that plus G^2 / (mu n m).
    Source: Ghazi et al. 2023, Table 1, Theorems 4.3 and 5.3.
    """
    _check(lipschitz, modulus)
    private = excess_risk(level, "erm", 1.0, 1.0, dimension, size) ** 2
    sampled = excess_risk(level, objective, 1.0, 1.0, dimension, size) - math.sqrt(private)
    return lipschitz**2 / modulus * (private + sampled**2)


def break_even_items(noise_at_one_item: float, naive_deviation: float) -> float:
    """Items a user from which sigma = noise / sqrt(m) is below a deviation that m does not move."""
    return (noise_at_one_item / naive_deviation) ** 2


def _check(lipschitz: float, modulus: float) -> None:
    for name, value in (("G", lipschitz), ("mu or R", modulus)):
        if not (math.isfinite(value) and value > 0):
            raise InvalidParameter(f"{name} = {value}: expected a positive number")
