"""Conformance rows: all that the declaration calls for, their p-values and their statuses.

range                 2 N Phi(-t), t the largest of N residuals
mean                  2 * 2 Phi(-|m| sqrt(n)); where some trials were off, twice
(1 + v n)^(1/2) exp(-v S^2 / (2 (1 + v n))), S = m n, v = 0.01
variance              2 * 2 min of either tail of chi-square with n degrees; above 200,000 by its
cube root (Wilson, Hilferty 1931); some off: a Gamma(1/2, 1/2) mixture
shape                 2 * 2 g exp(-2 n D^2), the worst of g groups (Massart 1990)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpaudit.check.reading import Json, decimal, require
from dpaudit.exact import working_precision
from dpaudit.nodes import Leaf, Node, postorder

LABEL_CHECKS = ("range", "mean", "variance", "shape", "successive", "coordinates")
EXECUTED = "releases, control flow and radii"
SLOPE_VARIANCE, EXACT_DEGREES = 0.01, 200_000
# A statistic of six digits tells a p-value's logarithm by so much.
NEAR, SHARE, UNDERFLOW = 0.05, 2e-3, -600.0


def check_conformance(predicate: Json, root: Node) -> None:
    """Errors: CertificateRejected for a row that is missing, or whose numbers disagree."""
    rows = predicate["conformance"]
    for row in rows:
        _row(row)
    executed = [row for row in rows if row["check"] == EXECUTED]
    if predicate["audits"] and executed and executed[-1]["status"] == "held":
        listed = {row["check"] for row in rows}
        for label in labels_of(root):
            for name in LABEL_CHECKS:
                found = f"{name} of {label}" in listed
                require(found, f"conformance: no row of the {name} of {label[:40]}")


def labels_of(root: Node) -> list[str]:
    """The labels of the noise that a declaration releases, each once."""
    leaves = (node for node in postorder(root) if isinstance(node, Leaf))
    labels = (getattr(leaf, "label", "") for leaf in leaves if not hasattr(leaf, "source"))
    return list(dict.fromkeys(label for label in labels if label))


def _row(row: Json) -> None:
    place = f"conformance {row['id'][:40]}"
    if row["error_rate"] == "0":
        held = (row["status"] == "broken") == (row["statistic"] != "0")
        require(held, f"{place}: its status is not its statistic's")
        return
    if row["status"] == "not_run":
        return
    require(row["p_value"] is not None, f"{place}: its p-value is missing")
    p = decimal(row["p_value"])
    broken = p <= decimal(row["error_rate"])
    require(broken == (row["status"] == "broken"), f"{place}: its status is not its p-value's")
    if row["law"]:
        require(row["law"] in LAWS, f"{place}: an unknown law")
        seen = float(row["statistic"])
        found = min(LAWS[row["law"]](seen, row["size"], row["among"]), 0.0)
        stated = math.log(p) if p > 0 else -math.inf
        near = abs(found - stated) <= NEAR + SHARE * abs(found) if p > 0 else found < UNDERFLOW
        require(near, f"{place}: its p-value is not its statistic's")


def _log_normal_tail(z: float) -> float:
    """log Phi(-z)."""
    import flint

    with working_precision():
        tail = (flint.arb(z) / flint.arb(2).sqrt()).erfc() / 2
        return float(tail.log().mid()) if tail > 0 else -math.inf


def _range(t: float, size: int, among: int) -> float:
    return math.log(2 * size) + _log_normal_tail(t)


def _mean(mean: float, size: int, among: int) -> float:
    return math.log(4) + _log_normal_tail(abs(mean) * math.sqrt(size))


def _mean_of_some(mean: float, size: int, among: int) -> float:
    spread = 1 + SLOPE_VARIANCE * size
    gain = SLOPE_VARIANCE * (mean * size) ** 2 / (2 * spread)
    return math.log(spread) / 2 - gain + math.log(2)


def _variance(variance: float, size: int, among: int) -> float:
    import flint

    if size > EXACT_DEGREES:
        spread = 2 / (9 * size)
        z = (math.cbrt(variance) - (1 - spread)) / math.sqrt(spread)
        return math.log(4) + _log_normal_tail(abs(z))
    with working_precision():
        half, at = flint.arb(size) / 2, flint.arb(variance) * size / 2
        tails = (at.gamma_upper(half, regularized=1), at.gamma_lower(half, regularized=1))
        tail: Any = tails[0].min(tails[1])
        return math.log(4) + float(tail.log().mid()) if tail > 0 else -math.inf


def _variance_of_some(variance: float, size: int, among: int) -> float:
    shape, half, squares = 0.5, size / 2, variance * size
    evidence = shape * math.log(shape) - math.lgamma(shape) + math.lgamma(shape + half)
    evidence += squares / 2
    return (shape + half) * math.log(shape + squares / 2) - evidence + math.log(2)


def _shape(distance: float, size: int, among: int) -> float:
    return math.log(4 * among) - 2 * size * distance**2


LAWS: dict[str, Callable[[float, int, int], float]] = {
    "range": _range,
    "mean": _mean,
    "mean of some": _mean_of_some,
    "variance": _variance,
    "variance of some": _variance_of_some,
    "shape": _shape,
}
