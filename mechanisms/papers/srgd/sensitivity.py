"""How far one record moves a weighted gradient difference that is not clipped.

``srg_sensitivity_bound`` holds for any data, outside an event of the noise; what the paper shows of
i.i.d. data (``srg_sensitivity_iid_claim``) holds outside an event of the *data*, which bounds
nothing in differential privacy: :func:`outside` takes the first kind and refuses the second.
Source: Choquette-Choo, Ganesh, Thakurta 2024, Lemmas 5.5, 5.6, 5.9, Corollaries 5.7, 5.10.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpaudit.errors import InvalidParameter
from dpaudit.exact import (
    Number,
    canonical,
    decimal_upper,
    enclose,
    exact,
    lower_fraction,
    sqrt,
    upper_fraction,
)
from dpaudit.exact.domains import non_negative, positive, probability
from dpaudit.families.correlated.moves import largest_move
from dpaudit.families.correlated.node import SINGLE, Factorisation, Strategy
from dpaudit.families.events import EventSlack
from dpaudit.nodes import Node
from dpaudit.scope import choose
from mechanisms.papers.srgd.constants import privacy_constant
from mechanisms.papers.srgd.geometry import EtaSchedule
from mechanisms.papers.srgd.prefix_noise import (
    Method,
    named,
    prefix_noise_bound,
    prefix_noise_tail,
)
from mechanisms.papers.srgd.problem import whole

DIGITS = 12


@dataclass(frozen=True)
class NoiseEvent:
    """An event of the noise alone, of at most this probability whatever the data."""

    probability: Number
    statement: str

    def __post_init__(self) -> None:
        value = exact(self.probability, "NoiseEvent.probability")
        probability(value, "NoiseEvent.probability")
        object.__setattr__(self, "probability", value)


@dataclass(frozen=True)
class DataEvent:
    """An event of randomly drawn data: no statement about any fixed pair of neighbours."""

    probability: Number
    statement: str


def outside(child: Node, event: NoiseEvent | DataEvent) -> Node:
    """``child`` whose guarantee may fail inside the event: (epsilon, delta + (1 + e^epsilon) p).

    Errors: InvalidParameter for an event of the data.  Differential privacy holds for every fixed
    pair of data sets, and the neighbour of i.i.d. data is not i.i.d.
    """
    if not isinstance(event, NoiseEvent):
        raise InvalidParameter(
            f"{event.statement}: an event of the data is no evidence of differential privacy, "
            "which holds for every pair of data sets; clip, or bound the worst case"
        )
    return EventSlack(child, event.probability, event=event.statement)


@dataclass(frozen=True)
class Conditions:
    """For what losses and programs a bound is computed: all that :class:`SensitivityBound` needs.

    Losses are L-Lipschitz and M-smooth on a set of ``diameter`` D in R^``dimension`` that holds
    every iterate of Algorithm 1 (twice the radius of a ball); ``beta`` and ``rounds`` are its own,
    and so are ``strategy`` and ``schedule``.
    Errors: InvalidParameter for what is negative, not finite, or no count.
    """

    lipschitz: Number
    smoothness: Number
    diameter: Number
    beta: Number
    rounds: int
    dimension: int
    strategy: Strategy = Factorisation.TREE
    schedule: EtaSchedule = EtaSchedule.LINEAR

    def __post_init__(self) -> None:
        for name in ("lipschitz", "smoothness", "diameter", "beta"):
            value = exact(getattr(self, name), name)
            (positive if name == "beta" else non_negative)(value, name)
            object.__setattr__(self, name, value)
        for name in ("rounds", "dimension"):
            whole(getattr(self, name), name)
        object.__setattr__(self, "strategy", named(self.strategy))
        object.__setattr__(self, "schedule", choose(EtaSchedule, self.schedule, "schedule"))

    @property
    def growth(self) -> Fraction:
        """a = M T (T - 1) / ((T + 1) beta), the largest of the factors before a_(t-1)."""
        squared = Fraction(self.rounds * (self.rounds - 1), self.rounds + 1)
        return _above(self.smoothness, "smoothness") * squared / _below(self.beta, "beta")

    @property
    def fixed(self) -> Fraction:
        """(L + 2 M D) eta_0."""
        steps = 2 * _above(self.smoothness, "smoothness") * _above(self.diameter, "diameter")
        return (_above(self.lipschitz, "lipschitz") + steps) * Fraction(self.schedule.unit)


@dataclass(frozen=True)
class SensitivityBound:
    """max over rounds and records of ||eta_t g(x_t) - eta_(t-1) g(x_(t-1))||, and what it rests on.

    ``norm`` (C*) has the units of a gradient; ``noise_share`` is M b_max / C*.  ``sigma`` is the
    most noise of a node that it allows and ``noise_bound`` b_max, both in units of the model.  It
    holds outside ``event``, under ``conditions``.
    """

    norm: Fraction
    noise_share: Fraction
    sigma: Number
    noise_bound: Fraction
    event: NoiseEvent
    conditions: Conditions


def srg_sensitivity_bound(
    conditions: Conditions,
    *,
    batch: int,
    mu: object,
    tail: object,
    method: Method = Method.EXACT,
) -> SensitivityBound:
    """C* = (L + 2 M D) / (1 - a - M kappa), half of it under the halved schedule.

    a = M T (T - 1) / ((T + 1) beta); kappa = Z / (B beta mu), Z the bound on all prefix noises per
    unit of sensitivity at mu = 1 that fails with probability at most ``tail``.  For every such
    loss, convex or not, any data, and noise sigma = C* sens(C) / (B beta mu), which depends on C*:
    the closed form solves that circle.  Proof: with a_t the largest norm up to round t,
    a_t <= M t (t + 1) / ((t + 2) beta) a_(t-1) + (M b_max + 2 M D) (t + 1) / (t + 2) + L.
    Errors: InvalidParameter where a + M kappa >= 1: then clip, raise beta or lower the noise.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Lemma 5.9, with the lost factor 2, the diameter
    in place of the radius, and Corollary 5.10's circle closed.
    """
    rounds, strategy = conditions.rounds, conditions.strategy
    spread = Fraction(prefix_noise_bound(rounds, conditions.dimension, tail, strategy, method))
    unit = whole(batch, "batch") * _below(conditions.beta, "beta") * _below(mu, "mu")
    share = _above(conditions.smoothness, "smoothness") * spread / unit
    norm = _rounded(conditions.fixed / _left(conditions, share))
    columns = largest_move(strategy, Fraction(rounds), SINGLE).upper
    sigma, noise = canonical(norm * sqrt(columns) / unit), norm * spread / unit
    event = NoiseEvent(exact(tail, "tail"), _statement(noise))
    return SensitivityBound(norm, share, sigma, noise, event, conditions)


def srg_sensitivity_of(
    conditions: Conditions, *, sigma: object, noise_bound: object
) -> SensitivityBound:
    """The same bound for noise that is given: (L + 2 M D + M b_max) / (1 - a) at a chosen b_max.

    The event is that some prefix noise is longer than b_max; its probability is rounded up.
    Errors: InvalidParameter where a >= 1.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Lemma 5.9, repaired as above.
    """
    deviation, noise = exact(sigma, "sigma"), _above(noise_bound, "noise_bound")
    positive(deviation, "sigma")
    fed = _above(conditions.smoothness, "smoothness") * noise
    norm = _rounded((conditions.fixed + fed) / _left(conditions, Fraction(0)))
    length = noise / _above(deviation, "sigma")
    tail = prefix_noise_tail(conditions.rounds, conditions.dimension, length, conditions.strategy)
    event = NoiseEvent(tail, _statement(noise))
    return SensitivityBound(norm, fed / norm, deviation, noise, event, conditions)


def _left(conditions: Conditions, share: Fraction) -> Fraction:
    """1 - a - M kappa, refused unless it is positive."""
    growth = conditions.growth
    if growth + share >= 1:
        raise InvalidParameter(
            f"sensitivity without clipping: steps feed back {_shown(growth)} of the bound and "
            f"noise {_shown(share)}, together at least 1; clip, raise beta above M T, or use less "
            "noise (larger batches, larger mu)"
        )
    return 1 - growth - share


@dataclass(frozen=True)
class IidClaim:
    """What Lemma 5.5 says of unclipped differences: at most ``norm``, outside an event of the data.

    For reports alone: it bounds no sensitivity.
    """

    norm: Number
    event: DataEvent


def srg_sensitivity_iid_claim(size: int, delta: object, lipschitz: object = 1) -> IidClaim:
    """c_DP L with probability 1 - delta / 2 over i.i.d. data, for a convex risk with x_dagger in C.

    Never a bound for differential privacy: the event is one of the data, and a fixed pair of data
    sets has no such event.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Lemmas 5.4, 5.5 with gamma = delta / 4.
    """
    share = exact(delta, "delta")
    norm = canonical(privacy_constant(size, share) * exact(lipschitz, "lipschitz"))
    statement = "i.i.d. records make some weighted gradient difference longer than c_DP L"
    return IidClaim(norm, DataEvent(share / 2, statement))


# --- exact ends ----------------------------------------------------------------------------------


def _above(value: object, place: str) -> Fraction:
    number = exact(value, place)
    non_negative(number, place)
    found = number if isinstance(number, Fraction) else upper_fraction(enclose(number))
    if found is None:
        raise InvalidParameter(f"{place} = {value}: expected a finite number")
    return found


def _below(value: object, place: str) -> Fraction:
    number = exact(value, place)
    positive(number, place)
    found = number if isinstance(number, Fraction) else lower_fraction(enclose(number))
    if found is None or found <= 0:
        raise InvalidParameter(f"{place} = {value}: expected a positive, finite number")
    return found


def _rounded(value: Fraction) -> Fraction:
    return Fraction(decimal_upper(value, DIGITS))


def _shown(value: Fraction) -> str:
    return f"{float(value):.3g}"


def _statement(noise: Fraction) -> str:
    return f"some prefix noise is longer than b_max = {decimal_upper(noise, 6)}"
