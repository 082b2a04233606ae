"""Certificates in every format, good ones and bad ones side by side."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dpaudit.certificate.certificate import save, statement
from dpaudit.certificate.rendering import FORMATS, render_files
from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.report import (
    registry_record,
    render_badge,
    render_csv,
    render_html,
    render_junit,
    render_markdown,
    render_project,
    render_sarif,
    render_sbom,
)
from dpaudit.report.exports import findings
from dpaudit.report.registry import validate_record
from tests.library.cli.bench import held
from tests.library.unit.test_report import HOSTILE, poisoned

pytestmark = pytest.mark.usefixtures("verified_here")

Json = dict[str, Any]
STATED = {
    "purpose": ["planning"],
    "controller": ["Clinic"],
    "region": ["Europe"],
    "product_type": ["Summary statistics"],
    "publication_date": ["2026-11-01"],
    "release_type": ["one release"],
    "data_source": ["register"],
}
REST = {
    "post_processing": ["none"],
    "tuning": ["none"],
    "justification": ["law"],
    "contact": ["officer@clinic.example"],
}


def changed(certificate: Json, change: Callable[[Json], Any]) -> Json:
    """The statement of a changed predicate."""
    predicate = copy.deepcopy(certificate["predicate"])
    change(predicate)
    return statement(predicate)


def with_fields(**fields: list[str]) -> Json:
    def state(predicate: Json) -> None:
        predicate["fields"] = fields
        predicate["scope"]["controller"] = "Clinic"

    return changed(held(), state)


@pytest.fixture(scope="module")
def good() -> Json:
    return with_fields(**STATED)


@pytest.fixture(scope="module")
def refuted(good: Json) -> Json:
    def refute(predicate: Json) -> None:
        predicate["claims"][0].update(verdict="refuted", check="refuted", reason="2 > <1>")
        predicate["verdict"]["status"] = "refuted"

    return changed(good, refute)


def test_a_pull_request_reads_verdict_and_evidence(good: Json, refuted: Json) -> None:
    text = render_markdown({"good": good, "bad": refuted})
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(table) == 8
    assert all(line.count("|") == 6 for line in table)
    assert [line.count("**Refuted**") for line in table] == [0, 0, 0, 0, 0, 1, 0, 0]
    assert "planning" in text
    hostile = render_markdown({"x": poisoned(good, "a | b <script>\n# head")})
    assert "<script" not in hostile
    assert "\n# head" not in hostile


def test_csv_holds_the_blocks_in_order_and_no_formula(good: Json) -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv({"good": good}))))
    layers = list(dict.fromkeys(row["layer"] for row in rows))
    assert layers == ["Guarantee and unit", "Algorithm, trust and accounting", "Raw data", "Hazard"]
    assert {row["status"] for row in rows} <= {
        *("proved", "enforced", "tested", "declared", "violated", "unknown"),
    }
    assert [row["status"] for row in rows[:1]] == ["proved"]
    formula = changed(good, lambda p: p["fields"].update(legal_basis=["=cmd()"]))
    assert "'=cmd()" in render_csv({"good": formula})


def test_junit_fails_what_is_refuted_and_errs_on_what_is_open(good: Json, refuted: Json) -> None:
    def leave_open(predicate: Json) -> None:
        predicate["claims"][0].update(verdict="inconclusive", check="unproved")

    root = ElementTree.fromstring(  # noqa: S314  (our own text)
        render_junit({"good": good, "bad": refuted, "open": changed(good, leave_open)})
    )
    suites = list(root)
    assert [(s.get("tests"), s.get("failures"), s.get("errors")) for s in suites] == [
        ("3", "0", "0"),
        ("3", "1", "0"),
        ("3", "0", "1"),
    ]
    properties = {p.get("name"): p.get("value") for p in suites[0].iter("property")}
    assert properties["dp_mu_upper"] == good["predicate"]["claims"][1]["upper"]["mu"]
    (failure,) = root.iter("failure")
    assert failure.get("message") == "2 > <1>"


def test_sarif_points_at_the_mechanism(good: Json, refuted: Json) -> None:
    place = {"file": "mechanisms/a b.py", "line": 7}
    placed = changed(refuted, lambda p: p["mechanism"].update(place=place))
    (run,) = json.loads(render_sarif({"good": good, "bad": placed}))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    results = run["results"]
    assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in results)
    (error,) = [one for one in results if one["level"] == "error"]
    assert error["ruleId"] == "refuted-claim"
    physical = error["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "mechanisms/a%20b.py"
    assert physical["region"] == {"startLine": 7}


def test_no_attack_and_an_attack_without_power_are_two_findings(good: Json) -> None:
    def weaken(predicate: Json) -> None:
        for audit in predicate["audits"]:
            audit["strongest"] = {"measure": "gdp", "mu": "0.001"}

    rules = [
        {one.rule for one in findings(changed(good, change))}
        for change in (lambda p: None, weaken, lambda p: p.update(audits=[]))
    ]
    extra = {"powerless-attack", "no-attack"}
    assert [rule & extra for rule in rules] == [set(), {"powerless-attack"}, {"no-attack"}]
    pages = [
        render_html(changed(good, change))
        for change in (lambda p: None, weaken, lambda p: p.update(audits=[]))
    ]
    banners = [re.findall(r'<p class="attack \w+">(.*?)</p>', page)[0] for page in pages]
    assert len(set(banners)) == 3


def test_a_badge_says_its_word(good: Json, refuted: Json) -> None:
    assert "Certified under assumptions: ε\u00a0≤" in render_badge(good)
    badge = render_badge(refuted)
    assert "Refuted" in badge
    assert "≤" not in badge
    ElementTree.fromstring(badge)  # noqa: S314  (our own text)


def test_a_bill_of_materials_names_libraries_and_files_and_that_it_is_incomplete(
    good: Json,
) -> None:
    bom = json.loads(render_sbom(good))
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.5")
    libraries = {one["name"]: one["version"] for one in bom["components"] if "purl" in one}
    environment = good["predicate"]["environment"]
    assert libraries == {**environment["packages"], "dpaudit": environment["dpaudit"]}
    files = [one["name"] for one in bom["components"] if one["type"] == "file"]
    assert files == [item["name"] for item in good["predicate"]["mechanism"]["implementation"]]
    assert bom["compositions"][0]["aggregate"] == "incomplete"


def test_a_bill_of_materials_fits_the_schema_of_cyclonedx(good: Json) -> None:
    """By the validator that CycloneDX publishes, which ships the schema of its standard."""
    reason = "the schema needs cyclonedx-python-lib"
    validation = pytest.importorskip("cyclonedx.validation.json", reason=reason)
    from cyclonedx.schema import SchemaVersion

    validator = validation.JsonStrictValidator(SchemaVersion.V1_5)
    for certificate in (good, *measured_certificates().values()):
        text = render_sbom(certificate)
        assert validator.validate_str(text) is None
        for wrong in (
            text.replace("SHA-256", "SHA256"),
            text.replace('"type": "library"', '"type": "shelf"'),
        ):
            assert wrong == text or validator.validate_str(wrong) is not None


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_breaks_no_format(good: Json, text: str) -> None:
    hostile = {"x": poisoned(good, text)}
    ElementTree.fromstring(render_junit(hostile))  # noqa: S314
    ElementTree.fromstring(render_badge(hostile["x"]))  # noqa: S314
    json.loads(render_sarif(hostile))
    assert len(list(csv.reader(io.StringIO(render_csv(hostile))))) > 10


# --- the registry --------------------------------------------------------------------------------


def test_a_record_reaches_the_tier_whose_fields_are_stated(good: Json) -> None:
    record = registry_record(good)
    assert (record["tier"], record["status"]) == (2, "Draft")
    assert record["deployment"]["privacy_loss"]["privacy_unit"]
    assert record["deployment"]["basic"]["data_curators"] == ["Clinic"]
    third = registry_record(with_fields(**STATED, **REST))
    assert third["tier"] == 3
    assert third["deployment"]["administrative"]["registry_authors"] == REST["contact"]


def test_a_record_never_states_less_than_was_proved(good: Json) -> None:
    def claim(predicate: Json) -> None:
        upper = {"measure": "approx_dp", "epsilon": "0.1", "delta": "0.000001"}
        predicate["claims"][0].update(upper=upper)

    parameters = registry_record(changed(good, claim))["deployment"]["privacy_loss"][
        "privacy_parameters"
    ]
    from fractions import Fraction

    assert Fraction(parameters["epsilon"]) >= Fraction("0.1")
    assert Fraction(parameters["delta"]) >= Fraction("0.000001")


def test_a_record_names_what_is_missing_and_where_it_goes(good: Json) -> None:
    lacking = changed(good, lambda p: p["fields"].pop("region"))
    with pytest.raises(CertificateRejected, match=r"data_product_region \(region\).*dpaudit.toml"):
        registry_record(lacking)
    wrong = changed(good, lambda p: p["fields"].update(product_type=["Songs"]))
    with pytest.raises(CertificateRejected, match="basic/data_product_type"):
        registry_record(wrong)


def test_the_schema_refuses_what_the_registry_does() -> None:
    with pytest.raises(CertificateRejected, match="'deployment' is a required property"):
        validate_record({"url_slug": "a", "status": "Draft", "tier": 1})
    with pytest.raises(CertificateRejected, match="at tier"):
        validate_record({"url_slug": "a", "status": "Draft", "tier": 0, "deployment": {}})


# --- files ---------------------------------------------------------------------------------------


def test_broken_files_are_named_and_the_others_shown(good: Json, tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    (tmp_path / "other").mkdir()
    save(good, folder / "good.json")
    save(with_fields(**STATED, expires=["2020-01-01"]), folder / "old.json")
    save(good, folder / "again.json")
    save(with_fields(**STATED, contact=["me"]), tmp_path / "other" / "good.json")
    text = (folder / "good.json").read_text("utf-8")
    (folder / "cut.json").write_text(text[:-100], "utf-8")
    (folder / "twice.json").write_text(text.replace('{"_type"', '{"_type":"","_type"'), "utf-8")
    (folder / "deep.json").write_text("[" * 100_000, "utf-8")
    (folder / "foreign.json").write_text('{"bomFormat": "CycloneDX"}', "utf-8")
    huge = text.replace('"trials":', '"trials":1' + "0" * 5000)
    (folder / "huge.json").write_text(huge, "utf-8")
    names = ("good", "old", "again", "cut", "twice", "deep", "foreign", "huge", "none")
    paths = [folder / f"{name}.json" for name in names] + [tmp_path / "other" / "good.json"]
    found = render_files(paths, tmp_path / "out", [f for f in FORMATS if f not in ("pdf", "coq")])
    assert found.exit_code == 1
    faults = dict(zip([*names[1:], "other/good"], found.faults, strict=True))
    for (name, (line, _)), path in zip(faults.items(), paths[1:], strict=True):
        assert str(path) in line, name
        assert "\n" not in line
    assert "expired on 2020-01-01" in faults["old"][0]
    assert "the same certificate as" in faults["again"][0]
    assert "the same name as" in faults["other/good"][0]
    assert {path.name for path in found.files} == {
        *("good.html", "old.html", "index.html", "good.svg", "old.svg"),
        *("good.registry.yaml", "old.registry.yaml", "good.cdx.json", "old.cdx.json"),
        *("project.html", "report.md", "report.csv", "report.xml", "report.sarif"),
    }
    assert "It expired on January 1, 2020" in (tmp_path / "out" / "old.html").read_text("utf-8")


def test_one_page_for_a_project_holds_the_index_and_each_first_screen(
    good: Json, refuted: Json
) -> None:
    """A certificate that only measures is among them, under its own data."""
    measured = {
        "subject": [{"digest": {"sha256": "cd" * 32}}],
        "predicate": {
            "kind": "empirical",
            "issued": "2026-11-02T00:00:00Z",
            "target": {"training": "a model", "threat_model": "sees the final model"},
            "data": {"sha256": "ab" * 32, "records": 10},
            "study": {"units": 10, "models": 4},
            "confidence": {"level": "0.95"},
            "estimates": [],
            "claim": None,
            "best": "likelihood ratio",
            "lower_bounds": [
                {
                    "attack": "likelihood ratio",
                    "role": "shown",
                    "measure": "epsilon",
                    "value": "0.7",
                    "delta": "0.00001",
                }
            ],
            "findings": [{"words": "few models"}],
            "verdict": {"status": "empirical", "reason": "no claim"},
        },
    }
    page = render_project({"a.html": good, "b c.html": refuted, "m.html": measured})
    links = re.findall(r'<a href="([^"]*)"', page)
    assert set(links) == {"#report-a_2ehtml", "#report-b_20c_2ehtml", "#report-m_2ehtml"}
    anchors = re.findall(r'<section id="([^"]*)" class="report"', page)
    assert anchors == ["report-a_2ehtml", "report-b_20c_2ehtml", "report-m_2ehtml"]
    assert page.count("What it took on trust") == 2 + 1  # a verdict names the line too
    assert page.count("What nobody checked") == 1
    assert "No verdict" in page
    assert "Data with digest abababababab" in page
    assert page.index(">register<") > page.index("Data with digest")
    assert "few models" in page


# --- certificates that measure only --------------------------------------------------------------


def measured_certificates() -> dict[str, Json]:
    """A membership audit of each verdict: real ones, and one that is made refuted."""
    folder = Path(__file__).parents[3] / "reports" / "membership"
    found = {name: json.loads((folder / f"{name}.json").read_text("utf-8")) for name in MEASURED}
    refuted = copy.deepcopy(found["diff2_gd"])
    verdict = refuted["predicate"]["verdict"]
    verdict.update(status="refuted", reason="epsilon >= 3.4 was shown")
    refuted["predicate"]["findings"] = [{"name": "twice", "voids": True, "words": "rows twice"}]
    return found | {"refuted": refuted}


MEASURED = ("diff2_gd", "digits_logistic")


def test_every_format_tells_a_measurement_from_a_guarantee(good: Json) -> None:
    shown = {"good": good} | measured_certificates()
    suites = {one.get("name"): one for one in ElementTree.fromstring(render_junit(shown))}  # noqa: S314
    outcomes = {name: [one.tag for one in suite.iter()] for name, suite in suites.items()}
    assert {name for name, tags in outcomes.items() if "failure" in tags} == {"refuted"}
    assert {name for name, tags in outcomes.items() if "skipped" in tags} == set(MEASURED)
    properties = {one.get("name"): one.get("value") for one in suites["diff2_gd"].iter("property")}
    assert properties["dp_verdict"] == "inconclusive"
    assert "dp_epsilon_lower" in properties
    assert not [name for name in properties if str(name).endswith("_upper")]

    sarif = json.loads(render_sarif(shown))["runs"][0]["results"]
    rules = {(one["ruleId"], place(one)) for one in sarif if place(one) in outcomes}
    assert ("refuted-claim", "refuted") in rules
    assert ("void-audit", "refuted") in rules
    assert {rule for rule, name in rules if name in MEASURED} == {"measured-only"}

    rows = list(csv.DictReader(io.StringIO(render_csv(shown))))
    assert {row["status"] for row in rows if row["certificate"] in MEASURED} <= {
        *("unknown", "declared", "tested")
    }
    assert [row for row in rows if row["certificate"] == "refuted" and row["status"] == "violated"]

    text = render_markdown(shown)
    assert text.count("and no upper bound") == 3
    assert "none: it measures only" in text

    badges = {name: render_badge(one) for name, one in shown.items()}
    assert "Refuted: ε\u00a0≥" in badges["refuted"]
    assert "Inconclusive: ε\u00a0≥" in badges["diff2_gd"]
    assert "≤" not in "".join(badges[name] for name in MEASURED)
    with pytest.raises(CertificateRejected, match="holds no guarantee to be registered"):
        registry_record(shown["diff2_gd"])

    page = render_project({f"{name}.html": one for name, one in shown.items()}, spoken="de")
    assert page.count("und keine obere") == 3
    for language in ("de", "fr"):
        assert "promises nothing" not in render_markdown(shown, spoken=language)


def place(result: Json) -> str:
    return str(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_measurements_break_no_format(text: str) -> None:
    hostile = {"x": poisoned(measured_certificates()["refuted"], text)}
    hostile["x"]["predicate"]["kind"] = "empirical"
    ElementTree.fromstring(render_junit(hostile))  # noqa: S314
    ElementTree.fromstring(render_badge(hostile["x"]))  # noqa: S314
    json.loads(render_sarif(hostile))
    json.loads(render_sbom(hostile["x"]))
    assert "<script" not in render_markdown(hostile) + render_project(hostile)


def test_a_format_that_cannot_be_made_stops_no_other(good: Json, tmp_path: Path) -> None:
    """A measurement has no registry record; its page, badge and rows are made nevertheless."""
    source = Path(__file__).parents[3] / "reports" / "membership" / "diff2_gd.json"
    wanted = ("registry", "html", "badge", "sbom", "md")
    found = render_files([source], tmp_path, wanted)
    assert [path.name for path in found.files] == [
        *("diff2_gd.html", "diff2_gd.svg", "diff2_gd.cdx.json", "report.md")
    ]
    ((line, code),) = found.faults
    assert str(source) in line
    assert code == CertificateRejected.exit_code


def test_formats_and_languages_are_known_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="expected html, pdf"):
        render_files([tmp_path / "none.json"], tmp_path, ["docx"])
    with pytest.raises(InvalidParameter, match="expected one of en, de, fr"):
        render_files([tmp_path / "none.json"], tmp_path, spoken="xx")


def test_nobodys_clock_is_asked_where_nothing_expires(good: Json) -> None:
    assert render_html(good) == render_html(good)
