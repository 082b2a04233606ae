"""The report says what the certificate says, nothing stronger, and survives what is in it."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dpaudit.errors import CertificateRejected
from dpaudit.report import render_html, render_index, summary_rows, view, words
from dpaudit.report.model import Page

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "tests" / "data" / "example_certificate.json"
Json = dict[str, Any]
VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use", "rect"}


@pytest.fixture
def example() -> Json:
    loaded: Json = json.loads(EXAMPLE.read_text("utf-8"))
    return loaded


class Outline(HTMLParser):
    """Tags, ids and visible text of a page; remembers tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.mismatched: list[str] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self.feed(page)
        self.close()
        self.mismatched += self._open
        self.text = " ".join(" ".join(self._texts).split())
        self.names = Counter(tag for tag, _ in self.tags)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self._open or self._open.pop() != tag):
            self.mismatched.append(tag)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self._texts.append(data)


def shown(certificate: Json) -> Outline:
    return Outline(render_html(certificate))


def test_the_page_is_one_well_formed_file_without_script_or_network(example: Json) -> None:
    page = render_html(example)
    outline = Outline(page)
    assert outline.mismatched == []
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(outline.names)
    assert "http:" not in page
    assert "https:" not in page
    assert not re.search(r"@import|url\((?!#)|\bon\w+\s*=", page)
    assert all("src" not in attributes for _, attributes in outline.tags)
    links = [attributes["href"] for _, attributes in outline.tags if "href" in attributes]
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {link for link in links if link} <= {f"#{id_}" for id_ in ids}


def test_the_page_is_accessible_by_structure(example: Json) -> None:
    outline = shown(example)
    names = outline.names
    assert names["h1"] == 1
    assert names["table"] == names["caption"] > 6
    headers = [attributes for tag, attributes in outline.tags if tag == "th"]
    assert {header.get("scope") for header in headers} == {"col", "row"}
    svgs = [attributes for tag, attributes in outline.tags if tag == "svg"]
    assert [svg["role"] for svg in svgs] == ["img"] * 3
    assert names["desc"] == 2
    assert dict(outline.tags)["html"] == {"lang": "en"}


def test_text_colours_reach_contrast_aa_on_both_backgrounds() -> None:
    style = (ROOT / "dpaudit/report/templates/style.css").read_text("utf-8")
    schemes = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", scheme))
        assert {"ink", "soft", "good", "qualified", "caution", "bad", "neutral"} <= set(colours)
        for name in set(colours) - {"line", "faint", "grid", "page"}:
            assert contrast(colours[name], colours["page"]) >= 4.5
            assert contrast(colours[name], colours["faint"]) >= 4.5


def contrast(first: str, second: str) -> float:
    """WCAG 2 contrast ratio of two sRGB colours."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_the_page_says_claim_bounds_confidence_and_condition(example: Json) -> None:
    text = shown(example).text
    for expected in (
        "Certified under assumptions",
        "on conditions that nothing here verifies",
        "ε = 3 at δ = 1e-5",
        "ε ≤ 2.34143 at δ = 1e-5",
        "ε ≥ 1.32387 at δ = 1e-5 95 % confidence",
        "conditional: ε ≥ 2.1638 at δ = 1e-5, only for the Gaussian family",
        "0.658572 below the claim (21.9 %)",
        "Balle and Wang (2018), Theorem 8",
        "7,789 false positives in 20,000",
        example["subject"][0]["digest"]["sha256"],
        "SHA-256 of the content; it matches",
        "unsigned",
        "61.4 %",
        example["predicate"]["reproduce"]["root_seed"],
        "must not be published",
    ):
        assert expected in text, expected


def test_sections_come_in_the_order_a_reader_needs(example: Json) -> None:
    anchors = [section.anchor for section in view.build(example).sections]
    first = "guarantee plain-words accuracy protected stated assumptions hazards audits run"
    then = "criteria checklist trust derivation reproduce appendix"
    assert anchors == [*first.split(), *then.split()]


@pytest.mark.parametrize("status", list(words.VERDICTS))
def test_no_verdict_is_called_passed_safe_or_anonymous(example: Json, status: str) -> None:
    example["predicate"]["verdict"]["status"] = status
    text = shown(example).text
    assert not re.search(r"\b(passed|anonymous|anonymised|safe|guaranteed)\b", text, re.IGNORECASE)
    assert f"Verdict {words.VERDICTS[status][0]}" in text
    undecided = "not a pass" in text or "not judged" in text
    assert undecided == (status in ("inconclusive", "unconfirmed", "unsupported"))
    qualified = "are not established for the program" in text
    assert qualified == (not status.startswith("certified"))


def test_an_upper_bound_above_a_claim_refutes_nothing(example: Json) -> None:
    claim = example["predicate"]["claims"][0]
    claim.update(check="unproved", verdict="inconclusive", attained=False)
    example["predicate"]["derivation"]["steps"][claim["step"]]["attained"] = False
    claim["upper"]["epsilon"] = "3.4129"
    text = shown(example).text
    assert "The accounted bound is 0.4129 above the claim" in text
    assert "an upper bound above a claim refutes nothing" in text
    assert "not shown to be attained" in text


def test_a_bound_above_what_is_reached_is_not_called_attained(example: Json) -> None:
    claim = example["predicate"]["claims"][0]
    example["predicate"]["claims"] = [claim]
    step = example["predicate"]["derivation"]["steps"][claim["step"]]
    assert step["attained"]
    assert "attained: some data and queries of the declared kind reach it" in shown(example).text
    step["witness"]["epsilon_lower"] = "0.36"
    text = shown(example).text
    assert "some data and queries of the declared kind reach 0.36" in text
    assert "attained: some data and queries of the declared kind reach it" not in text


def test_a_certificate_that_contradicts_itself_is_called_so(example: Json) -> None:
    example["predicate"]["assumptions"][0]["status"] = "violated"
    example["predicate"]["claims"][1]["check"] = "unproved"
    assert len(view.build(example).banner.warnings) == 3
    text = shown(example).text
    assert "Do not rely on this certificate" in text
    assert text.count("The digest in the certificate is not that of its content.") == 2


def test_an_audit_too_weak_to_refute_says_so(example: Json) -> None:
    example["predicate"]["audits"][0]["strongest"]["mu"] = "0.5"
    assert "could not have refuted the claim μ = 0.5773502692" in shown(example).text


EMPTIED: dict[str, Any] = {"claims": [], "assumptions": [], "audits": [], "conformance": []}
EMPTIED |= {"run": None, "in_plain_words": None}


def test_caveats_stand_on_the_page_and_in_the_index_without_a_run(example: Json) -> None:
    example["predicate"].update(run=None, caveats=["six of 17 phases", "no user twice"])
    outline = shown(example)
    index = render_index({"a.html": example})
    for caveat in example["predicate"]["caveats"]:
        assert caveat in outline.text
        assert caveat in index


@pytest.mark.first_case
@pytest.mark.parametrize("names", [[name] for name in EMPTIED] + [list(EMPTIED)])
def test_missing_parts_are_left_out_or_said_to_be_missing(example: Json, names: list[str]) -> None:
    inner = example["predicate"]
    inner.update({name: EMPTIED[name] for name in names})
    inner["derivation"]["upper_bounds"] = []
    inner["derivation"]["steps"] = []
    inner["environment"]["git"] = None
    outline = shown(example)
    assert outline.mismatched == []
    assert "figure 1 is left out" in outline.text
    assert "No derivation is part of this certificate" in outline.text
    assert "Source revision not recorded" in outline.text


def test_infinity_and_symbolic_claims_are_shown(example: Json) -> None:
    claims = example["predicate"]["claims"]
    claims[0]["upper"]["epsilon"] = "inf"
    claims[1].update(stated=None, upper=None, step=None, check="unsupported")
    for bound in example["predicate"]["derivation"]["upper_bounds"]:
        if bound["measure"] == "profile":
            bound["curve"].append(["inf", "0"])
    text = shown(example).text
    assert "ε ≤ ∞ at δ = 1e-5" in text
    assert "no upper bound was derived" in text
    assert "compared symbolically" in text


HOSTILE = (
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "</style></svg>]]>--><b>",
    "line\nbreak\ttab",
    "\u202eright to left\u202c \u2066isolate \u05e9\u05dc\u05d5\u05dd",
    "\x00\x08\x1b[31m\ud800",
    "{{ 7 * 7 }}{% raw %}",
    "x" * 10_000,
)
FIXED = {"_type", "predicateType", "status", "check", "verdict", "measure", "type", "sha256"}
FIXED |= {"adjacency", "model", "issued"}


def poisoned(value: Any, text: str, key: str = "") -> Any:
    """A copy in which every free text is ``text``; numbers and fixed words stay."""
    if isinstance(value, dict):
        return {name: poisoned(item, text, name) for name, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text, key) for item in value]
    number = isinstance(value, str) and re.fullmatch(r"-?[0-9][0-9.e-]*|inf", value)
    return value if not isinstance(value, str) or number or key in FIXED else text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_text(example: Json, text: str) -> None:
    plain, page = render_html(example), render_html(poisoned(example, text))
    outline = Outline(page)
    assert outline.mismatched == []
    assert set(outline.names) <= set(Outline(plain).names)
    assert not any(name.startswith("on") for _, found in outline.tags for name in found)
    assert not re.search("[\x00-\x08\x0e-\x1f\u202a-\u202e\ud800-\udfff]", page)
    page.encode("utf-8")
    assert Outline(render_index({text: poisoned(example, text)})).mismatched == []
    assert len(view.build(poisoned(example, text)).title) <= 160


@pytest.mark.parametrize("broken", [{}, {"predicate": {}}, {"predicate": None, "subject": []}])
def test_what_is_no_certificate_is_refused_with_a_way_out(broken: Json) -> None:
    with pytest.raises(CertificateRejected, match="dpaudit verify"):
        render_html(broken)
    with pytest.raises(CertificateRejected, match="dpaudit verify"):
        summary_rows([broken])


@pytest.mark.parametrize("text", ["", "three", "1,5", "0x10", "1e", None, 3.0, "1e9" + "9" * 30])
def test_a_bound_that_is_no_decimal_string_is_refused(example: Json, text: Any) -> None:
    example["predicate"]["claims"][0]["upper"]["epsilon"] = text
    with pytest.raises(CertificateRejected):
        render_html(example)


def test_a_gaussian_curve_needs_a_bound_of_that_family(example: Json) -> None:
    assert "attacked (conditional)" in render_html(example)
    assert shown(example).text.count("conditional: ε ≥ 2.1638 at δ = 1e-5") == 1
    example["predicate"]["claims"][0]["lower_conditional"] = None
    assert not re.search(r"\bconditional\b", shown(example).text)


def test_the_derivation_shows_every_step_even_if_its_premises_go_round(example: Json) -> None:
    steps = example["predicate"]["derivation"]["steps"]
    steps[0]["premises"] = [5]
    steps[1]["premises"] = [0, 0, 99]
    text = shown(example).text
    assert all(f"Step {step['id']} " in text for step in steps)
    assert "step 99 is missing" in text


@pytest.mark.quality
def test_a_deep_derivation_is_no_problem(example: Json) -> None:
    steps = example["predicate"]["derivation"]["steps"]
    renyi = {"measure": "rdp", "curve": [["2", "0.1"], ["3", "0.2"]]}
    first = dict(steps[0], conclusion=renyi)
    deep = [dict(first, id=i, premises=[i - 1] if i else []) for i in range(3000)]
    example["predicate"]["derivation"]["steps"] = deep
    assert "Step 2999 Rényi differential privacy, 2 points" in shown(example).text


@pytest.mark.quality
def test_two_processes_write_the_same_bytes() -> None:
    code = (
        "import hashlib, json, pathlib, sys; from dpaudit.report import render_html;"
        "page = render_html(json.loads(pathlib.Path(sys.argv[1]).read_text('utf-8')));"
        "print(hashlib.sha256(page.encode()).hexdigest())"
    )
    digests = {child(code, PYTHONHASHSEED=seed) for seed in ("1", "2")}
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 64


def test_importing_the_report_imports_nothing_heavy() -> None:
    heavy = "{'matplotlib', 'jinja2', 'scipy', 'numpy'}"
    code = f"import sys, dpaudit.report; print(*({heavy} & set(sys.modules)))"
    assert child(code).strip() == ""


def child(code: str, **environment: str) -> str:
    command, settings = [sys.executable, "-c", code, str(EXAMPLE)], os.environ | environment
    return subprocess.check_output(command, cwd=ROOT, env=settings, text=True)


@pytest.mark.quality
def test_a_users_plot_settings_change_nothing(example: Json, tmp_path: Path) -> None:
    settings = tmp_path / "matplotlibrc"
    settings.write_text("font.size: 30\naxes.facecolor: red\nsvg.fonttype: path\n")
    code = (
        "import json, sys; from dpaudit.report import render_html; "
        "sys.stdout.write(render_html(json.load(open(sys.argv[1]))))"
    )
    assert child(code, MATPLOTLIBRC=str(settings)) == render_html(example)


def test_a_private_number_of_records_is_not_shown(example: Json) -> None:
    example["predicate"]["run"]["records"] = None
    assert "private under this adjacency" in shown(example).text


def test_summary_rows_give_one_row_a_claim(example: Json) -> None:
    first, second, _ = summary_rows([example])
    assert first.name == "diff2_gd"
    assert first.claim.replace("\u00a0", " ") == "ε = 3 at δ = 1e-5"
    assert first.accounted.replace("\u00a0", " ") == "ε ≤ 2.34143 at δ = 1e-5"
    assert first.attacked.replace("\u00a0", " ") == "ε ≥ 1.32387 at δ = 1e-5"
    assert first.verdict == second.verdict == "Certified under assumptions"
    assert second.attacked == "none"
    example["predicate"]["claims"] = []
    (row,) = summary_rows([example])
    assert (row.claim, row.verdict) == ("none stated", "Certified under assumptions")


def test_the_index_links_pages_by_file_name(example: Json) -> None:
    other = copy.deepcopy(example)
    other["predicate"]["mechanism"]["title"] = "Another & <algorithm>"
    outline = Outline(render_index({"diff2_gd.html": example, 'a b".html': other}))
    assert outline.mismatched == []
    links = [found["href"] for tag, found in outline.tags if tag == "a"]
    assert links == ["./diff2_gd.html"] * 3 + ["./a%20b%22.html"] * 3
    assert "2 reports, 6 claims" in outline.text
    assert "Another & <algorithm>" in outline.text
    assert "No certificate was given" in render_index({})


def test_a_step_of_dominating_pairs_has_words() -> None:
    assert words.guarantee({"measure": "pairs"}, "upper") == "dominating pair of distributions"
    curve = {"measure": "tradeoff", "curve": [["0", "1"], ["1", "0"]]}
    assert words.guarantee(curve, "upper") == "trade-off curve, 2 points"


def test_what_was_not_examined_or_only_by_a_stand_in_is_said_first(example: Json) -> None:
    inner = example["predicate"]
    reached = {"label": "mean", "place": "a.py:3", "query": "ClippedMean", "clip_share": "0.5"}
    inner["examination"] = {
        "not_examined": "",
        "records": [10, 2],
        "reached": [reached | {"displacement_share": "1.25"}],
    }
    for audit in inner["audits"]:
        audit.update(about="stand_in", differs=["the loss"])
    page = view.build(example)
    assert page.banner.attack.startswith("A stand-in was attacked")
    assert "the loss" in page.banner.attack
    assert not any("runs of the program" in line for line in effort(page))
    assert any("runs of a stand-in" in line for line in effort(page))
    rows = Outline(render_html(example)).text
    assert "mean ClippedMean 0.5 1.25 a.py:3" in rows
    inner["caveats"].insert(0, "not examined: it needs a records_like hook")
    page = view.build(example)
    assert page.banner.attack.startswith("Not examined: ")
    assert page.banner.attack_tone == "caution"


def effort(page: Page) -> tuple[str, ...]:
    return next(line.texts for line in page.glance.lines if line.anchor == "audits")


@pytest.mark.quality
def test_the_first_screen_never_shows_an_attack_as_stronger_than_it_was(example: Json) -> None:
    """Its share is a lower bound, of the program's own attack: above no guess that is bounded."""
    inner = example["predicate"]
    own = inner["audits"][0] | {"trials": 700, "about": "program"}
    own["roc"] = [["0.30", "0.45", "0.33", "0.48"], ["0.5", "0.4", "0.53", "0.43"]]
    other = own | {"about": "stand_in", "differs": ["the loss"], "trials": 20_000}
    other["roc"] = [["0.1", "0.1", "0.12", "0.12"]]
    inner["audits"] = [own, other]
    inner["caveats"] = [words.STAND_IN + "the loss is Worst; its bound stands apart", "one row"]
    page = view.build(example)
    mine, stand_in = [line for line in effort(page) if "runs of" in line]
    assert mine.startswith("700 runs of the program")
    assert "at least 59.5" in mine
    assert "88" in stand_in
    assert "stand-in" in stand_in
    trusted = next(line.texts for line in page.glance.lines if line.anchor == "assumptions")
    assert trusted[-1] == "One row"
    assert not any(text.startswith("An audit attacks a stand-in") for text in trusted)
    own["roc"] = [["0.5", "0.48", "0.53", "0.51"]]
    assert "coin toss" in effort(view.build(example))[1]


def test_a_line_of_the_first_screen_starts_as_a_sentence() -> None:
    texts = ["one row", "DP-GD", "iPhone rows", "hold-out rows", "", "64 rows", "x_1 is"]
    assert [words.sentence(text) for text in texts] == [
        *("One row", "DP-GD", "iPhone rows", "Hold-out rows", "", "64 rows", "x_1 is")
    ]


FORMULA = re.compile(r"[0-9a-f]{16}|\w_\w|[<>=≤≥]|\b(mu|rho|epsilon|delta)\b|[εδμρ]")


def kept() -> list[Path]:
    return sorted((ROOT / "reports").glob("*.json"))


@pytest.mark.first_case
@pytest.mark.parametrize("path", kept(), ids=lambda path: path.stem)
def test_the_first_screen_has_no_id_and_no_formula_and_links_to_evidence(path: Path) -> None:
    """But for the title, which its author gives; every statement names a section of the page."""
    certificate = json.loads(path.read_text("utf-8"))
    page = view.build(certificate)
    texts = [page.banner.sentence, page.banner.attack]
    texts += [text for line in page.glance.lines for text in line.texts]
    texts.remove(certificate["predicate"]["scope"]["title"])
    assert [text for text in texts if FORMULA.search(text)] == []
    sections = {section.anchor for section in page.sections}
    assert {line.anchor for line in page.glance.lines} <= sections
    outline = Outline(render_html(certificate))
    linked = {found["href"] for tag, found in outline.tags if tag == "a"}
    assert {f"#{line.anchor}" for line in page.glance.lines} <= linked
    assert {f"#{found['id']}" for _, found in outline.tags if found.get("id")} >= linked
