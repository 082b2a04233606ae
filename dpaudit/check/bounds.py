"""Lower bounds: counts into Clopper-Pearson rates, rates into bounds, all within one error rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

from dpaudit.check.assumptions import DRAWN
from dpaudit.check.measures import FromRates
from dpaudit.check.rates import (
    MILLIONTH,
    Rates,
    clopper_pearson,
    implied,
    is_upper,
    no_errors,
    pooled_holds,
)
from dpaudit.check.reading import SLACK, Json, decimal, require, rounded_down
from dpaudit.exact import decimal_lower, enclose

SHOWN_ERROR, SHOWN_LEVEL = Fraction(1, 20), "0.95"  # error of a shown bound; as a level
DECISION_ERROR = "0.0001"
LENS = "lens"
STAND_IN = "stand_in"
# How the name of an estimator begins that counts both kinds of errors together.
POOLED = "pooled "
# A curve that refutes by so much contradicts a verdict that says otherwise.
CURVE_ERROR = Fraction(1, 10**9)
WITNESS = {
    "false_positive_rate_upper",
    "false_negative_rate_upper",
    "decisive_false_positive_rate_upper",
    "decisive_false_negative_rate_upper",
    "decisive_error",
    "decisive_lower",
}


@dataclass(frozen=True)
class Bound:
    """An audit's error rates from above, at the shown confidence and at the decision error.

    ``delta`` None: the lens, whose rates bound mu.
    """

    row: Json
    shown: Rates
    decisive: Rates
    delta: Fraction | None

    @property
    def decisive_lower(self) -> Fraction:
        """The bound (mu, or epsilon at ``delta``) at the decision error."""
        return decimal(self.row["witness"]["decisive_lower"])


def rederive_bounds(predicate: Json) -> dict[str, Bound]:
    """Every audit's bound by the audit's name.

    Errors: CertificateRejected for a bound that does not follow from its counts, or an error rate
    above the audit's share.
    """
    rows = predicate["audits"]
    bounds = {row["id"]: _bound(row, len(rows)) for row in rows}
    require(len(bounds) == len(rows), "two audits have one name")
    for row in rows:
        group = [r for r in rows if audit_of(r["id"]) == audit_of(row["id"])]
        _one_audit(row, group[0], predicate)
        require(row["about"] == "program" or row["differs"], "a stand-in that differs in nothing")
        # Several are "stand_in:2:lens" and so on.
        apart = audit_of(row["id"]).partition(":")[0] == STAND_IN
        require((row["about"] == "stand_in") == apart, "a stand-in is listed as the program")
        if row is group[0]:
            _roc(row)
            _one_law(group)
    _conformance(predicate)
    return bounds


def _one_audit(row: Json, first: Json, predicate: Json) -> None:
    """The rows of one audit are of one run."""
    for name in ("seed", "trials", "about", "program", "differs"):
        require(row[name] == first[name], f"the audits' {name} differ")
    same = row["confidence"]["adjusted_for"] == first["confidence"]["adjusted_for"]
    require(same, "the audits' seeds, trials or shares differ")
    own = row["seed"] == predicate["reproduce"]["root_seed"]
    require(own, "the audits have another root seed")
    require(row["roc"] == first["roc"], "the audits' curves differ")
    suite = row.get("suite")
    require(suite == first.get("suite"), "the audits' suites differ")
    if suite and suite["file"]:
        files = {file["name"]: file["digest"]["sha256"] for file in _files(predicate)}
        own = files.get(suite["file"]) == suite["sha256"]
        require(own, "an audit's suite is none of the implementation's files")


def _files(predicate: Json) -> list[Json]:
    files: list[Json] = predicate["mechanism"]["implementation"]
    return files


def audit_of(name: str) -> str:
    """The audit that a row belongs to: "" for the one whose bounds are printed as attacked."""
    return name.rpartition(":")[0]


def named(bounds: Mapping[str, Bound], name: str) -> list[Bound]:
    """Every audit's bound of one name: the program's first, then a stand-in's."""
    return [bound for key, bound in bounds.items() if key.rpartition(":")[2] == name]


def _bound(row: Json, audits: int) -> Bound:
    place, witness = f"audit {row['id'][:40]}", row["witness"]
    require(set(witness) == WITNESS, f"{place}: its witness holds something else")
    error = _share(row, audits, place)
    result = Bound(
        row=row,
        shown=_rates(row, "", SHOWN_ERROR, place),
        decisive=_rates(row, "decisive_", error, place),
        delta=_delta(row, place),
    )
    shown = row["lower_bounds"][0]["mu" if result.delta is None else "epsilon"]
    for name, text, rates in (
        ("lower bound", shown, result.shown),
        ("decisive bound", witness["decisive_lower"], result.decisive),
        ("strongest bound", _strongest(row, place), _no_errors(row)),
    ):
        exact = implied(rates, result.delta)
        follows = text == decimal_lower(exact) or rounded_down(text, exact)
        require(follows, f"{place}: its {name} does not follow from its counts")
    return result


def _share(row: Json, audits: int, place: str) -> Fraction:
    """The error of one decisive bound: half the decision error, over all bounds of the run."""
    confidence = row["confidence"]
    error = decimal(row["witness"]["decisive_error"])
    require(confidence["decision_error"] == DECISION_ERROR, f"{place}: another decision error")
    require(confidence["level"] == SHOWN_LEVEL, f"{place}: another confidence level")
    require(confidence["adjusted_for"] >= audits, f"{place}: adjusted for too few bounds")
    spent = error * confidence["adjusted_for"] * 2 / decimal(DECISION_ERROR)
    require(abs(spent - 1) <= SLACK, f"{place}: its decisive error is not its share")
    return error


def _delta(row: Json, place: str) -> Fraction | None:
    require(len(row["lower_bounds"]) == 1, f"{place}: expected one lower bound")
    require(row["conditional_on"] == "", f"{place}: its bound needs no condition")
    first, second = row["neighbours"]
    require(first != second, f"{place}: its neighbours are one data set")
    stated = row["lower_bounds"][0]
    name = row["id"].rpartition(":")[2]
    if name == LENS:
        require(stated["measure"] == "gdp", f"{place}: expected a bound of mu")
        return None
    named = stated["measure"] == "approx_dp" and name == f"raw-{stated['delta']}"
    require(named, f"{place}: its name is not that of its bound")
    return decimal(stated["delta"])


def _strongest(row: Json, place: str) -> str:
    stated, strongest = row["lower_bounds"][0], row["strongest"]
    require(strongest is not None, f"{place}: its strongest bound is missing")
    same = [strongest.get(k) == stated.get(k) for k in ("measure", "delta")]
    require(all(same), f"{place}: its strongest bound is in another measure")
    return str(strongest["mu" if row["id"].rpartition(":")[2] == LENS else "epsilon"])


def _no_errors(row: Json, error: Fraction = SHOWN_ERROR) -> Rates:
    """The rates that no error in all trials bounds, a side or of both together."""
    share, trials = (error, 2 * row["trials"]) if _pools(row) else (error / 2, row["trials"])
    rate = no_errors(trials, share)
    return rate, rate


def _pools(row: Json) -> bool:
    return str(row["estimator"]).startswith(POOLED)


def strongest(bound: Bound, from_rates: FromRates | None) -> Any:
    """Ball around the most that an audit could have shown at its decision error."""
    rates = _no_errors(bound.row, decimal(bound.row["witness"]["decisive_error"]))
    return from_rates(*rates) if from_rates else implied(rates, bound.delta)


# --- counts into rates ---------------------------------------------------------------------------


def _rates(row: Json, prefix: str, error: Fraction, place: str) -> Rates:
    counts = row["counts"]
    sizes = {row["trials"], counts["trials_null"], counts["trials_alternative"]}
    require(len(sizes) == 1, f"{place}: its counts are not of its trials")
    if _pools(row):
        return _pooled_rates(row, prefix, error, place)
    rates = []
    for kind in ("positive", "negative"):
        name = f"{prefix}false_{kind}_rate_upper"
        count, stated = counts[f"false_{kind}s"], decimal(row["witness"][name])
        follows = clopper_pearson(count, row["trials"], stated, error / 2)
        require(follows, f"{place}: {name} is not a Clopper-Pearson bound of its count")
        rates.append(enclose(stated))
    return rates[0], rates[1]


def _pooled_rates(row: Json, prefix: str, error: Fraction, place: str) -> Rates:
    """Two equal rates, at most the mean of the true ones but for ``error``."""
    errors, trials = sum(_errors(row)), 2 * row["trials"]
    names = [f"{prefix}false_{kind}_rate_upper" for kind in ("positive", "negative")]
    stated, other = (decimal(row["witness"][name]) for name in names)
    follows = stated == other and pooled_holds(errors, trials, stated, error)
    require(follows, f"{place}: {names[0]} is not a Clopper-Pearson bound of its pooled errors")
    return enclose(stated), enclose(stated)


def _one_law(rows: Sequence[Json]) -> None:
    """All counts are of the same scores: where more are above a threshold, fewer are below it."""
    points = [(f"audit {row['id'][:40]}", *_errors(row)) for row in rows]
    for row in rows[:1]:
        for number, (positive, negative, *_) in enumerate(row["roc"]):
            counts = (round(decimal(rate) * row["trials"]) for rate in (positive, negative))
            points.append((f"point {number + 1} of the attack's curve", *counts))
    # In order of false positives; of equal ones, any order of the others is one.
    points.sort(key=lambda point: (-point[1], point[2]))
    for (name, above, below), (other, fewer, more) in pairwise(points):
        same = more >= below or above == fewer
        require(same, f"{name} and {other} cannot be of the same scores")


def _errors(row: Json) -> tuple[int, int]:
    return row["counts"]["false_positives"], row["counts"]["false_negatives"]


def curve_exceeds(
    row: Json, delta: Fraction | None, number: Any, from_rates: FromRates | None = None
) -> bool:
    """Whether a point of the attack's curve alone refutes a number, but for one run in 10^9.

    ``delta``: of the claimed epsilon; None where a mu is claimed, or what ``from_rates`` bounds.
    """
    share = CURVE_ERROR / max(len(row["roc"]), 1) / 2

    def refutes(rates: Sequence[Fraction]) -> bool:
        return min(rates) > 0 and bool(_shown(rates, delta, from_rates) > enclose(number))

    for positive, negative, *_ in row["roc"]:
        rates = [decimal(rate) for rate in (positive, negative)]
        # The rates seen show more than their bounds, and cost a thousandth to compare.
        if refutes([max(rate, MILLIONTH) for rate in rates]) and _bounds_refute(
            [round(rate * row["trials"]) for rate in rates], row["trials"], share, refutes
        ):
            return True
    return False


def _bounds_refute(
    counts: Sequence[int],
    trials: int,
    share: Fraction,
    refutes: Callable[[Sequence[Fraction]], bool],
) -> bool:
    """Whether the Clopper-Pearson bounds of two counts refute, in as few tails as it takes.

    Lower rates show more: once what the bounds are above does not refute, they do not, and once
    what they are below does, they do.
    """
    between = [(Fraction(count, trials), Fraction(1)) for count in counts]
    for _ in range(30):
        if not refutes([max(low, MILLIONTH) for low, _ in between]):
            return False
        if refutes([high for _, high in between]):
            return True
        between = [_halved(*pair, trials, share) for pair in zip(counts, between, strict=True)]
    return refutes([high for _, high in between])


def _shown(rates: Sequence[Fraction], delta: Fraction | None, from_rates: FromRates | None) -> Any:
    positive, negative = map(enclose, rates)
    return from_rates(positive, negative) if from_rates else implied((positive, negative), delta)


@lru_cache(maxsize=4096)
def _halved(
    count: int, between: tuple[Fraction, Fraction], trials: int, error: Fraction
) -> tuple[Fraction, Fraction]:
    """The half of an interval in which the Clopper-Pearson bound from above lies."""
    low, high = between
    middle = (low + high) / 2
    return (low, middle) if is_upper(count, trials, middle, error) else (middle, high)


def _roc(row: Json) -> None:
    """Every corner of a box is a Clopper-Pearson bound at its share of the shown error."""
    trials = row["trials"]
    for number, (positive, negative, *uppers) in enumerate(row["roc"]):
        for rate, upper in zip((positive, negative), uppers, strict=True):
            count = round(decimal(rate) * trials)
            near = abs(Fraction(count, trials) - decimal(rate)) <= SLACK
            share = SHOWN_ERROR / len(row["roc"]) / 2
            follows = near and clopper_pearson(count, trials, decimal(upper), share)
            require(follows, f"point {number + 1} of the attack's curve does not follow")


# --- conformance ---------------------------------------------------------------------------------


def _conformance(predicate: Json) -> None:
    rows = predicate["conformance"]
    require(rows or not predicate["audits"], "audits without conformance checks")
    broken = any(row["status"] == "broken" for row in rows)
    audited = any(
        row["about"] == "stand_in" or (row["error_rate"] != "0" and row["check"] != DRAWN)
        for row in rows
    )
    listed = predicate["audits"] or broken or not audited
    require(listed, "an audit's conformance held, but no audit is listed")
    spent = sum(decimal(row["error_rate"]) for row in rows)
    allowed = decimal(DECISION_ERROR) / 10 * (1 + Fraction(1, 10**4))
    require(spent <= allowed, "the conformance checks spend over a tenth of the decision error")
