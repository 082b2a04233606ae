"""How much noise DIFF2-GD needs: the constants as printed, and the least that give the claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, enclose, exact, log, sqrt, upper_fraction
from dpaudit.exact.domains import non_negative
from dpaudit.measures.convert import gaussian_mu
from mechanisms.papers.common.budgets import epsilon_delta, rational


@dataclass(frozen=True)
class Noise:
    """Noise standard deviations as multiples of the clipping radii (not of the sensitivity)."""

    sigma_1: Number
    sigma_2: Number

    def __post_init__(self) -> None:
        for name in ("sigma_1", "sigma_2"):
            place = f"Noise.{name}"
            value = exact(getattr(self, name), place)
            non_negative(value, place)
            object.__setattr__(self, name, value)


def diff2_noise_paper(
    epsilon: object, delta: object, smallest_total: int, restarts: int, differences: int, u: object
) -> Noise:
    """Proposition 4.1: sigma_i^2 = 4 u_i alpha N_i / (N^2 epsilon), N = n_min P, any u > 1.

    alpha = 1 + ceil(2 log(1/delta) / epsilon); u_1 = u, u_2 = u / (u - 1).  ``u`` = 1 is allowed
    where there are no differences (DP-GD).
    Source: Murata and Suzuki 2023, Proposition 4.1.
    """
    budget, share = epsilon_delta(epsilon, delta), _share(u, differences)
    order = Fraction(printed_order(*budget))
    unit = 4 * order / (Fraction(smallest_total) ** 2 * budget[0])
    return Noise(sqrt(unit * share * restarts), sqrt(unit * _rest(share) * differences))


def printed_order(epsilon: object, delta: object) -> int:
    """alpha = 1 + ceil(2 log(1/delta) / epsilon) of Proposition 4.1.

    Errors: InvalidParameter for a budget outside its domain.
    """
    budget = epsilon_delta(epsilon, delta)
    exponent = upper_fraction(enclose(2 * log(1 / budget[1]) / budget[0]))
    if exponent is None:
        raise InvalidParameter(f"({epsilon}, {delta}): no finite order of the Renyi divergence")
    return 1 + math.ceil(exponent)


def diff2_noise_tight(
    epsilon: object, delta: object, smallest_total: int, restarts: int, differences: int, u: object
) -> Noise:
    """The least noise of this shape that is exactly (epsilon, delta)-DP; ours.

    sigma_i^2 = 4 u_i N_i / (N mu)^2 with mu the largest GDP parameter that is (epsilon, delta)-DP:
    the transcript is exactly mu-GDP (adaptive composition of Gaussians).
    """
    budget, share = epsilon_delta(epsilon, delta), _share(u, differences)
    mu = gaussian_mu(*budget)
    unit = 4 / (Fraction(smallest_total) * mu) ** 2
    return Noise(sqrt(unit * share * restarts), sqrt(unit * _rest(share) * differences))


def client_share(noise: Noise, clients: int) -> Noise:
    """What each of P clients adds to its own mean, over the radius: N(0, P sigma^2 C^2).

    The mean of P such shares is N(0, sigma^2 C^2): under secure aggregation no server draws any.
    Source: Murata and Suzuki 2023, Section 2.1, worked out.
    """
    _clients(clients, 0)
    return Noise(sqrt(clients * noise.sigma_1**2), sqrt(clients * noise.sigma_2**2))


def noise_against(noise: Noise, clients: int, colluding: int) -> Noise:
    """What is left of noise made of shares where ``colluding`` clients tell theirs.

    sigma^2 (P - t) / P.  A program with this noise declares what the run tells the colluders.
    Errors: InvalidParameter unless 0 <= t < P.
    Source: dpaudit 2026; Murata and Suzuki 2023, Section 2.1, for the shares.
    """
    _clients(clients, colluding)
    left = Fraction(clients - colluding, clients)
    return Noise(sqrt(left * noise.sigma_1**2), sqrt(left * noise.sigma_2**2))


def _clients(clients: int, colluding: int) -> None:
    whole = hasattr(clients, "__index__") and hasattr(colluding, "__index__")
    if not (whole and 0 <= colluding < clients):
        raise InvalidParameter(
            f"{colluding} of {clients} clients collude: expected counts, and one that does not"
        )


Calibration: TypeAlias = Callable[[object, object, int, int, int, object], Noise]
CALIBRATIONS: Mapping[str, Calibration] = {"paper": diff2_noise_paper, "tight": diff2_noise_tight}


def calibration_of(name: str) -> Calibration:
    """The calibration of this name; errors: InvalidParameter for one that is not there."""
    if name not in CALIBRATIONS:
        raise InvalidParameter(f"calibration = {name!r}: expected {' or '.join(CALIBRATIONS)}")
    return CALIBRATIONS[name]


def _share(u: object, differences: int) -> Fraction:
    share = rational(u, "u")
    if share < 1 or (share == 1 and differences):
        raise InvalidParameter(f"u = {u}: expected above 1, or 1 where there are no differences")
    return share


def _rest(share: Fraction) -> Fraction:
    return share / (share - 1) if share > 1 else Fraction(0)
