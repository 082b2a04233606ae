"""What the grids of this paper have in common: medians over runs, slopes in n, who is ahead."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpaudit.errors import InvalidParameter
from experiments.lab.fits import Fit, fit_power_law
from experiments.lab.model import Check, Results, Series
from mechanisms.papers.kl.bounds import kl_lower
from mechanisms.papers.kl.condition import KLCondition

LOWER = "lower bound's shape"
ABOUT_LINES = (
    "dashed: Corollary 1's lower bound with constant 1 and sqrt(rho) for epsilon: a slope to "
    "compare with, no certificate; it says nothing at kappa = 1"
)


AHEAD = "ours: above 1 a baseline is ahead; stated after the means had been seen"


def ahead(who: str, n: int, ours: tuple[float, float], baseline: tuple[float, float]) -> Check:
    """The ratio of two means, each with its standard error: at most 1 where ours is not behind."""
    ratio = ours[0] / baseline[0]
    margin = 2 * ratio * math.hypot(ours[1] / ours[0], baseline[1] / baseline[0])
    name = f"{who}, n = {n:,}: ratio of the means"
    return Check(name, ratio, upper=1.0, margin=margin, source=AHEAD)


def median_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The median, and half the distance of the order statistics m/2 -+ sqrt(m)/2: its error.

    Errors: InvalidParameter for fewer than four values.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = len(ordered)
    if count < 4:
        raise InvalidParameter(f"median of {count} values: its error needs at least 4")
    half = math.sqrt(count) / 2
    low, high = math.floor(count / 2 - half), math.ceil(count / 2 + half) - 1
    spread = float(ordered[min(high, count - 1)] - ordered[max(low, 0)])
    return float(np.median(ordered)), spread / 2


def fitted(found: Results, value: str = "excess") -> Fit:
    """The log-log slope in n of the median over runs."""
    medians, errors = columns(found, value)
    return fit_power_law(sizes(found), medians, errors)


def columns(found: Results, value: str = "excess") -> tuple[list[float], list[float]]:
    """Medians and their errors, one a cell."""
    pairs = [median_and_error(result.numbers(value)) for result in found]
    return [m for m, _ in pairs], [e for _, e in pairs]


def sizes(found: Results) -> list[float]:
    """n of every cell."""
    return [result.cell.number("n") for result in found]


def line(label: str, found: Results, value: str = "excess") -> Series:
    """Medians against n, with two standard errors."""
    medians, errors = columns(found, value)
    bars = tuple(2 * e for e in errors)
    return Series(label, tuple(sizes(found)), tuple(medians), error=bars)


def lower_line(
    label: str, condition: KLCondition, lipschitz: float, dimension: int, found: Results
) -> Series:
    """Corollary 1 with constant 1, at rho = 1: dashed and without markers."""
    x = tuple(sizes(found))
    y = tuple(kl_lower(condition, lipschitz, dimension, int(n), 1.0) for n in x)
    return Series(f"{label}, {LOWER}", x, y, "--", "")
