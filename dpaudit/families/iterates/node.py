"""Noisy contractive iterations of which the last iterate alone is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpaudit.exact import Number, is_symbolic, readable
from dpaudit.exact.domains import known_sign, non_negative, number, positive, refuse
from dpaudit.exact.domains import rate as share
from dpaudit.families.discrete.node import preset, whole
from dpaudit.nodes.core import Assumption, LabelledLeaf, Status


@dataclass(frozen=True, eq=False, repr=False)
class LastIterate(LabelledLeaf):
    """The last of ``steps`` iterates x <- project(update(x) + Gaussian noise), and nothing else.

    One record moves an update by at most some length, which is the unit here: the noise of a step
    has ``noise_multiplier`` of it in each coordinate; ``diameter``: of the convex set that iterates
    are projected to, 0 where there is none.  Every update maps two points to at most
    ``contraction`` of their distance.  ``batches``: a step reads one of so many, in a public order
    that is the same in every pass, whole passes; 1 where every step reads all records.

    Noisy gradient descent with step h on an average over n records, of gradients that one record
    moves by at most L / n, has the unit h L / n; for losses between m-strongly convex and M-smooth
    it contracts by the larger of |1 - h m| and |1 - h M|, which is 1 for convex losses, h <= 2 / M.
    Errors: InvalidParameter for a contraction above 1.

    >>> import dpaudit as dp
    >>> run = dp.LastIterate("model", noise_multiplier=10, steps=10_000, contraction="0.9")
    >>> dp.account(run, dp.central("replace_one")).epsilon("1e-5").upper < 2
    True
    """

    noise_multiplier: Number = number(positive)
    steps: Number = number(whole)
    contraction: Number = preset(share, 1)
    diameter: Number = preset(non_negative, 0)
    batches: Number = preset(whole, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contraction != 1 and known_sign(1 - self.contraction, strict=True) is not True:
            refuse(self.contraction, f"{self.name}.contraction", "a number of at most 1")
        if self.batches == 1:
            return
        if is_symbolic(self.steps) or is_symbolic(self.batches):
            refuse(self.steps, f"{self.name}.steps", "numbers of steps and batches, not symbols")
        if self.steps % self.batches:
            refuse(
                self.steps,
                f"{self.name}.steps",
                f"whole passes over the {readable(self.batches)} batches",
            )

    @property
    def assumption(self) -> Assumption:
        """Updates contract on a data set of this size, and no other iterate is shown."""
        inside = "" if self.diameter == 0 else f" of diameter {readable(self.diameter)} units"
        return Assumption(
            f"iterate:{self.digest[:12]}",
            f"every update of {self.label!r} is {readable(self.contraction)}-Lipschitz on its "
            f"convex set{inside}, one record moves it by at most one unit at every point, and "
            f"no other iterate is shown{self._order}",
            Status.DECLARED,
        )

    @property
    def _order(self) -> str:
        return "" if self.batches == 1 else f"; batches, {readable(self.batches)}, keep their order"


@dataclass(frozen=True, eq=False, repr=False)
class SampledLastIterate(LabelledLeaf):
    """The last of ``steps`` iterates, each step on a secret batch of its own, and nothing else.

    As :class:`LastIterate`, but a step reads each record with probability ``rate``, by coins that
    are drawn anew and never shown; what is added to or taken from a batch moves its update by at
    most one unit, which does not depend on how many records it holds: sums, or means by a public
    number, as under :class:`PoissonSampled`.  Under replace_one, and for batches of one size drawn
    without replacement, there is no rule.
    Errors: InvalidParameter for a contraction above 1.

    >>> import dpaudit as dp
    >>> run = dp.SampledLastIterate("w", noise_multiplier=4, steps=10**6, rate="0.01", diameter=4)
    >>> dp.account(run, dp.central("add_remove")).epsilon("1e-5").upper < 1
    True
    """

    hidden_by: ClassVar[str] = "whoever draws the batches"
    batches: ClassVar[int] = 1

    noise_multiplier: Number = number(positive)
    steps: Number = number(whole)
    rate: Number = number(share)
    contraction: Number = preset(share, 1)
    diameter: Number = preset(non_negative, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contraction != 1 and known_sign(1 - self.contraction, strict=True) is not True:
            refuse(self.contraction, f"{self.name}.contraction", "a number of at most 1")

    @property
    def assumption(self) -> Assumption:
        """Updates of every batch contract, coins are secret, and no other iterate is shown."""
        inside = "" if self.diameter == 0 else f" of diameter {readable(self.diameter)} units"
        return Assumption(
            f"iterate:{self.digest[:12]}",
            f"on every batch an update of {self.label!r} is {readable(self.contraction)}-Lipschitz "
            f"on its convex set{inside}, one record of the batch moves it by at most one unit at "
            f"every point, each step draws each record anew at rate {readable(self.rate)}, and "
            "neither batches nor other iterates are shown",
            Status.DECLARED,
        )
