"""The plugin in sessions of its own: what is red, what a green session means, what it costs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dpaudit.pytest_plugin import ErrorBudget

SUITE = """
import numpy as np
import pytest
from dpaudit import PureDP
from dpaudit.pytest_plugin import assert_private

def half_the_noise(data, rng, size):
    return sum(data) + rng.laplace(0, 0.5, size)

def right(data, rng, size):
    return sum(data) + rng.laplace(0, 1, size)

@pytest.mark.dp_audit(claim=PureDP(1), trials=6_000)
def test_wrong(dp_audit):
    dp_audit(half_the_noise, [1, 1], [1, 0])

@pytest.mark.dp_audit(claim=PureDP(1), trials=400)
@pytest.mark.parametrize("times", [1, 2])
def test_right(times):
    for _ in range(times):
        assert_private(right, [1, 1], [1, 0])
"""


def session(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text, "utf-8")
    plugin = ("-p", "no:dpaudit", "-p", "dpaudit.pytest_plugin", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugin, "-q", *arguments, "test_it.py"]
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.quality)])
def test_a_planted_bug_is_red_with_a_reproducer_and_properties(
    tmp_path: Path, workers: str
) -> None:
    """Three tests of a third of the error each, whose calls have 1/2 and 1/6 of it."""
    found = session(tmp_path, SUITE, "-n", workers, "--junitxml=junit.xml", "--dp-error=0.006")
    assert found.returncode == 1, found.stdout + found.stderr
    assert "1 failed, 2 passed" in found.stdout
    assert "refuted: " in found.stdout
    assert "To see it again:" in found.stdout
    assert "from test_it import half_the_noise as mechanism" in found.stdout
    assert re.search(r"4 audits in 3 tests, of seed \d+ \(--dp-seed \d+ draws", found.stdout)
    assert "if every claim holds, a session is red with probability at most 0.006" in found.stdout
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()  # noqa: S314  (our own)
    rows = {
        str(case.get("name")): {p.get("name"): str(p.get("value")) for p in case.iter("property")}
        for case in root.iter("testcase")
    }
    assert rows["test_wrong"]["dp_verdict"] == "refuted"
    assert float(rows["test_wrong"]["dp_epsilon_lower"]) > 1.2
    errors = {
        (name, key): value
        for name, row in rows.items()
        for key, value in row.items()
        if str(key).startswith("dp_error")
    }
    assert errors == {
        ("test_wrong", "dp_error"): "0.001",
        ("test_right[1]", "dp_error"): "0.001",
        ("test_right[2]", "dp_error"): "0.001",
        ("test_right[2]", "dp_error_2"): "0.000333333",
    }


@pytest.mark.quality
def test_an_audit_needs_a_part_of_the_error_and_a_claim(tmp_path: Path) -> None:
    text = SUITE + (
        "\n\ndef test_unmarked():\n    assert_private(right, [1], [0], claim=PureDP(1))\n"
        "\n\ndef test_unclaimed(dp_audit):\n    dp_audit(right, [1], [0])\n"
    )
    found = session(tmp_path, text, "-k", "unmarked or unclaimed")
    assert "mark the test with @pytest.mark.dp_audit" in found.stdout
    assert "state the claim" in found.stdout
    assert "2 failed" in found.stdout


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dp-error=0"], "expected a number between 0 and 1"),
        (["--dp-trials=0"], "expected at least 1"),
        (["--dp-seed=-1"], "expected at least 0"),
        (["--dp-mended"], "needs --dp-nights"),
    ],
)
def test_options_are_checked(tmp_path: Path, arguments: list[str], said: str) -> None:
    found = session(tmp_path, SUITE, *arguments)
    assert found.returncode == 4
    assert said in found.stderr


def test_parts_never_exceed_the_whole() -> None:
    budget = ErrorBudget(0.01, 3)
    parts = [budget.spend(test)[0] for test in "abc" for _ in range(200)]
    assert sum(parts) < 0.01
    assert sum(parts) > 0.0099
    assert len({budget.spend("a")[1], 201}) == 1


@pytest.mark.quality
def test_an_unused_plugin_costs_under_20_milliseconds_and_imports_nothing_heavy() -> None:
    """The least of five processes: what a busy machine adds is not the plugin's."""
    code = (
        "import pytest, sys, time; before = set(sys.modules); start = time.process_time();"
        "import dpaudit.pytest_plugin; spent = time.process_time() - start;"
        "new = {n.split('.')[0] for n in set(sys.modules) - before} - set(sys.stdlib_module_names);"
        "print(spent, *sorted(new))"
    )
    root = Path(__file__).parents[3]
    found = [
        subprocess.check_output([sys.executable, "-c", code], cwd=root, text=True).split()
        for _ in range(5)
    ]
    assert {tuple(words[1:]) for words in found} == {("dpaudit",)}
    assert min(float(words[0]) for words in found) < 0.020
    assert re.match(r"\d", found[0][0])
