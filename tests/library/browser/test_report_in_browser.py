"""The example's report in a real browser: what it shows, what it loads, how it fits and prints."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main
from dpaudit.report import render_html, render_index, render_project
from dpaudit.report.pdf import unfolded
from tests.support.chromium import Chromium

pytestmark = pytest.mark.browser

EXAMPLE = Path(__file__).parents[2] / "data" / "example_certificate.json"
LONGEST = "x" * 2_000
FIXED = {"_type", "predicateType", "status", "check", "verdict", "measure", "type", "sha256"}
FIXED |= {"adjacency", "model"}


@pytest.fixture(scope="module")
def certificate() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(EXAMPLE.read_text("utf-8"))
    return loaded


@pytest.fixture(scope="module")
def page(certificate: dict[str, Any]) -> str:
    return render_html(certificate)


@pytest.fixture(scope="module")
def dom(browser: Chromium, page: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return shown(browser, tmp_path_factory.mktemp("dom"), page)


def opened(browser: Chromium, folder: Path, page: str) -> Chromium:
    """The browser, with the page open; its own scripts, if it may run any, have run."""
    target = folder / "page.html"
    target.write_text(page, "utf-8")
    browser.open(target.as_uri())
    return browser


def shown(browser: Chromium, folder: Path, page: str) -> str:
    """The document that the browser has made of a page."""
    made: str = opened(browser, folder, page).value("document.documentElement.outerHTML")
    return made


def in_frame(browser: Chromium, folder: Path, page: str, width: int, expression: str) -> Any:
    """The value of an expression in which ``page`` is the document in a frame of this width."""
    wrapper = f"""<!DOCTYPE html><body><iframe style="width:{width}px;height:600px;border:0"
    srcdoc="{html.escape(page)}"></iframe></body>"""
    opened(browser, folder, wrapper)
    document = "const page = document.querySelector('iframe').contentDocument"
    return browser.value(f"{{{document}; {expression}}}")


def measured(browser: Chromium, folder: Path, page: str, width: int) -> tuple[int, int]:
    """The page's client and scroll width in a frame ``width`` pixels wide."""
    root = "page.documentElement"
    client, scroll = in_frame(
        browser, folder, page, width, f"[{root}.clientWidth, {root}.scrollWidth]"
    )
    return client, scroll


class Resources(HTMLParser):
    """Every tag, and every address outside the page that an attribute names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data", "action") and value:
                self.outside += [] if value.startswith("#") else [value]


def test_the_browser_shows_verdict_tables_and_figures(dom: str) -> None:
    text = " ".join(re.sub(r"<[^>]+>", " ", dom).split())
    assert "Verdict Certified under assumptions" in text
    assert "Questions of a reader, answered What was published" in text
    for caption in (
        "Claims, accounted upper bounds and attacked lower bounds",
        "Noise on each released number",
        "Blocks of the guarantee after NIST SP 800-226, and how far each is secured",
        "Ways in which such a guarantee is known to fail",
        "Audits at a glance",
        "WP216 criteria and the bounds that follow",
    ):
        assert f"<caption>{caption}</caption>" in dom
    assert dom.count("<svg ") == 3
    assert dom.count("<figcaption>") == 2


def test_the_browser_finds_no_script_and_nothing_to_load(dom: str) -> None:
    resources = Resources(dom)
    assert {"table", "svg", "section"} <= set(resources.tags)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(resources.tags)
    assert resources.outside == []
    assert "http" not in re.sub(r'http-equiv="Content-Security-Policy"', "", dom)


def violations(browser: Chromium, folder: Path, page: str) -> list[str]:
    """The rules of WCAG 2.1 A and AA that axe finds broken."""
    opened(browser, folder, page)
    return browser.violations()


def dark(page: str) -> str:
    """The page as one sees it who prefers a dark scheme."""
    return page.replace("screen and (prefers-color-scheme: dark)", "screen")


@pytest.mark.first_case
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_meets_wcag_aa(browser: Chromium, page: str, tmp_path: Path, scheme: str) -> None:
    assert violations(browser, tmp_path, dark(page) if scheme == "dark" else page) == []


@pytest.mark.quality
def test_the_index_and_a_german_page_meet_wcag_aa(
    browser: Chromium, certificate: dict[str, Any], tmp_path: Path
) -> None:
    assert violations(browser, tmp_path, render_index({"diff2_gd.html": certificate})) == []
    assert violations(browser, tmp_path, render_html(certificate, spoken="de")) == []
    assert violations(browser, tmp_path, render_project({"diff2_gd.html": certificate})) == []


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_membership_page_meets_wcag_aa(
    browser: Chromium, checkout: Path, tmp_path: Path, scheme: str
) -> None:
    page = (checkout / "reports" / "membership" / "digits_logistic.html").read_text("utf-8")
    assert violations(browser, tmp_path, dark(page) if scheme == "dark" else page) == []


@pytest.mark.first_case
@pytest.mark.parametrize("width", [375, 1100])
def test_a_membership_page_never_scrolls_sideways(
    browser: Chromium, checkout: Path, tmp_path: Path, width: int
) -> None:
    page = (checkout / "reports" / "membership" / "digits_logistic.html").read_text("utf-8")
    client, scroll = measured(browser, tmp_path, page, width)
    assert scroll <= client


@pytest.mark.quality
def test_axe_sees_pale_text_and_a_page_without_language(
    browser: Chromium, page: str, tmp_path: Path
) -> None:
    pale = page.replace("--soft: #57606a", "--soft: #b0b0b0").replace('lang="en"', "")
    assert {one.split(":")[0] for one in violations(browser, tmp_path, pale)} == {
        "color-contrast",
        "html-has-lang",
    }


@pytest.mark.first_case
@pytest.mark.parametrize("width", [375, 800, 1100])
def test_the_page_never_scrolls_sideways(
    browser: Chromium, page: str, tmp_path: Path, width: int
) -> None:
    client, scroll = measured(browser, tmp_path, page, width)
    assert width - 20 <= client <= width
    assert scroll <= client


def poisoned(value: Any, text: str, key: str = "") -> Any:
    """A copy in which every free text is ``text``; numbers and fixed words stay."""
    if isinstance(value, dict):
        return {name: poisoned(item, text, name) for name, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text, key) for item in value]
    number = isinstance(value, str) and re.fullmatch(r"-?[0-9][0-9.e-]*|inf", value)
    return value if not isinstance(value, str) or number or key in FIXED else text


@pytest.mark.first_case
@pytest.mark.parametrize("width", [480, 1100])
def test_a_hostile_certificate_runs_nothing_and_fits(
    browser: Chromium, certificate: dict[str, Any], tmp_path: Path, width: int
) -> None:
    attack = f"\"'></style><script>document.title='run'</script>\u202e{LONGEST}"
    hostile = poisoned(certificate, attack)
    hostile["predicate"]["claims"][1].update(stated=None, stated_text=LONGEST)
    hostile["predicate"]["claims"][2]["stated"]["mu"] = "0." + "7" * 2_000
    page = render_html(hostile)
    made = shown(browser, tmp_path, page)
    assert "<title>run</title>" not in made
    assert "script" not in Resources(made).tags
    client, scroll = measured(browser, tmp_path, page, width)
    assert scroll <= client


def test_the_measurement_sees_a_page_that_is_too_wide(
    browser: Chromium, page: str, tmp_path: Path
) -> None:
    wide = page.replace("<main>", '<main><div style="width:900px">wide</div>')
    client, scroll = measured(browser, tmp_path, wide, 480)
    assert scroll > client


def test_the_page_prints_on_a4(browser: Chromium, page: str, tmp_path: Path) -> None:
    """The first part alone, on two sheets; the PDF format has the evidence too."""
    for printed, sheets in ((page, range(1, 3)), (unfolded(page), range(4, 12))):
        paper = opened(browser, tmp_path, printed).pdf()
        boxes = re.findall(rb"/MediaBox \[0 0 ([0-9.]+) ([0-9.]+)\]", paper)
        assert len(boxes) in sheets
        sizes = {(round(float(width)), round(float(height))) for width, height in boxes}
        assert sizes == {(595, 842)}


@pytest.mark.quality
@pytest.mark.parametrize("spoken", ["en", "de", "fr"])
@pytest.mark.parametrize(("width", "height"), [(400, 800), (1400, 900)])
def test_epsilon_and_delta_are_on_the_first_screen(
    browser: Chromium,
    certificate: dict[str, Any],
    tmp_path: Path,
    spoken: str,
    width: int,
    height: int,
) -> None:
    """The headline ends above the fold, of a phone and of a desk, in every language."""
    page = render_html(certificate, spoken=spoken)
    client, scroll = measured(browser, tmp_path, page, width)
    assert scroll <= client
    assert headline_ends(browser, tmp_path, page, width) <= height
    later = page.replace("<main>", '<main><div style="height:1000px"></div>')
    assert headline_ends(browser, tmp_path, later, width) > height


def headline_ends(browser: Chromium, folder: Path, page: str, width: int) -> float:
    """How many pixels below the page's top the line with epsilon and delta ends."""
    line = "page.querySelector('.headline').getBoundingClientRect().bottom"
    return float(in_frame(browser, folder, page, width, line))


@pytest.mark.quality
def test_the_report_command_prints_a_membership_audit(checkout: Path, tmp_path: Path) -> None:
    source = checkout / "reports" / "membership" / "digits_network.json"
    found = CliRunner().invoke(
        main, ["report", str(source), "--format", "pdf", "--out", str(tmp_path / "out")]
    )
    assert found.exit_code == 0, found.output
    printed = (tmp_path / "out" / "digits_network.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert b"/Title (No verdict: network: 40 epochs of batches of 32 at rate 0.5)" in printed
    boxes = re.findall(rb"/MediaBox \[0 0 ([0-9.]+) ([0-9.]+)\]", printed)
    assert 3 <= len(boxes) <= 8
    assert {(round(float(width)), round(float(height))) for width, height in boxes} == {(595, 842)}


@pytest.mark.quality
@pytest.mark.parametrize("width", [480, 1100])
def test_the_index_fits_and_links(
    browser: Chromium, certificate: dict[str, Any], tmp_path: Path, width: int
) -> None:
    index = render_index({"diff2_gd.html": certificate})
    client, scroll = measured(browser, tmp_path, index, width)
    assert scroll <= client
    made = shown(browser, tmp_path, index)
    assert Resources(made).outside == ["./diff2_gd.html"] * 3
