"""Noisy sums that a record leaves when its own budget is spent."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number, is_symbolic
from dpaudit.exact.domains import known_sign, number, positive, refuse
from dpaudit.families.discrete.node import whole
from dpaudit.nodes.core import LabelledLeaf


@dataclass(frozen=True, eq=False, repr=False)
class IndividualGaussian(LabelledLeaf):
    """``rounds`` sums of vectors, + N(0, s^2 I); each record pays for its own vectors' norms.

    ``noise_multiplier``: s over the most that one unit may move a sum: the longest that a record's
    vector may be, the radius; twice that under replace_one, where two records' vectors are moved.
    A vector of norm a costs a record (a / s)^2, and no record pays more than ``mu``^2 altogether
    (``mu``^2 / 4 under replace_one): what is left cuts its vector, to 0 in the end.  Vectors may be
    made of what was released.
    Errors: InvalidParameter where all rounds in full cost no more than ``mu``^2: no budget is ever
    spent, and a Repeat of Gaussian noise says as much.

    >>> import dpaudit as dp
    >>> sums = dp.IndividualGaussian("sum", noise_multiplier=10, mu=1, rounds=1_000)
    >>> dp.account(sums, dp.central("add_remove")).step("gdp").value
    Fraction(1, 1)
    """

    noise_multiplier: Number = number(positive)
    mu: Number = number(positive)
    rounds: Number = number(whole)

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_symbolic(self.rounds):
            refuse(self.rounds, f"{self.name}.rounds", "a number, not a symbol")
        spent = self.rounds - self.noise_multiplier**2 * self.mu**2
        if known_sign(spent, strict=True) is False:
            refuse(
                self.rounds,
                f"{self.name}.rounds",
                "more rounds than a record of full length can pay for; else a Repeat of Gaussian",
            )
