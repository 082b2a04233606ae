"""The example's report in a real browser: what it shows, what it loads, how it fits and prints."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main
from dpaudit.report import render_html, render_index, render_project
from dpaudit.report.pdf import unfolded

pytestmark = pytest.mark.browser

EXAMPLE = Path(__file__).parents[2] / "data" / "example_certificate.json"
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
LONGEST = "x" * 2_000
FIXED = {"_type", "predicateType", "status", "check", "verdict", "measure", "type", "sha256"}
FIXED |= {"adjacency", "model"}


def chromium(folder: Path, *arguments: str) -> str:
    """Run the browser once, without network names, and return what it prints."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "these tests need chromium on the path"
    profile = f"--user-data-dir={folder / 'profile'}"
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    command = [program, *QUIET, profile, offline, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return answer.stdout


@pytest.fixture(scope="module")
def certificate() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(EXAMPLE.read_text("utf-8"))
    return loaded


@pytest.fixture(scope="module")
def page(certificate: dict[str, Any]) -> str:
    return render_html(certificate)


@pytest.fixture(scope="module")
def dom(page: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("dom")
    return chromium(folder, "--dump-dom", written(folder, page))


def written(folder: Path, text: str) -> str:
    target = folder / "page.html"
    target.write_text(text, "utf-8")
    return target.as_uri()


def measured(folder: Path, page: str, width: int) -> tuple[int, int]:
    """The page's client and scroll width in a frame ``width`` pixels wide.

    The page itself may run no script; the frame's owner may, and shares its origin.
    """
    wrapper = f"""<!DOCTYPE html><body><iframe style="width:{width}px;height:600px;border:0"
    srcdoc="{html.escape(page)}"></iframe><p id="answer"></p><script>
    const frame = document.querySelector("iframe");
    frame.onload = () => {{
      const root = frame.contentDocument.documentElement;
      document.getElementById("answer").textContent = root.clientWidth + "/" + root.scrollWidth;
    }};
    </script></body>"""
    shown = chromium(folder, "--virtual-time-budget=5000", "--dump-dom", written(folder, wrapper))
    found = re.search(r'id="answer">(\d+)/(\d+)<', shown)
    assert found, "the frame was never measured"
    return int(found.group(1)), int(found.group(2))


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


def violations(folder: Path, page: str) -> list[str]:
    """The rules of WCAG 2.1 A and AA that axe finds broken; the page's own policy is lifted."""
    axe = files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    policy = r'<meta http-equiv="Content-Security-Policy"[^>]*>'
    script = """axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
    .then(found => { document.title = "axe " + JSON.stringify(found.violations.map(
      one => one.id + ": " + one.nodes.slice(0, 3).map(node => node.html).join(" | ")))});"""
    opened = re.sub(policy, "", page)
    assert opened != page
    tested = opened.replace("</body>", f"<script>{axe}</script><script>{script}</script></body>")
    shown = chromium(folder, "--virtual-time-budget=20000", "--dump-dom", written(folder, tested))
    found = re.search(r"<title>axe (.*?)</title>", shown, re.DOTALL)
    assert found, "axe gave no answer"
    return list(map(str, json.loads(html.unescape(found.group(1)))))


def dark(page: str) -> str:
    """The page as one sees it who prefers a dark scheme."""
    return page.replace("screen and (prefers-color-scheme: dark)", "screen")


@pytest.mark.first_case
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_meets_wcag_aa(page: str, tmp_path: Path, scheme: str) -> None:
    assert violations(tmp_path, dark(page) if scheme == "dark" else page) == []


@pytest.mark.quality
def test_the_index_and_a_german_page_meet_wcag_aa(
    certificate: dict[str, Any], tmp_path: Path
) -> None:
    assert violations(tmp_path, render_index({"diff2_gd.html": certificate})) == []
    assert violations(tmp_path, render_html(certificate, spoken="de")) == []
    assert violations(tmp_path, render_project({"diff2_gd.html": certificate})) == []


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_membership_page_meets_wcag_aa(checkout: Path, tmp_path: Path, scheme: str) -> None:
    page = (checkout / "reports" / "membership" / "digits_logistic.html").read_text("utf-8")
    assert violations(tmp_path, dark(page) if scheme == "dark" else page) == []


@pytest.mark.first_case
@pytest.mark.parametrize("width", [375, 1100])
def test_a_membership_page_never_scrolls_sideways(
    checkout: Path, tmp_path: Path, width: int
) -> None:
    page = (checkout / "reports" / "membership" / "digits_logistic.html").read_text("utf-8")
    client, scroll = measured(tmp_path, page, width)
    assert scroll <= client


@pytest.mark.quality
def test_axe_sees_pale_text_and_a_page_without_language(page: str, tmp_path: Path) -> None:
    pale = page.replace("--soft: #57606a", "--soft: #b0b0b0").replace('lang="en"', "")
    assert {one.split(":")[0] for one in violations(tmp_path, pale)} == {
        "color-contrast",
        "html-has-lang",
    }


@pytest.mark.first_case
@pytest.mark.parametrize("width", [375, 800, 1100])
def test_the_page_never_scrolls_sideways(page: str, tmp_path: Path, width: int) -> None:
    client, scroll = measured(tmp_path, page, width)
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
    certificate: dict[str, Any], tmp_path: Path, width: int
) -> None:
    attack = f"\"'></style><script>document.title='run'</script>\u202e{LONGEST}"
    hostile = poisoned(certificate, attack)
    hostile["predicate"]["claims"][1].update(stated=None, stated_text=LONGEST)
    hostile["predicate"]["claims"][2]["stated"]["mu"] = "0." + "7" * 2_000
    page = render_html(hostile)
    shown = chromium(tmp_path, "--dump-dom", written(tmp_path, page))
    assert "<title>run</title>" not in shown
    assert "script" not in Resources(shown).tags
    client, scroll = measured(tmp_path, page, width)
    assert scroll <= client


def test_the_measurement_sees_a_page_that_is_too_wide(page: str, tmp_path: Path) -> None:
    wide = page.replace("<main>", '<main><div style="width:900px">wide</div>')
    client, scroll = measured(tmp_path, wide, 480)
    assert scroll > client


def test_the_page_prints_on_a4(page: str, tmp_path: Path) -> None:
    """The first part alone, on two sheets; the PDF format has the evidence too."""
    for printed, sheets in ((page, range(1, 3)), (unfolded(page), range(4, 12))):
        target = tmp_path / "page.pdf"
        chromium(
            tmp_path,
            "--no-pdf-header-footer",
            f"--print-to-pdf={target}",
            written(tmp_path, printed),
        )
        boxes = re.findall(rb"/MediaBox \[0 0 ([0-9.]+) ([0-9.]+)\]", target.read_bytes())
        assert len(boxes) in sheets
        sizes = {(round(float(width)), round(float(height))) for width, height in boxes}
        assert sizes == {(595, 842)}


@pytest.mark.quality
@pytest.mark.parametrize("spoken", ["en", "de", "fr"])
@pytest.mark.parametrize(("width", "height"), [(400, 800), (1400, 900)])
def test_epsilon_and_delta_are_on_the_first_screen(
    certificate: dict[str, Any], tmp_path: Path, spoken: str, width: int, height: int
) -> None:
    """The headline ends above the fold, of a phone and of a desk, in every language."""
    page = render_html(certificate, spoken=spoken)
    client, scroll = measured(tmp_path, page, width)
    assert scroll <= client
    assert headline_ends(tmp_path, page, width) <= height
    later = page.replace("<main>", '<main><div style="height:1000px"></div>')
    assert headline_ends(tmp_path, later, width) > height


def headline_ends(folder: Path, page: str, width: int) -> float:
    """How many pixels below the page's top the line with epsilon and delta ends."""
    wrapper = f"""<!DOCTYPE html><body><iframe style="width:{width}px;height:600px;border:0"
    srcdoc="{html.escape(page)}"></iframe><p id="answer"></p><script>
    const frame = document.querySelector("iframe");
    frame.onload = () => {{
      const line = frame.contentDocument.querySelector(".headline");
      document.getElementById("answer").textContent = line.getBoundingClientRect().bottom;
    }};
    </script></body>"""
    shown = chromium(folder, "--virtual-time-budget=5000", "--dump-dom", written(folder, wrapper))
    found = re.search(r'id="answer">([0-9.]+)<', shown)
    assert found, "the frame was never measured"
    return float(found.group(1))


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
def test_the_index_fits_and_links(certificate: dict[str, Any], tmp_path: Path, width: int) -> None:
    index = render_index({"diff2_gd.html": certificate})
    client, scroll = measured(tmp_path, index, width)
    assert scroll <= client
    shown = chromium(tmp_path, "--dump-dom", written(tmp_path, index))
    assert Resources(shown).outside == ["./diff2_gd.html"] * 3
