"""Certification: what goes into a certificate, what stays out, and that it can be repeated."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.audit.verdict import DECISION_ERROR
from dpaudit.certificate.certify import Certified, certify
from dpaudit.certificate.order import Options, Order
from dpaudit.certificate.predicate import revision
from dpaudit.check.assumptions import EXACT
from dpaudit.curator.curator import Curator, Sampler
from dpaudit.curator.mechanism import Mechanism, Metric
from dpaudit.errors import CertificateRejected, InvalidParameter, Unsupported
from dpaudit.exact.wire import canonical_bytes
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Assuming, Compose
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP, RenyiDP
from dpaudit.kernels.base import KERNELS, exact_kernels
from dpaudit.kernels.query import ClippedMean, Records
from dpaudit.nodes import Assumption
from dpaudit.report import render_html
from tests.library.cli.bench import (
    DIGESTS,
    TINY,
    NoNoise,
    Releases,
    accept,
    certified,
    mechanism,
    rows,
    suite,
)

CASE = mechanism("case", Gaussian("a", 2), GDP(0.5), ApproxDP(2, TINY), labels=("a",))


def order(of: Mechanism, **changes: Any) -> Order:
    return Order(of, suite(of, **changes), "project", DIGESTS)


def predicate(found: Certified) -> dict[str, Any]:
    inside: dict[str, Any] = found.certificate["predicate"]
    return inside


@pytest.fixture(autouse=True)
def epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


# --- repeating it --------------------------------------------------------------------------------


@pytest.mark.quality
def test_the_same_seed_gives_the_same_bytes() -> None:
    one, again = (certify([order(CASE)], Options(seed=5))[0] for _ in range(2))
    assert canonical_bytes(one.certificate) == canonical_bytes(again.certificate)
    assert predicate(one)["issued"] == "2023-11-14T22:13:20Z"
    other = certify([order(CASE)], Options(seed=6))[0]
    assert predicate(other)["audits"] != predicate(one)["audits"]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("epoch", ["soon", "-1e9", "99999999999999999999", "2023-11-14", " "])
def test_a_date_that_is_none_is_refused(epoch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with pytest.raises(InvalidParameter, match="SOURCE_DATE_EPOCH"):
        certified(CASE)


def test_without_a_date_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert predicate(certified(CASE))["issued"] > "2024"


@pytest.mark.quality
def test_without_a_seed_one_is_drawn_and_written_down() -> None:
    one, other = (certify([order(CASE)], Options())[0] for _ in range(2))
    seeds = [predicate(found)["reproduce"]["root_seed"] for found in (one, other)]
    assert seeds[0] != seeds[1]
    number = int(seeds[0], 16)
    assert predicate(one)["reproduce"]["command"] == f"dpaudit certify case --seed {number}"
    again = certify([order(CASE)], Options(seed=number))[0]
    assert predicate(again)["audits"] == predicate(one)["audits"]


@pytest.mark.quality
def test_the_command_names_every_target_of_the_run() -> None:
    """One run's targets share its decision error: one alone would not give the same bounds."""
    other = mechanism("other", Gaussian("a", 3), GDP(1), labels=("a",))
    targets = ("case", "a file.py::other")
    found = certify([order(CASE), order(other)], Options(seed=5, trials=300, targets=targets))
    command = "dpaudit certify case 'a file.py::other' --seed 5 --trials 300"
    assert [predicate(f)["reproduce"]["command"] for f in found] == [command] * 2
    alone = certify([order(other)], Options(seed=5, trials=300))[0]
    assert predicate(alone)["audits"] != predicate(found[1])["audits"]


@pytest.mark.quality
def test_the_error_of_a_run_is_shared_by_all_its_bounds() -> None:
    other = mechanism("other", Gaussian("a", 3), GDP(1), PureDP(9), labels=("a",))
    found = certify([order(CASE), order(other)], Options(seed=5, trials=300))
    audits = [audit for f in found for audit in predicate(f)["audits"]]
    spent = sum(Fraction(audit["witness"]["decisive_error"]) for audit in audits)
    checks = [row for f in found for row in predicate(f)["conformance"]]
    alarms = sum(Fraction(row["error_rate"]) for row in checks)
    # Two bounds of the suite's audit, and two of the program's own on the pair that was found.
    assert len(audits) == 8
    assert {audit["confidence"]["adjusted_for"] for audit in audits} == {8}
    assert Fraction(99, 100) < spent / (Fraction(DECISION_ERROR) / 2) < 1 + Fraction(1, 10**5)
    assert Fraction(99, 100) < alarms * 10**6 < 1 + Fraction(1, 10**4)
    for one in found:
        accept(one.certificate)


@pytest.mark.quality
def test_a_program_without_a_repr_of_its_own_is_named_the_same_each_time() -> None:
    @dataclass(frozen=True, repr=False)
    class Plain(Releases):
        """Its repr would hold an address."""

    case = Mechanism(**CASE.__dict__ | {"program": Plain(CASE.declaration, ("a",))})
    assert " at 0x" not in predicate(certified(case))["mechanism"]["program"]


# --- refusals, before anything is run ------------------------------------------------------------


def never() -> Records:
    raise AssertionError("the records were touched")


def test_symbols_must_be_bound_first() -> None:
    symbol = sympy.Symbol("z", positive=True)
    case = mechanism("case", Gaussian("a", symbol), GDP(1 / symbol), records=never)
    with pytest.raises(InvalidParameter, match="bind z first"):
        certified(case, suite(case))


def test_one_id_cannot_name_two_assumptions() -> None:
    good, bad = (
        Assumption("weights", "they are public", status) for status in ("enforced", "violated")
    )  # type: ignore[arg-type]
    node = Compose(Assuming(Gaussian("a", 2), bad), Assuming(Gaussian("b", 2), good))
    with pytest.raises(InvalidParameter, match="share the id 'weights'"):
        certified(mechanism("case", node, GDP(1), records=never))


def test_an_id_of_a_standing_assumption_is_taken() -> None:
    own = Assumption("real_arithmetic", "all is exact", "enforced")  # type: ignore[arg-type]
    node = Assuming(Gaussian("a", 2), own)
    with pytest.raises(InvalidParameter, match="'real_arithmetic'"):
        certified(mechanism("case", node, GDP(1), records=never))


# --- the run on data -----------------------------------------------------------------------------

SECRETS = (0.123456789, 0.987654321, 0.55512345)


def private() -> Records:
    return Records(np.array([[secret] for secret in SECRETS]))


@pytest.mark.quality
def test_a_run_shows_what_was_released_and_nothing_else() -> None:
    seen: list[Any] = []

    def evaluate(output: Any) -> tuple[Metric, ...]:
        seen.append(output)
        return (Metric("released mean", float(output[0, 0]), covered=True),)

    case = Mechanism(**CASE.__dict__ | {"records": private, "evaluate": evaluate})
    found = certified(case, suite(case))
    run = predicate(found)["run"]
    assert run["records"] == 3
    assert run["metrics"][0]["value"] == repr(float(seen[0][0, 0]))
    text = json.dumps(found.certificate)
    for leaked in (*SECRETS, sum(SECRETS), sum(SECRETS) / 3):
        assert f"{leaked:.6g}" not in text
    accept(found.certificate)


@pytest.mark.quality
def test_a_seeded_run_says_that_it_protects_nothing() -> None:
    case = Mechanism(**CASE.__dict__ | {"records": private})
    seeded = predicate(certify([Order(case, None, "project", DIGESTS)], Options(seed=5))[0])
    drawn = predicate(certify([Order(case, None, "project", DIGESTS)], Options())[0])
    assert seeded["run"]["entropy"] == "seed 5"
    assert "do not release it" in seeded["run"]["notes"][-1]
    assert drawn["run"]["entropy"] == "operating system"
    assert drawn["run"]["notes"] == []


@pytest.mark.quality
def test_the_noise_of_a_run_is_not_that_of_the_audit() -> None:
    """The audit's seed is published; what it draws must not be what a release drew."""
    outputs: list[float] = []

    def evaluate(output: Any) -> tuple[Metric, ...]:
        outputs.append(float(output[0, 0]))
        return ()

    case = Mechanism(**CASE.__dict__ | {"records": private, "evaluate": evaluate})
    for _ in range(2):
        certify([Order(case, None, "project", DIGESTS)], Options())
    # Each is evaluated twice: the second time with the records withheld.
    assert len(outputs) == 4
    assert len(set(outputs)) == 2


@dataclass(frozen=True)
class NoZeros(Releases):
    """Runs on nothing but its own data: its query fails on zeros, or its own code does."""

    own: bool = False

    def run(self, curator: Curator) -> Any:
        if self.own:
            raise ValueError("secret 0.25")

        def query(values: Any) -> Any:
            return values[None] / [[1 / number for number in row] for row in values.tolist()]

        return curator.release("a", ClippedMean(query, 1.0, np.full(3, 1 / 3)))


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("own", "said"),
    [
        (False, r"'a': its query fails on rows of zeros \(ZeroDivisionError \(.*test_certify.py:"),
        (True, r"case: its program fails in its run on the data \(ValueError \(.*test_certify.py:"),
    ],
)
def test_a_program_that_does_not_run_on_its_data_is_refused_by_name(
    own: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not be examined either, and is run only where that is asked for; none is drawn."""
    asked = Options(seed=5, run_unproved=True)
    case = replace(CASE, records=private, program=NoZeros(CASE.declaration, own=own))
    with pytest.raises(InvalidParameter, match=said) as raised:
        certify([Order(case, None, "project", DIGESTS)], asked)
    assert "certify the mechanism without its records" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.exit_code == 2
    unrun = predicate(certified(replace(case, records=None)))
    assert unrun["caveats"][0].startswith("not examined")
    # Without the guards it ends as an error that nobody foresaw.
    monkeypatch.setattr("dpaudit.certificate.on_data.Guarded", Sampler)
    monkeypatch.setattr(
        "dpaudit.certificate.on_data._OnData._run", lambda self, s: self._mechanism.program.run(s)
    )
    with pytest.raises((ZeroDivisionError, ValueError)) as unforeseen:
        certify([Order(case, None, "project", DIGESTS)], asked)
    assert not isinstance(unforeseen.value, InvalidParameter)


@pytest.mark.quality
def test_a_private_number_of_records_stays_private() -> None:
    @dataclass(frozen=True)
    class Summed(Releases):
        def run(self, curator: Curator) -> Any:
            return curator.release("a", ClippedMean(rows, radius=1.0, divisor=10.0))

    case = mechanism("case", Gaussian("a", 2), GDP(0.5), adjacency="add_remove")
    many = Records(np.zeros((12_347, 1)))
    case = Mechanism(
        **case.__dict__ | {"program": Summed(case.declaration), "records": lambda: many}
    )
    found = certified(case)
    assert predicate(found)["run"]["records"] is None
    assert "12347" not in json.dumps(found.certificate)
    accept(found.certificate)


def test_an_implementation_found_broken_never_sees_the_data() -> None:
    case = Mechanism(**CASE.__dict__ | {"records": never})
    found = certified(case, suite(case, kernels={Gaussian: NoNoise}))
    assert predicate(found)["run"] is None
    status = {row["id"]: row["status"] for row in predicate(found)["assumptions"]}
    assert status["declared_noise"] == "violated"
    accept(found.certificate)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("value", [1_234_567.875, 1e300, -5e-324, 10**24, 3, 0.1, np.float32(0.1)])
def test_a_released_value_is_written_as_it_is(value: Any) -> None:
    """A value above 999,999 stopped the certificate once its noise was drawn."""
    case = replace(CASE, records=private, evaluate=lambda _: (Metric("m", value, True),))
    found = certified(case)
    written = predicate(found)["run"]["metrics"][0]["value"]
    assert (int if isinstance(value, int) else float)(written) == value
    accept(found.certificate)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "metrics",
    [(Metric("m", "high", True),), (Metric("", 1, True),), (Metric("m", 1, "yes"),), (3,)],  # type: ignore[arg-type]
)
def test_an_output_survives_metrics_that_fail(metrics: Any) -> None:
    """What is wrong with a metric is found after the draw: the rest of the certificate stands."""
    kept: list[Any] = []

    def keep(name: str, draw: Any) -> Any:
        output = draw()
        kept.append((name, output))
        return output, {"name": "case.npz", "digest": {"sha256": "0" * 64}}

    evaluate = lambda _: (Metric("good", 2.5, True), *metrics)  # noqa: E731
    case = replace(CASE, records=private, evaluate=evaluate)
    (found,) = certify([Order(case, None, "project", DIGESTS)], Options(keep=keep))
    run = predicate(found)["run"]
    assert [(row["name"], row["value"]) for row in run["metrics"]] == [("good", "2.5")]
    assert "those from number 2 on are missing" in run["notes"][0]
    assert run["output"]["name"] == "case.npz"
    assert [name for name, _ in kept] == ["case"]
    accept(found.certificate)


@pytest.mark.quality
def test_a_form_that_does_not_fit_is_refused_before_the_data_is_touched() -> None:
    case = replace(CASE, records=never, setting=replace(CASE.setting, unit_entity=""))
    with pytest.raises(CertificateRejected, match="unit/entity"):
        certified(case)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("claim", [GDP(0.499), PureDP(1)])
def test_a_claim_that_is_not_proved_stops_before_the_data(claim: Any) -> None:
    """Refuted, and unsupported; asked for, it runs."""
    case = replace(mechanism("case", Gaussian("a", 2), claim, labels=("a",)), records=never)
    found = predicate(certified(case))
    assert found["run"] is None
    assert "not run on the data" in found["caveats"][0]
    case = replace(case, records=private)
    (ran,) = certify([Order(case, None, "project", DIGESTS)], Options(seed=1, run_unproved=True))
    assert predicate(ran)["run"]["records"] == 3
    assert predicate(ran)["caveats"] == []


@pytest.mark.quality
def test_caveats_and_the_period_do_not_depend_on_data() -> None:
    setting = replace(CASE.setting, notes=("six of 17 phases",), unit_period="one year")
    for records in (None, private):
        found = predicate(certified(replace(CASE, setting=setting, records=records)))
        assert found["caveats"] == ["six of 17 phases"]
        assert found["scope"]["unit"]["period"] == "one year"


def test_the_revision_is_that_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> str:
        settings = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(tmp_path), *settings, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    case = Order(CASE, None, "project", {"case.py": "0" * 64})
    monkeypatch.setattr("dpaudit.storage.roots._served", tmp_path)
    assert revision(case) is None
    git("init", "-q")
    (tmp_path / "case.py").write_text("one")
    assert revision(case) is None
    git("add", "case.py")
    git("commit", "-q", "-m", "one")
    (tmp_path / "other.py").write_text("other")
    assert revision(case) == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    both = Order(CASE, None, "project", {"case.py": "0" * 64, "other.py": "0" * 64})
    assert revision(both) == {"commit": git("rev-parse", "HEAD"), "dirty": True}
    (tmp_path / "case.py").write_text("two")
    assert revision(case) == {"commit": git("rev-parse", "HEAD"), "dirty": True}


# --- the sections --------------------------------------------------------------------------------


def test_an_audit_refutes_only_what_it_showed() -> None:
    """The accountant refutes mu = 0.499; 400 trials cannot, and their row must not say so."""
    case = mechanism("case", Gaussian("a", 2), GDP(0.499), labels=("a",))
    found = certified(case, suite(case))
    assert found.verdict == "refuted"
    assert {audit["verdict"] for audit in predicate(found)["audits"]} == {"not_refuted"}
    caught = certified(case, suite(case, kernels={Gaussian: NoNoise}))
    shown = {audit["id"]: audit["verdict"] for audit in predicate(caught)["audits"]}
    assert shown == {"lens": "not_refuted", "stand_in:lens": "refuted"}
    assert "the attack on a stand-in shows" in predicate(caught)["claims"][0]["reason"]


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("node", "claims", "margin"),
    [
        (Gaussian("a", 2), (GDP(0.75),), "0.25"),
        (Gaussian("a", 3), (GDP(1),), "0.666666"),
        (Gaussian("a", 3), (GDP(0.1),), "-0.233334"),
        (PureDP(1, source="x"), (GDP(9), PureDP(3)), "2"),
        (NonPrivate("looked"), (GDP(1),), ""),
    ],
)
def test_the_margin_is_rounded_down(node: Any, claims: Any, margin: str) -> None:
    assert predicate(certified(mechanism("case", node, *claims)))["verdict"]["margin"] == margin


def curve(found: Certified, measure: str) -> list[tuple[float, float]]:
    bounds = predicate(found)["derivation"]["upper_bounds"]
    rows_ = next(bound["curve"] for bound in bounds if bound["measure"] == measure)
    return [(float(x), float(y)) for x, y in rows_]


@pytest.mark.first_case
@pytest.mark.parametrize(
    "multiplier", [Fraction(1, 10), Fraction(1), Fraction(50), Fraction(10**6)]
)
def test_curves_fall_and_reach_the_tail(multiplier: Fraction) -> None:
    """Whatever the scale, the profile goes from its largest value to a small one."""
    found = certified(mechanism("case", Gaussian("a", multiplier), GDP(100)))
    profile, tradeoff = curve(found, "profile"), curve(found, "tradeoff")
    for points in (profile, tradeoff):
        xs, ys = zip(*points, strict=True)
        assert list(xs) == sorted(set(xs))
        assert list(ys) == sorted(ys, reverse=True)
    assert profile[0][0] == 0
    assert profile[-1][1] < 1e-6


@pytest.mark.quality
def test_points_of_the_roc_are_counts_over_trials() -> None:
    for audit in predicate(certified(CASE, suite(CASE)))["audits"]:
        for rates in audit["roc"]:
            assert all(Fraction(rate) * audit["trials"] % 1 == 0 for rate in rates[:2])
            assert all(float(u) > float(r) for r, u in zip(rates[:2], rates[2:], strict=True))


def test_what_is_written_about_the_mechanism() -> None:
    found = predicate(certified(CASE))
    assert found["mechanism"]["declaration_text"] == "Gaussian('a', noise_multiplier=2)"
    assert found["mechanism"]["declaration"]["root"] == CASE.declaration.digest
    assert found["scope"]["adjacency"] == "replace_one"
    assert set(found["environment"]["packages"]) >= {"numpy", "scipy", "sympy"}
    assert {row["about"] for row in found["conformance"]} == {"program"}
    # Nobody wrote a suite: the audit is of the program itself, on a pair that was found.
    assert {row["about"] for row in found["audits"]} == {"program"}
    assert {row["program"] for row in found["audits"]} == {found["mechanism"]["program"]}
    assert found["run"] is None


@pytest.mark.quality
def test_reports_of_progress_name_the_mechanism() -> None:
    reports: list[tuple[str, int, int]] = []

    def report(name: str, done: int, total: int) -> None:
        reports.append((name, done, total))

    certify([order(CASE)], Options(seed=5, progress=report))
    assert reports[-1] == ("case", 4, 4)
    assert {name for name, *_ in reports} == {"case"}


@pytest.mark.quality
def test_claims_of_every_measure_get_their_own_bound() -> None:
    claims = (GDP(0.5), ZCDP(0.125), ApproxDP(2, TINY), PureDP(9))
    case = mechanism("case", Gaussian("a", 2), *claims, labels=("a",))
    rows_ = predicate(certified(case, suite(case, trials=2_000)))["claims"]
    assert [row["lower"]["measure"] for row in rows_] == ["gdp", "zcdp", "approx_dp", "approx_dp"]
    assert [row["lower"]["audit"] for row in rows_] == ["lens", "lens", "raw-0.00001", "raw-0"]
    conditional = [row["lower_conditional"] for row in rows_]
    assert [c is not None for c in conditional] == [False, False, True, False]
    assert conditional[2]["conditional_on"] == "the Gaussian family"
    truth: dict[str, Callable[[Any], float]] = {"mu": float, "rho": float, "epsilon": float}
    assert all(
        truth[k](row["lower"][k]) > 0 for row in rows_[:3] for k in truth if k in row["lower"]
    )


def test_a_claim_at_one_renyi_order_is_refused_before_anything_runs() -> None:
    case = mechanism("case", Gaussian("a", 1), RenyiDP(2, 1))
    with pytest.raises(Unsupported, match=r"RenyiDP\(order=2, epsilon=1\) is checked by"):
        certified(case)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("node", "floats"),
    [
        (DiscreteLaplace("a", 2), False),
        (Compose(DiscreteLaplace("a", 2), DiscreteGaussian("b", 4)), False),
        (Compose(DiscreteLaplace("a", 2), Gaussian("b", 4)), True),
        (Gaussian("a", 2), True),
    ],
)
def test_exact_samplers_are_not_described_as_floats(node: Any, floats: bool) -> None:
    found = certified(mechanism("case", node, ApproxDP(9, TINY)))
    rows = {row["id"]: row for row in predicate(found)["assumptions"]}
    # Nothing of these cases was drawn, so nothing is enforced.
    assert rows["real_arithmetic"]["status"] == "declared"
    assert ("64-bit floats" in rows["real_arithmetic"]["statement"]) == floats
    accept(found.certificate)


def test_the_leaves_called_exact_are_those_whose_samplers_are() -> None:
    exact_kernels()  # loads every family
    exact = {
        leaf.__name__
        for leaf, made in KERNELS.items()
        if leaf.__module__.startswith("dpaudit.") and getattr(made, "arithmetic", "") == "exact"
    }
    assert exact == EXACT


@pytest.mark.first_case
@pytest.mark.parametrize(
    "node",
    [
        Gaussian("a", 2),
        DiscreteLaplace("a", 2),
        Compose(DiscreteGaussian("a", 4), Gaussian("b", 1)),
    ],
)
def test_every_accounted_certificate_has_plain_words_and_a_profile(node: Any) -> None:
    found = certified(mechanism("case", node, ApproxDP(9, TINY)))
    assert predicate(found)["in_plain_words"]["membership_guess_upper"]
    assert any(row.get("curve") for row in predicate(found)["derivation"]["upper_bounds"])
    page = render_html(found.certificate)
    assert all(word in page for word in ("Singling out", "Linkability", "Inference"))
