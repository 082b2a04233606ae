"""What a root defines, which target names it, and what is said when it does not."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dpaudit.errors import UnknownTarget
from dpaudit.project import project

pytestmark = pytest.mark.usefixtures("unserved")

TWIN = """
from dataclasses import replace
from mechanisms.noisy_mean import noisy_mean

{attribute} = replace(noisy_mean, name="{name}")
"""
ATTACK = """
from dataclasses import replace
from audits.noisy_mean import suite

{attribute} = replace(suite, mechanism="{name}")
"""
PLANTED = """
from dataclasses import replace
from audits.noisy_mean import suite
from mechanisms.noisy_mean import NoisyMean, noisy_mean

quarter = replace(suite, program=NoisyMean(1), bug="a quarter of the variance")
eighth = replace(suite, program=NoisyMean(1), bug="the same, twice")
wrong_mean = replace(noisy_mean, name="wrong_mean")
wrong_suite = replace(suite, mechanism="wrong_mean", bug="its own declaration is wrong")
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def plant(root: Path) -> None:
    write(root / "audits" / "broken" / "__init__.py", "")
    write(root / "audits" / "broken" / "noisy_mean.py", PLANTED)


def message(root: Path, target: str) -> str:
    with pytest.raises(UnknownTarget) as caught:
        project.resolve(target, root)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_load_collects_mechanisms_and_suites(scratch: Path) -> None:
    loaded = project.load(scratch)
    assert loaded.root == scratch
    assert list(loaded.mechanisms) == list(loaded.suites) == ["noisy_mean"]
    assert loaded.suites["noisy_mean"].program is loaded.mechanisms["noisy_mean"].program
    assert sys.modules["mechanisms.noisy_mean"].__file__ == str(
        scratch / "mechanisms/noisy_mean.py"
    )
    assert not loaded.broken.mechanisms
    assert not loaded.broken.suites


def test_an_imported_object_is_no_duplicate(scratch: Path) -> None:
    write(scratch / "mechanisms" / "again.py", "from mechanisms.noisy_mean import noisy_mean as a")
    assert list(project.load(scratch).mechanisms) == ["noisy_mean"]


def test_broken_implementations_are_kept_apart(scratch: Path) -> None:
    plant(scratch)
    loaded = project.load(scratch)
    assert list(loaded.mechanisms) == list(loaded.suites) == ["noisy_mean"]
    assert list(loaded.broken.mechanisms) == ["wrong_mean"]
    assert {place: s.mechanism for place, s in loaded.broken.suites.items()} == {
        "noisy_mean.quarter": "noisy_mean",
        "noisy_mean.eighth": "noisy_mean",
        "noisy_mean.wrong_suite": "wrong_mean",
    }


@pytest.mark.parametrize(
    ("file", "text"),
    [("mechanisms/twin.py", TWIN), ("audits/twin.py", ATTACK), ("audits/broken/twin.py", TWIN)],
)
def test_two_of_one_name_are_refused(file: str, text: str, scratch: Path) -> None:
    write(scratch / "audits" / "broken" / "__init__.py", "")
    write(scratch / file, text.format(attribute="twin", name="noisy_mean"))
    said = message(scratch, "noisy_mean")
    assert "'noisy_mean'" in said
    assert "twin.twin" in said
    assert f"{file.split('/')[0]}.noisy_mean." in said or "mechanisms.noisy_mean." in said


def test_an_implementation_is_the_files_that_it_imports(scratch: Path) -> None:
    write(scratch / "mechanisms" / "again.py", "from mechanisms.noisy_mean import noisy_mean as a")
    write(scratch / "mechanisms" / "other.py", TWIN.format(attribute="other", name="other"))
    loaded = project.load(scratch)
    one, suite = loaded.mechanisms["noisy_mean"], loaded.suites["noisy_mean"]
    own = {"mechanisms/__init__.py", "mechanisms/noisy_mean.py"}
    audit = {"audits/__init__.py", "audits/noisy_mean.py"}
    assert set(project.implementation(loaded, one, None)) == own
    assert set(project.implementation(loaded, one, suite)) == own | audit
    other = project.implementation(loaded, loaded.mechanisms["other"], None)
    assert set(other) == own | {"mechanisms/other.py"}


def test_an_object_without_a_file_is_made_of_every_file(scratch: Path) -> None:
    loaded = project.load(scratch)
    one = replace(loaded.mechanisms["noisy_mean"], name="elsewhere")
    assert len(project.implementation(loaded, one, None)) == 4


@pytest.mark.parametrize("folder", ["audits", "audits/broken"])
def test_a_suite_of_no_mechanism_is_refused(folder: str, scratch: Path) -> None:
    write(scratch / "audits" / "broken" / "__init__.py", "")
    write(scratch / folder / "lost.py", ATTACK.format(attribute="lost", name="noisy_meen"))
    loaded = project.load(scratch)
    (said,) = loaded.refused.values()
    assert "lost.lost attacks 'noisy_meen'" in said
    assert "did you mean noisy_mean?" in said
    assert list(loaded.suites) == ["noisy_mean"]
    assert not loaded.broken.suites


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("x = 1\ndef broken(:\n", 2, "SyntaxError: invalid syntax"),
        ("\n\nimport no_such_module\n", 3, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("from mechanisms.noisy_mean import gone\n", 1, "ImportError: cannot import name 'gone'"),
        ("def f():\n    return 1 / 0\n\nf()\n", 2, "ZeroDivisionError: division by zero"),
        ("raise ValueError('first\\nsecond')\n", 1, "ValueError: first;"),
        ("raise KeyError\n", 1, "KeyError: no message"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("import ast\nast.parse('(')\n", 2, "SyntaxError: '(' was never closed"),
        (TWIN.format(attribute="a", name="No Name"), 5, "InvalidParameter: Mechanism.name"),
    ],
)
def test_a_file_that_does_not_import_says_where_and_why(
    text: str, line: int, cause: str, scratch: Path
) -> None:
    file = write(scratch / "mechanisms" / "wrong.py", text)
    loaded = project.load(scratch)
    said = loaded.refused["mechanisms/wrong.py"]
    assert cause in said
    assert said.startswith(f"{file}:{line}: mechanisms.wrong does not import: ")
    assert said.endswith("mend the file or take it out of the project")
    assert "\n" not in said
    assert message(scratch, f"{file}::a") == said
    assert said in message(scratch, "nobody")


def test_a_broken_file_breaks_its_own_mechanisms_only(scratch: Path) -> None:
    write(scratch / "mechanisms" / "wrong.py", "x = 1\ndef broken(:\n")
    write(scratch / "audits" / "of_wrong.py", "from mechanisms.wrong import x\n")
    write(scratch / "audits" / "of_nothing.py", ATTACK.format(attribute="lost", name="gone"))
    found = project.resolve("noisy_mean", scratch)
    assert found.suite is not None
    assert set(project.implementation(found.project, found.mechanism, found.suite)) == {
        "audits/__init__.py",
        "audits/noisy_mean.py",
        "mechanisms/__init__.py",
        "mechanisms/noisy_mean.py",
    }
    broken = ["audits/of_wrong.py", "mechanisms/wrong.py", "audits/of_nothing.py:5"]
    assert sorted(found.project.refused) == sorted(broken)
    shown = project.rows(found.project)
    assert [row.name for row in shown if not row.error] == ["noisy_mean"]
    assert {row.name for row in shown if row.error} == set(broken)


def test_the_file_that_fails_is_named_and_not_the_one_that_imports_it(scratch: Path) -> None:
    write(scratch / "mechanisms" / "a_first.py", "import mechanisms.z_last\n")
    file = write(scratch / "mechanisms" / "z_last.py", "\n1 / 0\n")
    refused = project.load(scratch).refused
    assert refused.keys() == {"mechanisms/a_first.py", "mechanisms/z_last.py"}
    assert all(said.startswith(f"{file}:2: ") for said in refused.values())


@pytest.mark.parametrize("where", [".", "mechanisms", "audits"])
def test_a_name_is_found_from_anywhere_in_its_project(where: str, scratch: Path) -> None:
    target = project.resolve("noisy_mean", scratch / where)
    assert target.mechanism is target.project.mechanisms["noisy_mean"]
    assert target.suite is target.project.suites["noisy_mean"]


def test_planted_bugs_are_no_suite_of_a_mechanism_without_one(scratch: Path) -> None:
    (scratch / "audits" / "broken").mkdir()
    (scratch / "audits" / "noisy_mean.py").rename(scratch / "audits" / "broken" / "original.py")
    target = project.resolve("noisy_mean", scratch)
    assert list(target.project.broken.suites) == ["original.suite"]
    assert target.suite is None


@pytest.mark.quality
def test_the_catalogue_is_named_by_its_prefix(scratch: Path, checkout: Path) -> None:
    target = project.resolve("catalogue:diff2_gd_client", scratch)
    assert target.project.root == checkout
    assert target.mechanism.name == "diff2_gd_client"
    assert target.suite is not None


@pytest.mark.quality
def test_an_empty_folder_serves_the_catalogue(tmp_path: Path, checkout: Path) -> None:
    assert project.resolve("dp_gd", tmp_path).project.root == checkout


def test_two_roots_in_one_process_are_refused(scratch: Path, checkout: Path) -> None:
    project.resolve("noisy_mean", scratch)
    said = message(scratch, "catalogue:dp_gd")
    assert str(scratch) in said
    assert str(checkout) in said


@pytest.mark.parametrize(
    "target",
    [
        "{root}/mechanisms/noisy_mean.py::noisy_mean",
        "scratch/mechanisms/noisy_mean.py::noisy_mean",
        "scratch/mechanisms/../audits/noisy_mean.py::suite",
        "scratch/mechanisms/held.py::other",
        "scratch/mechanisms/held.py::noisy_mean",
    ],
)
def test_a_file_serves_its_own_root(target: str, scratch: Path) -> None:
    write(
        scratch / "mechanisms" / "held.py", "from mechanisms.noisy_mean import noisy_mean as other"
    )
    found = project.resolve(target.format(root=scratch), scratch.parent)
    assert found.project.root == scratch
    assert found.mechanism is found.project.mechanisms["noisy_mean"]
    assert found.suite is found.project.suites["noisy_mean"]


def test_a_planted_bug_is_a_target(scratch: Path) -> None:
    plant(scratch)
    by_place = project.resolve("noisy_mean.eighth", scratch)
    target = project.resolve("audits/broken/noisy_mean.py::eighth", scratch)
    assert (by_place.mechanism, by_place.suite) == (target.mechanism, target.suite)
    assert target.mechanism is target.project.mechanisms["noisy_mean"]
    assert target.suite is target.project.broken.suites["noisy_mean.eighth"]
    for name in ("wrong_mean", "audits/broken/noisy_mean.py::wrong_mean"):
        target = project.resolve(name, scratch)
        assert target.mechanism is target.project.broken.mechanisms["wrong_mean"]
        assert target.suite is target.project.broken.suites["noisy_mean.wrong_suite"]


@pytest.mark.long_cases("catalogue:noisy_meam-no mechanism 'noisy_meam'")
@pytest.mark.parametrize(
    ("target", "part"),
    [
        ("noisy_meen", "did you mean noisy_mean?"),
        ("qqqq", "it holds noisy_mean;"),
        ("", "no mechanism ''"),
        ("qqqq", "`catalogue:NAME` is a shipped one"),
        ("mechanisms/noisy_mean.py", "say which mechanism, mechanisms/noisy_mean.py::NAME"),
        ("mechanisms/noisy_mean.py::noisy", "did you mean noisy_mean?"),
        ("mechanisms/noisy_mean.py::NoisyMean", "no mechanism or suite 'NoisyMean'"),
        ("mechanisms/noisy_mean.py::", "no mechanism or suite ''"),
        ("mechanisms/__init__.py::x", "it holds nothing"),
        ("mechanisms/gone.py::x", "gone.py is not a file; the form is path/to/file.py::NAME"),
        ("mechanisms::x", "mechanisms is not a file"),
        ("::x", "is not a file"),
        ("notes.txt::x", "is no module of a project's mechanisms/ or audits/"),
        ("mechanisms/notes.txt::x", "is no module of a project's mechanisms/ or audits/"),
        ("../outside.py::x", "start one with `dpaudit init`"),
        ("catalogue:noisy_meam", "no mechanism 'noisy_meam'"),
    ],
)
def test_what_is_not_there_is_named_with_a_way_out(target: str, part: str, scratch: Path) -> None:
    for name in ("notes.txt", "mechanisms/notes.txt", "../outside.py"):
        (scratch / name).touch()
    assert part in message(scratch, target)


@pytest.mark.quality
def test_another_root_is_listed_without_being_served(scratch: Path) -> None:
    write(scratch / "mechanisms" / "loud.py", "print('a module that prints')\n")
    before = list(sys.path)
    assert project.foreign_catalogue(scratch) == (
        project.Row(
            name="noisy_mean",
            title="A noisy mean",
            source="dpaudit's tests",
            scope="replace_one of one record, central model, transcript released",
            claims=(project.ClaimRow("GDP(mu=0.5)", "dpaudit's tests", "", "proved"),),
        ),
    )
    assert sys.path == before
    assert "mechanisms" not in sys.modules
    assert project.rows(project.load(scratch)) == project.foreign_catalogue(scratch)


def test_another_root_that_fails_is_one_line(scratch: Path) -> None:
    file = write(scratch / "mechanisms" / "wrong.py", TWIN.format(attribute="a", name="noisy_mean"))
    with pytest.raises(UnknownTarget) as caught:
        project.foreign_catalogue(scratch)
    assert str(caught.value).startswith(f"{scratch} could not be listed: two of type Mechanism")
    assert file.stem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.quality
def test_what_a_project_defines_reaches_worker_processes(scratch: Path) -> None:
    """The catalogue on an editable install's path must not win over the project that is served."""
    program = """
import json, sys
from pathlib import Path
from joblib import Parallel, delayed
from dpaudit.project import project

def main():
    target = project.resolve("noisy_mean", Path.cwd())
    task = delayed(target.mechanism.program.declaration)
    nodes = Parallel(n_jobs=2)(task(target.mechanism.scope) for _ in range(2))
    print(json.dumps([str(node.noise_multiplier) for node in nodes]))

main()
"""
    child = subprocess.run(
        [sys.executable, "-c", program], cwd=scratch, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    assert json.loads(child.stdout) == ["2", "2"]
