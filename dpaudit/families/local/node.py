"""Local reports, of one record each, and the multiset of them that a shuffler passes on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact, exp, is_symbolic
from dpaudit.exact.domains import count, integer, known_sign, non_negative, number, positive, refuse
from dpaudit.families.discrete.node import preset
from dpaudit.nodes.core import LabelledLeaf, Node
from dpaudit.nodes.records import Counts, Sees


def part(value: Number, place: str) -> None:
    """Domain [0, 1]."""
    non_negative(value, place)
    if known_sign(1 - value, strict=False) is False:
        refuse(value, place, "at most 1")


@dataclass(frozen=True, eq=False, repr=False)
class SubsetResponse(LabelledLeaf):
    """Reports an outcome, those of the value's own set e^epsilon times as likely as the others.

    Outcomes have public weights of sum 1.  Every value has a set of them of weight ``share``; those
    of two values have at least ``overlap`` in common.  Neighbours may hold any two of the values.
    ``free``: of two values and some third one, the part of either's own outcomes, which the other's
    set lacks, that the third one's set lacks too: what shuffled reports are known to leak needs it;
    at most (1 - share) / (2 (share - overlap)), which leaves room for the third one's set.
    Randomised response among k values has share 1/k, overlap 0 and, from k = 3 on, free 1.

    >>> import dpaudit as dp
    >>> from dpaudit.families.local import SubsetResponse
    >>> report = SubsetResponse("page", epsilon=1, share="0.25", overlap="0.05")
    >>> dp.account(report, dp.central("replace_one")).step("pure").value
    Fraction(1, 1)
    """

    epsilon: Number = number(positive)
    share: Number = number(positive)
    overlap: Number = preset(part, 0)
    free: Number = preset(part, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if known_sign(1 - self.share, strict=True) is False:
            refuse(self.share, f"{self.name}.share", "below 1")
        if known_sign(self.share - self.overlap, strict=True) is False:
            refuse(self.overlap, f"{self.name}.overlap", "below the share")
        if known_sign(self.overlap - 2 * self.share + 1, strict=False) is False:
            refuse(
                self.overlap, f"{self.name}.overlap", "at least 2 share - 1: no sets overlap less"
            )
        room = 1 - self.share - 2 * self.free * (self.share - self.overlap)
        if known_sign(room, strict=False) is False:
            refuse(
                self.free,
                f"{self.name}.free",
                "at most (1 - share) / (2 (share - overlap)): a third value's set, of that share "
                "too, is among what is not free",
            )


def subset_selection(
    label: str, epsilon: object, choices: int, size: int | None = None
) -> SubsetResponse:
    """A report of ``size`` of ``choices`` values: e^epsilon as likely for each set with one's own.

    ``size``: by default choices / (e^epsilon + 1) rounded, the optimal one, at least 1.
    Errors: InvalidParameter for fewer than 2 choices, or a size that is not below them.
    Source: Ye, Barg 2018, Section III; Wang and others 2019.
    """
    values = integer(choices, "choices", 2)
    if size is None:
        level = exact(epsilon, "epsilon")
        if is_symbolic(level):
            raise InvalidParameter("subset_selection: name the size for an epsilon with symbols")
        size = max(round(values / (1 + float(exp(level)))), 1)
    count = integer(size, "size", 1)
    if count >= values:
        refuse(Fraction(count), "size", "below the number of choices")
    share = Fraction(count, values)
    overlap = share * Fraction(count - 1, values - 1)
    free = Fraction(values - count - 1, values - 2) if values > 2 else Fraction(0)
    return SubsetResponse(label, exact(epsilon, "epsilon"), share, overlap, free)


def hadamard_response(label: str, epsilon: object, choices: int) -> SubsetResponse:
    """A column of a Hadamard matrix, e^epsilon as likely where the value's own row is +1.

    The value v of 1..choices has row v; two rows share a quarter of all columns.  From 3 choices on
    row 3 is the product of rows 1 and 2, and lacks all columns that one of them has alone.
    Errors: InvalidParameter for fewer than 2 choices.
    Source: Acharya, Sun, Zhang 2019, Hadamard response, Section 4.
    """
    values = integer(choices, "choices", 2)
    third = Fraction(1 if values >= 3 else 0)
    return SubsetResponse(label, exact(epsilon, "epsilon"), Fraction(1, 2), Fraction(1, 4), third)


def cap_response(label: str, epsilon: object, share: object = Fraction(1, 2)) -> SubsetResponse:
    """A point of the sphere, e^epsilon as likely in the cap around the value's direction.

    ``share``: the cap's part of the sphere, at most a half, so that caps of opposite directions
    share nothing.  PrivUnit's p is e^epsilon share / (e^epsilon share + 1 - share).
    Errors: InvalidParameter for a share above a half.
    Source: Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018, Section 4.1 (PrivUnit2).
    """
    of_sphere = exact(share, "share")
    if known_sign(Fraction(1, 2) - of_sphere, strict=False) is False:
        refuse(of_sphere, "share", "at most a half")
    return SubsetResponse(label, exact(epsilon, "epsilon"), of_sphere)


@dataclass(frozen=True, eq=False, repr=False)
class Shuffled(Node):
    """``child`` runs on each of ``population`` records by itself; the reports are shown shuffled.

    Who sees the order of the reports has the child's own guarantee alone.  One report a record: a
    partial round is another population.

    >>> import dpaudit as dp
    >>> poll = dp.Shuffled(dp.RandomizedResponse("smokes", 2, choices=3), population=10_000)
    >>> dp.account(poll, dp.central("replace_one")).epsilon("1e-6").upper < 0.15
    True
    """

    hidden_by: ClassVar[str] = "a shuffler"
    counts: ClassVar[Counts] = Counts("population", sees=Sees.DRAWN, draws=1)

    child: Node
    population: Number = number(count)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.population, f"{self.name}.population")
