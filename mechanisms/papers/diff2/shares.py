"""DIFF2 without a trusted server: whole numbers and noise in shares, under secure aggregation.

Source: Murata and Suzuki 2023, Section 2.1 (the remark), worked out with the distributed discrete
Gaussian of Kairouz, Liu and Steinke 2021 and the Skellam noise of Agarwal, Kairouz and Liu 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, enclose, upper_fraction
from dpaudit.families.composition import Repeat
from dpaudit.families.distributed import DistributedGaussianVector, DistributedSkellamVector
from dpaudit.families.distributed.totals import ClientTotals, units_moved
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.measures.convert import gaussian_mu
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, Trust, Unit
from mechanisms.papers.common.budgets import epsilon_delta
from mechanisms.papers.diff2.framework import Diff2

KINDS = {"gaussian": DistributedGaussianVector, "skellam": DistributedSkellamVector}


@dataclass(frozen=True)
class Shares:
    """What every client adds to its rounded mean, and what secure aggregation shows of the sum.

    A client counts its clipped mean in units of ``grain`` times the radius, rounds it, and adds
    noise of variance ``first`` (gradients) or ``second`` (differences) in those units, per
    coordinate.  At most ``dropouts`` clients a round drop out or tell their noise; ``gone`` says
    who drops out, round by round, over and over.  Sums are shown modulo ``modulus`` (0: as they
    are).  ``dimension``: coordinates, at most.  ``noise``: gaussian or skellam.
    Errors: InvalidParameter where more drop out than is declared, or for another noise.
    """

    first: Number
    second: Number
    grain: float
    dimension: int
    dropouts: int
    modulus: int = 0
    gone: tuple[tuple[int, ...], ...] = ((),)
    noise: str = "gaussian"

    def __post_init__(self) -> None:
        if self.noise not in KINDS:
            raise InvalidParameter(f"Shares.noise = {self.noise!r}: expected gaussian or skellam")
        most = max((len(set(round_)) for round_ in self.gone), default=0)
        if not self.gone or most > self.dropouts:
            raise InvalidParameter(
                f"Shares.gone: {most} clients of a round drop out, {self.dropouts} are declared"
            )


@dataclass(frozen=True)
class SharedDiff2(Diff2):
    """DIFF2 whose rounds are sums of whole numbers under secure aggregation.

    The mean is over the clients who stay.  ``noise`` is not used: ``shares`` says what is added.
    Errors: as :class:`Diff2`; InvalidParameter for a loss of more coordinates than declared, and
    for clients or users as units.
    """

    shares: Shares = Shares(Fraction(1), Fraction(1), 1.0, 1, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        coordinates = self.loss.dimension(self.features)
        if coordinates > self.shares.dimension:
            raise InvalidParameter(
                f"Shares.dimension = {self.shares.dimension}: the loss has {coordinates}"
            )

    def declaration(self, scope: Scope) -> Node:
        """As without shares, with vectors of clients' noise for leaves."""
        if scope.unit is not Unit.RECORD:
            raise InvalidParameter(f"SharedDiff2 declares its noise for a record: {scope}")
        return super().declaration(replaced_trust(scope))

    def server(self, scope: Scope, total: int) -> list[Node]:
        """A leaf for gradients and one for differences, N_i times each."""
        made: list[Node] = [Repeat(self._leaf("gradient", self.shares.first, scope), self.restarts)]
        if self.rounds > self.restarts:
            second = self._leaf("difference", self.shares.second, scope)
            made.append(Repeat(second, self.rounds - self.restarts))
        return made

    def _leaf(self, label: str, variance: Number, scope: Scope) -> Node:
        shares = self.shares
        moved = units_moved(scope.adjacency, min(self.client_sizes), shares.grain, shares.dimension)
        kind = KINDS[shares.noise]
        return kind(label, variance, self.clients, shares.dropouts, moved, shares.modulus)

    def asked(self, curator: Curator, label: str, query: ClippedMean, turn: int) -> Array:
        """The sum of those who stay, in the units of a mean."""
        gone = tuple(sorted(set(self.shares.gone[turn % len(self.shares.gone)])))
        totals = ClientTotals(
            query.per_record,
            query.radius,
            client_sizes=self.client_sizes,
            grain=self.shares.grain,
            dimension=self.shares.dimension,
            gone=gone,
        )
        unit = self.shares.grain * np.broadcast_to(query.radius, (curator.trials,))
        staying = self.clients - len(gone)
        return np.asarray(curator.release(label, totals) * unit[:, None] / staying)


def shares_for(
    epsilon: object,
    delta: object,
    client_sizes: tuple[int, ...],
    counts: tuple[int, int],
    *,
    dropouts: int,
    units: int,
    dimension: int,
    modulus: int,
    gone: tuple[tuple[int, ...], ...] = ((),),
    noise: str = "gaussian",
    u: Fraction = Fraction(5, 4),
) -> Shares:
    """The least whole variances a client that hold (epsilon, delta) for a replaced record.

    ``counts``: numbers of gradients and of differences.  ``units``: how many units a record moves
    the mean of the smallest client before rounding, 2 / (n_min grain); 1 / ``u`` of mu^2 goes to
    gradients.  The clients who are left add up to variances V_i with squares / (V_i - 1) of at
    most their part of mu^2: the 1 is more than what a law bends by beyond that of normal noise.
    """
    budget = epsilon_delta(epsilon, delta)
    grain = 2 / (min(client_sizes) * units)
    moved = units_moved(Adjacency.REPLACE_ONE, min(client_sizes), grain, dimension)
    left = len(client_sizes) - dropouts
    if left < 1:
        raise InvalidParameter(
            f"dropouts = {dropouts} of {len(client_sizes)} clients: one adds noise"
        )
    found = []
    for count, part in zip(counts, (1 / u, 1 - 1 / u), strict=True):
        whole = upper_fraction(enclose(moved * count / (part * gaussian_mu(*budget) ** 2) + 1))
        if whole is None:
            raise InvalidParameter(f"({epsilon}, {delta}): no finite noise")
        found.append(Fraction(math.ceil(whole / left)))
    first, second = found
    return Shares(first, second, grain, dimension, dropouts, modulus, gone, noise)


def replaced_trust(scope: Scope) -> Scope:
    """The scope as :class:`Diff2` takes it: nobody need be trusted where sums alone are seen."""
    return replace(scope, trust=Trust.CENTRAL) if scope.trust is Trust.DISTRIBUTED else scope


__all__ = ["SharedDiff2", "Shares", "shares_for"]
