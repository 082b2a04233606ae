"""The page ``verify.html`` in a headless Chromium: its answers on files, and files made to harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpaudit.check.file import LARGEST_FILE
from dpaudit.exact.wire import digest
from tests.support.chromium import Chromium

START, EACH = 120.0, 120.0  # seconds that a busy machine may take
SECTIONS = """[...document.querySelectorAll('section')].map(section => ({
  ...section.dataset,
  text: section.innerText,
  cells: [...section.querySelectorAll('td')].map(cell => cell.textContent),
  trusted: [...section.querySelectorAll('h3')].filter(head => head.textContent === 'Taken on trust')
    .flatMap(head => [...head.nextElementSibling.children].map(line => line.textContent)),
}))"""
Section = dict[str, Any]


def ready(browser: Chromium, page: Path, query: str = "") -> None:
    """Open the page, and wait until its checker runs."""
    browser.open(f"{page.as_uri()}{query}", START)
    browser.until("document.body && document.body.dataset.ready === 'yes'", START)


def shown(browser: Chromium, *files: Path, each: float = EACH) -> list[Section]:
    """The page's sections on files: the data of each, its text, its bounds and what is on trust."""
    browser.value("document.body.dataset.done = ''")
    browser.give("#files", files)
    return _done(browser, each * len(files))


def pressed(browser: Chromium) -> list[Section]:
    """As :func:`shown`, after the first button of a section that checks its file again."""
    browser.value("document.body.dataset.done = ''")
    browser.value("document.querySelector('section button').click()")
    return _done(browser, EACH)


def _done(browser: Chromium, seconds: float) -> list[Section]:
    browser.until("document.body.dataset.done === 'yes'", seconds)
    found: list[Section] = browser.value(SECTIONS)
    return found


def differing(row: dict[str, Any], section: Section) -> str:
    """How the page's section differs from the row that ``dpaudit verify`` makes; empty if not."""
    here = str(row["verified"]).lower(), row["failure"], row["verdict"] or ""
    there = tuple(section[key] for key in ("verified", "failure", "verdict"))
    if row["verified"]:
        here += ([str(cell) for cells in row["epsilons"] for cell in cells], row["on_trust"])
        there += (section["cells"], section["trusted"])
    return "" if here == there else f"{here} natively, {there} in the page"


def bad_files(source: Path, folder: Path) -> list[Path]:
    """A certificate of a newer format, one in another encoding, and a file of 100 MB."""
    newer, wide, huge = (folder / f"{name}.json" for name in ("newer", "wide", "huge"))
    format_9 = {"predicateType": "https://dpaudit.dev/certificate/v9"}
    newer.write_text(json.dumps(json.loads(source.read_text("utf-8")) | format_9), "utf-8")
    wide.write_text(source.read_text("utf-8"), "utf-16")
    with huge.open("wb") as stream:
        stream.truncate(100 * 2**20)
    return [newer, wide, huge]


def hostile_files(source: Path, folder: Path) -> list[Path]:
    """Files that try to harm their reader: bytes, shapes, numbers and texts.

    Texts that a browser could run are in a file's name and in a certificate that verifies.
    """
    text = source.read_text("utf-8")
    run = "<img src=x onerror=document.title='ran'><script>document.title='ran'</script>"
    contents = {
        "empty": b"",
        "noise": bytes(range(256)) * 99,
        "cut": text.encode()[: len(text) // 2],
        "twice": text.encode() * 2,
        "text": b'"a certificate"',
        "nothing": b"null",
        "rows": b"[" + text.encode() + b"]",
        "deep": b"[" * 1_000_000,
        "deep_tables": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
        "digits": text.replace('"100/1"', f'"1{"0" * 1_000_000}/1"').encode(),
        "whole": b'{"a": ' + b"9" * 1_000_000 + b"}",
        "no_number": b'{"predicate": NaN, "subject": Infinity}',
        "half_letter": text.replace('"title":"', '"title":"\\ud800').encode(),
        "latin": text.replace('"title":"', '"title":"\u00fc').encode("latin-1"),
        "marked": b"\xef\xbb\xbf" + text.encode(),
        "same_keys": text.replace("{", '{"subject": [],', 1).encode(),
        "large": text.encode() + b" " * (LARGEST_FILE - len(text.encode())),
        "larger": text.encode() + b" " * (LARGEST_FILE + 1 - len(text.encode())),
        "__proto__": b'{"__proto__": {"verified": true}, "constructor": 1}',
        "tower": _changed(text, lambda predicate: predicate["claims"][0].update(exact=_tower(6))),
        "nested": _changed(
            text, lambda predicate: predicate["claims"][0].update(exact=_tower(900))
        ),
        "markup": _changed(text, lambda predicate: predicate["mechanism"].update(title=run)),
        run.replace("/", "")[:40]: text.encode(),
        "spaced": text.encode() + b"\n\n",
    }
    files = []
    for name, content in contents.items():
        files.append(folder / f"{name}.json")
        files[-1].write_bytes(content)
    return [*bad_files(source, folder), *files]


def _changed(text: str, change: Any) -> bytes:
    certificate = json.loads(text)
    change(certificate["predicate"])
    certificate["subject"][0]["digest"]["sha256"] = digest(certificate["predicate"])
    return json.dumps(certificate).encode()


def _tower(height: int) -> Any:
    """9 ** (9 ** ...), as a certificate writes a number."""
    return ["Pow", "9/1", _tower(height - 1)] if height else "9/1"
