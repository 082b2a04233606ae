"""The command line, in this process and in its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpaudit.cli.main import main
from dpaudit.project import project as project_of
from dpaudit.releases.plan import Release

EPOCH = "1700000000"
Invoke = Callable[..., Result]


@pytest.fixture
def project(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a mechanism for each exit code; the working folder."""
    folder = tmp_path / "project"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(checkout / "tests" / "library" / "cli" / "project", folder, ignore=ignored)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    return folder


@pytest.fixture(scope="session")
def listed() -> dict[tuple[Any, ...], Any]:
    """What a process of its own said of the shipped catalogue, by what it was asked."""
    return {}


@pytest.fixture
def dpaudit(
    unserved: None,
    verified_here: None,
    listed: dict[tuple[Any, ...], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Invoke:
    """Runs a command in this process; fails on a traceback.

    The shipped catalogue is the same in all tests: a process of its own lists it once.
    """
    asked = project_of._asked

    def once(root: Path, *names: str) -> Any:
        if root != project_of.catalogue_root():
            return asked(root, *names)
        if (root, *names) not in listed:
            listed[root, *names] = asked(root, *names)
        return listed[root, *names]

    monkeypatch.setattr(project_of, "_asked", once)
    return invoker(main)


@pytest.fixture(scope="session")
def plans() -> dict[tuple[str, ...], Any]:
    """Plans that were made, by their release."""
    return {}


@pytest.fixture
def planned_once(plans: dict[tuple[str, ...], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A release is planned once, however many commands read the plan.

    For tests of what commands do with a plan; how noise is found for it has its own tests.
    """
    for name in ("plan", "searched"):
        made = getattr(Release, name)

        def once(release: Release, made: Any = made, **how: Any) -> Any:
            anywhere = replace(release, folder=Path(), ledger=None)
            key = (made.__name__, repr(anywhere), repr(how))
            if key not in plans:
                plans[key] = made(release, **how)
            return replace(plans[key], release=release)

        monkeypatch.setattr(Release, name, once)


@pytest.fixture
def tools() -> Invoke:
    """Runs a developer's command in this process."""
    from tools.__main__ import main as developers

    return invoker(developers)


def invoker(command: Any) -> Invoke:
    def invoke(*arguments: Any, code: int = 0) -> Result:
        result = CliRunner().invoke(command, [str(a) for a in arguments])
        said = f"{arguments} gave {result.exit_code}\n{result.stdout}\n{result.stderr}"
        unexpected = result.exception
        assert unexpected is None or isinstance(unexpected, SystemExit), (said, unexpected)
        assert result.exit_code == code, said
        assert "Traceback" not in result.stderr
        return result

    return invoke


def environment() -> dict[str, str]:
    return os.environ | {"SOURCE_DATE_EPOCH": EPOCH, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def spawn(*arguments: Any, cwd: Path, module: str = "dpaudit") -> subprocess.Popen[str]:
    """A command in a process of its own, which can be interrupted."""
    # A shell starts its background jobs, and so their children, deaf to SIGINT.  It is set here:
    # Python that runs in the child before the command crashes where this process used DuckDB.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=cwd,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def call(
    *arguments: Any, cwd: Path, code: int = 0, module: str = "dpaudit"
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, to its end."""
    child = spawn(*arguments, cwd=cwd, module=module)
    out, err = child.communicate(timeout=120)
    assert child.returncode == code, (arguments, out, err)
    assert "Traceback" not in err
    return subprocess.CompletedProcess(arguments, child.returncode, out, err)
