"""Privacy loss distributions of other tools, as points of their profile."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ProfilePoints

# Points of the profile; lines between them lie about 1e-3 above a Gaussian's epsilon.
PROFILE_POINTS = 256
MAX_EPSILON = 2.0**10  # Nats: no larger epsilon is asked for.
LEAST_DELTA = 1e-18  # A delta smaller than that of any claim.
READ_ROUNDING = 1 + 1e-9  # Factor for the relative error of the floats that are read.


def from_pld(distribution: Any, source: str, points: int = PROFILE_POINTS) -> ProfilePoints:
    """The declaration of a mechanism whose privacy loss distribution another tool computed.

    ``distribution``: dp_accounting's PrivacyLossDistribution, or any object whose
    get_delta_for_epsilon(epsilon) is an upper bound of delta in both directions; ``source``: who
    computed it, as the guarantee rests on that.  ``points``: at how many equal steps of epsilon it
    is read, up to where delta falls no more or is below 1e-18.  Errors: InvalidParameter for fewer
    than two points, an optimistic distribution of dp_accounting, or a number that is no delta.

    >>> from dp_accounting.pld import privacy_loss_distribution as pld
    >>> node = from_pld(pld.from_laplace_mechanism(2), "dp_accounting, Laplace noise of scale 2")
    >>> import dpaudit as dp
    >>> dp.account(node, dp.central("add_remove")).delta("0.25").upper < 0.1177
    True
    """
    if points < 2:
        raise InvalidParameter(f"points={points}: expected 2 or more")
    laws = (getattr(distribution, name, None) for name in ("_pmf_remove", "_pmf_add"))
    if not all(getattr(law, "_pessimistic_estimate", True) for law in laws):
        raise InvalidParameter(
            "an optimistic distribution bounds delta from below: make it with "
            "pessimistic_estimate=True"
        )

    def delta(epsilon: float) -> float:
        answer = float(distribution.get_delta_for_epsilon(epsilon))
        if not 0 <= answer < 1:
            raise InvalidParameter(f"delta {answer} at epsilon {epsilon}: expected one in [0, 1)")
        return answer

    last, far_delta = 1.0, delta(MAX_EPSILON)
    while last < MAX_EPSILON and delta(last) > max(LEAST_DELTA, far_delta * READ_ROUNDING):
        last *= 2
    epsilons = [last * k / (points - 1) for k in range(points)]
    points_below: list[tuple[Fraction, Fraction]] = []
    least = 1.0
    for epsilon in epsilons:
        least = min(least, delta(epsilon) * READ_ROUNDING)
        points_below.append((Fraction(epsilon), Fraction(least)))
    return ProfilePoints(tuple(points_below), source=source)
