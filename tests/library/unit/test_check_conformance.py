"""Conformance rows cannot contradict themselves: each way to wash a broken one is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit.audit.batches import sampling_frequencies
from dpaudit.audit.examine import examination
from dpaudit.audit.graybox import check_frequencies
from dpaudit.audit.graybox.frequencies import Counted, judged
from dpaudit.audit.residuals import Finding, check_residuals
from dpaudit.certificate.evidence import written
from dpaudit.check import assumptions, conformance, laws
from dpaudit.check.assumptions import GATHERED
from dpaudit.check.conformance import _row as check_row
from dpaudit.errors import CertificateRejected
from dpaudit.exact import decimal_upper
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Repeat
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.families.selection import ExponentialMechanism
from tests.library.cli.bench import Json, accept, caught, follow, forged, held, rejected, renumber

NOISE = Gaussian("a", 1)


def shown(finding: Finding) -> Json:
    """A finding as a row."""
    none = finding.p_value != finding.p_value
    return {
        "id": "conformance-1",
        "check": finding.check,
        "status": finding.status,
        "statistic": written(finding.statistic),
        "error_rate": decimal_upper(finding.error_rate, 6),
        "p_value": None if none else decimal_upper(Fraction(finding.p_value)),
        "assumption": finding.assumption,
        "law": finding.law,
        "size": finding.size,
        "among": finding.among,
        "parameter": "" if finding.parameter != finding.parameter else written(finding.parameter),
    }


def test_names_are_those_of_the_examiner() -> None:
    own = {getattr(examination, n) for n in "ACCESS CONTROL MOVED APART TRIALS KEPT MADE".split()}
    assert set(conformance.EXAMINED) == own | {
        assumptions.CLIPPED,
        assumptions.DRAWN,
        assumptions.GATHERED,
    }


# --- every p-value follows from its row -----------------------------------------------------------


def wrong_noise(kind: str) -> np.ndarray[Any, Any]:
    """Residuals of two uses in three coordinates, wrong in one way."""
    noise = np.random.default_rng(5).normal(size=(2_000, 2, 3))
    if kind == "reused":
        noise[:, 1] = noise[:, 0]
    if kind == "one for all coordinates":
        noise[:] = noise[:, :, :1]
    if kind == "repeated":
        noise[1_000:] = noise[:1_000]
    return noise


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("right", ""),
        ("reused", "successive of a"),
        ("reused", "releases"),
        ("one for all coordinates", "coordinates of a"),
        ("repeated", "duplicates"),
    ],
)
def test_slopes_and_repeats_follow_from_their_rows(kind: str, check: str) -> None:
    rows = [shown(f) for f in check_residuals({"a": wrong_noise(kind)})]
    for row in rows:
        check_row(row, NOISE)
    broken = {row["check"] for row in rows if row["status"] == "broken"}
    assert (check in broken) == bool(check)
    for row in rows:
        if row["check"] == check:
            for change in ({"p_value": "0.5", "status": "held"}, {"statistic": "0"}):
                with pytest.raises(CertificateRejected):
                    check_row(row | change, NOISE)


@pytest.mark.parametrize("rate", [0.01, 0.3])
@pytest.mark.parametrize("z", [-9.0, -2.0, 0.0, 2.0, 30.0])
def test_counts_of_batches_follow_from_their_rows(rate: float, z: float) -> None:
    """p-values as SciPy has them, at either tail; with the declared rate and no other."""
    of = 40_000
    count = round(of * rate + z * (of * rate * (1 - rate)) ** 0.5)
    count = min(max(count, 0), of)
    tails = stats.binom.logcdf(count, of, rate), stats.binom.logsf(count - 1, of, rate)
    finding = judged(Counted(float(min(tails)) + np.log(2), count, of, rate, 20, "text"), 3, 1e-5)
    node = PoissonSampled(NOISE, str(rate))
    row = shown(finding)
    check_row(row, node)
    assert row["status"] == ("broken" if abs(z) > 8 else "held")
    with pytest.raises(CertificateRejected, match="rate that is not declared"):
        check_row(row, PoissonSampled(NOISE, str(rate / 2)))
    with pytest.raises(CertificateRejected, match="rate that is not declared"):
        check_row(row, NOISE)
    if abs(z) > 8:
        changed = row | {"statistic": str(round(of * rate))}
        with pytest.raises(CertificateRejected, match="its p-value is not its statistic's"):
            check_row(changed, node)


@pytest.mark.parametrize("seed", range(3))
def test_drawn_batches_give_rows_that_follow(seed: int) -> None:
    draw = np.random.default_rng(seed)
    poisson = PoissonSampled(NOISE, "0.1")
    batch = SampledWithoutReplacement(NOISE, 3, 30)
    drawn = [(poisson, draw.random((50, 30)) < 0.1) for _ in range(20)]
    check_row(shown(check_frequencies(drawn, 1e-5)), poisson)
    ranks = [np.argsort(draw.random((50, 30)), axis=1) < 3 for _ in range(20)]
    check_row(shown(check_frequencies([(batch, r) for r in ranks], 1e-5)), batch)
    wrong = check_frequencies([(batch, ranks[0] | True)], 1e-5)
    assert (wrong.status, wrong.error_rate) == ("broken", 0.0)
    check_row(shown(wrong), batch)


# --- what a washer changes ------------------------------------------------------------------------


@pytest.mark.parametrize("degrees", [1, 30, 5_000, 40_000, 199_999])
@pytest.mark.parametrize("z", [-25.0, -2.0, -0.3, 0.0, 0.3, 2.0, 25.0])
def test_tails_of_variances_are_scipys(degrees: int, z: float) -> None:
    """Of 10,000 degrees and more, series of the lower incomplete gamma function fail."""
    variance = 1 + z * (2 / degrees) ** 0.5
    if variance > 0:
        law = stats.chi2(degrees)
        known = min(law.logsf(variance * degrees), law.logcdf(variance * degrees))
        found = laws.LAWS["variance"](variance, degrees, 1) - np.log(4)
        assert found == pytest.approx(known, rel=1e-6)


def row_of(predicate: Json, check: str) -> Json:
    found: Json = next(row for row in predicate["conformance"] if row["check"] == check)
    return found


@pytest.mark.quality
def test_a_broken_statistic_cannot_be_left_out_of_statistics() -> None:
    """Not run, without an error rate, below its share, of fewer residuals: each said held."""

    def broken(predicate: Json) -> Json:
        rows = [r for r in predicate["conformance"] if r["check"] == "variance of first"]
        return next(row for row in rows if row["status"] == "broken")

    def not_run(predicate: Json) -> None:
        broken(predicate).update(status="not_run", p_value=None, law="", size=0, parameter="")

    assert "statistics of first are left out" in rejected(caught(), not_run)

    def certain(predicate: Json) -> None:
        broken(predicate).update(
            status="held", error_rate="0", statistic="0", p_value=None, law="", size=0
        )

    assert "a statistic without an error rate" in rejected(caught(), certain)

    def cheaper(predicate: Json) -> None:
        broken(predicate).update(status="held", error_rate="0", statistic="0")

    assert "a statistic without an error rate" in rejected(caught(), cheaper)


@pytest.mark.quality
def test_shares_sizes_and_laws_are_those_of_the_audit() -> None:
    def less(predicate: Json) -> None:
        for row in predicate["conformance"]:
            if row["error_rate"] != "0" and row["check"] != assumptions.DRAWN:
                row.update(error_rate="0.000000000001")

    assert "below its share" in rejected(held(), less)

    def one_less(predicate: Json) -> None:
        row_of(predicate, "variance of first").update(error_rate="0.000000000001")

    assert "error rates differ" in rejected(held(), one_less)

    def drawn(predicate: Json) -> None:
        row_of(predicate, assumptions.DRAWN).update(error_rate="0.000000000001")

    assert "another error rate" in rejected(held(), drawn)

    def about(predicate: Json) -> None:
        row_of(predicate, "mean of first").update(assumption="bounded_queries")

    assert "it tests another assumption" in rejected(held(), about)

    def fewer(predicate: Json) -> None:
        row = row_of(predicate, "mean of first")
        row.update(size=row["size"] // 2, p_value="1")

    assert "of other residuals" in rejected(held(), fewer)

    def relabelled(predicate: Json) -> None:
        row_of(predicate, "variance of first").update(law="shape", statistic="0", p_value="1")

    assert "another law" in rejected(held(), relabelled)


@pytest.mark.quality
def test_rows_of_one_audit_do_not_count_for_another() -> None:
    """The program's own audit had all rows; the suite's had lost one, under the same name."""

    def change(predicate: Json) -> None:
        rows = predicate["conformance"]
        last = max(i for i, row in enumerate(rows) if row["check"] == "variance of first")
        del rows[last]
        renumber(predicate)

    assert "no row of the variance of first" in rejected(held(), change)

    def renamed(predicate: Json) -> None:
        predicate["conformance"][3]["id"] = "conformance-3"

    assert "out of order" in rejected(held(), renamed)


def test_an_audit_whose_rows_are_gone_is_missed() -> None:
    def change(predicate: Json) -> None:
        rows = predicate["conformance"]
        last = max(i for i, row in enumerate(rows) if row["check"] == conformance.EXECUTED)
        del rows[last:]

    assert "another number of audits" in rejected(held(), change)


def test_nothing_released_gives_no_curve() -> None:
    """Every label was marked 'never released', and with it all statistics were gone."""

    def change(predicate: Json) -> None:
        for row in predicate["conformance"]:
            if row["check"].partition(" of ")[0] in conformance.LABEL_CHECKS:
                row.update(
                    status="not_run", error_rate="0", statistic="0", p_value=None, law="",
                    size=0, among=1, parameter="",
                )  # fmt: skip
        predicate["conformance"] = [
            row
            for row in predicate["conformance"]
            if row["check"] not in ("releases", "duplicates")
        ]
        renumber(predicate)
        follow(predicate)

    assert "scores differ, but nothing was released" in rejected(held(), change)


@pytest.mark.first_case
@pytest.mark.parametrize("name", conformance.EXAMINED)
def test_an_examination_has_all_its_rows(name: str) -> None:
    def change(predicate: Json) -> None:
        rows = [row for row in predicate["conformance"] if row["check"] != name]
        predicate["conformance"] = rows
        renumber(predicate)
        follow(predicate)

    assert f"examined, but no row of: {name}" in rejected(held(), change)


def not_examined(predicate: Json) -> None:
    """The certificate of the same program, as it would be without an examination."""
    said = "not examined: no records could be made up"
    predicate["examination"]["not_examined"] = said.removeprefix("not examined: ")
    predicate["verdict"]["reasons"].insert(0, said)
    for row in predicate["claims"]:
        row["verdict"] = "unconfirmed"
    predicate["verdict"]["status"] = "unconfirmed"
    predicate["caveats"].insert(0, said)
    first = [row["check"] for row in predicate["conformance"]].index(conformance.EXECUTED)
    predicate["conformance"] = predicate["conformance"][first:]
    renumber(predicate)
    follow(predicate)


def improved(predicate: Json, check: str, place: int) -> None:
    """With a row of an examination that held, before the audits' rows or among them."""
    of_queries = check in conformance.BOUNDING
    row = shown(Finding(check, "held", 0.0, 0.0, "said", tried=9))
    row |= {"about": "program", "tried": 9, "detail": "said"}
    row["assumption"] = "bounded_queries" if of_queries else "declared_noise"
    predicate["conformance"].insert(place, row)
    renumber(predicate)
    follow(predicate)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("check", [conformance.EXAMINED[2], conformance.CLIPPED, GATHERED])
@pytest.mark.parametrize(
    ("place", "said"), [(0, "a check of an examination held"), (1, "a row of an examination")]
)
def test_what_was_not_examined_holds_in_nothing(check: str, place: int, said: str) -> None:
    """Else it could have every status enforced, and be certified without any examination."""

    def change(predicate: Json) -> None:
        not_examined(predicate)
        improved(predicate, check, place)

    assert said in rejected(held(), change)


def short(predicate: Json) -> None:
    """One record moved the query by less than a fifth of what is stated."""
    predicate["examination"]["reached"][0].update(displacement_share="0.19", reaches="")


def few(predicate: Json) -> None:
    predicate["examination"]["records"][0] = 4


def silent(predicate: Json) -> None:
    predicate["examination"]["reached"].clear()


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("change", [not_examined, short, few, silent])
def test_a_program_that_was_not_reached_is_confirmed_by_nobody(
    change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def certified(predicate: Json) -> None:
        before = [row["verdict"] for row in predicate["claims"]]
        status = predicate["verdict"]["status"]
        change(predicate)
        for row, verdict in zip(predicate["claims"], before, strict=True):
            row["verdict"] = verdict
        predicate["verdict"]["status"] = status

    assert "the verdict would be unconfirmed" in rejected(held(), certified)
    # Without the rule the same certificate verifies.
    monkeypatch.setattr("dpaudit.check.claims.gaps", lambda examination, root: [])
    monkeypatch.setattr("dpaudit.check.conformance.gaps", lambda examination, root: [])
    accept(forged(held(), certified))


def test_an_author_may_say_why_a_query_moves_no_further() -> None:
    def reasoned(predicate: Json) -> None:
        short(predicate)
        predicate["examination"]["reached"][0]["reaches"] = "at most a fifth: by its own clip"

    accept(forged(held(), reasoned))

    def never(predicate: Json) -> None:
        reasoned(predicate)
        predicate["examination"]["reached"][0]["displacement_share"] = "0"

    assert "the verdict would be unconfirmed" in rejected(held(), never)


@pytest.mark.parametrize("part", ["caveats", "verdict"])
def test_no_examination_is_what_a_certificate_says_first(part: str) -> None:
    def change(predicate: Json) -> None:
        not_examined(predicate)
        texts = predicate["caveats"] if part == "caveats" else predicate["verdict"]["reasons"]
        texts.append(texts.pop(0))
        texts.insert(0, "all is well")

    assert "begin otherwise" in rejected(held(), change)


@pytest.mark.parametrize("seed", range(12))
def test_honest_rows_follow_at_all_extremes(seed: int) -> None:
    """No noise, some whose squares vanish or overflow, trials that were off, uses that repeat."""
    draw = np.random.default_rng(seed)
    scale = (0, 1e-200, 1e-9, 0.9, 1, 1.1, 1e3, 1e300)[seed % 8]
    noise = draw.normal((0, 0.01, 1e8)[seed % 3], 1, (300, 3, 2)) * scale
    if seed % 2:
        noise[draw.random((300, 3)) < 0.3] = np.nan
    if seed % 5 == 0:
        noise[:, 1] = noise[:, 0]
    for finding in check_residuals({"a": noise}):
        check_row(shown(finding), NOISE)


def test_a_selection_has_no_residuals_though_it_was_made() -> None:
    assert not conformance._is_additive(ExponentialMechanism("a", 1))
    assert conformance._is_additive(Repeat(NOISE, 3))


def test_lines_of_batches_give_the_worst() -> None:
    """The worst of three lines, paid for three times; a wrong size needs no statistics."""

    one = replace(judged(Counted(-1.0, 5, 100, 0.1, 2, "fine"), 1, 0.5), detail="fine")
    worse = replace(one, statistic=50.0, p_value=1e-9, detail="a record is missing")
    lines = [json.dumps([vars(f), " (b.py:2)"]) for f in (one, worse)]
    rows = [{"frequencies": np.array([[line]])} for line in lines]
    (found,) = sampling_frequencies([*rows, {"frequencies": np.empty((3, 0))}], 1e-5)
    p = laws.p_value("binomial", 50, 100, 4, 0.1)
    assert (found.status, found.p_value, found.among) == ("broken", p, 4)
    assert found.detail == f"a record is missing; p <= {p:.2g}, broken at 1e-05 (b.py:2)"
