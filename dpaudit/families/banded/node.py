"""Correlated noise whose rounds are secret Poisson batches of public groups, in turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, is_symbolic, readable
from dpaudit.exact.domains import number, rate, refuse
from dpaudit.families.correlated.node import BandedToeplitz, CorrelatedGaussian, Factorisation
from dpaudit.families.discrete.node import whole
from dpaudit.nodes.core import Node
from dpaudit.nodes.records import Counts, Sees


@dataclass(frozen=True, eq=False, repr=False)
class CyclicPoisson(Node):
    """Row t of ``child`` is of a secret Poisson batch, at ``rate``, of group t modulo ``groups``.

    Records are parted into ``groups`` public groups, by nothing that another record moves; a group
    takes part in every groups-th round, and of it each record by a coin of its own; of one group
    every round samples all.  ``child``: :class:`CorrelatedGaussian`, in whose declared
    participation a record takes part whenever its group's turn comes.  Nearest to the truth with
    the strategy ``identity``, or a :class:`BandedToeplitz` of at most ``groups`` bands: turns
    compose; and where groups have one turn each, as in a tree that is begun anew where it is
    repeated.  Otherwise the number of turns that a record is in is what is sampled.
    Errors: InvalidParameter for another child, more groups than rounds, or a participation that
    says otherwise.
    Source: Choquette-Choo and others 2023, (Amplified) Banded Matrix Factorization.

    >>> import dpaudit as dp
    >>> bands = dp.BandedToeplitz(("1", "0.5", "0.375", "0.3125"))
    >>> rows = dp.CorrelatedGaussian("prefix", 2, 400, bands, dp.Participation(100, 4))
    >>> amplified = dp.CyclicPoisson(rows, groups=4, rate="0.04")
    >>> dp.account(amplified, dp.central("add_remove")).epsilon("1e-5").upper < 2
    True
    """

    hidden_by: ClassVar[str] = "whoever draws the batches"
    counts: ClassVar[Counts] = Counts(sees=Sees.DRAWN)

    child: Node
    groups: Number = number(whole)
    rate: Number = number(rate)

    def __post_init__(self) -> None:
        super().__post_init__()
        child = self.child
        if not isinstance(child, CorrelatedGaussian):
            raise InvalidParameter(
                f"{self.name}.child = {child.head[:80]}: expected a CorrelatedGaussian"
            )
        for value, place in (
            (child.rounds, "child.rounds"),
            (self.groups, "groups"),
            (self.rate, "rate"),
        ):
            if is_symbolic(value):
                refuse(value, f"{self.name}.{place}", "a number, not a symbol")
        if self.groups > child.rounds:
            refuse(self.groups, f"{self.name}.groups", f"at most {readable(child.rounds)} rounds")
        turns = -(-int(child.rounds) // int(self.groups))
        who = child.participation
        if who.at_most < turns or (turns > 1 and who.separation > self.groups):
            raise InvalidParameter(
                f"{self.name}.child: its participation is {who}, but every record may take part in "
                f"{turns} rounds, {readable(self.groups)} apart; declare "
                f"Participation({turns}, {readable(self.groups)})"
            )

    @property
    def one_turn(self) -> bool:
        """Whether every group has one turn."""
        return bool(getattr(self.child, "rounds", None) == self.groups)

    @property
    def apart(self) -> bool:
        """Whether turns move rows of their own."""
        strategy = getattr(self.child, "strategy", None)
        banded = strategy is Factorisation.IDENTITY or isinstance(strategy, BandedToeplitz)
        return banded and len(self.column) <= self.groups

    @property
    def column(self) -> tuple[Number, ...]:
        """The coefficients of the strategy, from the diagonal down."""
        strategy = getattr(self.child, "strategy", None)
        return strategy.entries if isinstance(strategy, BandedToeplitz) else (1,)
