"""The installed command: in a project of its own, in an empty folder, with worker processes.

In a folder outside the checkout; from the wheel and from an editable install, and what takes
long from the wheel alone: there the catalogue is the packaged copy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpaudit.version import __version__
from tests.library.packaging.conftest import Installation

pytestmark = pytest.mark.packaging

CERTIFIED, INCONCLUSIVE, USAGE = 0, 3, 2


def document(result: subprocess.CompletedProcess[str], *expected: int) -> Any:
    """The JSON a command printed, and nothing else beside it."""
    assert result.returncode in expected, result.stdout + result.stderr
    return json.loads(result.stdout)


def values(node: Any, part: str) -> Iterator[Any]:
    """Every value whose key contains a word, at any depth, in order."""
    if isinstance(node, list):
        for item in node:
            yield from values(item, part)
    if isinstance(node, dict):
        for key, item in node.items():
            if part in key:
                yield item
            yield from values(item, part)


def test_it_says_its_version(installation: Installation, tmp_path: Path) -> None:
    result = installation.dpaudit("--version", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert __version__ in result.stdout
    module = installation.python("-m", "dpaudit", "--version", cwd=tmp_path)
    assert __version__ in module.stdout, module.stderr


@pytest.mark.quality
def test_list_in_a_project_names_both_roots(installation: Installation, scratch: Path) -> None:
    listed = document(installation.dpaudit("list", "--json", cwd=scratch), 0)
    names = set(values(listed, "name"))
    assert {"noisy_mean", "diff2_gd", "dp_gd"} <= names


@pytest.mark.quality
def test_list_in_an_empty_folder_names_the_catalogue(
    installation: Installation, tmp_path: Path
) -> None:
    listed = document(installation.dpaudit("list", "--json", cwd=tmp_path), 0)
    names = set(values(listed, "name"))
    assert {"diff2_gd", "dp_gd"} <= names
    assert not list(tmp_path.iterdir()), "listing writes nothing"


@pytest.mark.quality
def test_account_in_a_project(installation: Installation, scratch: Path) -> None:
    account = document(installation.dpaudit("account", "noisy_mean", "--json", cwd=scratch), 0)
    assert "noisy_mean" in json.dumps(account)


@pytest.mark.quality
def test_account_in_an_empty_folder(installation: Installation, tmp_path: Path) -> None:
    account = document(installation.dpaudit("account", "dp_gd", "--json", cwd=tmp_path), 0)
    assert "dp_gd" in json.dumps(account)


@pytest.mark.quality
def test_account_names_the_catalogue(from_wheel: Installation, tmp_path: Path) -> None:
    target = "catalogue:dp_gd"
    account = document(from_wheel.dpaudit("account", target, "--json", cwd=tmp_path), 0)
    assert "dp_gd" in json.dumps(account)


@pytest.mark.quality
def test_a_file_is_a_target_from_outside_its_project(
    from_wheel: Installation, scratch: Path
) -> None:
    target = "scratch/mechanisms/noisy_mean.py::noisy_mean"
    result = from_wheel.dpaudit("account", target, "--json", cwd=scratch.parent)
    assert "noisy_mean" in json.dumps(document(result, 0))


@pytest.mark.quality
def test_an_unknown_name_is_one_line_and_a_usage_error(
    installation: Installation, scratch: Path
) -> None:
    result = installation.dpaudit("account", "noisy_meen", cwd=scratch)
    assert result.returncode == USAGE
    assert "did you mean noisy_mean?" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.quality
def test_two_workers_find_what_one_finds(
    from_wheel: Installation, scratch: Path, tmp_path: Path
) -> None:
    """The seed decides, not the number of workers; two folders, so that nothing is resumed."""
    again = shutil.copytree(scratch, tmp_path / "again")
    command = ["audit", "noisy_mean", "--trials", "400", "--seed", "7", "--json", "--jobs"]
    found = [
        document(from_wheel.dpaudit(*command, jobs, cwd=folder), CERTIFIED, INCONCLUSIVE)
        for jobs, folder in (("1", scratch), ("2", again))
    ]
    one, two = (list(values(audit, "lower")) for audit in found)
    assert one
    assert one == two


@pytest.mark.quality
def test_two_workers_audit_the_catalogue(from_wheel: Installation, tmp_path: Path) -> None:
    command = ["audit", "private_spider", "--trials", "400", "--jobs", "2", "--json"]
    result = from_wheel.dpaudit(*command, cwd=tmp_path)
    assert list(values(document(result, CERTIFIED, INCONCLUSIVE), "lower"))


@pytest.mark.quality
def test_init_starts_a_project(from_wheel: Installation, tmp_path: Path) -> None:
    result = from_wheel.dpaudit("init", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for package in ("mechanisms", "audits"):
        assert (tmp_path / package / "__init__.py").is_file()
    assert from_wheel.dpaudit("list", "--json", cwd=tmp_path).returncode == 0
