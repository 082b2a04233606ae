"""The shipped catalogue imports as ``dpaudit.catalogue`` beside a project's own ``mechanisms/``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PAPERS = "from dpaudit.catalogue.papers import diff2, kl, srgd, stable_erm, user_level"
MINE = """
from dataclasses import replace
from dpaudit.catalogue.papers.srgd import catalogue as srgd

mine = replace(srgd.dp_srgd.for_shape(300, (4,), epsilon=2), name="mine")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project whose ``mechanisms`` holds one file, and none of the catalogue's."""
    for package in ("mechanisms", "audits"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "mechanisms" / "mine.py").write_text(MINE)
    return tmp_path


def python(checkout: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(checkout)])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.quality
def test_papers_import_beside_a_mechanisms_folder(checkout: Path, folder: Path) -> None:
    said = python(
        checkout,
        folder,
        "-c",
        f"{PAPERS}; import mechanisms.mine as own; print(own.mine.name, "
        "srgd.catalogue.dp_srgd.name, diff2.catalogue.diff2_gd.name, kl.catalogue.kl_spider.name, "
        "user_level.__name__, stable_erm.__name__, own.mine.claims[0].text)",
    )
    assert said.stdout.split(maxsplit=6) == [
        "mine",
        "dp_srgd",
        "diff2_gd",
        "kl_spider",
        "dpaudit.catalogue.papers.user_level",
        "dpaudit.catalogue.papers.stable_erm",
        "ApproxDP(epsilon=2, delta=0.000001)\n",
    ], said.stderr


@pytest.mark.quality
def test_a_project_lists_what_it_made_of_the_catalogue(checkout: Path, folder: Path) -> None:
    said = python(checkout, folder, "-m", "dpaudit", "show", "mine")
    assert "ApproxDP(epsilon=2, delta=0.000001): proved" in said.stdout, said.stderr


def test_without_renaming_the_projects_folder_shadows_the_catalogue(
    checkout: Path, folder: Path
) -> None:
    said = python(
        checkout,
        folder,
        "-c",
        "import dpaudit.catalogue as c; c._named = str; c.papers.srgd.catalogue",
    )
    assert "No module named 'mechanisms.papers'" in said.stderr


def test_a_name_that_is_no_module_is_said(checkout: Path, folder: Path) -> None:
    said = python(checkout, folder, "-c", "from dpaudit.catalogue.papers import srdg")
    assert "cannot import name 'srdg'" in said.stderr
