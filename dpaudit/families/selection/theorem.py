"""Selection: the exponential mechanism, noisy maxima, and thresholds.

Proofs that are not in the papers stand beside the accountant's rules of the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.reading import require
from dpaudit.check.theorem import (
    MOST_POINTS,
    Premise,
    Row,
    Table,
    Theorem,
    always,
    counted,
    pure_to_gdp,
    register,
)
from dpaudit.exact import exp, log, tanh, unknowns
from dpaudit.exact.wire import decode_number
from dpaudit.families.discrete.theorem import grown, plain
from dpaudit.pairs import Atoms, Losses, Pair

ONE, ZERO = Fraction(1), Fraction(0)
MOST_SHARES = 16  # shares of a witness


# --- losses in an interval of width r that holds 0 -----------------------------------------------


def _range_divergence(r: Any, witness: Row) -> Any:
    """Order 1, at e^t = (e^r - 1) / r; r^2 / 8, for symbols and the plainer, is above it."""
    if unknowns(r) or plain(witness):
        return r**2 / 8
    return log(grown(r) / r) - 1 + r / grown(r)


def _range_curve(r: Any, witness: Row) -> Callable[[Any], Any]:
    if plain(witness):
        return lambda order: order * _range_divergence(r, witness)

    def curve(order: Any) -> Any:
        s, gain = order - 1, grown(order * r) / order
        return log(s * gain / grown(s * r)) + log(gain / grown(r)) / s - r

    return curve


def _range_outcomes(r: Any, steps: int) -> Iterator[tuple[Any, Any]]:
    """Lines between points of (e^(r/2) - sqrt(x))^2 / (e^r - 1), at the losses 2 r i / steps - r.

    The slope is (1 - 2 e^r e^(-r i / steps) / (1 + e^(r / steps))) / (e^r - 1) after point i; it
    rises by e^r e^(-r i / steps) 2 tanh(r / (2 steps)) / (e^r - 1) at inner points.
    """
    for i in range(steps + 1):
        share = Fraction(1, 2) if i in (0, steps) else ONE
        rise = 2 * share * tanh(r / (2 * steps)) / grown(r)
        yield rise * exp(r * Fraction(i, steps)), rise * exp(r * Fraction(steps - i, steps))


def _two_outcomes(r: Any, share: Fraction) -> Atoms:
    """Losses t = share * r and t - r."""
    t, other_loss = share * r, (1 - share) * r
    q = grown(other_loss) / grown(r), grown(t) / grown(r)
    return Atoms(((exp(t) * q[0], q[0]), (q[1], exp(other_loss) * q[1])))


# --- losses of at most epsilon -------------------------------------------------------------------


def _pure_divergence(epsilon: Any, witness: Row) -> Any:
    return epsilon**2 / 2 if unknowns(epsilon) else epsilon * tanh(epsilon / 2)


def _pure_curve(epsilon: Any, witness: Row) -> Callable[[Any], Any]:
    if plain(witness):
        return lambda order: order * _pure_divergence(epsilon, witness)

    def curve(order: Any) -> Any:
        moments = exp(order * epsilon) + exp((1 - order) * epsilon)
        return log(moments / (1 + exp(epsilon))) / (order - 1)

    return curve


def _opposite(high: Any, low: Any) -> Atoms:
    return Atoms(((high, low), (low, high)))


def _pure_losses(epsilon: Any, *reached: Pair) -> Losses:
    upper = _opposite(1 / (1 + exp(-epsilon)), 1 / (1 + exp(epsilon)))
    return Losses((upper,), (upper,), reached, reached)


# --- selection -----------------------------------------------------------------------------------


def _width(node: Any) -> Any:
    return node.epsilon / 2 if str(node.scores) == "monotone" else node.epsilon


def _is_exponential(node: Any) -> bool:
    """The exponential mechanism, also where it is written as Gumbel noise."""
    return str(getattr(node, "noise", "gumbel")) == "gumbel"


def _either(ranged: Callable[..., Any], pure: Callable[..., Any]) -> Callable[..., Any]:
    return lambda n, *rest: (ranged if _is_exponential(n) else pure)(_width(n), *rest)


def _sharp(node: Any, premises: Sequence[Premise], witness: Row) -> bool:
    return _exact_curve(node, premises, witness) and not unknowns(node.epsilon)


def _exact_curve(node: Any, premises: Sequence[Premise], witness: Row) -> bool:
    return _is_exponential(node) and not plain(witness)


def _noisy_max_losses(node: Any, witness: Row) -> Losses:
    width = _width(node)
    if _is_exponential(node):
        # Above: lines between so many steps. Reached: two outcomes at each share of the range.
        upper = (Atoms(tuple(_range_outcomes(width, counted(witness, "kinks", 1, MOST_POINTS)))),)
        shares = [decode_number(share) for share in witness.get("shares", ())]
        valid = len(shares) <= MOST_SHARES and all(isinstance(share, Fraction) for share in shares)
        require(
            valid and all(0 < share < 1 for share in shares), "shares: expected numbers below 1"
        )
        reached = tuple(_two_outcomes(width, share) for share in shares)
        return Losses(upper, upper, reached, reached)
    if str(node.noise) == "laplace":
        behind = exp(-width / 2) / 2 * (1 + width / 4)
        return _pure_losses(width, _opposite(1 - behind, behind))
    behind, far = exp(-width / 2) / 2, exp(-width) / 2
    tie = Atoms(((Fraction(1, 2), far), (Fraction(1, 2), 1 - far)))
    return _pure_losses(width, _opposite(1 - behind, behind), tie)


def _largest_loss(node: Any) -> Any:
    share = Fraction(1, 2) if str(node.scores) == "monotone" else ONE
    return node.epsilon_threshold + share * node.epsilon_query


def of_largest_loss(kind: str, name: str, loss: Callable[[Any], Any]) -> Table:
    """A largest loss, reached in the limit: its guarantee in every calculus of numbers."""

    def of(theorem: Callable[..., Any]) -> Callable[..., Any]:
        return lambda n, *rest: theorem(loss(n), *rest)

    return {
        ("pure", kind): Theorem(name, loss, attained=always),
        ("approx", kind): Theorem(f"{name}_at_zero", lambda n: (loss(n), ZERO)),
        ("zcdp", kind): Theorem(f"{name}_divergence", of(_pure_divergence), reads=True),
        ("rdp", kind): Theorem(f"{name}_curve", of(_pure_curve), reads=True),
        ("gdp", kind): Theorem(f"{name}_corner", of(pure_to_gdp)),
    }


def _answers_loss(node: Any) -> Any:
    """Each answer's log-likelihood falls by at most 1 / b a unit, b the longer tail's scale."""
    return node.answers / max(node.threshold_scale, node.query_scale)


def _answers_losses(node: Any) -> Losses:
    """Attained by the event that all answers are no.

    The queries lie ``margin`` below the threshold on one data set, and margin - 1 on the other.
    """
    a, b = node.threshold_scale, node.query_scale

    def no(margin: Any) -> Any:
        """P(all answers are no): no sum of two Laplace noises exceeds the margin."""
        above = (b**2 * exp(-margin / b) - a**2 * exp(-margin / a)) / (b**2 - a**2) / 2
        return (1 - above) ** node.answers

    high, low = no(node.margin), no(node.margin - 1)
    return _pure_losses(_answers_loss(node), Atoms(((high, low), (1 - high, 1 - low))))


def _selecting(kind: str, prefix: str) -> Table:
    """The exponential mechanism's theorems and those of noisy maxima."""
    return {
        ("pure", kind): Theorem(prefix, _width, attained=always),
        ("approx", kind): Theorem(f"{prefix}_at_zero", lambda n: (_width(n), ZERO)),
        ("zcdp", kind): Theorem(
            f"{prefix}_divergence",
            _either(_range_divergence, _pure_divergence),
            attained=_sharp,
            reads=True,
        ),
        ("rdp", kind): Theorem(
            f"{prefix}_curve",
            _either(_range_curve, _pure_curve),
            attained=_exact_curve,
            reads=True,
        ),
        ("gdp", kind): Theorem(
            f"{prefix}_corner", _either(lambda r: pure_to_gdp(r / 2), pure_to_gdp)
        ),
        ("profile", kind): Theorem(f"{prefix}_pairs", _noisy_max_losses, reads=True),
    }


SELECTION: Table = {
    **_selecting("ExponentialMechanism", "exponential_mechanism"),
    **_selecting("IntegerExponentialMechanism", "exponential_mechanism"),
    **_selecting("ReportNoisyMax", "noisy_max"),
    **of_largest_loss("AboveThreshold", "above_threshold", _largest_loss),
    ("profile", "AboveThreshold"): Theorem(
        "above_threshold_pairs", lambda n: _pure_losses(_largest_loss(n))
    ),
    **of_largest_loss("NoisyComparisons", "noisy_comparisons", _answers_loss),
    ("profile", "NoisyComparisons"): Theorem("noisy_comparisons_pairs", _answers_losses),
}

register(SELECTION)
