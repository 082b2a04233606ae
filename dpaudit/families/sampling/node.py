"""Combinators whose child runs on a secret sample of the records."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number
from dpaudit.exact.domains import count, known_sign, number, positive, rate, refuse
from dpaudit.nodes.core import Assumption, Node, Status
from dpaudit.nodes.records import Counts, Sees
from dpaudit.scope import shown

# The contribution of a record that is not drawn, where a declaration states it.
ZERO = "zero"
ADDS_ZERO = Assumption(
    "undrawn_records",
    "A record that is not drawn adds zero to every query of its sample, and one that is drawn adds "
    "at most half of the query's sensitivity.",
    Status.DECLARED,
    "A curator refuses queries that do not state it; where the program was examined, batches with "
    "and without a record were compared.",
)


@dataclass(frozen=True, eq=False, repr=False)
class PoissonSampled(Node):
    """``child`` runs on a secret batch that holds each record with probability ``rate``.

    Under zero_out no query may read the batch's realised number of records.  Where a child's
    records have public places (rounds of CorrelatedGaussian, batches of LastIterate), one that is
    not drawn leaves its own empty.
    ``undrawn``: "zero" declares that a record that is not drawn adds exactly zero to every query of
    the child, and that one that is drawn adds at most half of the query's sensitivity under
    replace_one, which counts the record that goes and the one that comes.  Clipped sums are so, and
    means with a public divisor; a curator refuses every other query.  Under replace_one Gaussian
    noise is then accounted for by :class:`~dpaudit.pairs.Opposed`; nothing else depends on it.
    None declares nothing.
    Errors: InvalidParameter for a child that is declared for a population, as batches and shuffled
    reports are: how many are drawn is random; for an ``undrawn`` that is neither.

    >>> import dpaudit as dp
    >>> sgd = dp.Repeat(dp.PoissonSampled(dp.Gaussian("gradient", 1), rate="0.01"), 100)
    >>> print(dp.account(sgd, dp.central("add_remove")).epsilon("1e-5").upper < 1)
    True
    >>> step = dp.PoissonSampled(dp.Gaussian("gradient", "0.5"), rate="0.01", undrawn="zero")
    >>> print(f"{dp.account(dp.Repeat(step, 1000), 'replace_one').epsilon('1e-5'):.3f}")
    2.844
    """

    hidden_by: ClassVar[str] = "whoever draws the batches"
    counts: ClassVar[Counts] = Counts(sees=Sees.DRAWN)

    child: Node
    rate: Number = number(rate)
    undrawn: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.undrawn not in (None, ZERO):
            raise InvalidParameter(
                f"{self.name}.undrawn = {shown(self.undrawn)}: expected {ZERO!r}, or None"
            )

    @property
    def assumption(self) -> Assumption | None:
        """Absent records add zero, where it is declared."""
        return ADDS_ZERO if self.undrawn == ZERO else None


@dataclass(frozen=True, eq=False, repr=False)
class SampledWithoutReplacement(Node):
    """``child`` runs on a secret, uniformly random ``batch_size`` of ``population`` records.

    Errors: InvalidParameter for a child that is declared for another population than the batch.

    >>> import dpaudit as dp
    >>> dp.SampledWithoutReplacement(dp.Gaussian("gradient", 1), batch_size=10, population=1000)
    SampledWithoutReplacement(batch_size=10, population=1000)
      Gaussian('gradient', noise_multiplier=1)
    """

    hidden_by: ClassVar[str] = "whoever draws the batches"
    counts: ClassVar[Counts] = Counts("population", sees=Sees.DRAWN, draws="batch_size")

    child: Node
    batch_size: Number = number(count)
    population: Number = number(count)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.batch_size, f"{self.name}.batch_size")
        if known_sign(self.population - self.batch_size, strict=False) is False:
            refuse(self.batch_size, f"{self.name}.batch_size", "at most the population")


@dataclass(frozen=True, eq=False, repr=False)
class SampledWithReplacement(Node):
    """``child`` runs on a secret batch of ``draws`` uniform draws, each from all ``population``.

    A record drawn j times counts as j records; the child does not depend on the batch's order.

    >>> import dpaudit as dp
    >>> dp.SampledWithReplacement(dp.Laplace("count", 1), draws=10, population=1000)
    SampledWithReplacement(draws=10, population=1000)
      Laplace('count', noise_multiplier=1)
    """

    hidden_by: ClassVar[str] = "whoever draws the batches"
    counts: ClassVar[Counts] = Counts("population", sees=Sees.DRAWN, draws="draws")

    child: Node
    draws: Number = number(count)
    population: Number = number(count)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.draws, f"{self.name}.draws")
        positive(self.population, f"{self.name}.population")


@dataclass(frozen=True, eq=False, repr=False)
class RandomAllocation(Node):
    """``child`` runs ``slots`` times in sequence, adaptively; each record is in some secret slots.

    ``draws``: in how many slots, different ones; None for one ("balls and bins").  Every record
    draws its slots uniformly and independently of the other records.
    Errors: InvalidParameter for more draws than slots.

    >>> import dpaudit as dp
    >>> dp.RandomAllocation(dp.Gaussian("gradient", 1), slots=100)
    RandomAllocation(slots=100)
      Gaussian('gradient', noise_multiplier=1)
    >>> thrice = dp.RandomAllocation(dp.Gaussian("gradient", 1), slots=100, draws=3)
    >>> print(dp.account(thrice, "add_remove").epsilon("1e-5").upper < 2.5)
    True
    """

    hidden_by: ClassVar[str] = "whoever draws the batches"
    counts: ClassVar[Counts] = Counts(sees=Sees.DRAWN)

    child: Node
    slots: Number = number(count)
    draws: Number | None = number(count, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.slots, f"{self.name}.slots")
        if self.draws is not None:
            place = f"{self.name}.draws"
            positive(self.draws, place)
            if known_sign(self.slots - self.draws, strict=False) is False:
                refuse(self.draws, place, "at most the slots")

    @property
    def participations(self) -> Number:
        """The number of slots that each record is in."""
        return Fraction(1) if self.draws is None else self.draws
