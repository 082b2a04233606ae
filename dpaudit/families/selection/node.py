"""Leaves that select: which candidate scores best, which query is above a threshold.

Scores and queries are real functions of the records, each divided by its sensitivity: between
neighbours each moves by at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, unknowns
from dpaudit.exact.domains import known_sign, number, positive, refuse
from dpaudit.families.discrete.node import preset, whole
from dpaudit.nodes.core import LabelledLeaf
from dpaudit.scope import choose


class Scores(StrEnum):
    """How scores differ between neighbours.

    ``ANY``: each by at most 1, up or down.  ``MONOTONE``: none down or none up, as counts do under
    add_remove.
    """

    ANY = "any"
    MONOTONE = "monotone"


class SelectionNoise(StrEnum):
    """Noise that is added to every score before the largest is named."""

    LAPLACE = "laplace"
    EXPONENTIAL = "exponential"
    GUMBEL = "gumbel"


@dataclass(frozen=True, eq=False, repr=False)
class ExponentialMechanism(LabelledLeaf):
    """Selects a candidate with probability proportional to exp(epsilon * score / 2).

    The candidates, and the measure they are weighted with, are public.

    >>> import dpaudit as dp
    >>> chosen = dp.ExponentialMechanism("median", epsilon="0.5")
    >>> dp.account(chosen, dp.central("replace_one")).step("pure").value
    Fraction(1, 2)
    """

    epsilon: Number = number(positive)
    scores: Scores | str = Scores.ANY

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "scores", choose(Scores, self.scores, f"{self.name}.scores"))


@dataclass(frozen=True, eq=False, repr=False)
class IntegerExponentialMechanism(ExponentialMechanism):
    """The exponential mechanism on scores that are whole numbers, of ranks or counts, say.

    Between neighbours they move by a whole number at most, by which they are divided.  Such a
    choice is drawn exactly, from random bits alone.
    """


@dataclass(frozen=True, eq=False, repr=False)
class ReportNoisyMax(LabelledLeaf):
    """Names the candidate whose score plus i.i.d. noise of scale 2 / epsilon is largest.

    Nothing but the name is released.  Gumbel noise makes it the exponential mechanism;
    exponential noise makes it permute-and-flip.

    >>> import dpaudit as dp
    >>> dp.ReportNoisyMax("winner", epsilon=1, noise="gumbel")
    ReportNoisyMax('winner', epsilon=1, noise='gumbel', scores='any')
    """

    epsilon: Number = number(positive)
    noise: SelectionNoise | str = SelectionNoise.LAPLACE
    scores: Scores | str = Scores.ANY

    def __post_init__(self) -> None:
        super().__post_init__()
        place = self.name
        object.__setattr__(self, "noise", choose(SelectionNoise, self.noise, f"{place}.noise"))
        object.__setattr__(self, "scores", choose(Scores, self.scores, f"{place}.scores"))


@dataclass(frozen=True, eq=False, repr=False)
class AboveThreshold(LabelledLeaf):
    """Says of one query after another whether it is above a threshold, up to ``answers`` times.

    One Laplace noise of scale 1 / epsilon_threshold on the threshold, drawn once; a fresh one of
    scale 2 answers / epsilon_query on each query; it stops at the ``answers``-th yes.  No noisy
    value is released.  (Below a threshold: negate threshold and queries.)

    >>> import dpaudit as dp
    >>> asked = dp.AboveThreshold("alarm", epsilon_threshold="0.5", epsilon_query="0.5")
    >>> dp.account(asked, dp.central("add_remove")).step("pure").value
    Fraction(1, 1)
    """

    epsilon_threshold: Number = number(positive)
    epsilon_query: Number = number(positive)
    answers: Number = preset(whole, 1)
    scores: Scores | str = Scores.ANY

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "scores", choose(Scores, self.scores, f"{self.name}.scores"))


@dataclass(frozen=True, eq=False, repr=False)
class NoisyComparisons(LabelledLeaf):
    """Says of each of ``answers`` queries whether it is above a threshold, all noise drawn anew.

    Laplace noise of scale ``query_scale`` on the query and of scale ``threshold_scale`` on the
    threshold, in units of the query's sensitivity, both drawn for every answer; no noisy value is
    released.  ``margin``: how far below the threshold the queries of one data set are, one less on
    the other, in the pair whose leakage is known (that no query is above); any pair is bounded.
    """

    threshold_scale: Number = number(positive)
    query_scale: Number = number(positive)
    margin: Number = number(positive)
    answers: Number = preset(whole, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknowns(self.threshold_scale - self.query_scale):
            raise InvalidParameter(f"{self.name}: bind both scales, of which the larger counts")
        if self.threshold_scale == self.query_scale:
            refuse(self.query_scale, f"{self.name}.query_scale", "another than the threshold's")
        if known_sign(self.margin - 1, strict=False) is False:
            refuse(self.margin, f"{self.name}.margin", "at least 1")
