"""Bounds from likelihoods, confirmed from the losses and weights that a certificate lists.

With losses L and weights w of runs drawn from any law, X = w (1 - e^(epsilon - L))_+ has mean
delta(epsilon) and Y = w e^((order - 1) L) has mean e^((order - 1) D_order) for the program with the
declared noise.  A number is refuted at an error rate where the wealth prod (1 + f (X / m - 1)) of a
fraction f reaches 1 / error, m the mean that it allows at most; X / m falls in the number.  The
theorems are restated here and evaluated in Arb, at the listed numbers alone.  Losses and weights
are on trust as counts are: who replays the audit makes them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from dpaudit.check.bounds import DECISION_ERROR, SHOWN_ERROR, SHOWN_LEVEL
from dpaudit.check.normal import gaussian_delta
from dpaudit.check.reading import SLACK, Json, decimal, is_plain, require
from dpaudit.exact import decimal_lower, enclose, working_precision

DECLARED_NOISE = "the program draws the declared noise"
LIKELIHOOD_SHARE = Fraction(2, 5)  # of the decision error
PURE_DELTA = Fraction(1, 10**12)  # a pure claim holds at every delta
BAND_POINTS = 12  # points of a confidence band, which share its error
SHARE_DIGITS = 3  # significant digits of a share, rounded down
FIELDS = {
    "approx_dp": ("epsilon", "epsilon"),
    "gdp": ("mu", "delta"),
    "zcdp": ("rho", "divergence"),
}


@dataclass(frozen=True)
class LikelyBound:
    """A bound that follows: its measure, the delta of an epsilon, and the decisive number."""

    measure: str
    delta: str
    decisive: Fraction


def rederive_likelihoods(predicate: Json) -> list[LikelyBound]:
    """The bounds of all likelihood audits, each confirmed.

    Errors: CertificateRejected for one that does not follow from its losses and weights, or an
    error rate above its share.
    """
    rows = predicate.get("likelihoods", [])
    total = sum(len(row["bounds"]) for row in rows)
    require(len({row["id"] for row in rows}) == len(rows), "two likelihood audits have one name")
    # The largest bound of a measure is printed: the audits share the error of the printed level.
    shown = SHOWN_ERROR / max(len(rows), 1)
    return [bound for row in rows for bound in _audit(row, total, shown, predicate)]


def require_unbroken(predicate: Json, likely: Sequence[LikelyBound]) -> None:
    """Errors: CertificateRejected where a broken check takes away what the bounds rest on."""
    broken = any(
        row["status"] == "broken" and row["about"] == "program" for row in predicate["conformance"]
    )
    require(not (broken and likely), "bounds from likelihoods although a check is broken")


def _audit(row: Json, total: int, shown: Fraction, predicate: Json) -> list[LikelyBound]:
    place = f"likelihood audit {row['id'][:40]}"
    error = _share(row, total, place)
    first, second = row["neighbours"]
    require(first != second, f"{place}: its neighbours are one data set")
    require(row["seed"] == predicate["reproduce"]["root_seed"], f"{place}: another root seed")
    require(row["conditional_on"] == DECLARED_NOISE, f"{place}: it rests on something else")
    require(row["program"] == predicate["mechanism"]["program"], f"{place}: of another program")
    require(len(row["scores"]) <= row["runs"], f"{place}: more scores than runs")
    scores = [_score(loss, weight, place) for loss, weight in row["scores"]]
    levels = (("lower", shown), ("decisive", error))
    for bound in row["bounds"]:
        share = bound.get("share")
        stated = share is None or share == share_of(predicate["claims"], bound["lower"])
        require(stated, f"{place}: another share of the accounted bound")
    bounds = [_bound(bound, scores, row["runs"], levels, place) for bound in row["bounds"]]
    _band(row, scores, shown, place)
    return bounds


def share_of(claims: Sequence[Json], lower: Json) -> str:
    """The share of the accounted bound that a lower one reaches, rounded down to three digits.

    Empty where nothing finite and positive is accounted for a claim in its measure.
    """
    if lower["measure"] not in FIELDS:
        return ""
    field, delta = FIELDS[lower["measure"]][0], decimal(lower.get("delta", "0"))
    for upper in (claim["upper"] for claim in claims if claim["upper"]):
        measure = "approx_dp" if upper["measure"] == "pure_dp" else upper["measure"]
        if measure != lower["measure"] or decimal(upper.get("delta", "0")) != delta:
            continue
        accounted = Fraction(0) if upper[field] == "inf" else decimal(upper[field])
        if accounted:
            return decimal_lower(decimal(lower[field]) / accounted, SHARE_DIGITS)
    return ""


def _band(row: Json, scores: Sequence[_Score], shown: Fraction, place: str) -> None:
    """Errors: CertificateRejected for a point of the band that does not follow, or no rising one.

    At each of its epsilons the profile of the pair is at least the delta beside it.
    """
    band, error = row.get("band", []), shown / BAND_POINTS
    require(len(band) <= BAND_POINTS, f"{place}: a band of more points than share its error")
    points = [(decimal(point["epsilon"]), decimal(point["delta"])) for point in band]
    rising = all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(points))
    require(rising, f"{place}: its band does not fall")
    for (epsilon, delta), point in zip(points, band, strict=True):
        fraction = decimal(point["fraction"])
        require(0 < fraction < 1, f"{place}: a fraction outside (0, 1)")
        require(0 < delta < 1, f"{place}: a delta outside (0, 1)")
        follows = _refutes(scores, row["runs"], ("epsilon", delta, epsilon), fraction, error)
        require(
            follows, f"{place}: a point of its band does not follow from its losses and weights"
        )


def require_complete(predicate: Json) -> None:
    """Errors: CertificateRejected where an audit leaves out the bound of a claimed measure."""
    measures = _asked(predicate["claims"])
    for row in predicate.get("likelihoods", []):
        lower = [bound["lower"] for bound in row["bounds"]]
        given = {
            (stated["measure"], decimal(stated["delta"]) if "delta" in stated else "")
            for stated in lower
        }
        require(
            not given or given == measures,
            f"likelihood audit {row['id'][:40]}: expected one bound for each measure and delta "
            "that is claimed",
        )


def _asked(claims: Sequence[Json]) -> set[tuple[str, Any]]:
    """The measures of claims, with the delta of those that have one."""
    measures: set[tuple[str, Any]] = set()
    for stated in (claim["stated"] for claim in claims):
        measure = stated["measure"] if stated else ""
        if measure == "pure_dp":
            measures.add(("approx_dp", Fraction(0)))
        elif measure == "approx_dp" and is_plain(stated["delta"]):
            measures.add((measure, decimal(stated["delta"])))
        elif measure in ("gdp", "zcdp"):
            measures.add((measure, ""))
    return measures


def _share(row: Json, total: int, place: str) -> Fraction:
    """The error of one decisive bound: two fifths of the decision error, over those of the run."""
    confidence, error = row["confidence"], decimal(row["decisive_error"])
    require(confidence["decision_error"] == DECISION_ERROR, f"{place}: another decision error")
    require(confidence["level"] == SHOWN_LEVEL, f"{place}: another confidence level")
    require(confidence["adjusted_for"] >= total, f"{place}: adjusted for too few bounds")
    spent = error * confidence["adjusted_for"] / (decimal(DECISION_ERROR) * LIKELIHOOD_SHARE)
    require(abs(spent - 1) <= SLACK, f"{place}: its decisive error is not its share")
    return error


class _Score(NamedTuple):
    """A run's loss L as an exact fraction of FLINT; then as balls L, its weight w, and e^-L."""

    exact: Any
    loss: Any
    weight: Any
    falling: Any


@lru_cache(maxsize=4096)
def _score(loss: str, log_weight: str, place: str) -> _Score:
    import flint

    exact = _comparable(_signed(loss, place))
    require(exact > 0, f"{place}: a loss that is not positive")
    with working_precision():
        weight = flint.arb(_comparable(_signed(log_weight, place))).exp()
        ball = flint.arb(exact)
        return _Score(exact, ball, weight, (-ball).exp())


def _comparable(number: Fraction) -> Any:
    """The number as a FLINT fraction, which compares thirty times as fast as Python's."""
    import flint

    return flint.fmpq(number.numerator, number.denominator)


def _signed(text: str, place: str) -> Fraction:
    require(is_plain(text), f"{place}: {text[:40]}: expected a finite decimal")
    return -decimal(text[1:]) if text.startswith("-") else decimal(text)


def _bound(
    row: Json,
    scores: Sequence[_Score],
    runs: int,
    levels: Sequence[tuple[str, Fraction]],
    place: str,
) -> LikelyBound:
    """The bound that a row states, confirmed from its scores at both levels."""
    measure, at = row["lower"]["measure"], decimal(row["at"])
    require(measure in FIELDS, f"{place}: a bound in another measure")
    field, tested = FIELDS[measure]
    require(row["tested"] == tested, f"{place}: its bound is tested by another number")
    delta = row["lower"].get("delta", "")
    same = row["decisive"]["measure"] == measure and row["decisive"].get("delta", "") == delta
    require(same, f"{place}: its decisive bound is in another measure")
    if measure == "approx_dp":
        stated = decimal(delta) or PURE_DELTA
        require(0 < stated < 1 and abs(at / stated - 1) <= SLACK, f"{place}: at another delta")
        at = stated
    require(measure != "zcdp" or at > 1, f"{place}: an order of at most 1")
    for (name, level), number, fraction in zip(
        levels, row["refuted"], row["fractions"], strict=True
    ):
        refuted, share = decimal(number), decimal(fraction)
        require(0 < share < 1, f"{place}: a fraction outside (0, 1)")
        follows = refuted == 0 or _refutes(scores, runs, (tested, at, refuted), share, level)
        require(follows, f"{place}: its {name} bound does not follow from its losses and weights")
        value = decimal(row[name][field])
        implied = value == 0 or _implied(measure, at, refuted, value)
        require(implied, f"{place}: its {name} bound does not follow from what was refuted")
    return LikelyBound(measure, delta, decimal(row["decisive"][field]))


def _implied(measure: str, at: Fraction, refuted: Fraction, value: Fraction) -> bool:
    """Whether a number at most ``value`` would contradict what was refuted."""
    if measure == "gdp":
        with working_precision():
            return bool(gaussian_delta(at, value) <= enclose(refuted))
    return value * (at if measure == "zcdp" else 1) <= refuted


def _refutes(
    scores: Sequence[_Score], runs: int, tested: tuple[str, Fraction, Fraction],
    fraction: Fraction, error: Fraction,
) -> bool:  # fmt: skip
    """Whether the wealth reaches 1 / error; runs that are not listed have X = 0."""
    with working_precision():
        share = enclose(fraction)
        lost = 1 - share
        ratios = _ratios(scores, *tested)
        wealth = lost ** (runs - len(ratios))
        for ratio in ratios:
            wealth = wealth * (lost + share * ratio)
        return bool(wealth * enclose(error) >= 1)


def _ratios(scores: Sequence[_Score], kind: str, at: Fraction, number: Fraction) -> list[Any]:
    """X over the mean that the number allows at most, where it is not 0."""
    if kind == "divergence":
        order, least = enclose(at - 1), enclose(number)
        return [score.weight * (order * (score.loss - least)).exp() for score in scores]
    epsilon, mean = (number, at) if kind == "epsilon" else (at, number)
    risen, least, above = enclose(epsilon).exp(), enclose(mean), _comparable(epsilon)
    return [
        score.weight * (1 - risen * score.falling) / least
        for score in scores
        if score.exact > above
    ]


def decisive_numbers(bounds: Sequence[LikelyBound], measure: str, delta: str) -> list[Fraction]:
    """Those of all bounds that a claim of this measure is held against."""
    wire = "approx_dp" if measure == "pure_dp" else measure
    at = delta or "0"
    return [
        b.decisive
        for b in bounds
        if b.measure == wire and (wire != "approx_dp" or decimal(b.delta) == decimal(at))
    ]
