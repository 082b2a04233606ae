"""The README's Python session runs as it is printed, and its commands exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from dpaudit.cli.main import main


def test_python_session(checkout: Path) -> None:
    result = doctest.testfile(str(checkout / "README.md"), module_relative=False)
    assert result.attempted >= 6
    assert result.failed == 0


def test_commands_exist(checkout: Path) -> None:
    text = (checkout / "README.md").read_text("utf-8")
    named = set(re.findall(r"dpaudit (\w+)", "\n".join(re.findall(r"```sh\n(.*?)```", text, re.S))))
    assert {"init", "list", "show", "account", "audit", "certify"} <= named
    assert named <= set(main.commands)
