"""The committed reports are of the files as they are: no rerun, digests alone.

That they come out again byte for byte is asked in tests/quality/test_committed_reports.py.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from dpaudit.certificate.certificate import validate


def stale(checkout: Path, reports: Path) -> list[str]:
    """What a report lists that is not as it is listed: ``report: file``."""
    found = []
    for path in sorted(reports.glob("*.json")):
        certificate: dict[str, Any] = json.loads(path.read_text("utf-8"))
        validate(certificate)
        for item in certificate["predicate"]["mechanism"]["implementation"]:
            file = checkout / item["name"]
            content = file.read_bytes() if file.is_file() else b""
            if hashlib.sha256(content).hexdigest() != item["digest"]["sha256"]:
                found.append(f"{path.stem}: {item['name']}")
    return found


def test_every_report_is_of_the_files_as_they_are(checkout: Path) -> None:
    assert stale(checkout, checkout / "reports") == [], "run `make certify` and commit reports/"


def test_the_reports_are_those_that_make_certify_makes(checkout: Path) -> None:
    makefile = (checkout / "Makefile").read_text("utf-8")
    targets = re.findall(r"^TARGETS \?= (.*)$", makefile, re.M)[0].split()
    committed = {path.stem for path in (checkout / "reports").glob("*.json")}
    assert committed == set(targets)
    for name in targets:
        assert (checkout / "reports" / f"{name}.html").is_file()


@pytest.mark.parametrize("change", ["content", "gone"])
def test_a_stale_report_is_noticed(checkout: Path, tmp_path: Path, change: str) -> None:
    """One file of an implementation changed, or gone, since the report was made."""
    reports = tmp_path / "reports"
    shutil.copytree(checkout / "reports", reports, ignore=shutil.ignore_patterns(".*", "catalogue"))
    (certificate,) = reports.glob("diff2_gd.json")
    content = json.loads(certificate.read_text("utf-8"))
    listed = content["predicate"]["mechanism"]["implementation"]
    if change == "content":
        listed[0]["digest"]["sha256"] = "0" * 64
    else:
        listed[0]["name"] = "mechanisms/gone.py"
    certificate.write_text(json.dumps(content))
    assert stale(checkout, reports) == [f"diff2_gd: {listed[0]['name']}"]
