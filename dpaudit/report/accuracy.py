"""Accuracy: the noise on every published number, and the error that it rarely exceeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.errors import DpauditError
from dpaudit.report import numbers
from dpaudit.report.model import Cell, Paragraph, Section, Table
from dpaudit.report.say import grouped, message, say
from dpaudit.report.words import Json

_MOST_LEAVES = 200  # rows; a longer table helps no reader
_NORMAL_95 = 1.9599639845400545  # standard deviations: P(|N(0, 1)| > this) = _EXCEEDED_SHARE
# Standard deviation above which discrete normal noise is treated as continuous, plus one step.
_NORMAL_DEVIATION = 1e4
_EXCEEDED_SHARE = 0.05  # Probability that an error exceeds the number in the table.

KINDS = {
    "Gaussian": message("normal noise"),
    "Laplace": message("Laplace noise"),
    "DiscreteGaussian": message("discrete normal noise"),
    "DiscreteLaplace": message("discrete Laplace noise"),
    "TruncatedDiscreteLaplace": message("truncated discrete Laplace noise"),
    "RandomizedResponse": message("randomised response"),
    "DiscreteGaussianVector": message("discrete normal noise on each number of a table"),
    "ThresholdedDiscreteLaplace": message("discrete Laplace noise, and keys with few units hidden"),
    "ThresholdedDiscreteGaussian": message("discrete normal noise, and keys with few units hidden"),
    "IntegerExponentialMechanism": message("a choice among candidates, by noisy scores"),
}


@dataclass(frozen=True)
class Noise:
    """The noise of one declared release.

    ``scale`` and ``error_95`` are multiples of the sensitivity; empty for kinds of noise that have
    no such number.
    """

    label: str
    kind: str
    times: str
    scale: str
    error_95: str
    note: str = ""


def noises(predicate: Json) -> list[Noise]:
    """One entry for each declared release, in the order of the declaration; equal ones are counted.

    At most 100,000 nodes are visited, because a shared node is visited once for each path to it.
    """
    nodes = predicate["mechanism"]["declaration"].get("nodes", {})
    counted_releases: dict[str, tuple[Json, Fraction | None]] = {}
    stack: list[tuple[str, Fraction | None]] = [
        (str(predicate["mechanism"]["declaration"].get("root")), Fraction(1))
    ]
    visits = 0
    while stack and visits < 100_000:
        visits += 1
        digest, times = stack.pop()
        node = nodes.get(digest)
        if node is None:
            continue
        children = node.get("children", [])
        if not children:
            earlier = counted_releases.get(digest)
            total = times if earlier is None else _sum(earlier[1], times)
            counted_releases[digest] = (node, total)
            continue
        repeated = node.get("type") == "Repeat"
        inner = _product(times, node["parameters"]["times"]) if repeated else times
        stack += [(child, inner) for child in reversed(children)]
    return [_noise(node, times) for node, times in list(counted_releases.values())[:_MOST_LEAVES]]


def section(predicate: Json) -> Section:
    """The table of the noise on each release, and how to read it."""
    title = say("Accuracy")
    noise_rows = noises(predicate)
    if not noise_rows:
        return Section("accuracy", title, (Paragraph(say("No noise is declared.")),))
    text = say(
        "How far a published number may lie from the one without noise. Scale "
        "and error are multiples of the largest change that one unit can cause "
        "in it (its sensitivity); the error is exceeded in at most 5\u00a0% of the "
        "runs. Ratios, means and clipped values can be further off than this "
        "table says."
    )
    columns = (
        say("Release"),
        say("Kind of noise"),
        say("How often"),
        say("Scale"),
        say("95\u00a0% error"),
    )
    table = Table(say("Noise on each released number"), columns, tuple(map(_row, noise_rows)))
    return Section("accuracy", title, (Paragraph(text), table))


def _row(noise: Noise) -> tuple[Cell, ...]:
    dash = "—"
    return (
        Cell(noise.label or dash, (noise.note,) if noise.note else ()),
        Cell(noise.kind),
        Cell(noise.times or dash, (), "number"),
        Cell(noise.scale or dash, (), "number"),
        Cell(noise.error_95 or dash, (), "number"),
    )


def _noise(row: Json, times: Fraction | None) -> Noise:
    kind, parameters = str(row.get("type")), row.get("parameters", {})
    encoded = parameters.get("label")
    label = str(encoded.get("text", "")) if isinstance(encoded, dict) else ""
    count = grouped(int(times)) if times is not None and times.denominator == 1 else ""
    spoken = say(KINDS[kind]) if kind in KINDS else kind
    try:
        scale, error, note = _measured(kind, parameters)
    except (DpauditError, KeyError, TypeError, ValueError, OverflowError, ArithmeticError):
        scale, error, note = None, None, say("not computed for this kind of release")
    return Noise(label, spoken, count, _shown(scale), _shown(error), note)


def _shown(value: float | None) -> str:
    return "" if value is None else numbers.upper(repr(value), 4)


def _measured(kind: str, parameters: Json) -> tuple[float | None, float | None, str]:
    """Scale and 95% error over the sensitivity; a note where an error has no such number."""
    if kind == "Gaussian":
        scale = _value(parameters["noise_multiplier"])
        return scale, _NORMAL_95 * scale, ""
    if kind == "Laplace":
        scale = _value(parameters["noise_multiplier"])
        return scale, -math.log(_EXCEEDED_SHARE) * scale, ""
    if kind == "RandomizedResponse":
        growth, others = math.exp(_value(parameters["epsilon"])), _value(parameters["choices"]) - 1
        share = numbers.percent(f"{growth / (growth + others):.4f}")
        return None, None, say("the true answer is given {share} of the time", share=share)
    if kind == "IntegerExponentialMechanism":
        return None, None, ""
    if kind in ("DiscreteGaussianVector", "ThresholdedDiscreteGaussian"):
        variance = _value(parameters["variance"])
        deviation, largest = math.sqrt(variance), math.sqrt(_value(parameters["squared"]))
        if deviation > _NORMAL_DEVIATION:
            return deviation / largest, math.ceil(_NORMAL_95 * deviation + 1) / largest, ""
        tail = _tail([math.exp(-k * k / (2 * variance)) for k in _support(deviation)])
        return deviation / largest, tail / largest, ""
    sensitivity = _value(parameters["sensitivity"]) if "sensitivity" in parameters else 1.0
    if kind == "DiscreteGaussian":
        variance = _value(parameters["variance"])
        tail = _tail([math.exp(-k * k / (2 * variance)) for k in _support(math.sqrt(variance))])
        return math.sqrt(variance) / sensitivity, tail / sensitivity, ""
    if kind in ("DiscreteLaplace", "TruncatedDiscreteLaplace", "ThresholdedDiscreteLaplace"):
        scale = _value(parameters["scale"])
        support = _support(scale)
        if "bound" in parameters:
            support = range(min(len(support), int(_value(parameters["bound"])) + 1))
        return scale / sensitivity, _tail([math.exp(-k / scale) for k in support]) / sensitivity, ""
    raise KeyError(kind)


def _support(scale: float) -> range:
    """The values 0, 1, ... that carry all but a negligible part of the noise's mass on one side."""
    largest = int(60 * scale) + 10
    if largest > 10**6:
        raise ValueError("too wide to sum")
    return range(largest)


def _tail(weights: list[float]) -> float:
    """The least k with P(|X| > k) <= 5%, from the weights of |X| = 0, 1, 2, ... on one side."""
    total = weights[0] + 2 * math.fsum(weights[1:])
    tail_mass = total - weights[0]
    k = 0
    while tail_mass > _EXCEEDED_SHARE * total:
        k += 1
        tail_mass -= 2 * weights[k]
    return float(k)


def _value(encoded: Any) -> float:
    from dpaudit.exact import decimal_upper
    from dpaudit.exact.wire import decode_number

    return float(decimal_upper(decode_number(encoded["number"])))


def _product(times: Fraction | None, encoded: Any) -> Fraction | None:
    """A count times a number of rounds; None if either is unknown, as a symbolic number is."""
    number = encoded.get("number") if isinstance(encoded, dict) else None
    if times is None or not isinstance(number, str):
        return None
    return times * Fraction(number)


def _sum(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    return None if first is None or second is None else first + second
