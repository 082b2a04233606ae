"""Noise events of small probability, tests with a bottom outcome, and groups of records."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, readable
from dpaudit.exact.domains import count, known_sign, number, positive, probability
from dpaudit.nodes.core import Assumption, Node, Status, postorder


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
        """That the event is as rare as stated: its author's word."""
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
        """That unstable data fail the test as often as stated: its author's word."""
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
    vanish.

    >>> import dpaudit as dp
    >>> household = dp.Group(dp.Laplace("count", 2), size=4)
    >>> dp.account(household, dp.central("add_remove")).step("pure").value
    Fraction(2, 1)
    """

    child: Node
    size: Number = number(count)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.size, f"{self.name}.size")


def below_a_draw(node: Node, records: Number | None) -> None:
    """What stands below a node that draws records, or gives them places, fits what it draws.

    ``records``: on how many the child runs; None where their number is random.  A child that is
    declared for a population is one of just so many: what it hides among others would be hidden
    among records that are not there.  Parts of so many records have sizes of their own.  A group is
    declared around the draw, and not below it, as its members are drawn each by a coin of its own.
    Errors: InvalidParameter for a Group below, and for another population.
    """
    for part in postorder(node.children[0]):
        if isinstance(part, Group):
            raise InvalidParameter(
                f"{node.name}.child = {part.head[:80]}: expected no Group, whose members are drawn "
                f"or placed each by itself; put Group around {node.name}"
            )
    sized = list(node.children)
    while sized:
        part = sized.pop()
        population = getattr(part, "population", None)
        if population is not None:
            _fits(node, part, population, records)
        elif records is None or not getattr(part, "partitions", False):
            sized.extend(part.children)


def _fits(node: Node, part: Node, population: Number, records: Number | None) -> None:
    """Errors: InvalidParameter for a population other than ``records``; a larger bound of it is."""
    at_most = getattr(part, "population_at_most", False)
    if records is None:
        if at_most:
            return
        raise InvalidParameter(
            f"{part.head[:80]} below {node.name}: declared for {readable(population)} records, and "
            f"how many {node.name} draws is random; draw so many of all by "
            "SampledWithoutReplacement"
        )
    left = population - records
    more = known_sign(left, strict=False) is False
    fewer = not at_most and known_sign(-left, strict=False) is False
    if more or fewer:
        raise InvalidParameter(
            f"{part.head[:80]} below {node.name}: declared for {readable(population)} records, and "
            f"runs on the {readable(records)} that {node.name} draws"
        )
