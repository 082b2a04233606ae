"""The two figures' data, taken from the certificate, and their captions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpaudit.report import numbers, plots, words
from dpaudit.report.model import Block, Figure, Paragraph
from dpaudit.report.words import Json

_MARKS_UPPER = 12


def blocks(predicate: Json) -> list[Block]:
    """Figure 1 and figure 2, or a sentence in place of one that has no data."""
    return [_profile(predicate), _tradeoff(predicate)]


def _profile(predicate: Json) -> Block:
    curve = _curve(predicate, "profile")
    if not curve:
        return Paragraph("No privacy profile is part of this certificate; figure 1 is left out.")
    data = plots.ProfileData(
        accounted=curve,
        claims=tuple(_pairs(claim["stated"] for claim in predicate["claims"]))[:_MARKS_UPPER],
        attacked=tuple(_pairs(_attacked(predicate)))[:_MARKS_UPPER],
        attacked_mu=_largest_mu(predicate),
        attacked_label="attacked: at least" + (" (conditional)" if _conditions(predicate) else ""),
    )
    return Figure("figure-1", plots.profile_svg(data), _profile_caption(predicate, data))


def _tradeoff(predicate: Json) -> Block:
    curve = _curve(predicate, "tradeoff")
    points = tuple(
        tuple(tuple(map(numbers.plotted, row)) for row in audit["roc"])
        for audit in predicate["audits"]
        if audit["roc"]
    )
    if not curve and not points:
        return Paragraph("No trade-off curve is part of this certificate; figure 2 is left out.")
    data = plots.TradeoffData(
        accounted=curve,
        claims=tuple(_pairs(claim["stated"] for claim in predicate["claims"]))[:_MARKS_UPPER],
        audited=points[:_MARKS_UPPER],
    )
    return Figure("figure-2", plots.tradeoff_svg(data), _tradeoff_caption(data))


def _profile_caption(predicate: Json, data: plots.ProfileData) -> str:
    parts = [
        f"Figure 1. Privacy profile. The solid line joins {len(data.accounted)} accounted points; "
        "at each of them the true δ of the declared algorithm is no larger."
    ]
    if data.claims:
        parts.append("A diamond is a claim: it is met if the line passes through it or below.")
    if data.attacked_mu or data.attacked:
        parts.append("The dashed line and triangles are what the audits showed at least.")
    conditions = _conditions(predicate)
    if conditions:
        parts.append(f"They hold only for {'; '.join(map(words.embedded, conditions))}.")
    return " ".join(parts)


def _tradeoff_caption(data: plots.TradeoffData) -> str:
    parts = ["Figure 2. Errors of an attacker who guesses between two neighbouring data sets."]
    if data.accounted:
        parts.append(
            f"The solid line joins {len(data.accounted)} accounted points; at each of them no "
            "attack on the declared algorithm has a smaller false negative rate."
        )
    if data.claims:
        parts.append("The dotted line is the least a claim allows.")
    if data.audited:
        parts.append(
            "Each marker is one audited threshold; its box reaches to the upper confidence limits "
            "of both error rates and may be smaller than the marker. A whole box below a line "
            "would speak against it."
        )
    return " ".join(parts)


def _curve(predicate: Json, measure: str) -> tuple[plots.Point, ...]:
    for bound in predicate["derivation"]["upper_bounds"]:
        if bound["measure"] == measure:
            pairs = ((numbers.plotted(x), numbers.plotted(y)) for x, y in bound["curve"])
            return tuple(sorted(pair for pair in pairs if all(map(math.isfinite, pair))))
    return ()


def _pairs(guarantees: Iterator[Json | None]) -> Iterator[plots.Point]:
    """The finite (epsilon, delta) pairs among guarantees, each once; pure DP has delta 0."""
    seen = set()
    for value in guarantees:
        if value and value["measure"] in ("approx_dp", "pure_dp"):
            pair = (numbers.plotted(value["epsilon"]), numbers.plotted(value.get("delta", "0")))
            if all(map(math.isfinite, pair)) and pair not in seen:
                seen.add(pair)
                yield pair


def _attacked(predicate: Json) -> Iterator[Json]:
    for audit in predicate["audits"]:
        yield from audit["lower_bounds"]
    yield from (claim["lower"] for claim in predicate["claims"] if claim["lower"])


def _largest_mu(predicate: Json) -> float:
    """The largest attacked mu of a Gaussian family; outside one, mu bounds no other point."""
    found = (
        numbers.plotted(bound["mu"])
        for audit in predicate["audits"]
        if audit["conditional_on"]
        for bound in audit["lower_bounds"]
        if "mu" in bound
    )
    return max(filter(math.isfinite, found), default=0.0)


def _conditions(predicate: Json) -> list[str]:
    found = {audit["conditional_on"] for audit in predicate["audits"] if audit["lower_bounds"]}
    return sorted(found - {""})
