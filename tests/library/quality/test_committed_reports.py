"""The committed reports are what `make certify` makes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def predicate(path: Path) -> dict[str, Any]:
    """A certificate's content, without the environment that made it."""
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))["predicate"]
    return {key: value for key, value in content.items() if key != "environment"}


def test_they_come_out_again(checkout: Path, tmp_path: Path) -> None:
    """Byte for byte in the environment they name; elsewhere all but the environment is equal."""
    makefile = (checkout / "Makefile").read_text("utf-8")
    targets = re.findall(r"^TARGETS \?= (.*)$", makefile, re.M)[0].split()
    epoch = re.findall(r"SOURCE_DATE_EPOCH \?= (\d+)", makefile)[0]
    options = re.findall(r"dpaudit certify \$\(TARGETS\) (.*) --jobs", makefile)[0].split()
    command = [sys.executable, "-m", "dpaudit", "certify", *targets, *options, "--jobs", "2"]
    subprocess.run(
        [*command, "--out", str(tmp_path)],
        cwd=checkout,
        env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
        check=True,
        capture_output=True,
        timeout=1_800,
    )
    for name in targets:
        made, kept = tmp_path / f"{name}.json", checkout / "reports" / f"{name}.json"
        assert predicate(made) == predicate(kept)
        environments = [json.loads(p.read_text())["predicate"]["environment"] for p in (made, kept)]
        if environments[0] == environments[1]:
            assert made.read_bytes() == kept.read_bytes()
            page = f"{name}.html"
            assert (tmp_path / page).read_bytes() == (checkout / "reports" / page).read_bytes()
