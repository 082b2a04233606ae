"""The files that a module imports, found without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpaudit.storage.imported import imported

FILES = {
    "mechanisms/__init__.py": "",
    "mechanisms/alone.py": "import numpy as np\n",
    "mechanisms/shared.py": "from __future__ import annotations\n",
    "mechanisms/paper/__init__.py": "",
    "mechanisms/paper/base.py": "from mechanisms import shared\n",
    "mechanisms/paper/catalogue.py": "from mechanisms.paper.base import one\n",
    "mechanisms/paper/late.py": "def f():\n    import mechanisms.paper.base\n",
    "mechanisms/paper/near.py": "from . import base\nfrom ..alone import np\n",
    "mechanisms/paper/ring.py": "from mechanisms.paper import circle\n",
    "mechanisms/paper/circle.py": "from mechanisms.paper import ring\n",
    "mechanisms/paper/free.py": "from importlib import import_module\n",
    "mechanisms/paper/text.py": "x = __import__('mechanisms.alone')\n",
    "audits/__init__.py": "",
    "audits/paper.py": "from mechanisms.paper.catalogue import one\n",
}
AROUND = ["mechanisms/__init__.py", "mechanisms/paper/__init__.py"]
BASE = [*AROUND, "mechanisms/paper/base.py", "mechanisms/shared.py"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("start", "found"),
    [
        ("mechanisms/alone.py", ["mechanisms/__init__.py"]),
        ("mechanisms/paper/catalogue.py", BASE),
        ("mechanisms/paper/late.py", BASE),
        ("mechanisms/paper/near.py", [*BASE, "mechanisms/alone.py"]),
        ("mechanisms/paper/ring.py", [*AROUND, "mechanisms/paper/circle.py"]),
        ("audits/paper.py", ["audits/__init__.py", *BASE, "mechanisms/paper/catalogue.py"]),
        ("mechanisms/paper/free.py", FILES),
        ("mechanisms/paper/text.py", FILES),
    ],
)
def test_a_file_brings_what_it_imports_and_the_packages_around(
    root: Path, start: str, found: list[str]
) -> None:
    paths = imported(root, [root / start])
    assert {path.relative_to(root).as_posix() for path in paths} == {start, *found}


def test_several_files_bring_what_any_of_them_imports_once(root: Path) -> None:
    starts = [root / "mechanisms/alone.py", root / "audits/paper.py"]
    paths = imported(root, starts)
    assert len(paths) == len(set(paths)) == 8
    assert imported(root, starts[::-1]) == paths


def test_a_file_outside_the_root_brings_nothing(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("import mechanisms.alone\n")
    assert imported(root, [other]) == ()
