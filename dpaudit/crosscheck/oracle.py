"""Asking dp-accounting soundly: parameters cast, sensitivity translated, round-off allowed for.

Its answers are float64 numbers with a stated allowance, not proofs: they can contradict a bound
and never certify one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import reduce
from typing import Any, TypeVar

from dpaudit.crosscheck.interchange.events import event_over
from dpaudit.crosscheck.interchange.numbers import Rounding, to_float, to_int
from dpaudit.errors import Unsupported
from dpaudit.exact import canonical, enclose, exp, sqrt, sympify, total
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace, RandomizedResponse
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node, postorder
from dpaudit.scope import Adjacency, Scope

Answer = TypeVar("Answer")

# Measured: at most 7e-14 on 1.7e6 cells (10^4 Gaussians against their closed form).
ROUND_OFF = 1e-11
# Below it, round-off decides: the library's own answers fall below the truth.
SMALLEST_DELTA = Fraction(1, 10**9)
ALLOWANCE = 1e-9  # relative and absolute error granted to dp-accounting
MOST_EVENTS = 1_000  # randomised responses that are composed one by one
# Its PLD accountant composes these once, whatever their count.
UNCOUNTED = (RandomizedResponse,)
LEAST_INTERVAL = 1e-4  # Nats of a cell of dp-accounting's grid, at the least.
CELLS_OF_ONE = 3e5  # cells of one round's grid
CELLS_OF_ALL = 2e7  # cells of the composition's grid
GRID_DEVIATIONS = 20  # Standard deviations of a loss that the grid covers.
COARSEST_SHARE = 0.01  # Largest cell, as a share of the largest loss's standard deviation.


class Backend(StrEnum):
    """dp-accounting's two accountants."""

    RDP = "rdp"
    PLD = "pld"


def norms_read(backend: Backend, adjacency: Adjacency) -> int:
    """How often the norm in an event's multiplier the back end takes the sensitivity to be.

    Under REPLACE_ONE its PLD accountant doubles the sensitivity and its RDP accountant does not.
    """
    return 2 if (backend, adjacency) == (Backend.PLD, Adjacency.REPLACE_ONE) else 1


def rdp_epsilon_upper(node: Node, scope: Scope, delta: Fraction) -> float:
    """The answer of ``RdpAccountant``, plus a relative and absolute ``ALLOWANCE``.

    Errors: Unsupported for what it does not take, for NaN or negative divergences, for delta 0.
    """
    delta_asked = _asked(delta, 0.0)

    def answer() -> float:
        from dp_accounting.rdp import RdpAccountant

        accountant = RdpAccountant(neighboring_relation=relation_of(scope.adjacency))
        accountant.compose(_event(node, Backend.RDP, scope.adjacency))
        if not (accountant.rdp >= 0).all():
            raise Unsupported("dp-accounting rdp: a Renyi divergence that is NaN or negative")
        return float(accountant.get_epsilon(delta_asked))

    return _above(_guarded(Backend.RDP, answer))


def pld_epsilon_upper(node: Node, scope: Scope, delta: Fraction) -> float:
    """The answer of ``PLDAccountant`` at delta less ``ROUND_OFF``, plus ``ALLOWANCE``.

    Errors: Unsupported for what it does not take, and below ``SMALLEST_DELTA``; under replace_one
    for Poisson samples in which a record that is not drawn may add something.
    """
    _refuse_small(delta)
    samples = [part for part, _ in _gathered(node) if isinstance(part, PoissonSampled)]
    if scope.adjacency is Adjacency.REPLACE_ONE and any(part.undrawn is None for part in samples):
        raise Unsupported(
            "dp-accounting pld: under replace_one it takes a record that is not drawn to add zero; "
            "declare such a sample with undrawn='zero'"
        )
    # Noise alone is normalised, the same under every adjacency; a sample is not.
    noises = (Gaussian, Laplace, DiscreteLaplace)
    plain = all(isinstance(part, noises) for part, _ in _gathered(node))
    adjacency = Adjacency.ADD_REMOVE if plain else scope.adjacency
    delta_asked = _asked(delta, -ROUND_OFF)

    def answer() -> float:
        from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

        accountant = PLDAccountant(relation_of(adjacency), _interval(node))
        accountant.compose(_event(node, Backend.PLD, adjacency))
        return float(accountant.get_epsilon(delta_asked))

    return _above(_guarded(Backend.PLD, answer))


def pld_epsilon_lower(node: Node, scope: Scope, delta: Fraction) -> float:
    """The optimistic estimate of its privacy loss distributions at delta plus ``ROUND_OFF``.

    Gaussian, Laplace and discrete leaves, random answers, and Poisson samples of the first two
    under add_remove or zero_out.
    Errors: Unsupported for any other node, and below ``SMALLEST_DELTA``.
    """
    _refuse_small(delta)
    delta_asked = _asked(delta, ROUND_OFF)
    sampled = any(isinstance(part, PoissonSampled) for part, _ in _gathered(node))
    if sampled and scope.adjacency is Adjacency.REPLACE_ONE:
        raise Unsupported("dp-accounting pld: no lower bound of a sample under replace_one")

    def answer() -> float:
        interval = _interval(node)
        parts = [
            _optimistic(each, interval).self_compose(to_int(times, each.name))
            for each, times in _gathered(node)
        ]
        if not parts:
            return 0.0
        return float(reduce(lambda a, b: a.compose(b), parts).get_epsilon_for_delta(delta_asked))

    return max(0.0, _guarded(Backend.PLD, answer) * (1 - ALLOWANCE) - ALLOWANCE)


def as_is(events: Sequence[Any], relation: Any, delta: float, backend: Backend) -> float:
    """dp-accounting's answer to events as they are: nothing is cast, translated or checked.

    This is no bound; it is here to be cross-checked.
    """
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    kind = RdpAccountant if backend is Backend.RDP else PLDAccountant
    accountant = kind(neighboring_relation=relation)
    for event in events:
        accountant.compose(event)
    return float(accountant.get_epsilon(delta))


def relation_of(adjacency: Adjacency) -> Any:
    """dp-accounting's name for an adjacency."""
    from dp_accounting.privacy_accountant import NeighboringRelation

    return {
        Adjacency.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Adjacency.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
        Adjacency.ZERO_OUT: NeighboringRelation.REPLACE_SPECIAL,
    }[adjacency]


# --- what is asked -------------------------------------------------------------------------------


def _event(node: Node, backend: Backend, adjacency: Adjacency) -> Any:
    """One event of all that a declaration composes, equal parts counted together."""
    from dp_accounting import dp_event

    events: list[Any] = []
    for part, number in _gathered(node):
        event = event_over(part, norms_read(backend, adjacency), adjacency)
        times = to_int(number, part.name)
        if backend is Backend.PLD and isinstance(part, UNCOUNTED):
            if times > MOST_EVENTS:
                raise Unsupported(
                    f"dp-accounting pld: {times} random answers, one by one: at most {MOST_EVENTS}"
                )
            events += [event] * times
        else:
            events.append(dp_event.SelfComposedDpEvent(event, times))
    return dp_event.ComposedDpEvent(events)


def _gathered(root: Node) -> list[tuple[Node, Fraction]]:
    """The different parts of a tree of compositions and repeats, each with its count."""
    gathered: dict[str, dict[Node, Fraction]] = {}
    for node in postorder(root):
        counts: dict[Node, Fraction] = {}
        for part, times in _parts(node, gathered):
            counts[part] = counts.get(part, Fraction(0)) + times
        if len(counts) > MOST_EVENTS:
            raise Unsupported(f"dp-accounting: over {MOST_EVENTS} different releases")
        gathered[node.digest] = counts
    return [(node, times) for node, times in gathered[root.digest].items() if times != 0]


def _parts(
    node: Node, gathered: dict[str, dict[Node, Fraction]]
) -> Iterator[tuple[Node, Fraction]]:
    if isinstance(node, Compose):
        for child in node.nodes:
            yield from gathered[child.digest].items()
    elif isinstance(node, Repeat) and node.index is None:
        times = to_int(node.times, f"{node.name}.times")
        yield from ((n, times * count) for n, count in gathered[node.child.digest].items())
    elif isinstance(node, PoissonSampled):
        yield (
            node.rebuild(node.parameters, [_collapsed(gathered[node.child.digest], node.child)]),
            Fraction(1),
        )
    else:
        yield node, Fraction(1)


def _collapsed(counts: dict[Node, Fraction], child: Node) -> Node:
    """Gaussians composed on one batch as one Gaussian: exact (Mironov, Talwar, Zhang 2019, 3)."""
    noises = [
        (part.noise_multiplier, n) for part, n in counts.items() if isinstance(part, Gaussian)
    ]
    if not noises or len(noises) < len(counts):
        return child
    precision = total(n / noise_multiplier**2 for noise_multiplier, n in noises)
    return Gaussian("batch", 1 / sqrt(precision)) if precision != 0 else child


def _optimistic(node: Node, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    inner, rate = (node.child, node.rate) if isinstance(node, PoissonSampled) else (node, 1)
    if type(inner) not in _MAKERS or (rate != 1 and type(inner) not in SAMPLED):
        raise Unsupported(f"dp-accounting pld: no lower bound of {node.name}")
    name, arguments = _MAKERS[type(inner)]
    keywords: dict[str, Any] = {"pessimistic_estimate": False}
    if type(inner) in SAMPLED:
        share = to_float(Fraction(1) * rate, f"{node.name}.rate", Rounding.DOWN)
        keywords |= {"sampling_prob": share, "use_connect_dots": False}
    make = getattr(privacy_loss_distribution, name)
    return make(*arguments(inner), value_discretization_interval=interval, **keywords)


def _quiet(value: Any) -> float:
    """A noise's scale, rounded towards more privacy."""
    return to_float(value, "noise", Rounding.UP)


def _response(node: Any) -> tuple[float, int]:
    choices = sympify(node.choices)
    return _quiet(canonical(choices / (sympify(exp(node.epsilon)) - 1 + choices))), int(choices)


def _discrete_laplace(node: Any) -> tuple[float, int]:
    parameter = to_float(1 / node.scale, "scale", Rounding.DOWN)
    return parameter, to_int(node.sensitivity, "sensitivity")


def _discrete_gaussian(node: Any) -> tuple[float, int]:
    return _quiet(sqrt(node.variance)), to_int(node.sensitivity, "sensitivity")


SAMPLED = (Gaussian, Laplace)  # noise that dp-accounting samples
_MAKERS: dict[type[Node], tuple[str, Callable[[Any], tuple[Any, ...]]]] = {
    Gaussian: ("from_gaussian_mechanism", lambda node: (_quiet(node.noise_multiplier),)),
    Laplace: ("from_laplace_mechanism", lambda node: (_quiet(node.noise_multiplier),)),
    RandomizedResponse: ("from_randomized_response", _response),
    DiscreteLaplace: ("from_discrete_laplace_mechanism", _discrete_laplace),
    DiscreteGaussian: ("from_discrete_gaussian_mechanism", _discrete_gaussian),
}


def _interval(node: Node) -> float:
    """The usual grid, or a coarser one where that would need too many cells.

    Errors: Unsupported where even one run's loss would have too few of them.
    """
    losses = [(_loss(part), float(times)) for part, times in _gathered(node)]
    reach = max((loss.mean + GRID_DEVIATIONS * loss.deviation for loss, _ in losses), default=0.0)
    mean = math.fsum(loss.share * loss.mean * times for loss, times in losses)
    variance = math.fsum(loss.share * loss.deviation**2 * times for loss, times in losses)
    every = mean + GRID_DEVIATIONS * math.sqrt(variance)
    interval = max(LEAST_INTERVAL, reach / CELLS_OF_ONE, every / CELLS_OF_ALL)
    largest = max((loss.deviation for loss, _ in losses), default=0.0)
    if interval > max(LEAST_INTERVAL, COARSEST_SHARE * largest):
        raise Unsupported(f"dp-accounting pld: {node.head[:80]} is too long for its grid")
    return interval


@dataclass(frozen=True)
class _Loss:
    """About the mean and deviation of one run's loss where the record is in the sample."""

    mean: float
    deviation: float
    share: float


def _loss(node: Node) -> _Loss:
    inner, rate = (node.child, node.rate) if isinstance(node, PoissonSampled) else (node, 1)
    share = float(enclose(Fraction(1) * rate).mid())
    if not isinstance(inner, (Gaussian, Laplace)):
        return _Loss(1.0, 1.0, share)
    loss = float(enclose(1 / inner.noise_multiplier).mid())
    mean = loss**2 / 2 if isinstance(inner, Gaussian) else min(loss, loss**2 / 2)
    return _Loss(mean, loss, share)


# --- how it is answered --------------------------------------------------------------------------


def _asked(delta: Fraction, change: float) -> float:
    if delta == 0:
        raise Unsupported("dp-accounting: infinite at delta 0 whatever the declaration")
    return to_float(delta, "delta", Rounding.DOWN if change <= 0 else Rounding.UP) + change


def _refuse_small(delta: Fraction) -> None:
    if delta < SMALLEST_DELTA:
        raise Unsupported(
            f"dp-accounting pld: round-off is not bounded below delta {float(SMALLEST_DELTA)}"
        )


def _guarded(backend: Backend, answer: Callable[[], float]) -> float:
    """An answer that is a number; what the library raises becomes Unsupported."""
    from dp_accounting.privacy_accountant import UnsupportedEventError

    refusals = (UnsupportedEventError, ArithmeticError, LookupError, MemoryError, RecursionError)
    try:
        number = answer()
    except (*refusals, TypeError, ValueError) as error:
        raise Unsupported(f"dp-accounting {backend}: {str(error)[:200]}") from None
    if math.isnan(number):
        raise Unsupported(f"dp-accounting {backend}: it answers NaN")
    return number


def _above(epsilon: float) -> float:
    return epsilon * (1 + ALLOWANCE) + ALLOWANCE
