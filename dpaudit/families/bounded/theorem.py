"""Noise of bounded loss, stated a second time."""

from __future__ import annotations

from typing import Any

from dpaudit.check.theorem import Table, Theorem, reached, register
from dpaudit.exact import exp
from dpaudit.families.selection.theorem import of_largest_loss
from dpaudit.pairs import StudentShift, TruncatedLaplaceShift, staircase_shift, told


def _student(node: Any) -> StudentShift:
    return StudentShift(node.noise_multiplier, node.degrees)


def _outside(node: Any) -> tuple[Any, Any]:
    """The last sensitivity's length of one tail, over both tails and the middle."""
    epsilon = 1 / node.noise_multiplier
    total = 2 - 2 * exp(-node.bound * epsilon)
    return epsilon, exp(-node.bound * epsilon) * (exp(epsilon) - 1) / total


BOUNDED: Table = {
    **of_largest_loss("Staircase", "staircase", lambda n: n.epsilon),
    ("profile", "Staircase"): Theorem(
        "staircase_pair", lambda n: reached(staircase_shift(n.epsilon, n.share))
    ),
    **of_largest_loss("StudentT", "student", lambda n: _student(n).extremes[0]),
    ("profile", "StudentT"): Theorem("student_pair", lambda n: reached(_student(n))),
    ("approx", "Tulap"): Theorem("tulap", lambda n: (n.epsilon, n.delta)),
    ("profile", "Tulap"): Theorem("tulap_pair", lambda n: reached(told(n.epsilon, n.delta))),
    ("approx", "TruncatedLaplace"): Theorem("truncated_laplace", _outside),
    ("profile", "TruncatedLaplace"): Theorem(
        "truncated_laplace_pair",
        lambda n: reached(TruncatedLaplaceShift(1 / n.noise_multiplier, n.bound)),
    ),
}

register(BOUNDED)
