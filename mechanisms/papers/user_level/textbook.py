"""The paper's toolbox as textbooks have it: what Appendix A composes its proofs of.

The accountant needs none of it; tests/catalogue/unit/test_user_level_options shows by how much it
is tighter in one composition on sampled batches.
Source: Lowy, Liu, Asi 2024, Appendix A; Dwork, Roth 2014, Sections 3.3, 3.5 and 3.6.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian, Laplace
from mechanisms.papers.user_level.constants import budget, gaussian_delta, rounded_up


def laplace_mechanism(label: str, epsilon: object) -> Laplace:
    """Laplace noise of scale sensitivity / epsilon: (epsilon, 0)-DP."""
    found, _ = budget(epsilon, Fraction(1, 2))
    return Laplace(label, 1 / found)


def gaussian_mechanism(label: str, epsilon: object, delta: object) -> Gaussian:
    """sigma = sensitivity sqrt(2 log(2 / delta)) / epsilon, where that is (epsilon, delta)-DP.

    Errors: InvalidParameter at a larger epsilon, though Lemma A.5 is stated for all: there
    :func:`mechanisms.papers.user_level.constants.kappa` has the least noise.
    Source: Lowy, Liu, Asi 2024, Lemma A.5.
    """
    found, allowed = budget(epsilon, delta)
    noise = rounded_up(math.sqrt(2 * math.log(2 / float(allowed))) / float(found))
    (reached,) = gaussian_delta(float(found), np.array([1 / float(noise)]))
    if reached > float(allowed):
        raise InvalidParameter(
            f"epsilon = {float(found):g}: the noise of Lemma A.5 has delta = {reached:.4g} there, "
            f"not {float(allowed):g}; take the noise multiplier kappa(epsilon, delta)"
        )
    return Gaussian(label, noise)


def advanced_composition(
    epsilon: float, delta: float, times: int, slack: float
) -> tuple[float, float]:
    """(sqrt(2 T log(1/slack)) epsilon + T epsilon (e^epsilon - 1), T delta + slack).

    Source: Dwork, Rothblum, Vadhan 2010, Theorem III.3; Lowy, Liu, Asi 2024, Lemma A.7.
    """
    spread = math.sqrt(2 * times * math.log(1 / slack)) * epsilon
    return spread + times * epsilon * math.expm1(epsilon), times * delta + slack


def amplify_by_subsampling(epsilon: float, delta: float, share: float) -> tuple[float, float]:
    """(log(1 + q (e^epsilon - 1)), q delta), of a batch drawn without replacement.

    Lemma A.8 prints (e^epsilon - 1) q, which is larger.
    Errors: InvalidParameter for a share outside (0, 1].
    Source: Balle, Barthe, Gaboardi 2018, Theorem 9.
    """
    if not 0 < share <= 1:
        raise InvalidParameter(f"share = {share}: expected 0 < share <= 1")
    return math.log1p(share * math.expm1(epsilon)), share * delta
