"""The page about membership audits: its session runs as printed, its attacks are all there are."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from dpaudit.membership.attacks import ATTACKS


def test_the_session_runs(checkout: Path) -> None:
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    path = str(checkout / "docs" / "membership.md")
    result = doctest.testfile(path, module_relative=False, optionflags=flags)
    assert result.attempted >= 18
    assert result.failed == 0


def test_the_table_lists_every_attack(checkout: Path) -> None:
    text = (checkout / "docs" / "membership.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*?) \|", text, re.M)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(ATTACKS)
