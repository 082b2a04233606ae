"""Combinators whose child runs on batches of one size, as data loaders make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, is_symbolic, readable
from dpaudit.exact.domains import known_sign, known_whole, number, rate, refuse
from dpaudit.families.discrete.node import whole
from dpaudit.nodes.core import Node
from dpaudit.nodes.records import Counts, Sees


def fits(batch_size: Number, population: Number, place: str) -> None:
    """Refuse a batch that is larger than the data."""
    if known_sign(population - batch_size, strict=False) is False:
        refuse(batch_size, f"{place}.batch_size", f"at most the {readable(population)} records")


def whole_batches(population: Number, batch_size: Number, place: str) -> Number:
    """Batches of one pass, a whole number.

    Errors: InvalidParameter for a batch larger than the data, and for a partial batch.
    """
    fits(batch_size, population, place)
    number = population / batch_size
    if known_whole(number) is False:
        if is_symbolic(number):
            refuse(batch_size, f"{place}.batch_size", f"a divisor of {readable(population)}")
        raise InvalidParameter(
            f"{place}.batch_size = {readable(batch_size)}: a pass over {readable(population)} "
            f"records leaves a partial batch of {int(population % batch_size)}; drop as many "
            "places, or fill the batch with records of zeros"
        )
    return number


@dataclass(frozen=True, eq=False, repr=False)
class CyclicBatches(Node):
    """``child`` runs on every batch of one pass; who is in which batch is public, or given away.

    Several passes in the same batches: a child that is repeated.  All other records are in the same
    batches on two neighbouring data sets.

    >>> import dpaudit as dp
    >>> epochs = dp.CyclicBatches(dp.Repeat(dp.Gaussian("gradient", 2), 4), 60_000, 600)
    >>> dp.account(epochs, dp.central("zero_out")).step("gdp").value
    Fraction(1, 1)
    """

    counts: ClassVar[Counts] = Counts("population", sees=Sees.DRAWN, draws="batch_size")

    child: Node
    population: Number = number(whole)
    batch_size: Number = number(whole)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_batches(self.population, self.batch_size, self.name)


@dataclass(frozen=True, eq=False, repr=False)
class ShuffledBatches(Node):
    """``child`` runs on every batch of one pass, in an order of the records that stays secret.

    The order is uniform: drawn anew each pass where this node is repeated, kept for all passes
    where its child is.  No theorem says that batches of one size in such an order hide more than
    public ones; a lower bound says how much less than Poisson ones they do.

    >>> import dpaudit as dp
    >>> epoch = dp.ShuffledBatches(dp.Gaussian("gradient", "0.5"), 60_000, 600)
    >>> bound = dp.account(epoch, dp.central("zero_out")).epsilon("1e-5")
    >>> 4 < bound.lower < bound.upper < 12
    True
    """

    hidden_by: ClassVar[str] = "whoever draws the batches"
    counts: ClassVar[Counts] = Counts("population", sees=Sees.DRAWN, draws="batch_size")

    child: Node
    population: Number = number(whole)
    batch_size: Number = number(whole)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_batches(self.population, self.batch_size, self.name)


@dataclass(frozen=True, eq=False, repr=False)
class TruncatedPoisson(Node):
    """``child`` runs on a secret Poisson batch that is cut to ``batch_size`` where it is larger.

    Each of ``population`` records comes by a coin of ``rate``; of more than ``batch_size`` that
    came a uniform choice of so many stays.  Queries do not read the batch's realised size.
    ``population``: of the larger of two neighbours, at most.

    >>> import dpaudit as dp
    >>> step = dp.TruncatedPoisson(dp.Gaussian("gradient", 1), "0.01", 10_000, 160)
    >>> dp.account(dp.Repeat(step, 100), dp.central("add_remove")).epsilon("1e-5").upper < 1
    True
    """

    hidden_by: ClassVar[str] = "whoever draws the batches"
    counts: ClassVar[Counts] = Counts(
        at_most="population", sees=Sees.DRAWN, draws_at_most="batch_size"
    )

    child: Node
    rate: Number = number(rate)
    population: Number = number(whole)
    batch_size: Number = number(whole)

    def __post_init__(self) -> None:
        super().__post_init__()
        fits(self.batch_size, self.population, self.name)
        for name in ("rate", "population", "batch_size"):
            if is_symbolic(getattr(self, name)):
                refuse(getattr(self, name), f"{self.name}.{name}", "a number, not a symbol")
