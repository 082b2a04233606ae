"""The page about membership audits: its session runs as printed, its attacks are all there are."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from dpaudit.membership.attacks import ATTACKS
from dpaudit.membership.synthetic import KINDS


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


def test_every_attack_has_a_figure_on_a_setting_of_its_papers_kind(checkout: Path) -> None:
    page = (checkout / "docs" / "membership.md").read_text("utf-8")
    table = page.split("<!-- attacks:")[1].split("<!-- end of attacks")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    shown = {row[1].strip(" `"): row for row in rows}
    assert {f"synthetic: {kind}" for kind in KINDS} | set(ATTACKS) == set(shown)
    for name, row in shown.items():
        assert 0.53 < float(row[3]) <= 1, name
        if name in ATTACKS:
            assert row[2].strip() == ATTACKS[name].source
