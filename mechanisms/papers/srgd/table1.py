"""Table 1 of the paper: gradients and batch steps of each algorithm, as formulas in n.

Source: Choquette-Choo, Ganesh, Thakurta 2024, Table 1; the row of [CJJ+23] from its text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpaudit.errors import InvalidParameter
from mechanisms.papers.srgd.problem import whole


@dataclass(frozen=True)
class Count:
    """A number of gradients or steps: the formula as printed, and its leading term at n.

    A formula that begins with ``~`` hides factors polylogarithmic in n, which ``leading`` leaves
    out: then it is no count, and compares growth only.
    """

    formula: str
    leading: float

    @property
    def exact(self) -> bool:
        """Whether the formula hides no factor."""
        return not self.formula.startswith("~")


@dataclass(frozen=True)
class Complexity:
    """One row: what an algorithm costs for n records, and what it needs.

    ``program``: the catalogue's name; empty for what is not built.  ``batch_steps``: None where
    the source states none.
    """

    algorithm: str
    program: str
    gradients: Count
    batch_steps: Count | None
    single_epoch: bool
    convexity_for_privacy: bool


def table1_complexities(n: int) -> tuple[Complexity, ...]:
    """The rows of Table 1 at n records, in its order.

    Errors: InvalidParameter unless n is a whole number from 1 on.
    """
    size = float(whole(n, "table1_complexities.n"))
    passes, once = Count("2n", 2 * size), Count("n", size)
    near = Count("~n", size)
    root, quarter = size**0.5, Count("~n^(1/4)", size**0.25)
    mobile = Count("~n^(9/8)", size**1.125)
    ours = "accelerated_dp_srgd"
    return (
        Complexity("ours, minimiser inside C", ours, passes, quarter, True, False),
        Complexity("ours, no assumption", ours, passes, Count("n^(1/2)", root), True, False),
        Complexity("FKT20", "phased_sgd", once, near, True, True),
        Complexity("ZTC22", "dp_online_to_batch", passes, once, True, False),
        Complexity("ZTOH22", "phased_erm", near, Count("~n^(1/2)", root), False, True),
        Complexity("GLZW24", "localized_accelerated_dp_sgd", mobile, quarter, False, False),
    )


def resqueing_gradients(n: int, dimension: int, epsilon: float) -> Count:
    """~ min{n, n^2/p} + min{n p^2/epsilon, n^(4/3) epsilon^(1/3)}, of [CJJ+23]: not in the table.

    It needs more than one epoch, and no smoothness.
    Errors: InvalidParameter for a count or an epsilon that is not positive.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, related work (the text compares it with
    "~n^(1/2)" for this paper, which is its number of batch steps: it takes 2n gradients).
    """
    size, p = float(whole(n, "n")), float(whole(dimension, "dimension"))
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidParameter(f"epsilon = {epsilon}: expected a positive number")
    first = min(size, size**2 / p)
    second = min(size * p**2 / epsilon, size ** (4 / 3) * epsilon ** (1 / 3))
    return Count("~min{n, n^2/p} + min{n p^2/eps, n^(4/3) eps^(1/3)}", first + second)
