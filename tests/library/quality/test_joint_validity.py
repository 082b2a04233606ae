"""Errors of the exact joint test and of its bounds, summed over all outcomes: nothing is sampled.

For every count y of the other side, bisection finds the fewest hits x that the test refuses; with
more hits it refuses too.  P(refused) is then a sum of binomial tails, exact to rounding, at every
pair of true rates.  At 5% nominal it is never above 5%, and near 5% where counts are not too few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpaudit.audit.bounds.estimators import Counts
from dpaudit.audit.bounds.joint import (
    joint_epsilon_lower,
    joint_mu_lower,
    joint_rho_lower,
    region_p_value,
)
from dpaudit.measures.region import (
    ApproxRegion,
    GaussianRegion,
    Region,
    RenyiRegion,
    zcdp_region,
)

ERROR = 0.05
TRIM = ERROR / 200
REGIONS: dict[str, Region] = {
    "equal": ApproxRegion(0.0),
    "pure": ApproxRegion(1.0),
    "approximate": ApproxRegion(0.5, 0.05),
    "delta only": ApproxRegion(0.0, 0.1),
    "large": ApproxRegion(3.0, 1e-5),
    "gaussian": GaussianRegion(0.5),
    "wide gaussian": GaussianRegion(2.0),
    "renyi": RenyiRegion((4.0,), (0.5,)),
    "zcdp": zcdp_region(0.125),
}
SIZES = [(10, 10), (30, 30), (100, 100), (40, 120)]
SLOW = {"zcdp": 10, "renyi": 30}
CASES = [
    (name, size) for name in REGIONS for size in SIZES if max(size) <= SLOW.get(name, max(size))
]


def fewest(refused: Callable[[int], bool], start: int, trials: int) -> int:
    """The fewest hits, from ``start`` on, that are refused; trials + 1 if none are."""
    low, high = start, trials + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if refused(middle) else (middle + 1, high)
    return low


def boundary(refused: Callable[[int, int], bool], trials: int, other: int) -> Any:
    """For each count of the other side, the fewest hits that are refused."""
    found, start = [], 0
    for y in range(other + 1):
        start = fewest(lambda x, y=y: refused(x, y), start, trials) if start <= trials else start
        found.append(start)
    return np.array(found)


def errors(found: Any, trials: int, p: Any, q: Any) -> Any:
    """P(hits >= found[other_hits]) at each pair (p, q)."""
    other = found.size - 1
    law = binom.pmf(np.arange(other + 1)[None], other, q[:, None])
    return (law * binom.sf(found[None] - 1, trials, p[:, None])).sum(axis=1)


@pytest.mark.parametrize(("name", "size"), CASES, ids=str)
def test_errors_of_the_test_at_true_claims(name: str, size: tuple[int, int]) -> None:
    region, (trials, other) = REGIONS[name], size
    found = boundary(
        lambda x, y: region_p_value(x, trials, y, other, region, TRIM) <= ERROR, trials, other
    )
    q = np.sin(np.linspace(0, np.pi / 2, 401)) ** 2
    edge = errors(found, trials, region.largest(q), q)
    assert edge.max() <= ERROR * (1 + 1e-9)
    inside = errors(found, trials, region.largest(q) * 0.97, q)
    assert inside.max() <= ERROR * (1 + 1e-9)
    if min(size) >= 30 and (name, size) != ("large", (30, 30)):  # e^3 needs more than 30 trials
        assert edge.max() >= 0.04
        # Within four standard errors of a corner two inequalities are as near as one elsewhere:
        # the error is smaller there.
        expected = np.minimum(other * q, trials * (1 - region.largest(q)))
        far = [
            abs(q - corner) > 4 * np.sqrt(corner * (1 - corner) / min(size))
            for corner in region.corners
        ]
        assert (edge[(expected > 12) & np.all(far or [q >= 0], axis=0)] >= 0.03).all()
        assert (edge[expected > 12] >= 0.01).all()


@pytest.mark.parametrize("trials", [12, 40])
@pytest.mark.parametrize(
    ("bound", "family", "truth"),
    [
        (lambda counts: joint_epsilon_lower(counts, 0.0, ERROR), ApproxRegion, 0.0),
        (lambda counts: joint_epsilon_lower(counts, 0.0, ERROR), ApproxRegion, 1.0),
        (
            lambda counts: joint_epsilon_lower(counts, 0.05, ERROR),
            lambda epsilon: ApproxRegion(epsilon, 0.05),
            0.5,
        ),
        (lambda counts: joint_mu_lower(counts, ERROR), GaussianRegion, 0.7),
        (lambda counts: joint_rho_lower(counts, ERROR), zcdp_region, 0.2),
    ],
    ids=["epsilon 0", "epsilon 1", "epsilon 0.5 at delta 0.05", "mu 0.7", "rho 0.2"],
)
def test_errors_of_bounds_at_true_claims(
    bound: Callable[[Counts], float],
    family: Callable[[float], Region],
    truth: float,
    trials: int,
) -> None:
    """P(bound > truth) at 201 pairs of rates on the edge of the true claim."""
    found = boundary(
        lambda x, y: bound(Counts(y, trials, trials - x, trials)) > truth, trials, trials
    )
    q = np.sin(np.linspace(0, np.pi / 2, 201)) ** 2
    edge = errors(found, trials, family(truth).largest(q), q)
    assert edge.max() <= ERROR * (1 + 1e-9)
    if trials >= 40 and family is not zcdp_region:
        assert edge.max() >= 0.03


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
@pytest.mark.parametrize(("trials", "q"), [(10_000, 0.01), (100_000, 0.002), (10**6, 0.02)])
def test_errors_of_bounds_in_samples(trials: int, q: float, epsilon: float) -> None:
    """400 runs at a true claim: between 2% and 8% above it, nominal 5%.

    At exactly 5% the number above 32 of 400 has probability 0.4%, that below 8 has 0.1%.
    """
    rng = np.random.default_rng([trials, int(100 * epsilon)])
    region = ApproxRegion(epsilon, 1e-5)
    p = float(region.largest(np.array([q]))[0])
    hits, other_hits = rng.binomial(trials, p, 400), rng.binomial(trials, q, 400)
    refused = sum(
        region_p_value(int(x), trials, int(y), trials, region, TRIM) <= ERROR
        for x, y in zip(hits, other_hits, strict=True)
    )
    assert 8 <= refused <= 32
    above = sum(
        joint_epsilon_lower(Counts(int(y), trials, trials - int(x), trials), 1e-5, ERROR) > epsilon
        for x, y in zip(hits[:60], other_hits[:60], strict=True)
    )
    assert above <= 9
