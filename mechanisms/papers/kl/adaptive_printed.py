"""Adaptive noisy gradient descent with its printed charges, in every reading of its listing.

None of them is to be run on data: the charges are half of what a round costs, or less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.accountant.filters.spending import Mask
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, sqrt
from dpaudit.families.adaptive import Filter
from dpaudit.families.opaque import ZCDP
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.kl.adaptive import NORM, RELEASES, AdaptiveNoisyGD
from mechanisms.papers.kl.problem import moves

READINGS = ("signed", "absolute", "clipped", "vector", "from_the_noise")
LAST = ("released", "hidden")


@dataclass(frozen=True)
class PrintedAdaptiveNoisyGD(AdaptiveNoisyGD):
    """Algorithm 3 with its printed charges, min(L0^2 d ell/(n N_t)^2, rho/2) + sqrt(rho)/n a round.

    A round starts while the charges so far are at most rho/2.  ``reading`` of N_t: "signed", the
    noisy scalar as it is, which can be negative: its noise is then the floor's, its charge next to
    nothing; "absolute" or "clipped" at 0; "vector": the norm of the gradient with noise on every
    coordinate; "from_the_noise": the charge's first term is L0^2 / (n sigma_t)^2.  ``last``: the
    noisy gradient of the last round is "released", or "hidden" as in w_0..w_T, which do not hold
    it.  Declared is the least cap that the printed rule itself keeps.
    Errors: as AdaptiveNoisyGD, and for another reading.
    Source: Menart et al. 2023, Algorithm 3, with a scalar noise on the norm and sums over j < t.
    """

    reading: str = "signed"
    last: str = "released"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reading not in READINGS:
            raise InvalidParameter(f"reading = {self.reading!r}: expected {', '.join(READINGS)}")
        if self.last not in LAST or (self.last, self.reading) == ("hidden", "signed"):
            raise InvalidParameter(
                f"last = {self.last!r}: expected released, or hidden where norms are not negative"
            )

    def declaration(self, scope: Scope) -> Node:
        """The most that the printed rule lets a run spend: every round at the floor, if signed.

        Charges are half of what a round costs under replace_one, twice that under zero_out: 3 rho/2
        + 2 sqrt(rho)/n, or 3 rho/8 + sqrt(rho)/(2 n), where N_t is not negative; without the last
        gradient, which can cost rho/2, rho + 2 sqrt(rho)/n, or a quarter of that.
        """
        factor = moves(scope, type(self).__name__)
        share = Fraction(factor**2, 4)
        root: Number = sqrt(self.rho) / self.problem.size
        if self.reading == "signed":
            most = math.ceil(self.scale / 2)
            return Filter.of(RELEASES, ZCDP(most * share * (2 * root + self.rho / 2)))
        gradients = self.rho if self.last == "hidden" else 3 * self.rho / 2
        return Filter.of(RELEASES, ZCDP(share * (gradients + 2 * root)))

    def goes_on(self, spent: Array, unit: float) -> Mask:
        return np.asarray(spent <= float(self.rho) / 2)

    def noisy_norm(
        self, curator: Curator, mean: ClippedMean, on: Mask, noise_multiplier: float
    ) -> Array:
        if self.reading != "vector":
            return super().noisy_norm(curator, mean, on, noise_multiplier)
        released = curator.release(NORM, mean, on=on, noise_multiplier=noise_multiplier)
        return np.asarray(np.linalg.norm(released, axis=-1))

    @property
    def ahead(self) -> bool:
        return self.last == "hidden" or super().ahead

    def steps(self, spent: Array) -> Mask:
        """With the last gradient hidden: a round that goes above rho/2 has none."""
        return super().steps(spent) if self.last == "released" else self.goes_on(spent, 0.0)

    def gradient_noise(self, noisy: Array) -> Array:
        return super().gradient_noise(np.abs(noisy) if self.reading == "absolute" else noisy)

    def charge(self, noisy: Array, sigma: Array, unit: float) -> Array:
        """As printed, from the square of N_t."""
        own = self.problem
        used: Any = np.maximum(noisy, 0.0) if self.reading == "clipped" else noisy
        with np.errstate(all="ignore"):
            if self.reading == "from_the_noise":
                first = (own.lipschitz / (own.size * sigma)) ** 2
            else:
                first = own.lipschitz**2 * own.dimension * self.ell / (own.size * used) ** 2
        half = float(self.rho) / 2
        return np.asarray(np.fmin(first, half) + math.sqrt(self.rho) / own.size)
