"""Noise events of small probability, tests with a bottom outcome, and groups of records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, readable
from dpaudit.exact.domains import count, number, positive, probability
from dpaudit.nodes.core import Assumption, Node, Status
from dpaudit.nodes.records import Counts


def rare(value: Number, place: str) -> None:
    """Domain (0, 1)."""
    positive(value, place)
    probability(value, place)


@dataclass(frozen=True, eq=False, repr=False)
class EventSlack(Node):
    """``child``, whose guarantee may fail inside a noise event of at most ``probability``.

    On every data set the run is within ``probability`` in total variation of a mechanism that has
    the child's guarantee.  The event is one of the noise: a data set on which something fails is
    no such event.  ``event`` says in words what it is.
    """

    child: Node
    probability: Number = number(probability)
    event: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.event:
            raise InvalidParameter("EventSlack: expected the event, in words")

    @property
    def assumption(self) -> Assumption:
        """The event is as rare as stated: its author answers for it."""
        return Assumption(
            f"slack:{self.digest[:12]}",
            f"on every data set, {self.event} has probability at most {readable(self.probability)}",
            Status.DECLARED,
        )


@dataclass(frozen=True, eq=False, repr=False)
class ProposeTestRelease(Node):
    """Runs ``test``, then ``release`` where the test passed; otherwise the bottom outcome.

    ``test``: the noisy decision on how stable the data are; all it releases is pass or bottom.
    ``release``: its sensitivity holds for neighbours of which at least one is stable.
    ``false_pass``: if neither of two neighbours is stable, either one passes with at most this
    probability.  The threshold of the test decides it; where nothing can fail, use Compose.
    """

    test: Node
    release: Node
    false_pass: Number = number(rare)

    @property
    def assumption(self) -> Assumption:
        """Unstable data fail the test as often as stated: its author answers for it."""
        return Assumption(
            f"false_pass:{self.digest[:12]}",
            "where neither of two neighbours is stable, the test passes with probability at most "
            f"{readable(self.false_pass)}",
            Status.DECLARED,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Group(Node):
    """``child``, accounted for one record, as a guarantee for any ``size`` records together.

    Under add_remove they all come or all go, under replace_one they change, under zero_out they
    vanish.  It is declared around a draw of records and not below it: members are drawn each by a
    coin of its own.

    >>> import dpaudit as dp
    >>> household = dp.Group(dp.Laplace("count", 2), size=4)
    >>> dp.account(household, dp.central("add_remove")).step("pure").value
    Fraction(2, 1)
    """

    counts: ClassVar[Counts] = Counts(together=True)

    child: Node
    size: Number = number(count)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.size, f"{self.name}.size")
