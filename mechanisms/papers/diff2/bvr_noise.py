"""How much noise DIFF2-BVR-L-SGD needs: the closed form as printed, and the least that will do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.accountant.calibrate import calibrate
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, enclose, exact, log, sqrt, upper_fraction
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.nodes import Node
from dpaudit.scope import central
from mechanisms.papers.diff2.noise import Noise


class InfeasibleBatchSize(InvalidParameter):
    """A batch larger than the printed closed form is proved for."""


@dataclass(frozen=True)
class Plan:
    """The public sizes that a calibration needs.

    ``smallest``: records of the smallest client; ``steps``: local steps a round (K), of which the
    first reads no data.
    Errors: InvalidParameter for a count below 1, or a batch above ``smallest``.
    """

    smallest: int
    clients: int
    rounds: int
    restart_every: int
    steps: int
    batch_size: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (hasattr(value, "__index__") and value > 0):
                raise InvalidParameter(f"Plan.{name} = {value}: expected a positive whole number")
        if self.batch_size > self.smallest:
            raise InvalidParameter(
                f"Plan.batch_size = {self.batch_size}: the smallest client has {self.smallest}"
            )

    @property
    def total(self) -> int:
        """n_min P."""
        return self.smallest * self.clients

    @property
    def restarts(self) -> int:
        """ceil(R / T)."""
        return -(-self.rounds // self.restart_every)

    @property
    def turns(self) -> int:
        """ceil(R / P), the most turns of a client."""
        return -(-self.rounds // self.clients)


def bvr_order(epsilon: object, delta: object) -> int:
    """alpha = 1 + ceil(2 log(1/delta) / epsilon), the order of Propositions 4.1 and 5.1.

    Errors: InvalidParameter unless epsilon > 0 and 0 < delta < 1.
    """
    at, allowed = exact(epsilon, "epsilon"), exact(delta, "delta")
    if not (at > 0 and 0 < allowed < 1):
        raise InvalidParameter(f"({epsilon}, {delta}): expected epsilon > 0 and delta in (0, 1)")
    exponent = upper_fraction(enclose(2 * log(1 / allowed) / at))
    if exponent is None:
        raise InvalidParameter(f"({epsilon}, {delta}): no finite order of the Renyi divergence")
    return 1 + math.ceil(exponent)


def diff2_bvr_noise_paper(
    epsilon: object, delta: object, plan: Plan, u_1: object = 3, u_2: object = 3
) -> tuple[Noise, Number]:
    """Server noise, and sigma_3^2 = max(16 (4 + e) a^2/(a - 1) K ceil(R/P)/(n^2 eps), 6 a/b^2).

    sigma_i^2 = 4 u_i a N_i / (N^2 epsilon) for the server; n the smallest client, N = n P, a the
    order.  The closed form proves 6 K ceil(R/P) eps'(a) <= epsilon, so that it needs 1/u_1 + 1/u_2
    <= 2/3, which the paper does not state; its condition b^3 <= 4 n / (a sigma_3^2) is solved here
    for b (:func:`largest_batch`).
    Errors: InvalidParameter for such u; InfeasibleBatchSize, with the largest feasible batch.
    Source: Murata and Suzuki 2023, Propositions 5.1 and E.2.
    """
    shares = exact(u_1, "u_1"), exact(u_2, "u_2")
    if min(shares) <= 1 or sum(1 / share for share in shares) > Fraction(2, 3):
        raise InvalidParameter(f"u_1, u_2 = {u_1}, {u_2}: expected 1/u_1 + 1/u_2 <= 2/3")
    alpha, at = bvr_order(epsilon, delta), exact(epsilon, "epsilon")
    most = largest_batch(epsilon, delta, plan)
    if plan.batch_size > most:
        raise InfeasibleBatchSize(
            f"Plan.batch_size = {plan.batch_size}: the closed form is proved up to {most}; "
            "use that, or diff2_bvr_noise_numeric"
        )
    return _server(at, alpha, plan, *shares), sqrt(_local_variance(at, alpha, plan))


def _server(epsilon: Number, alpha: int, plan: Plan, u_1: Number, u_2: Number) -> Noise:
    unit = 4 * Fraction(alpha) / (Fraction(plan.total) ** 2 * epsilon)
    counts = plan.restarts, plan.rounds - plan.restarts
    first, second = (sqrt(unit * u * n) for u, n in zip((u_1, u_2), counts, strict=True))
    return Noise(first, second)


def _local_variance(epsilon: Number, alpha: int, plan: Plan) -> Number:
    import sympy

    steps = plan.steps * plan.turns
    spread = 16 * (4 + sympy.E) * Fraction(alpha**2, alpha - 1) * steps
    first = spread / (plan.smallest**2 * epsilon)
    second = Fraction(6 * alpha, plan.batch_size**2)
    return first if bool(enclose(first) > enclose(second)) else second


def largest_batch(epsilon: object, delta: object, plan: Plan) -> int:
    """The largest batch of the closed form: 2 n/(3 a^2) and n (eps (a-1)/(4 (4+e) a^3 K c))^(1/3).

    c = ceil(R/P).  Also b <= n / (2 e a), which the first implies for a >= 4.
    """
    alpha, at = bvr_order(epsilon, delta), float(enclose(exact(epsilon, "epsilon")).mid())
    n, steps = plan.smallest, plan.steps * plan.turns
    cubic = n * (at * (alpha - 1) / (4 * (4 + math.e) * alpha**3 * steps)) ** (1 / 3)
    limits = (2 * n / (3 * alpha**2), cubic, n / (2 * math.e * alpha))
    return int(min(limits) * (1 - 1e-12))


def local_node(plan: Plan, sigma: Number) -> Node:
    """The local releases of the client with most turns: (K - 1) ceil(R/P) batches."""
    noise = Gaussian("local", sigma * plan.batch_size / 2)
    sampled = SampledWithoutReplacement(noise, plan.batch_size, plan.smallest)
    return Repeat(sampled, (plan.steps - 1) * plan.turns)


def _worst(plan: Plan, noise: Noise, sigma: Number) -> Node:
    """The server's releases, with those of the smallest client with most turns."""
    server = [
        Repeat(Gaussian(label, s * plan.total / 2), n)
        for label, s, n in (
            ("gradient", noise.sigma_1, plan.restarts),
            ("difference", noise.sigma_2, plan.rounds - plan.restarts),
        )
        if n
    ]
    return Compose(*server, local_node(plan, sigma))


def diff2_bvr_noise_numeric(
    epsilon: object,
    delta: object,
    plan: Plan,
    u_1: object = 3,
    u_2: object = 3,
    *,
    declared: Callable[[Noise, Any], Node] | None = None,
) -> tuple[Noise, Fraction]:
    """The printed server noise, and the least sigma_3 for which the accountant proves the claim.

    ``declared``: the declaration of both noises that the claim is about, sigma_3 a symbol; without
    it, that of the smallest client with most turns, which the others' privacy does not exceed.
    Also for batches that the closed form is not proved for: the accountant's profile has no floor,
    unlike Lemma B.7, whose bound on a step stays above log(1 + 2 sum_j gamma^j C(a, j))/(a - 1) at
    any noise.
    Errors: Unsupported where no sigma_3 up to 512 / ``batch_size`` is large enough (the server's
    releases may spend all).
    Source: ours; the server's noise as Proposition 5.1.
    """
    import sympy

    shares = exact(u_1, "u_1"), exact(u_2, "u_2")
    if min(shares) <= 1 or sum(1 / share for share in shares) >= 1:
        raise InvalidParameter(f"u_1, u_2 = {u_1}, {u_2}: expected 1/u_1 + 1/u_2 < 1")
    noise = _server(exact(epsilon, "epsilon"), bvr_order(epsilon, delta), plan, *shares)
    sigma = sympy.Symbol("sigma_3", positive=True)
    node = _worst(plan, noise, sigma) if declared is None else declared(noise, sigma)
    # Noise over sensitivity between 1/4 and 256: less is hopeless, more is not needed.
    bracket = Fraction(1, 2 * plan.batch_size), Fraction(512, plan.batch_size)
    found = calibrate(node, central("replace_one"), ApproxDP(epsilon, delta), bracket=bracket)
    return noise, Fraction(found.value)
