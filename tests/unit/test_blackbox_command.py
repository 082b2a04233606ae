"""The black-box audit as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpaudit.audit.blackbox.command import attack
from dpaudit.errors import InvalidParameter, UnknownTarget

SOURCE = """
def flip(data, rng, size):
    return rng.random(size) < (0.95 if data else 0.05)
"""


def test_a_function_is_audited_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flipping.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    given = ["flipping:flip", "0", "1", "--epsilon", "1", "--trials", "2000", "--seed", "1"]
    done = CliRunner().invoke(attack, [*given, "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["verdict"] == "refuted"
    assert "refuted" in CliRunner().invoke(attack, given).stdout


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nowhere:f", "0", "1", "--epsilon", "1"], UnknownTarget),
        (["json:dumps", "0", "{", "--epsilon", "1"], InvalidParameter),
        (["json:dumps", "0", "1"], InvalidParameter),
        (["json:dumps", "0", "1", "--epsilon", "1", "--mu", "1"], InvalidParameter),
    ],
)
def test_bad_arguments(arguments: list[str], error: type[Exception]) -> None:
    done = CliRunner().invoke(attack, [*arguments, "--seed", "1"])
    assert isinstance(done.exception, error)
