"""The experiments' own command line, on a project with a copy of the laboratory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.library.cli.conftest import Invoke, invoker, project

__all__ = ["project"]


@pytest.fixture
def laboratory(checkout: Path, project: Path) -> Path:
    """A project whose ``experiments`` package holds the laboratory, and no experiment yet."""
    ignored = shutil.ignore_patterns("__pycache__")
    source, folder = checkout / "experiments", project / "experiments"
    shutil.copytree(source / "lab", folder / "lab", ignore=ignored)
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(source / name, folder / name)
    return project


@pytest.fixture
def lab(laboratory: Path, unserved: None, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs a command of the laboratory in this process."""
    monkeypatch.syspath_prepend(laboratory)
    from experiments.lab.command import main

    return invoker(main)
