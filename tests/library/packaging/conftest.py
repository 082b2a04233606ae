"""Distributions built once, and environments that hold them and what they declare to need."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EDITABLE = "import sys, hatchling.build; print(hatchling.build.build_editable(sys.argv[1]))"


@dataclass(frozen=True)
class Built:
    """The sdist, a wheel made from it, and an editable wheel of the checkout."""

    sdist: Path
    wheel: Path
    editable: Path


@dataclass(frozen=True)
class Installation:
    """A virtual environment that holds dpaudit and the closure of its declared dependencies."""

    folder: Path
    catalogue: Path

    @property
    def site_packages(self) -> Path:
        return next((self.folder / "lib").glob("python3.*/site-packages"))

    def python(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return run([str(self.folder / "bin" / "python"), *arguments], cwd)

    def dpaudit(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return run([str(self.folder / "bin" / "dpaudit"), *arguments], cwd)


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run in a folder with none of this environment's Python settings."""
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=cwd, env=clean, capture_output=True, text=True, timeout=110, check=False
    )


def must(command: list[str], cwd: Path) -> str:
    """The output of a command that has to succeed."""
    result = run(command, cwd)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="session")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    through, editable = (tmp_path_factory.mktemp(name) for name in ("through", "editable"))
    must(build(checkout, through), through)  # the sdist, then a wheel from the unpacked sdist
    name = must([sys.executable, "-c", EDITABLE, str(editable)], checkout).split()[-1]
    return Built(next(through.glob("*.tar.gz")), next(through.glob("*.whl")), editable / name)


def build(checkout: Path, folder: Path) -> list[str]:
    """The command that builds the checkout into a folder."""
    return [sys.executable, "-m", "build", "--no-isolation", str(checkout), "--outdir", str(folder)]


@pytest.fixture(scope="session")
def from_wheel(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = install(built.wheel, tmp_path_factory.mktemp("wheel") / "venv")
    site_packages = next((folder / "lib").glob("python3.*/site-packages"))
    return Installation(folder, site_packages / "dpaudit" / "catalogue")


@pytest.fixture(scope="session")
def from_checkout(
    built: Built, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    return Installation(
        install(built.editable, tmp_path_factory.mktemp("editable") / "venv"), checkout
    )


@pytest.fixture(
    scope="session", params=["wheel", pytest.param("editable", marks=pytest.mark.quality)]
)
def installation(request: pytest.FixtureRequest) -> Installation:
    fixture = {"wheel": "from_wheel", "editable": "from_checkout"}[request.param]
    chosen = request.getfixturevalue(fixture)
    assert isinstance(chosen, Installation)
    return chosen


def install(wheel: Path, folder: Path) -> Path:
    """A new environment with one wheel and, linked in, the dependencies it declares.

    Only that closure is linked, so a dependency that is used and not declared is an
    ImportError here, and this environment's editable dpaudit cannot be seen.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    site_packages = next((folder / "lib").glob("python3.*/site-packages"))
    for needed in closure(requirements(wheel)):
        link(needed, site_packages)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    # Modules that no test imports are not compiled.
    quick = ("--quiet", "--no-index", "--no-deps", "--no-compile")
    must([*pip, "install", *quick, str(wheel)], folder)
    must([*pip, "check"], folder)
    return folder


def requirements(wheel: Path) -> list[Requirement]:
    """What a wheel's metadata asks for, extras left out."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    found = map(Requirement, metadata.get_all("Requires-Dist", []))
    return [requirement for requirement in found if applies(requirement, frozenset())]


def applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras))


def closure(wanted: list[Requirement]) -> list[Distribution]:
    """The installed distributions that satisfy requirements, and theirs, and so on."""
    found: dict[str, Distribution] = {}
    waiting = list(wanted)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found:
            continue
        found[name] = distribution(name)
        below = map(Requirement, found[name].requires or [])
        waiting += [r for r in below if applies(r, requirement.extras)]
    return list(found.values())


def link(needed: Distribution, site_packages: Path) -> None:
    """Link a distribution's top-level files and folders."""
    for name in {file.parts[0] for file in needed.files or [] if file.parts[0] != ".."}:
        link_to, target = site_packages / name, Path(str(needed.locate_file(name)))
        if name != "__pycache__" and not link_to.exists():
            link_to.symlink_to(target)
