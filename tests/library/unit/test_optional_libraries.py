"""A missing optional library gives an error that names the extra to install."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from dpaudit.errors import DpauditError, InvalidParameter, optional

ROOT = Path(__file__).parents[3]
PLACES = [p for part in ("dpaudit", "mechanisms", "audits") for p in (ROOT / part).rglob("*.py")]


def test_the_error_names_extra_and_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    message = r"pip install 'dpaudit\[ledger\]'.*sqlalchemy"
    with pytest.raises(InvalidParameter, match=message), optional("ledger", "a ledger"):
        import sqlalchemy  # noqa: F401
    assert DpauditError.exit_code == InvalidParameter.exit_code == 2


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), optional("ledger", "a ledger"):
        raise KeyError


def test_every_extra_that_is_named_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        extra
        for path in PLACES
        for extra in re.findall(r"\boptional\(\s*\"(\w+)\"", path.read_text())
    }
    assert named
    assert named <= set(project["optional-dependencies"])


def test_no_module_writes_its_own_message() -> None:
    own = [str(p) for p in PLACES if "except ImportError" in p.read_text()]
    assert own == [str(ROOT / "dpaudit" / "errors.py")]
