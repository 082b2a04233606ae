"""dpaudit installed in environments of its own: from the wheel, and from the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.library.packaging.conftest import Installation

pytestmark = pytest.mark.packaging

PROVIDERS = """
import json
from importlib.metadata import packages_distributions
print(json.dumps(sorted(k for k, v in packages_distributions().items() if "dpaudit" in v)))
"""
ROOT = """
from pathlib import Path
from dpaudit.project.project import find_root
print(find_root(Path()))
"""
SHADOWS = """
import sys
import dpaudit.project.project
print({"mechanisms", "audits"} & sys.modules.keys())
"""


def test_the_wheel_installs_no_other_top_level_name(
    from_wheel: Installation, tmp_path: Path
) -> None:
    result = from_wheel.python("-c", PROVIDERS, cwd=tmp_path)
    assert json.loads(result.stdout) == ["dpaudit"]
    for name in ("mechanisms", "audits", "experiments", "tests", "hatch_build"):
        result = from_wheel.python("-c", f"import {name}", cwd=tmp_path)
        assert f"No module named '{name}'" in result.stderr


def test_the_environment_cannot_see_the_checkout(
    from_wheel: Installation, checkout: Path, tmp_path: Path
) -> None:
    result = from_wheel.python("-c", "import dpaudit, sys; print(dpaudit, sys.path)", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert str(from_wheel.site_packages / "dpaudit") in result.stdout
    assert str(checkout) not in result.stdout.replace(str(from_wheel.folder), "")


@pytest.mark.quality
def test_an_editable_install_holds_no_copy(from_checkout: Installation) -> None:
    names = {path.name for path in from_checkout.site_packages.iterdir() if not path.is_symlink()}
    assert not {"dpaudit", "mechanisms", "audits", "experiments"} & names
    assert "_dpaudit.pth" in names


@pytest.mark.quality
def test_an_empty_folder_serves_the_catalogue(installation: Installation, tmp_path: Path) -> None:
    result = installation.python("-c", ROOT, cwd=tmp_path)
    assert result.stdout.strip() == str(installation.catalogue), result.stderr


def test_importing_dpaudit_imports_no_catalogue(installation: Installation, tmp_path: Path) -> None:
    result = installation.python("-c", SHADOWS, cwd=tmp_path)
    assert result.stdout.strip() == "set()", result.stderr


@pytest.mark.quality
def test_papers_import_beside_a_mechanisms_folder(from_wheel: Installation, tmp_path: Path) -> None:
    (tmp_path / "mechanisms").mkdir()
    (tmp_path / "mechanisms" / "__init__.py").touch()
    result = from_wheel.python(
        "-c",
        "import mechanisms; from dpaudit.catalogue.papers import srgd, diff2, kl, user_level, "
        "stable_erm; print(srgd.catalogue.dp_srgd.name, mechanisms.__file__, srgd.__file__)",
        cwd=tmp_path,
    )
    name, own, shipped = result.stdout.split() or ["", "", result.stderr]
    assert (name, own) == ("dp_srgd", str(tmp_path / "mechanisms" / "__init__.py")), shipped
    assert Path(shipped).is_relative_to(from_wheel.catalogue / "mechanisms")
