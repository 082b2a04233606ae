"""The two figures' data, taken from the certificate, and their captions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpaudit.report import numbers, plots, words
from dpaudit.report.model import Block, Figure, Paragraph
from dpaudit.report.say import message, say
from dpaudit.report.words import Json

_MARKS_UPPER = 12  # markers of one kind in a figure; more would hide each other
_GAUSSIAN = "the Gaussian family"


def blocks(predicate: Json) -> list[Block]:
    """Figures 1 and 2; a figure without data is replaced by a sentence."""
    return [_profile(predicate), _tradeoff(predicate)]


def _profile(predicate: Json) -> Block:
    curve = _curve(predicate, "profile")
    if not curve:
        return Paragraph(
            say("No privacy profile is part of this certificate; figure 1 is left out.")
        )
    data = plots.ProfileData(
        accounted=curve,
        claims=tuple(_pairs(claim["stated"] for claim in predicate["claims"]))[:_MARKS_UPPER],
        attacked=tuple(_pairs(_attacked(predicate)))[:_MARKS_UPPER],
        conditional=tuple(_pairs(_conditional(predicate)))[:_MARKS_UPPER],
        conditional_mu=_gaussian_mu(predicate),
        bands=tuple(_bands(predicate))[:_MARKS_UPPER],
    )
    return Figure("figure-1", plots.profile_svg(data), _profile_caption(predicate, data))


def _tradeoff(predicate: Json) -> Block:
    curve = _curve(predicate, "tradeoff")
    # Audits with equal points are drawn once and labelled with all their numbers.
    audits_by_points: dict[tuple[tuple[float, ...], ...], list[str]] = {}
    for index, audit in enumerate(predicate["audits"], start=1):
        roc_points = tuple(tuple(map(numbers.plotted, row)) for row in audit["roc"])
        if roc_points:
            audits_by_points.setdefault(roc_points, []).append(str(index))
    points = tuple(
        plots.Audited(", ".join(names), roc_points)
        for roc_points, names in audits_by_points.items()
    )
    if not curve and not points:
        return Paragraph(
            say("No trade-off curve is part of this certificate; figure 2 is left out.")
        )
    data = plots.TradeoffData(
        accounted=curve,
        claims=tuple(_pairs(claim["stated"] for claim in predicate["claims"]))[:_MARKS_UPPER],
        audited=points[:_MARKS_UPPER],
    )
    return Figure("figure-2", plots.tradeoff_svg(data), _tradeoff_caption(data))


def _profile_caption(predicate: Json, data: plots.ProfileData) -> str:
    parts = [
        say(
            "Figure 1. Privacy profile. The solid line joins {count} accounted points; at each of "
            "them the true δ of the declared algorithm is no larger.",
            count=len(data.accounted),
        )
    ]
    if data.claims:
        parts.append(say("A diamond is a claim: it is met if the line passes through it or below."))
    if data.attacked:
        parts.append(say("A full triangle is a lower bound from an audit."))
    if data.bands:
        parts.append(
            say(
                "The stepped line comes from likelihoods: at {level} confidence for all its points "
                "together the true δ is nowhere below it, if the program draws the declared noise.",
                level=numbers.percent("0.95"),
            )
        )
    conditions = "; ".join(words.embedded(words.fixed(text)) for text in _conditions(predicate))
    if conditions:
        text = message("Hollow triangles and the dashed line hold only for {conditions}.")
        parts.append(say(text, conditions=conditions))
    return " ".join(parts)


def _tradeoff_caption(data: plots.TradeoffData) -> str:
    parts = [say("Figure 2. Errors of an attacker who guesses between two neighbouring data sets.")]
    if data.accounted:
        parts.append(
            say(
                "The solid line joins {count} accounted points; at each of them no attack on the "
                "declared algorithm has a smaller false negative rate.",
                count=len(data.accounted),
            )
        )
    if data.claims:
        parts.append(
            say("The dotted line is the smallest false negative rate that a claim allows.")
        )
    if data.audited:
        parts.append(
            say(
                "Each marker is one audited threshold; its box reaches to the upper "
                "confidence limits of both error rates and may be smaller than the "
                "marker. A box that lies wholly below a line contradicts that line."
            )
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
    pairs_seen = set()
    for value in guarantees:
        if value and value["measure"] in ("approx_dp", "pure_dp"):
            pair = (numbers.plotted(value["epsilon"]), numbers.plotted(value.get("delta", "0")))
            if all(map(math.isfinite, pair)) and pair not in pairs_seen:
                pairs_seen.add(pair)
                yield pair


def _bands(predicate: Json) -> Iterator[tuple[plots.Point, ...]]:
    """The confidence band of each likelihood audit that has one."""
    for row in predicate.get("likelihoods", ()):
        points = [
            (numbers.plotted(p["epsilon"]), numbers.plotted(p["delta"]))
            for p in row.get("band", ())
        ]
        if points:
            yield tuple(points)


def _attacked(predicate: Json) -> Iterator[Json]:
    """The unconditional lower bounds."""
    for audit in predicate["audits"]:
        yield from ([] if audit["conditional_on"] else audit["lower_bounds"])
    yield from (claim["lower"] for claim in predicate["claims"] if claim["lower"])


def _conditional(predicate: Json) -> Iterator[Json]:
    """The lower bounds that assume a family of distributions."""
    for audit in predicate["audits"]:
        yield from audit["lower_bounds"] if audit["conditional_on"] else []
    for claim in predicate["claims"]:
        yield from [claim["lower_conditional"]] if claim["lower_conditional"] else []


def _gaussian_mu(predicate: Json) -> float:
    """The largest attacked mu if some bound is conditional on the Gaussian family; otherwise 0.

    Outside that family a lower bound on mu says nothing about the privacy profile.
    """
    if _GAUSSIAN not in _conditions(predicate):
        return 0.0
    bounds = (bound for audit in predicate["audits"] for bound in audit["lower_bounds"])
    attacked_mus = (numbers.plotted(bound["mu"]) for bound in bounds if "mu" in bound)
    return max(filter(math.isfinite, attacked_mus), default=0.0)


def _conditions(predicate: Json) -> list[str]:
    audits = {audit["conditional_on"] for audit in predicate["audits"] if audit["lower_bounds"]}
    claims = [claim["lower_conditional"] for claim in predicate["claims"]]
    return sorted((audits | {bound["conditional_on"] for bound in claims if bound}) - {""})
