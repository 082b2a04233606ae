"""What the wheel and the sdist hold."""

from __future__ import annotations

import configparser
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dpaudit.storage import roots
from dpaudit.version import __version__
from tests.library.packaging.conftest import Built, build, must

pytestmark = pytest.mark.packaging

INFO = f"dpaudit-{__version__}.dist-info"


def contents(wheel: Path) -> dict[str, bytes]:
    """A wheel's files; RECORD, which lists them, is left out."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/RECORD")]
        return {name: archive.read(name) for name in names}


def sources(checkout: Path, package: str) -> dict[str, bytes]:
    """The files of a package in the checkout, by path relative to the package's parent."""
    files = [path for path in (checkout / package).rglob("*") if path.is_file()]
    kept = [path for path in files if "__pycache__" not in path.parts]
    return {path.relative_to(checkout).as_posix(): path.read_bytes() for path in kept}


def test_a_wheel_installs_one_top_level_name(built: Built) -> None:
    assert {PurePosixPath(name).parts[0] for name in contents(built.wheel)} == {"dpaudit", INFO}


def test_a_wheel_holds_the_package_and_the_catalogue(built: Built, checkout: Path) -> None:
    wanted = sources(checkout, "dpaudit")
    for package in roots.PACKAGES:
        wanted |= {f"dpaudit/catalogue/{k}": v for k, v in sources(checkout, package).items()}
    wanted["dpaudit/catalogue/dpaudit.toml"] = (checkout / "dpaudit.toml").read_bytes()
    held = {k: v for k, v in contents(built.wheel).items() if not k.startswith(INFO)}
    assert held == wanted
    assert "dpaudit/py.typed" in held
    assert "dpaudit/catalogue/mechanisms/__init__.py" in held
    assert "dpaudit/catalogue/mechanisms/people.csv" in held
    assert not any("/experiments/" in name or name.startswith("lab/") for name in held)


@pytest.mark.quality
def test_the_sdist_builds_the_same_wheel(built: Built, checkout: Path, tmp_path: Path) -> None:
    must([*build(checkout, tmp_path), "--wheel"], tmp_path)
    (direct,) = tmp_path.glob("*.whl")
    assert direct.name == built.wheel.name
    assert contents(direct) == contents(built.wheel)


def test_the_sdist_holds_the_tests_and_their_environment(built: Built, checkout: Path) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"LICENSE", "Makefile", "pyproject.toml", "requirements-dev.lock"} <= names
    assert sources(checkout, "tests").keys() <= names


def test_an_editable_wheel_copies_nothing(built: Built, checkout: Path) -> None:
    held = contents(built.editable)
    pth = [name for name in held if not name.startswith(INFO)]
    assert pth == ["_dpaudit.pth"]
    assert Path(held[pth[0]].decode().strip()) == checkout


def test_the_metadata_name_the_script_and_the_licence(built: Built) -> None:
    held = contents(built.wheel)
    scripts = configparser.ConfigParser()
    scripts.read_string(held[f"{INFO}/entry_points.txt"].decode())
    metadata = held[f"{INFO}/METADATA"].decode()
    assert scripts["console_scripts"]["dpaudit"] == "dpaudit.cli.main:main"
    assert "Requires-Python: >=3.11" in metadata
    assert "License-Expression: Apache-2.0" in metadata
    assert f"{INFO}/licenses/LICENSE" in held


def test_the_lock_is_exact_and_names_no_place(checkout: Path) -> None:
    pins = locked(checkout)
    assert len(pins) > 30
    assert all(pin.count("==") == 1 and not set(pin) & set(" @/:<>~") for pin in pins)


def test_the_lock_satisfies_the_declared_dependencies(checkout: Path) -> None:
    versions = dict(pin.split("==") for pin in locked(checkout))
    versions = {canonicalize_name(name): version for name, version in versions.items()}
    declared = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    wanted = [*declared["dependencies"], *declared["optional-dependencies"]["dev"]]
    for requirement in map(Requirement, wanted):
        assert versions[canonicalize_name(requirement.name)] in requirement.specifier


def test_every_locked_release_has_the_digests_of_its_files(checkout: Path) -> None:
    """And the environment is set up by no other files."""
    without = [pin for pin, hashes in releases(checkout).items() if not hashes]
    assert not without
    assert "--require-hashes" in (checkout / "Makefile").read_text()


def locked(checkout: Path) -> list[str]:
    """The pins of the lock."""
    return list(releases(checkout))


def releases(checkout: Path) -> dict[str, list[str]]:
    """The SHA-256 of the files of each pinned release, by its pin; extras are left out."""
    text = (checkout / "requirements-dev.lock").read_text().replace("\\\n", " ")
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", word) for _, *row in rows for word in row)
    return {re.sub(r"\[.*\]", "", pin): hashes for pin, *hashes in rows}
