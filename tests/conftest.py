"""Fixtures every test folder shares."""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from dpaudit.certificate import certify as certification
from dpaudit.check import SECONDS
from dpaudit.check.process import Verified
from dpaudit.check.rows import Row, row_of
from dpaudit.storage import roots
from dpaudit.storage.evidence import Evidence
from tests.support.examined_once import examined_once
from tests.support.first_case import cases_of_quality
from tests.support.long_tests import lines, noted, processor_seconds
from tests.support.seeded import seeded
from tests.support.work import chosen, set_share, share_of

# The same examples on every machine and run: a failure is a reproducer, never a coin toss.
settings.register_profile("dpaudit", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("dpaudit")


# Of what collection makes, all stays: looking for garbage among it took a third of its time
# where bytecode is compiled.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks ``quality``: files of such folders, and cases that the other two markers name."""
    for item in items:
        if item.path.parent.name == "quality":
            item.add_marker("quality")
    for item in cases_of_quality(items):
        item.add_marker("quality")
    items[:] = chosen(items)


def pytest_collection_finish() -> None:
    """Garbage is collected less often, and not among the tests and modules, which all stay."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Noise of the operating system's entropy is the same whenever a test runs."""
    with seeded(item.nodeid):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test, and the fixtures that are made for it, examine with their share of the work."""
    set_share(share_of(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Long tests that no marker names are kept for the summary."""
    before = processor_seconds()
    yield
    noted(item, processor_seconds() - before)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Long tests that no marker names, after everything else."""
    for line in lines(terminalreporter.stats.get("passed", ())):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def scratch(checkout: Path, tmp_path: Path) -> Path:
    """A project of its own with one mechanism, ``noisy_mean``, and its suite."""
    return shutil.copytree(
        checkout / "tests" / "library" / "packaging" / "scratch",
        tmp_path / "scratch",
        ignore=shutil.ignore_patterns("__pycache__"),
    )


@pytest.fixture(scope="session")
def rows() -> dict[tuple[str, float] | None, Row]:
    """What was said of files that were verified in this process, by their digest."""
    return {}


@pytest.fixture
def verified_here(
    rows: dict[tuple[str, float] | None, Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Certificates are verified in this process: one of its own takes a second to start.

    The same file is verified once, however many tests read what is said of it.

    `tests/library/cli/test_verify_command.py` and all that runs commands as processes has it
    started.
    """

    def verify_files(files: Sequence[Evidence], seconds: float = SECONDS) -> Iterator[Verified]:
        for file in files:
            key = (file.sha256, seconds) if not file.fault else None
            row = rows.get(key) or row_of(file, seconds)
            if key is not None:
                rows[key] = row
            yield Verified(file, row | {"file": str(file.path)})

    users = ("certificate.rendering", "certificate.previous", "certificate.budget", "cli.gate")
    # Users first: one that is imported here for the first time takes the function of its source.
    for module in (*users, "check.process"):
        monkeypatch.setattr(f"dpaudit.{module}.verify_files", verify_files)


@pytest.fixture(autouse=True, scope="session")
def programs_are_examined_once() -> Iterator[None]:
    """Certificates of one program and seed share its examination."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(certification, "examined", examined_once(certification.examined))
        yield


@pytest.fixture
def unserved(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process as if it served no root yet; afterwards, as it was before."""
    monkeypatch.setattr(roots, "_served", None)
    monkeypatch.setattr(roots, "_ran", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    kept = {name: sys.modules.pop(name) for name in _catalogue_modules()}
    yield
    for name in _catalogue_modules():
        del sys.modules[name]
    sys.modules.update(kept)


def _catalogue_modules() -> list[str]:
    packages = (*roots.PACKAGES, roots.EXPERIMENTS)
    laboratory = "experiments.lab"  # serves any project's experiments
    return [
        name
        for name in sys.modules
        if name.partition(".")[0] in packages and not f"{name}.".startswith(f"{laboratory}.")
    ]
