"""False alarms of the conformance checks on right noise, kernel by kernel and scale by scale.

``python -m benchmarks.false_alarms [SEEDS] [KERNEL]`` draws every shipped kernel as declared, at
scales from epsilon 1/100 to 64 and around values up to 10^9, in runs of 1, 4 and 16 releases.  Each
run goes through all checks of residuals at their error rate of 1e-6, and once at 5%, where false
alarms can be counted; two samples from different generators go through the check of ties.  The
table has the runs, the alarms at either rate, and the end of the 95% Clopper-Pearson interval.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import beta

import dpaudit as dp
from dpaudit.audit.examine.noise import log_chance_of_ties
from dpaudit.audit.residuals import check_residuals
from dpaudit.check.laws import CONFORMANCE_ERROR
from dpaudit.families.bounded import Staircase, StudentT, TruncatedLaplace, Tulap
from dpaudit.families.discrete import TruncatedDiscreteLaplace
from dpaudit.families.distributed import (
    DistributedGaussian,
    DistributedSkellam,
    DistributedSkellamVector,
)
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.individual import IndividualGaussian
from dpaudit.families.iterates import LastIterate
from dpaudit.families.selection import IntegerExponentialMechanism, NoisyComparisons
from dpaudit.families.stability import CoupledGaussian, StableRelease
from dpaudit.families.tabular import (
    DiscreteGaussianVector,
    ThresholdedDiscreteGaussian,
    ThresholdedDiscreteLaplace,
)
from dpaudit.kernels.base import exact_kernels, kernel_of

SCALES = tuple(Fraction(e) for e in ("1/100", "1", "4", "16", "64"))
RELEASES = (1, 4, 16)
TRIALS = 8  # of one run
TIED = 200  # trials in a sample of which ties are counted
COUNTED = 0.05
ERROR = float(CONFORMANCE_ERROR)


@dataclass(frozen=True)
class Case:
    """A leaf of loss ``epsilon`` a release, the value it is drawn around, and whether exactly."""

    leaf: Callable[[Fraction], Any]
    value: tuple[float, ...]
    exact: bool = False

    def kernel(self, epsilon: Fraction) -> tuple[Any, type[Any]]:
        """The leaf and who draws it."""
        leaf = self.leaf(epsilon)
        return leaf, exact_kernels()[type(leaf)] if self.exact else kernel_of(leaf)


def _variance(e: Fraction) -> Fraction:
    return 1 / e**2


def _no_less(e: Fraction) -> Fraction:
    """A variance of noise of whole numbers, of which tables stay small."""
    return min(max(1 / e**2, Fraction(1, 100)), Fraction(2_000))


CASES: dict[str, Case] = {
    "Gaussian": Case(lambda e: dp.Gaussian("a", 1 / e), (0.5, -3.0)),
    "Gaussian, of large values": Case(lambda e: dp.Gaussian("a", 1 / e), (1e9, 1e15)),
    "Gaussian on a grid": Case(lambda e: dp.Gaussian("a", 1 / e), (0.5, 1e6), exact=True),
    "Laplace": Case(lambda e: dp.Laplace("a", 1 / e), (0.5,)),
    "Laplace, of large values": Case(lambda e: dp.Laplace("a", 1 / e), (1e9, 1e15)),
    "Laplace on a grid": Case(lambda e: dp.Laplace("a", 1 / e), (0.5, 1e9), exact=True),
    "staircase": Case(lambda e: Staircase("a", e, Fraction(1, 3)), (0.5,)),
    "Tulap": Case(lambda e: Tulap("a", e, Fraction(1, 100)), (0.5,)),
    "Student's t": Case(lambda e: StudentT("a", 1 / e, 3), (0.5,)),
    "truncated Laplace": Case(lambda e: TruncatedLaplace("a", 1 / e, 9), (0.5,)),
    "discrete Laplace": Case(lambda e: dp.DiscreteLaplace("a", 1 / e), (7.0, 0.0)),
    "discrete Gaussian": Case(lambda e: dp.DiscreteGaussian("a", _variance(e)), (7.0,)),
    "discrete Gaussian vector": Case(
        lambda e: DiscreteGaussianVector("a", _variance(e)), (7.0, 0.0, 3.0)
    ),
    "distributed Gaussian": Case(
        lambda e: DistributedGaussian("a", _no_less(e), clients=3), (7.0,)
    ),
    "distributed Skellam": Case(lambda e: DistributedSkellam("a", _no_less(e), clients=3), (7.0,)),
    "distributed vector, modulo 16": Case(
        lambda e: dp.DistributedGaussianVector("a", _no_less(e), clients=3, modulus=16),
        (7.0, -8.0),
    ),
    # Scores of four runs, and how many candidates each has; the last run is not there.
    "exponential mechanism": Case(
        lambda e: IntegerExponentialMechanism("a", e), (3.0, 2.0, 0.0, 9.0, 1.0, 2.0, 5.0, 0.0)
    ),
    "AboveThreshold": Case(lambda e: dp.AboveThreshold("a", e / 2, e / 2, answers=4), (0.25,)),
    "StableRelease": Case(lambda e: StableRelease("a", min(e, 8), 2, 1 / e), (2.0, 1.0)),
    "propose-test-release": Case(
        lambda e: ProposeTestRelease(
            TruncatedDiscreteLaplace("t", 1 / e, 5), dp.DiscreteLaplace("a", 1 / e), Fraction(1, 10)
        ),
        (-1.0, 1.0),
    ),
    "tree of prefix sums": Case(
        lambda e: dp.CorrelatedGaussian("a", 1 / e, rounds=16, strategy="tree"), (0.5, 2.0)
    ),
    "stable release on a grid": Case(
        lambda e: StableRelease("a", min(e, 8), 2, 1 / e), (2.0, 1.0), exact=True
    ),
    "individual Gaussian": Case(lambda e: IndividualGaussian("a", 1 / e, e, 16), (0.5, -3.0)),
    "distributed vector, exact": Case(
        lambda e: dp.DistributedGaussianVector("a", _no_less(e), clients=3, modulus=16),
        (7.0, -8.0),
        exact=True,
    ),
    "distributed Skellam vector": Case(
        lambda e: DistributedSkellamVector("a", _no_less(e), clients=3, modulus=16), (7.0, -8.0)
    ),
    # One point of two coordinates, that no coin chooses; one path of two, and what it probes.
    "coupled Gaussian": Case(
        lambda e: CoupledGaussian("a", 1 / e, 1, 1, Fraction(1, 10)), (1.0, 1.0, 0.5, -3.0)
    ),
    "last iterate": Case(
        lambda e: LastIterate("a", 1 / e, 1), (1.0, 2.0, 1.0, 0.5, -3.0, 0.0, 0.0)
    ),
    "exponential mechanism, exact": Case(
        lambda e: dp.ExponentialMechanism("a", e), (3.0, 2.0, 0.0), exact=True
    ),
    # Without residuals: ties alone.
    "noisy comparisons": Case(lambda e: NoisyComparisons("a", 2 / e, 4 / e, 1, answers=4), (0.25,)),
    "report noisy max": Case(lambda e: dp.ExponentialMechanism("a", e), (3.0, 2.0, 0.0)),
    "thresholded Laplace": Case(
        lambda e: ThresholdedDiscreteLaplace("a", 1 / e, threshold=3), (9.0, 3.0, 0.0)
    ),
    "thresholded Gaussian": Case(
        lambda e: ThresholdedDiscreteGaussian("a", _variance(e), threshold=3), (9.0, 3.0, 0.0)
    ),
}


def draw(case: Case, epsilon: Fraction, trials: int, releases: int, seed: int) -> tuple[Any, Any]:
    """What is released and its residuals, (trials, releases, d) each."""
    leaf, kind = case.kernel(epsilon)
    sequences = np.random.SeedSequence([seed, releases]).spawn(2)
    noise, spread = (np.random.default_rng(one) for one in sequences)
    values = np.broadcast_to(np.array(case.value), (trials, len(case.value)))
    scale = np.full(trials, kind.multiplier(leaf))
    drawn, found = [], []
    own, replayed = (kind(leaf, trials) for _ in range(2))
    replayed.spread = spread
    for use in range(releases):
        if use and not kind.memory:
            own, replayed = (kind(leaf, trials) for _ in range(2))
            replayed.spread = spread
        own.admit(scale, values.shape[1])
        drawn.append(own.sample(values, scale, noise))
        with np.errstate(all="ignore"):
            found.append(replayed.residual(drawn[-1], values, scale))
            if kind.memory:
                replayed.log_density(drawn[-1], values, scale)
    return np.stack(drawn, axis=1), np.stack(found, axis=1)


def alarms(case: Case, epsilon: Fraction, seeds: int) -> tuple[int, int, int, int]:
    """Runs, those with an alarm at the error rate and at 5%, and samples with too many ties."""
    runs = broken = counted = 0
    for number, releases in enumerate(RELEASES):
        share = len(range(number, seeds, len(RELEASES)))
        _, found = draw(case, epsilon, share * TRIALS, releases, number)
        for one in found.reshape(share, TRIALS, *found.shape[1:]):
            if np.isnan(one).all():
                break
            rows = check_residuals({"a": one}, COUNTED)
            p = [row.p_value / row.error_rate for row in rows if row.status != "not_run"]
            runs += 1
            counted += min(p) <= 1
            broken += min(p) * COUNTED <= ERROR
    several = max(1, seeds // 10)
    samples = [draw(case, epsilon, several * TIED, 1, 100 + k)[0] for k in (0, 1)]
    pairs = zip(*(one.reshape(several, TIED, -1) for one in samples), strict=True)
    tied = sum(
        log_chance_of_ties(a[:, j], b[:, j]) <= math.log(ERROR)
        for a, b in pairs
        for j in range(a.shape[1])
    )
    return runs, broken, counted, tied


def upper(count: int, runs: int) -> float:
    """The upper end of the 95% Clopper-Pearson interval."""
    return float(beta.ppf(0.975, count + 1, runs - count)) if runs > count else 1.0


def table(seeds: int, word: str = "") -> Iterator[str]:
    """Lines of the table."""
    head = f"{'kernel':32} {'epsilon':>7} {'runs':>7} {'at 1e-6':>8} {'at 5%':>7}"
    yield f"{head} {'rate':>7} {'95% <=':>7} {'ties':>5}"
    for name, case in CASES.items():
        if word not in name:
            continue
        for epsilon in SCALES:
            runs, broken, counted, tied = alarms(case, epsilon, seeds)
            text = f"{name:32} {epsilon!s:>7} {runs:>7} {broken:>8} {counted:>7}"
            rate, most = (counted / runs, upper(counted, runs)) if runs else (math.nan, math.nan)
            yield f"{text} {rate:>7.4f} {most:>7.4f} {tied:>5}"


def main() -> None:
    """Print the table."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for line in table(seeds, sys.argv[2] if len(sys.argv) > 2 else ""):
        print(line, flush=True)


if __name__ == "__main__":
    main()
