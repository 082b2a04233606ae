"""The checker in a browser's engine: verdicts equal to native ones, in Node and in Chromium."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpaudit.certificate.rendering import render_files
from dpaudit.check.rows import verify_file
from dpaudit.cli.main import main
from dpaudit.exact.wire import digest
from dpaudit.report import verifier
from dpaudit.sign.envelope import sign
from dpaudit.sign.keys import make_keys, private_key
from tests.support.altered import altered_files
from tests.support.chromium import Chromium
from tests.support.engine import Engine
from tests.support.verify_page import bad_files, differing, hostile_files, pressed, ready, shown

ROOT = Path(__file__).parents[3]
REPORTS = ROOT / "reports"
SMALL = REPORTS / "dp_gd.json"
LARGEST_PAGE = 25_000_000  # bytes


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return verifier.write_verifier(tmp_path_factory.mktemp("page"))
    except verifier.NoRuntime as error:
        pytest.skip(f"the browser's Python is not here: {error}")


@pytest.fixture(scope="session")
def engine(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    assert page.exists()
    with Engine(tmp_path_factory.mktemp("engine")) as made:
        yield made


@pytest.mark.quality
def test_reports_and_altered_ones_are_judged_in_32_bits_as_natively(
    engine: Engine, tmp_path: Path
) -> None:
    reports = [SMALL, REPORTS / "membership" / "rand_tree.json"]
    files = [*reports, *altered_files([SMALL], tmp_path, 8)]
    assert not list(engine.differing(files))


def test_a_page_without_its_runtime_names_the_file_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    made = CliRunner().invoke(main, ["report", "--verifier", str(tmp_path / "out")])
    assert made.exit_code != 0
    text = f"{made.output}{made.exception}"
    assert verifier.RUNTIME in text
    assert verifier.SHA256[verifier.RUNTIME] in text


def test_a_runtime_of_another_digest_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    verifier.kept().mkdir(parents=True)
    (verifier.kept() / verifier.RUNTIME).write_bytes(b"another")
    with pytest.raises(verifier.NoRuntime, match="not the pinned file"):
        verifier.runtime()


@pytest.fixture(scope="module")
def browser(browser: Chromium, page: Path) -> Chromium:
    """The browser, with the page open."""
    ready(browser, page)
    return browser


def test_the_command_refuses_what_the_page_refuses_and_judges_the_rest(tmp_path: Path) -> None:
    """Files of newer formats, of other encodings and of 100 MB, beside one that verifies."""
    files = [*bad_files(SMALL, tmp_path), SMALL]
    ran = CliRunner().invoke(main, ["verify", "--json", *map(str, files)])
    rows = {Path(row["file"]).name: row for row in json.loads(ran.stdout)}
    assert ran.exit_code == 10  # files that are no certificates
    assert [rows[f"{name}.json"]["verified"] for name in ("newer", "wide", "huge")] == [False] * 3
    assert "format 9, which this dpaudit does not know" in rows["newer.json"]["reason"]
    assert "'utf-8' codec" in rows["wide.json"]["reason"]
    assert "larger than" in rows["huge.json"]["reason"]
    assert rows[SMALL.name]["verified"]


@pytest.mark.quality
def test_a_route_without_an_export_is_named_by_the_command(tmp_path: Path) -> None:
    certificate = str(REPORTS / "diff2_bvr_local_sgd.json")
    ran = CliRunner().invoke(
        main, ["report", certificate, "--format", "coq", "--out", str(tmp_path)]
    )
    assert ran.exit_code == 4
    assert "SampledWithoutReplacement: no Coq export yet; it needs" in ran.output


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("report", [SMALL, REPORTS / "membership" / "rand_tree.json"])
def test_a_report_beside_the_page_links_to_it(report: Path, tmp_path: Path) -> None:
    """One without the page beside it says how to write it."""
    for place in ("without", "with"):
        folder = tmp_path / place
        folder.mkdir()
        if place == "with":
            (folder / verifier.PAGE).touch()
        render_files([report], folder)
        page = (folder / f"{report.stem}.html").read_text("utf-8")
        assert (f'href="{verifier.PAGE}"' in page) == (place == "with")
        assert ("dpaudit report --verifier" in page) == (place == "without")


@pytest.mark.browser
def test_the_page_verifies_offline_and_survives_hostile_files(
    browser: Chromium, page: Path, tmp_path: Path
) -> None:
    assert page.stat().st_size <= LARGEST_PAGE
    secret, public = make_keys(tmp_path / "signer.pem")
    certificate = json.loads(SMALL.read_text("utf-8"))
    envelope = tmp_path / f"{SMALL.name}.dsse"
    signed = sign(certificate, private_key(secret))
    envelope.write_text(json.dumps(signed), "utf-8")
    (first,) = shown(browser, SMALL, envelope, public)
    assert first["verdict"] == certificate["predicate"]["verdict"]["status"]
    assert "Signed by the key signer.pub" in first["text"]
    assert "Taken on trust" in first["text"]
    drawn = browser.value("document.querySelector('figure desc').textContent")
    assert "claimed: epsilon 3, delta 0.00001" in drawn.replace("1e-05", "0.00001")

    signature = bytearray(base64.b64decode(signed["signatures"][0]["sig"]))
    signature[0] ^= 1
    signed["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    envelope.write_text(json.dumps(signed), "utf-8")
    newer, wide, huge = bad_files(SMALL, tmp_path)
    sections = shown(browser, newer, wide, huge, SMALL, envelope, public)
    by_name = {one["file"]: one for one in sections}
    assert [by_name[f"{n}.json"]["verified"] for n in ("newer", "wide", "huge")] == ["false"] * 3
    assert "format 9" in by_name["newer.json"]["text"]
    assert by_name[SMALL.name]["verified"] == "true"
    assert "A signature by no key that you gave" in by_name[SMALL.name]["text"]

    (own,) = shown(browser, SMALL, envelope)
    assert "not checked; add the signer's .pub file" in own["text"]
    other = sign(certificate | {"subject": certificate["subject"][:1]}, private_key(secret))
    envelope.write_text(json.dumps(other), "utf-8")
    (others,) = shown(browser, SMALL, envelope, public)
    assert "The signatures are of another certificate" in others["text"]


def of_files(folder: Path, files: dict[str, bytes]) -> Path:
    """A certificate whose implementation are these files."""
    certificate = json.loads(SMALL.read_text("utf-8"))
    rows = [
        {"digest": {"sha256": hashlib.sha256(content).hexdigest()}, "name": name}
        for name, content in files.items()
    ]
    predicate = certificate["predicate"]
    predicate["mechanism"]["implementation"] = rows
    whole = {"digest": {"sha256": digest(predicate)}, "name": "predicate"}
    path = folder / "of_files.json"
    path.write_text(json.dumps(certificate | {"subject": [whole, *rows]}), "utf-8")
    return path


@pytest.mark.browser
def test_published_files_are_compared_by_their_digests(browser: Chromium, tmp_path: Path) -> None:
    """The same file, an altered one and none; a published JSON file is no second certificate."""
    certified = {f"out/{name}": name.encode() for name in ("same.csv", "changed.json", "none.csv")}
    certificate = of_files(tmp_path, certified)
    same, changed = tmp_path / "same.csv", tmp_path / "changed.json"
    same.write_bytes(certified["out/same.csv"])
    changed.write_bytes(certified["out/changed.json"] + b" ")
    (section,) = shown(browser, certificate, same, changed)
    assert section["verified"] == "true"
    assert "out/same.csv: as certified" in section["text"]
    assert "out/changed.json: not the certified file (another SHA-256)" in section["text"]
    assert "out/none.csv: not given" in section["text"]
    assert browser.value("document.getElementById('state').textContent") == "1 checked."
    changed.write_bytes(certified["out/changed.json"])
    (mended,) = shown(browser, changed, certificate)
    assert "out/changed.json: as certified" in mended["text"]


@pytest.mark.browser
def test_the_page_fits_a_phone_and_speaks_to_a_screen_reader(browser: Chromium) -> None:
    phone = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    browser.send("Emulation.setDeviceMetricsOverride", **phone)
    assert shown(browser, SMALL)
    assert browser.value("document.documentElement.scrollWidth") <= phone["width"]
    browser.send("Emulation.clearDeviceMetricsOverride")
    read = browser.send("Accessibility.getFullAXTree")["nodes"]
    said = {(node["role"]["value"], node.get("name", {}).get("value")) for node in read}
    assert ("heading", "Verify a certificate") in said
    assert ("status", "") in said or ("status", "1 checked.") in said
    assert ("columnheader", "epsilon at most") in said
    assert any(name and name.startswith("Drop files here") for _, name in said)


@pytest.mark.quality
@pytest.mark.browser
def test_the_page_meets_wcag_aa(browser: Chromium, tmp_path: Path) -> None:
    """Beside a file that verifies and one that does not, in both schemes."""
    newer, *_ = bad_files(SMALL, tmp_path)
    assert [one["verified"] for one in shown(browser, SMALL, newer)] == ["true", "false"]
    for scheme in ("light", "dark"):
        seen = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.send("Emulation.setEmulatedMedia", features=seen)
        assert browser.violations() == []
    browser.send("Emulation.setEmulatedMedia", features=[])


@pytest.mark.quality
@pytest.mark.browser
def test_a_check_that_hangs_is_ended_and_the_next_file_is_judged(
    browser: Chromium, page: Path
) -> None:
    ready(browser, page, "?seconds=0.01")
    (ended,) = shown(browser, SMALL)
    assert ended["verified"] == "false"
    assert "the check was ended" in ended["text"]
    (again,) = shown(browser, SMALL)
    assert "the check was ended" in again["text"]
    for _ in range(6):  # each time ten times as long
        (section,) = pressed(browser)
        if section["verified"] == "true":
            break
    assert section["verified"] == "true"
    assert browser.value("document.getElementById('state').textContent") == "1 checked."
    assert not browser.value("document.querySelectorAll('section button').length")
    ready(browser, page)


@pytest.mark.quality
@pytest.mark.browser
def test_an_endless_loop_is_ended_and_the_file_beside_it_is_judged(
    browser: Chromium, page: Path, tmp_path: Path
) -> None:
    """A worker that never comes back, on one of two files that are given at once."""
    text, asked = page.read_text("utf-8"), "const made = answer(data.name"
    assert text.count(asked) == 1
    looping = tmp_path / "looping.html"
    endless = "if (data.name === 'endless.json') for (;;);"
    looping.write_text(text.replace(asked, f"{endless} {asked}"), "utf-8")
    file = tmp_path / "endless.json"
    file.write_bytes(SMALL.read_bytes())
    ready(browser, looping, "?seconds=90")
    ended, judged = shown(browser, file, SMALL)
    assert "not verified within 90 s; the check was ended" in ended["text"]
    assert judged["verified"] == "true"
    ready(browser, page)


@pytest.mark.browser
@pytest.mark.quality
def test_hostile_files_and_altered_certificates_are_judged_in_the_page_as_natively(
    browser: Chromium, tmp_path: Path
) -> None:
    """All that are given at once; no text of a file is run.

    ``python -m benchmarks.evidence browser`` gives the page 500 altered certificates.
    """
    files = hostile_files(SMALL, tmp_path)
    files += altered_files([SMALL, REPORTS / "kl_spider.json"], tmp_path, 10)
    title = browser.value("document.title")
    for file, section in zip(files, shown(browser, *files), strict=True):
        assert not differing(verify_file(file), section), file.name
    assert browser.value("document.title") == title
    (after,) = shown(browser, SMALL)
    assert after["verified"] == "true"


def test_a_page_that_judges_otherwise_is_told_from_one_that_judges_the_same() -> None:
    """By the verdict, by a bound, and by what is taken on trust."""
    row = verify_file(SMALL)
    section = {"verified": "true", "failure": "", "verdict": row["verdict"]}
    section["cells"] = [str(cell) for cells in row["epsilons"] for cell in cells]
    section["trusted"] = row["on_trust"]
    assert not differing(row, section)
    for other in (
        {"verified": "false"},
        {"verdict": "refuted"},
        {"cells": [*section["cells"][:-1], "0"]},
        {"trusted": row["on_trust"][1:]},
    ):
        assert differing(row, section | other)
