"""Project roots: which one is found, and what serving one puts on the path."""

from __future__ import annotations

import hashlib
import marshal
import struct
import sys
import types
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

from dpaudit.errors import UnknownTarget
from dpaudit.storage import roots
from tests.support.swapped import Swap, swapping


def test_an_editable_install_serves_the_checkout(checkout: Path) -> None:
    assert roots.catalogue_root() == checkout
    assert roots.is_root(checkout)


def test_the_nearest_root_above_is_found(scratch: Path) -> None:
    below = scratch / "mechanisms" / "deep" / "deeper"
    below.mkdir(parents=True)
    assert roots.find_root(below) == scratch
    assert roots.find_root(scratch) == scratch


def test_a_root_inside_a_root_comes_first(scratch: Path) -> None:
    inner = scratch / "inner"
    for package in roots.PACKAGES:
        (inner / package).mkdir(parents=True)
    assert roots.find_root(inner / "audits") == inner


def test_one_folder_of_the_two_is_no_root(tmp_path: Path) -> None:
    (tmp_path / "mechanisms").mkdir()
    (tmp_path / "audits").write_text("a file")
    assert roots.root_above(tmp_path) is None
    assert roots.find_root(tmp_path) == roots.catalogue_root()


def test_a_start_that_does_not_exist_is_walked_up_all_the_same(scratch: Path) -> None:
    assert roots.find_root(scratch / "gone" / "further") == scratch


@pytest.mark.usefixtures("unserved")
def test_serving_puts_the_root_first_and_once(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scratch / "audits")
    link = scratch.parent / "link"
    link.symlink_to(scratch)
    assert roots.serve(scratch) == scratch
    assert roots.serve(link) == scratch
    assert roots.serve(Path("..")) == scratch
    assert sys.path[0] == str(scratch)
    assert sys.path.count(str(scratch)) == 1


@pytest.mark.usefixtures("unserved")
def test_a_second_root_is_refused_by_name(scratch: Path, checkout: Path) -> None:
    roots.serve(scratch)
    before = list(sys.path)
    with pytest.raises(UnknownTarget, match="one command for each") as caught:
        roots.serve(checkout)
    assert str(scratch) in str(caught.value)
    assert str(checkout) in str(caught.value)
    assert sys.path == before


@pytest.mark.usefixtures("unserved")
@pytest.mark.parametrize("package", roots.PACKAGES)
def test_a_package_imported_from_elsewhere_is_refused(
    package: str, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType(package)
    module.__path__ = [str(tmp_path / "elsewhere" / package)]
    monkeypatch.setitem(sys.modules, package, module)
    before = list(sys.path)
    with pytest.raises(UnknownTarget, match="already imported from") as caught:
        roots.serve(scratch)
    assert module.__path__[0] in str(caught.value)
    assert str(scratch / package) in str(caught.value)
    assert sys.path == before


@pytest.mark.usefixtures("unserved")
def test_a_folder_without_init_is_refused(scratch: Path) -> None:
    """Another ``audits`` with one, later on the path, would be imported in its place."""
    (scratch / "audits" / "__init__.py").unlink()
    with pytest.raises(UnknownTarget, match=r"audits/__init__\.py is missing"):
        roots.serve(scratch)


@pytest.mark.usefixtures("unserved")
def test_a_folder_that_is_no_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownTarget, match="is no project root"):
        roots.serve(tmp_path)


def test_sources_are_ordered_and_hide_what_is_hidden(scratch: Path) -> None:
    for name in ("zz/__init__.py", "zz/inner.py", ".cache/x.py", ".#lock.py", "notes.txt"):
        path = scratch / "mechanisms" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    names = [roots.module_name(path, scratch) for path in roots.sources(scratch)]
    assert names == [
        "mechanisms",
        "mechanisms.noisy_mean",
        "mechanisms.zz",
        "mechanisms.zz.inner",
        "audits",
        "audits.noisy_mean",
    ]


def test_digests_are_of_the_bytes_of_every_source(scratch: Path) -> None:
    names = ("__init__.py", "noisy_mean.py")
    paths = [f"{package}/{name}" for package in roots.PACKAGES for name in names]
    before = roots.digests(scratch, roots.sources(scratch))
    assert before == {
        path: hashlib.sha256((scratch / path).read_bytes()).hexdigest() for path in paths
    }
    with (scratch / paths[1]).open("a") as file:
        file.write("# changed\n")
    after = roots.digests(scratch, roots.sources(scratch))
    assert {path for path in paths if before[path] != after[path]} == {paths[1]}


def planted(folder: Path) -> tuple[Path, bytes]:
    """A module, and the source of a lie of which a compiled file stands beside it."""
    module = folder / "mechanisms" / "noisy_mean.py"
    lie = module.read_bytes() + b"LIE = True\n"
    stat = module.stat()
    head = MAGIC_NUMBER + struct.pack("<III", 0, int(stat.st_mtime), stat.st_size)
    compiled = Path(cache_from_source(str(module)))
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(head + marshal.dumps(compile(lie, str(module), "exec")))
    return module, lie


def test_what_was_hashed_is_what_runs(scratch: Path, unserved: None) -> None:
    """Neither a compiled file of other source nor a file changed since is taken for what ran."""
    module, lie = planted(scratch)
    honest = module.read_bytes()
    root = roots.serve(scratch)
    with swapping(Swap(module, lie, after=1)):
        roots.import_all(root)
    assert not hasattr(sys.modules["mechanisms.noisy_mean"], "LIE")
    with pytest.raises(UnknownTarget, match="changed while this command ran"):
        roots.digests(root, [module])
    module.write_bytes(honest)
    own = hashlib.sha256(honest).hexdigest()
    assert roots.digests(root, [module]) == {"mechanisms/noisy_mean.py": own}


def test_the_interpreters_own_loader_runs_what_was_not_hashed(
    scratch: Path, unserved: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roots._Served, "find_spec", lambda *arguments: None)
    planted(scratch)
    roots.import_all(roots.serve(scratch))
    assert hasattr(sys.modules["mechanisms.noisy_mean"], "LIE")
