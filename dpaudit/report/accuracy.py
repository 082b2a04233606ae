"""Accuracy: the noise on every published number, and the error that it rarely exceeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.errors import DpauditError
from dpaudit.report import numbers
from dpaudit.report.model import Cell, Paragraph, Section, Table
from dpaudit.report.say import message, say
from dpaudit.report.words import Json

_MOST_LEAVES = 200
_NORMAL_95 = 1.9599639845400545
_SHARE = 0.05

KINDS = {
    "Gaussian": message("normal noise"),
    "Laplace": message("Laplace noise"),
    "DiscreteGaussian": message("discrete normal noise"),
    "DiscreteLaplace": message("discrete Laplace noise"),
    "TruncatedDiscreteLaplace": message("truncated discrete Laplace noise"),
    "RandomizedResponse": message("randomised response"),
}


@dataclass(frozen=True)
class Noise:
    """The noise of one declared release.

    ``scale`` and ``error_95`` are multiples of the largest change that one unit can cause; an empty
    text where this kind of release has none.
    """

    label: str
    kind: str
    times: str
    scale: str
    error_95: str
    note: str = ""


def noises(predicate: Json) -> list[Noise]:
    """One row a declared release, in the order of the declaration; equal ones are counted."""
    rows = predicate["mechanism"]["declaration"].get("nodes", {})
    found: dict[str, tuple[Json, Fraction | None]] = {}
    stack: list[tuple[str, Fraction | None]] = [
        (str(predicate["mechanism"]["declaration"].get("root")), Fraction(1))
    ]
    visits = 0
    while stack and visits < 100_000:
        visits += 1
        digest, times = stack.pop()
        row = rows.get(digest)
        if row is None:
            continue
        children = row.get("children", [])
        if not children:
            known = found.get(digest)
            total = times if known is None else _sum(known[1], times)
            found[digest] = (row, total)
            continue
        repeated = row.get("type") == "Repeat"
        inner = _product(times, row["parameters"]["times"]) if repeated else times
        stack += [(child, inner) for child in reversed(children)]
    return [_noise(row, times) for row, times in list(found.values())[:_MOST_LEAVES]]


def section(predicate: Json) -> Section:
    """The table of noises, and what it does not tell."""
    title = say("Accuracy")
    found = noises(predicate)
    if not found:
        return Section("accuracy", title, (Paragraph(say("No noise is declared.")),))
    text = say(
        "How far a published number may lie from the one without noise. Scale and error are "
        "multiples of the largest change that one unit can cause in it (its sensitivity); the "
        "error is exceeded in at most 5\u00a0% of the runs. What is computed from several such "
        "numbers, or loses data by clipping, may err more."
    )
    columns = (
        say("Release"),
        say("Kind of noise"),
        say("How often"),
        say("Scale"),
        say("95\u00a0% error"),
    )
    table = Table(say("Noise on each released number"), columns, tuple(map(_row, found)))
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
    count = numbers.grouped(int(times)) if times is not None and times.denominator == 1 else ""
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
        return scale, -math.log(_SHARE) * scale, ""
    if kind == "RandomizedResponse":
        growth, others = math.exp(_value(parameters["epsilon"])), _value(parameters["choices"]) - 1
        share = numbers.percent(f"{growth / (growth + others):.4f}")
        return None, None, say("the true answer is given {share} of the time", share=share)
    sensitivity = _value(parameters["sensitivity"]) if "sensitivity" in parameters else 1.0
    if kind == "DiscreteGaussian":
        variance = _value(parameters["variance"])
        tail = _tail([math.exp(-k * k / (2 * variance)) for k in _support(math.sqrt(variance))])
        return math.sqrt(variance) / sensitivity, tail / sensitivity, ""
    if kind in ("DiscreteLaplace", "TruncatedDiscreteLaplace"):
        scale = _value(parameters["scale"])
        support = _support(scale)
        if "bound" in parameters:
            support = range(min(len(support), int(_value(parameters["bound"])) + 1))
        return scale / sensitivity, _tail([math.exp(-k / scale) for k in support]) / sensitivity, ""
    raise KeyError(kind)


def _support(scale: float) -> range:
    """Values whose weights hold all but a negligible part of the noise's mass."""
    largest = int(60 * scale) + 10
    if largest > 10**6:
        raise ValueError("too wide to sum")
    return range(largest)


def _tail(weights: list[float]) -> float:
    """The least k with P(|X| > k) <= 5%, from the weights of |X| = 0, 1, 2, ... on one side."""
    total = weights[0] + 2 * math.fsum(weights[1:])
    rest = total - weights[0]
    k = 0
    while rest > _SHARE * total:
        k += 1
        rest -= 2 * weights[k]
    return float(k)


def _value(encoded: Any) -> float:
    from dpaudit.exact import decimal_upper
    from dpaudit.exact.wire import decode_number

    return float(decimal_upper(decode_number(encoded["number"])))


def _product(times: Fraction | None, encoded: Any) -> Fraction | None:
    """None for a number of rounds that is a symbol."""
    number = encoded.get("number") if isinstance(encoded, dict) else None
    if times is None or not isinstance(number, str):
        return None
    return times * Fraction(number)


def _sum(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    return None if first is None or second is None else first + second
