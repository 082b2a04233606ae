"""The checker in a browser's engine: verdicts equal to native ones, in Node and in Chromium."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main
from dpaudit.report import verifier
from dpaudit.sign.envelope import sign
from dpaudit.sign.keys import make_keys, private_key
from tests.support.altered import altered_files
from tests.support.chromium import Chromium
from tests.support.engine import Engine

ROOT = Path(__file__).parents[3]
REPORTS = ROOT / "reports"
SMALL = REPORTS / "dp_gd.json"
LARGEST_PAGE = 25_000_000  # bytes
START, EACH = 120.0, 120.0  # seconds that a busy machine may take


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return verifier.write_verifier(tmp_path_factory.mktemp("page"))
    except verifier.NoRuntime as error:
        pytest.skip(f"the browser's Python is not here: {error}")


@pytest.fixture(scope="session")
def engine(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    assert page
    with Engine(tmp_path_factory.mktemp("engine")) as made:
        yield made


def test_reports_and_altered_ones_are_judged_in_32_bits_as_natively(
    engine: Engine, tmp_path: Path
) -> None:
    reports = [SMALL, REPORTS / "membership" / "rand_tree.json"]
    files = [*reports, *altered_files([SMALL], tmp_path, 24)]
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


@pytest.fixture
def browser(page: Path, tmp_path: Path) -> Iterator[Chromium]:
    with Chromium(tmp_path / "profile") as made:
        yield made


def shown(browser: Chromium, *files: Path) -> list[dict[str, str]]:
    """The page's sections on files: the data of each, and its text."""
    browser.value("document.body.dataset.done = ''")
    browser.give("#files", files)
    browser.until("document.body.dataset.done === 'yes'", EACH * len(files))
    found: list[dict[str, str]] = browser.value(
        "[...document.querySelectorAll('section')].map(s => ({...s.dataset, text: s.innerText}))"
    )
    return found


@pytest.mark.browser
def test_the_page_verifies_offline_and_survives_hostile_files(
    browser: Chromium, page: Path, tmp_path: Path
) -> None:
    assert page.stat().st_size <= LARGEST_PAGE
    browser.open(page.as_uri())
    browser.until("document.body && document.body.dataset.ready === 'yes'", START)
    secret, public = make_keys(tmp_path / "signer.pem")
    certificate = json.loads(SMALL.read_text("utf-8"))
    envelope = tmp_path / f"{SMALL.name}.dsse"
    signed = sign(certificate, private_key(secret))
    envelope.write_text(json.dumps(signed), "utf-8")
    (first,) = shown(browser, SMALL, envelope, public)
    assert first["verdict"] == certificate["predicate"]["verdict"]["status"]
    assert "Signed by the key signer.pub" in first["text"]
    assert "Taken on trust" in first["text"]

    signature = bytearray(base64.b64decode(signed["signatures"][0]["sig"]))
    signature[0] ^= 1
    signed["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    envelope.write_text(json.dumps(signed), "utf-8")
    newer, wide, huge = (tmp_path / f"{name}.json" for name in ("newer", "wide", "huge"))
    newer.write_text(
        json.dumps({**certificate, "predicateType": "https://dpaudit.dev/certificate/v9"}), "utf-8"
    )
    wide.write_text(SMALL.read_text("utf-8"), "utf-16")
    with huge.open("wb") as stream:
        stream.truncate(100 * 2**20)
    sections = shown(browser, newer, wide, huge, SMALL, envelope, public)
    by_name = {one["file"]: one for one in sections}
    assert [by_name[f"{n}.json"]["verified"] for n in ("newer", "wide", "huge")] == ["false"] * 3
    assert by_name[SMALL.name]["verified"] == "true"
    assert "A signature by no key that you gave" in by_name[SMALL.name]["text"]


@pytest.mark.browser
def test_a_check_that_hangs_is_ended_and_the_next_file_is_judged(
    browser: Chromium, page: Path
) -> None:
    browser.open(f"{page.as_uri()}?seconds=0.01")
    browser.until("document.body && document.body.dataset.ready === 'yes'", START)
    (ended,) = shown(browser, SMALL)
    assert ended["verified"] == "false"
    assert "the check was ended" in ended["text"]
    (again,) = shown(browser, SMALL)
    assert "the check was ended" in again["text"]
