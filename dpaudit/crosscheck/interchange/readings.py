"""Events whose fields do not map one to one: each with its reading, and its writing."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpaudit.crosscheck.interchange.kinds import (
    LOSS,
    NO_NOISE,
    NOISE,
    NORM,
    NOTHING,
    OBSTACLES,
    RATE,
    WHOLE,
    together,
)
from dpaudit.crosscheck.interchange.numbers import (
    Rounding,
    foreign,
    foreign_count,
    foreign_rate,
    to_float,
)
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import canonical, enclose, exact, exp, is_symbolic, log, sympify
from dpaudit.exact.domains import refuse
from dpaudit.families.additive import Gaussian
from dpaudit.families.batches import TruncatedPoisson
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.correlated import SINGLE, CorrelatedGaussian, Factorisation
from dpaudit.families.discrete import DiscreteLaplace, RandomizedResponse
from dpaudit.families.opaque import ZCDP, MixtureOfGaussians, RenyiCurve
from dpaudit.families.sampling import PoissonSampled
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency

if TYPE_CHECKING:
    from dpaudit.crosscheck.interchange.events import Reader, Writer

TREE = "SingleEpochTreeAggregationDpEvent"
SEARCH = "RepeatAndSelectDpEvent"
TRUNCATED = "TruncatedSubsampledGaussianDpEvent"
TREES = (Factorisation.TREE, Factorisation.TREE_HONAKER)  # strategies that are trees
# The most by which probabilities of an event may miss a sum of 1, by rounding.
ROUND_OFF = Fraction(1, 10**9)
GAMMA_WIDTH = Fraction(1, 2**50)  # Relative width to which gamma is found from the mean.
MAX_BISECTIONS = 2_000  # Bisections: more than any float has binary places.


# --- composition ---------------------------------------------------------------------------------


def composed(event: Any, reader: Reader) -> Node:
    """All events in the list."""
    if not isinstance(event.events, (list, tuple)):
        raise InvalidParameter(f"{reader.path}.events: expected a list of events")
    return together([reader.below(e, f"[{i}]") for i, e in enumerate(event.events)])


def composed_event(node: Compose, children: list[Any], writer: Writer) -> Any:
    """The list of the children's events."""
    return writer.make("ComposedDpEvent", events=children)


def self_composed(event: Any, reader: Reader) -> Node:
    """A repeat; once is the event itself."""
    times = reader.number(event, "count", WHOLE)
    child = reader.below(event.event, "")
    if times == 0 or child == NOTHING:
        return NOTHING
    return child if times == 1 else Repeat(child, times)


def repeated_event(node: Repeat, children: list[Any], writer: Writer) -> Any:
    """A count, or a list of the rounds where they differ."""
    if node.index is not None:
        return writer.make("ComposedDpEvent", events=writer.rounds(node))
    times = writer.number("times", WHOLE)
    if times == 0:
        return writer.make("NoOpDpEvent")
    return writer.make("SelfComposedDpEvent", event=children[0], count=times)


# --- Renyi curves --------------------------------------------------------------------------------


def zcdp(event: Any, reader: Reader) -> Node:
    """(xi, rho)-zCDP: a Renyi divergence of at most xi + rho alpha; xi = 0 is ZCDP."""
    rho, xi = (reader.number(event, name, LOSS) for name in ("rho", "xi"))
    if xi == 0:
        return ZCDP(rho, source="a ZCDpEvent")
    return RenyiCurve(sympify(xi) + sympify(rho) * _alpha(), source="a ZCDpEvent")


def zcdp_event(node: ZCDP, children: list[Any], writer: Writer) -> Any:
    """rho, and xi = 0."""
    return writer.make("ZCDpEvent", rho=writer.number("rho", LOSS))


def curve_event(node: RenyiCurve, children: list[Any], writer: Writer) -> Any:
    """xi and rho of a curve that is a line in alpha."""
    curve = sympify(node.curve)
    rho = curve.diff(_alpha())
    xi = (curve - rho * _alpha()).expand()
    if rho.free_symbols | xi.free_symbols:
        raise Unsupported("curve: dp-accounting 0.6 has events for lines in alpha")
    values = {"rho": canonical(rho), "xi": canonical(xi)}
    place = "curve"
    return writer.make(
        "ZCDpEvent", **{k: to_float(v, place, Rounding.UP) for k, v in values.items()}
    )


def _alpha() -> Any:
    import sympy

    return sympy.Symbol(RenyiCurve.speaks_of, positive=True)


# --- trees ---------------------------------------------------------------------------------------


def tree(event: Any, reader: Reader) -> Node:
    """Binary trees over disjoint records; the noise of one tree node over its sensitivity."""
    noise = reader.number(event, "noise_multiplier", NOISE)
    given = event.step_counts
    listed = given if isinstance(given, (list, tuple)) else [given]
    counts = [foreign_count(c, f"{reader.path}.step_counts[{i}]") for i, c in enumerate(listed)]
    steps = sorted({count for count in counts if count > 0})
    if not steps or noise == 0:
        return NO_NOISE if steps else NOTHING
    trees = [CorrelatedGaussian("tree", noise, count) for count in steps]
    return Parallel(*trees) if len(trees) > 1 else trees[0]


def tree_event(node: CorrelatedGaussian, children: list[Any], writer: Writer) -> Any:
    """One tree in which a record occurs once."""
    if node.strategy not in TREES or node.participation != SINGLE:
        raise Unsupported("the tree event is of binary trees in which a record occurs once")
    noise = writer.number("noise_multiplier", NOISE)
    return writer.make(TREE, noise_multiplier=noise, step_counts=writer.number("rounds", WHOLE))


def trees_event(node: Parallel, children: list[Any], writer: Writer) -> Any:
    """Several trees of one noise; no other event takes a maximum over disjoint records."""
    noises = {getattr(each, "noise_multiplier", None) for each in children}
    if {type(each).__name__ for each in children} != {TREE} or len(noises) > 1:
        raise Unsupported(
            "dp-accounting 0.6 has no event for a maximum over disjoint records, "
            "but for trees of one noise"
        )
    steps = [each.step_counts for each in children]
    return writer.make(TREE, noise_multiplier=noises.pop(), step_counts=steps)


# --- searches, and batches that are cut ----------------------------------------------------------


def searched(event: Any, reader: Reader) -> Node:
    """The best of a random number of runs: Poisson where the shape is infinite.

    gamma follows from the mean; what no fraction gives is rounded down, to a larger mean.
    """
    child = reader.below(event.event, "")
    mean = foreign(event.mean, f"{reader.path}.mean")
    if event.shape == math.inf:
        return NOTHING if child == NOTHING or mean == 0 else TunedPoisson(child, mean)
    shape = foreign(event.shape, f"{reader.path}.shape")
    if mean < 1:
        refuse(mean, f"{reader.path}.mean", "at least 1, a number of runs")
    if child == NOTHING or mean == 1:
        return child
    return Tuned(child, _gamma(mean, shape, reader.path), shape)


def _gamma(mean: Fraction, shape: Fraction, path: str) -> Fraction:
    """The parameter of a truncated negative binomial number, smaller by at most 2^-50 of itself."""
    if shape == 1:
        return 1 / mean

    def runs(gamma: Fraction) -> Any:
        return enclose(Tuned(NOTHING, gamma, shape).mean)

    low, high = 1 / (2 * mean), Fraction(1)
    while not runs(low) >= enclose(mean):
        low /= 2
    for _ in range(MAX_BISECTIONS):
        if high - low <= min(low, 1 - low) * GAMMA_WIDTH:
            return low
        middle = (low + high) / 2
        low, high = (middle, high) if runs(middle) >= enclose(mean) else (low, middle)
    raise Unsupported(f"{path}.shape: no gamma found for the mean; use a smaller shape")


def searched_event(node: Any, children: list[Any], writer: Writer) -> Any:
    """The mean number of runs, rounded up, and the shape."""
    shape: Any = math.inf
    if isinstance(node, Tuned):
        shape = to_float(node.shape, "shape", Rounding.UP)
        if shape < 0 or exact(shape, "shape") != node.shape:
            raise Unsupported(f"{SEARCH} takes a shape of at least 0 that is a float")
    mean = to_float(node.mean, "mean", Rounding.UP)
    return writer.make(SEARCH, event=children[0], mean=mean, shape=shape)


def truncated(event: Any, reader: Reader) -> Node:
    """A Gaussian sum of a Poisson batch that is cut; ``dataset_size`` of the larger neighbour."""
    noise = reader.number(event, "noise_multiplier", NOISE)
    share = reader.number(event, "sampling_probability", RATE)
    records, largest = (
        reader.number(event, name, WHOLE) for name in ("dataset_size", "truncated_batch_size")
    )
    if 0 in (share, records, largest):
        return NOTHING
    if noise == 0:
        return NO_NOISE
    step = Gaussian("gaussian", noise)
    if largest >= records:
        return step if share == 1 else PoissonSampled(step, share)
    return TruncatedPoisson(step, share, records, largest)


def truncated_event(node: TruncatedPoisson, children: list[Any], writer: Writer) -> Any:
    """The event of one Gaussian sum on truncated batches."""
    noise = getattr(children[0], "noise_multiplier", None)
    if not isinstance(node.child, Gaussian):
        raise Unsupported(f"{TRUNCATED} is of one Gaussian sum")
    return writer.make(
        TRUNCATED,
        dataset_size=writer.number("population", WHOLE),
        sampling_probability=writer.number("rate", RATE),
        truncated_batch_size=writer.number("batch_size", WHOLE),
        noise_multiplier=noise,
    )


# --- mixtures, and discrete noise ----------------------------------------------------------------


def mixture(event: Any, reader: Reader) -> Node:
    """N(0, s^2) against a mixture of N(c_i, s^2): sampled where the c_i are 0 and one other."""
    if reader.adjacency is Adjacency.REPLACE_ONE:
        raise Unsupported(f"{reader.path}: {OBSTACLES['MixtureOfGaussiansDpEvent, replaced']}")
    noise = foreign(event.standard_deviation, f"{reader.path}.standard_deviation")
    shares = _shares(event, reader)
    moved = [c for c in shares if c != 0]
    if not moved or noise == 0:
        return NO_NOISE if moved else NOTHING
    if len(moved) > 1:
        # Where rounded shares add up to more than 1, the shortest moves give way.
        share_left, moves = Fraction(1), list[tuple[Fraction, Fraction]]()
        for c in sorted(moved, reverse=True):
            moves.append((c, min(shares[c], share_left)))
            share_left -= moves[-1][1]
        missing = max(share_left - shares.get(Fraction(0), Fraction(0)), Fraction(0))
        moves[0] = moves[0][0], moves[0][1] + missing
        return MixtureOfGaussians(noise, tuple(moves), source="a MixtureOfGaussiansDpEvent")
    rate = max(shares[moved[0]], 1 - shares.get(Fraction(0), Fraction(0)))
    child = Gaussian("gaussian", noise / moved[0])
    return child if rate >= 1 else PoissonSampled(child, rate)


def mixture_event(node: MixtureOfGaussians, children: list[Any], writer: Writer) -> Any:
    """The branch that stays gets the chance that the others, rounded up, leave."""
    if writer.adjacency is Adjacency.REPLACE_ONE:
        raise Unsupported(OBSTACLES["MixtureOfGaussiansDpEvent, replaced"])
    moves = [
        tuple(to_float(value, "moves", Rounding.UP) for value in move)
        for move in node.moves
        if move[0] != 0 and move[1] != 0
    ]
    if not moves:
        return writer.make("NoOpDpEvent")
    moves.sort()
    stays = 1 - sum((Fraction(repr(chance)) for _, chance in moves), Fraction(0))
    if stays > 0:
        moves.insert(0, (0.0, to_float(stays, "moves", Rounding.DOWN)))
    return writer.make(
        "MixtureOfGaussiansDpEvent",
        standard_deviation=to_float(node.noise_multiplier, "noise_multiplier", Rounding.DOWN),
        sensitivities=[length for length, _ in moves],
        sampling_probs=[chance for _, chance in moves],
    )


def _shares(event: Any, reader: Reader) -> dict[Fraction, Fraction]:
    """The probability of every sensitivity that has one."""
    given = [getattr(event, name) for name in ("sensitivities", "sampling_probs")]
    if not all(isinstance(g, (list, tuple)) for g in given) or len(given[0]) != len(given[1]):
        raise InvalidParameter(f"{reader.path}: expected as many sampling_probs as sensitivities")
    shares: dict[Fraction, Fraction] = {}
    for i, (moved, share) in enumerate(zip(*given, strict=True)):
        key = foreign(moved, f"{reader.path}.sensitivities[{i}]")
        probability = foreign_rate(share, f"{reader.path}.sampling_probs[{i}]")
        if probability != 0:
            shares[key] = shares.get(key, Fraction(0)) + probability
    if abs(sum(shares.values(), Fraction(-1))) > ROUND_OFF:
        raise InvalidParameter(f"{reader.path}.sampling_probs: expected a sum of 1")
    return shares


def discrete_laplace(event: Any, reader: Reader) -> Node:
    """P(k) proportional to exp(-a |k|): scale 1 / a."""
    parameter = reader.number(event, "noise_parameter", LOSS)
    moved = reader.number(event, "sensitivity", NORM)
    if moved == 0 or parameter == 0:
        # At a = 0 the noise is not a distribution; dp-accounting calls it no privacy.
        return NO_NOISE if moved else NOTHING
    return DiscreteLaplace("discrete_laplace", 1 / parameter, moved)


def discrete_laplace_event(node: DiscreteLaplace, children: list[Any], writer: Writer) -> Any:
    """An odd sensitivity under replace_one takes the next larger norm."""
    parameter = to_float(1 / node.scale, "scale", Rounding.UP)
    moved = writer.number("sensitivity", NORM)
    return writer.make("DiscreteLaplaceDpEvent", noise_parameter=parameter, sensitivity=moved)


def response(event: Any, reader: Reader) -> Node:
    """Uniform over k values with probability p, else the truth: e^epsilon = 1 + k (1 - p) / p."""
    _only_replace_one(reader.adjacency, f"{reader.path}: ")
    noise = foreign_rate(event.noise_parameter, f"{reader.path}.noise_parameter")
    choices = reader.number(event, "num_buckets", WHOLE)
    if choices == 0:
        raise InvalidParameter(f"{reader.path}.num_buckets = 0: expected at least 1")
    if noise == 1 or choices == 1 or noise == 0:
        return NO_NOISE if noise == 0 and choices > 1 else NOTHING
    return RandomizedResponse("response", log(1 + choices * (1 - noise) / noise), choices)


def response_event(node: RandomizedResponse, children: list[Any], writer: Writer) -> Any:
    """p = k / (e^epsilon - 1 + k)."""
    _only_replace_one(writer.adjacency)
    share = node.choices / (sympify(exp(node.epsilon)) - 1 + sympify(node.choices))
    noise = share if is_symbolic(share) else Fraction(share)
    return writer.make(
        "RandomizedResponseDpEvent",
        noise_parameter=to_float(canonical(noise), "epsilon", Rounding.DOWN),
        num_buckets=writer.number("choices", WHOLE),
    )


def _only_replace_one(adjacency: Adjacency, place: str = "") -> None:
    """A record that is absent or zeroed has an answer too; the event does not say which."""
    if adjacency is not Adjacency.REPLACE_ONE:
        raise Unsupported(f"{place}a random answer {OBSTACLES['RandomizedResponseDpEvent']}")
