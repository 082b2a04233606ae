"""What bounds one record's weighted gradient difference D_t(d), and the query that follows.

Clipping makes the bound true for every loss.  Without it the bound is a statement about the loss
and the noise (proved, under assumptions that are declared) or about i.i.d. data (no proof).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, enclose, exact
from dpaudit.exact.domains import positive
from dpaudit.families.composition import Assuming
from dpaudit.families.correlated.node import Strategy
from dpaudit.kernels.query import Array, ClippedMean, Norm, Query, Records
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.scope import Adjacency
from mechanisms.papers.srgd.constants import as_float
from mechanisms.papers.srgd.geometry import EtaSchedule
from mechanisms.papers.srgd.sensitivity import IidClaim, SensitivityBound, outside

Rows = Callable[[Array], Array]
BOUNDED_METHOD = "AcceleratedDPSRGD"


@dataclass(frozen=True)
class Run:
    """What a bound without clipping has to know of the program that relies on it.

    ``method``: the name of the algorithm; ``radius``: of the ball that iterates are projected onto.
    """

    method: str
    radius: float
    rounds: int
    dimension: int
    beta: Number
    sigma: Number
    strategy: Strategy
    schedule: EtaSchedule


class RowBound(Protocol):
    """Why no row of round t, over ``share(t)``, is longer than ``largest``."""

    @property
    def largest(self) -> Number:
        """The norm C that no row over its share exceeds, in units of a gradient."""

    def share(self, t: int) -> float:
        """C_t over the largest: rows of round t are divided by it."""

    def strategy(self, base: Strategy, rounds: int) -> Strategy:
        """The strategy for rows over their shares: its columns are multiplied by these."""

    def query(self, rows: Rows, divisor: float) -> Query:
        """The sum of rows over the divisor, with the sensitivity that follows."""

    def declared(self, noise: Node) -> Node:
        """The noise, under what the bound rests on."""

    def admit(self, run: Run) -> None:
        """Errors: InvalidParameter for a program that the bound does not hold for."""


@dataclass(frozen=True)
class _OneNorm:
    """What bounds share that state one norm for every round."""

    norm: Number

    @property
    def largest(self) -> Number:
        return self.norm

    def share(self, t: int) -> float:
        return 1.0

    def strategy(self, base: Strategy, rounds: int) -> Strategy:
        return base


@dataclass(frozen=True)
class Clipped(_OneNorm):
    """Every row is clipped to norm C: no assumption on losses or data."""

    def __post_init__(self) -> None:
        value = exact(self.norm, "Clipped.norm")
        positive(value, "Clipped.norm")
        object.__setattr__(self, "norm", value)

    def query(self, rows: Rows, divisor: float) -> Query:
        return ClippedMean(rows, as_float(self.norm), divisor=divisor)

    def declared(self, noise: Node) -> Node:
        return noise

    def admit(self, run: Run) -> None:
        """Any program."""


@dataclass(frozen=True, eq=False)
class StatedMean:
    """sum f(record) / divisor with a stated bound on ||f||: nothing is clipped.

    Only as good as the statement; rows that are not finite count as zero.
    """

    per_record: Rows
    bound: float
    divisor: float
    norm: ClassVar[Norm] = "l2"

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The sum over the divisor, (trials, p)."""
        if chosen is not None:
            raise InvalidParameter("StatedMean: secret batches are not covered by its bound")
        values, origin = records.distinct()
        with np.errstate(all="ignore"):
            rows = np.asarray(self.per_record(values), dtype=np.float64)
            rows = np.where(np.isfinite(rows).all(axis=-1, keepdims=True), rows, 0.0)
        times = np.bincount(origin, weights=records.present, minlength=len(values))
        return np.asarray(np.einsum("n,tnd->td", times, rows) / self.divisor)

    def mixes_records(self, records: Records) -> bool:
        """Whether ``per_record`` gives a row another vector among other rows: an audit's check."""
        clipped = ClippedMean(self.per_record, self.bound, divisor=self.divisor)
        return clipped.mixes_records(records)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """bound / divisor under zero_out, twice that under replace_one."""
        factor = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
        return np.asarray(factor * self.bound / self.divisor)


@dataclass(frozen=True)
class _Unclipped(_OneNorm):
    """What the two bounds without clipping share."""

    def query(self, rows: Rows, divisor: float) -> Query:
        return StatedMean(rows, as_float(self.norm), divisor)


@dataclass(frozen=True)
class WorstCase(_Unclipped):
    """Nothing is clipped: C* of ``srg_sensitivity_bound``, outside an event of the noise.

    ``regular``: how far it is secured that losses are Lipschitz and smooth with the constants that
    went in, and by what.
    """

    bound: SensitivityBound
    regular: Assumption

    @classmethod
    def of(
        cls,
        bound: SensitivityBound,
        *,
        status: Status = Status.DECLARED,
        evidence: str = "",
        norm: Number | None = None,
    ) -> WorstCase:
        """Stated at C*, or at a larger ``norm`` that the noise was made for.

        Errors: InvalidParameter for a norm below C*.
        """
        stated = bound.norm if norm is None else exact(norm, "WorstCase.norm")
        if stated != bound.norm and not enclose(stated) > enclose(bound.norm):
            raise InvalidParameter(
                f"WorstCase.norm: rows can be {float(bound.norm):.6g} long, longer than stated"
            )
        statement = (
            "every record's loss is L-Lipschitz and M-smooth on the ball, with the L and M that "
            "the bound on weighted gradient differences was computed with"
        )
        return cls(stated, bound, Assumption("lipschitz_smooth", statement, status, evidence))

    def declared(self, noise: Node) -> Node:
        return Assuming(outside(noise, self.bound.event), self.regular)

    def admit(self, run: Run) -> None:
        """Algorithm 1 in the ball, with no larger steps and no more noise than the bound is for."""
        given = self.bound.conditions
        fits = {
            "method": run.method == BOUNDED_METHOD,
            "radius": 2 * run.radius <= as_float(given.diameter),
            "rounds": run.rounds <= given.rounds,
            "dimension": run.dimension <= given.dimension,
            "beta": _at_most(given.beta, run.beta),
            "sigma": _at_most(run.sigma, self.bound.sigma),
            "strategy": run.strategy == given.strategy,
            "schedule": run.schedule is given.schedule,
        }
        for name, holds in fits.items():
            if not holds:
                raise InvalidParameter(
                    f"{name} = {getattr(run, name)}: the bound without clipping was computed for "
                    "another; compute it again, or clip"
                )


@dataclass(frozen=True)
class OfIidData(_Unclipped):
    """Nothing is clipped: c_DP L of Lemma 5.5, which speaks of i.i.d. data; it proves nothing.

    Differential privacy compares fixed neighbouring data sets, and what a record is replaced by is
    no draw of the population: the assumption fails for the definition's own pairs.  Where
    probabilities may run over the data as well, what is stated is no longer differential privacy.
    """

    claim: IidClaim

    @classmethod
    def of(cls, claim: IidClaim) -> OfIidData:
        return cls(claim.norm, claim)

    def declared(self, noise: Node) -> Node:
        iid = Assumption(
            "iid_data",
            "both neighbouring data sets are i.i.d. draws of one population, with a convex risk "
            "that is least inside the ball, and no draw makes a weighted gradient difference "
            "longer than c_DP L (Lemma 5.5)",
            Status.VIOLATED,
            "differential privacy is a statement about every fixed pair of neighbours, and not "
            "about random draws of them",
        )
        return Assuming(noise, iid)

    def admit(self, run: Run) -> None:
        """Any program: nothing is proved of it."""


def _at_most(one: Number, other: Number) -> bool:
    return one == other or bool(enclose(one) < enclose(other))
