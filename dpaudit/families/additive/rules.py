"""Rules of Gaussian and Laplace noise, in every calculus."""

from __future__ import annotations

from fractions import Fraction

from dpaudit.exact import Number, exp, log
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source, always
from dpaudit.measures.gdp import CORNER, GAUSSIAN, corner
from dpaudit.measures.implied import gaussian, unbounded
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED, FROM_PURE
from dpaudit.pairs import LaplaceShift, Losses, Normal, one

Pair = tuple[Number, Number]

DWORK = Source("Dwork, McSherry, Nissim, Smith", 2006, "Proposition 1")
GAUSSIAN_TRADEOFF = Source("Dong, Roth, Su", 2022, "Theorem 2.7")
GAUSSIAN_NOISE = Source("Bun, Steinke", 2016, "Proposition 1.6")
TABLE = Source("Mironov", 2017, "Table II")
BALLE_WANG = Source("Balle, Wang", 2018, "Theorem 8")
SHIFTED_LAPLACE = Source("Dwork, McSherry, Nissim, Smith", 2006, "Proposition 1, and dpaudit 2026")

unbounded(Gaussian)
gaussian(
    Gaussian,
    ("gaussian", "gaussian", "gaussian"),
    lambda node: 1 / node.noise_multiplier,
    GAUSSIAN_TRADEOFF,
    GAUSSIAN_NOISE,
    TABLE,
    attained=always,
)


@PURE.rule(Laplace, "laplace", cite=DWORK, attained=always)
def laplace_pure(node: Laplace) -> Number:
    """Loss of Laplace noise of scale b times the sensitivity: at most 1/b, and reached."""
    return 1 / node.noise_multiplier


@APPROX.rule(Laplace, "laplace", cite=DWORK)
def laplace_approximate(node: Laplace) -> Pair:
    """Laplace noise of scale b times the sensitivity is (1/b, 0)-DP."""
    return 1 / node.noise_multiplier, Fraction(0)


@GAUSSIAN.rule(Laplace, "laplace", cite=CORNER)
def laplace_gaussian_dp(node: Laplace) -> Number:
    """As pure differential privacy with epsilon = 1 / b."""
    return corner(1 / node.noise_multiplier)


@CONCENTRATED.rule(Laplace, "laplace", cite=FROM_PURE)
def laplace_concentrated(node: Laplace) -> Number:
    """epsilon^2 / 2 with epsilon = 1 / b."""
    return 1 / (2 * node.noise_multiplier**2)


@RENYI.rule(Laplace, "laplace", cite=TABLE, attained=always)
def laplace_renyi(node: Laplace) -> Number:
    """log(a e^((alpha-1)/b) + (1-a) e^(-alpha/b)) / (alpha-1), a = alpha / (2 alpha - 1)."""
    alpha, epsilon = order(), 1 / node.noise_multiplier
    share = alpha / (2 * alpha - 1)
    moments = share * exp((alpha - 1) * epsilon) + (1 - share) * exp(-alpha * epsilon)
    return log(moments) / (alpha - 1)


@PROFILE.rule(Gaussian, "gaussian", cite=BALLE_WANG)
def gaussian_profile(node: Gaussian) -> Losses:
    """N(1/z, 1) against N(0, 1): an equality when the query moves by its sensitivity."""
    return one(Normal(1 / node.noise_multiplier))


@PROFILE.rule(Laplace, "laplace", cite=SHIFTED_LAPLACE)
def laplace_profile(node: Laplace) -> Losses:
    """One coordinate moved by the whole sensitivity, which dominates any split over several.

    Proof: let e1 <= e2 be the losses of two coordinates and 0 <= t <= e1 + e2.  The first loss is
    at most e1, so delta of the product at t is at most delta_2(t - e1) = 1 - exp((t - e1 - e2)/2),
    as |t - e1| <= e2; negative t follow by symmetry, more coordinates by induction.
    """
    return one(LaplaceShift(1 / node.noise_multiplier))
