"""Starting a project: files that belong together, never over somebody's own, never outside."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.certificate.evidence import differences
from dpaudit.cli.terminal import plain
from dpaudit.errors import OutputNotWritable, UnknownTarget
from dpaudit.project.scaffold import start
from dpaudit.storage.fields import FIELDS, ProjectFields, read_fields


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_new_project_has_both_packages(tmp_path: Path) -> None:
    written = start(tmp_path / "new", None)
    expected = {f"{p}/{n}.py" for p in ("mechanisms", "audits") for n in ("__init__", "noisy_mean")}
    expected |= {"mechanisms/own_queries.py", "mechanisms/people.csv", "dpaudit.toml"}
    assert files(tmp_path / "new") == expected
    assert {path.relative_to(tmp_path / "new").as_posix() for path in written} == expected


def test_a_new_project_states_nothing_yet_and_names_all_that_it_may(tmp_path: Path) -> None:
    start(tmp_path, None)
    assert read_fields(tmp_path) == ProjectFields()
    path = tmp_path / "dpaudit.toml"
    (tmp_path / "...").write_text("{}")  # what an sbom names exists
    path.write_text(re.sub(r"(?m)^# (\w+ = )", r"\1", path.read_text()))
    assert list(read_fields(tmp_path).of("noisy_mean")) == list(FIELDS)


def test_a_first_mechanism_on_ones_own_data_takes_25_lines(tmp_path: Path) -> None:
    start(tmp_path, None)
    lines = (tmp_path / "mechanisms" / "noisy_mean.py").read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 25
    assert "Setting" not in "".join(lines)


def test_a_first_certificate_is_of_the_program_itself() -> None:
    """Two instances of one class without state are one program: its suite is no stand-in."""
    from audits import noisy_mean as audit
    from dpaudit.certificate.attempts import stand_in
    from mechanisms import noisy_mean as first

    assert audit.noisy_mean.program is not first.noisy_mean.program
    assert stand_in(first.noisy_mean, audit.noisy_mean) == ()


def test_the_pair_of_a_new_project_sees_leaks_through_sizes_and_weights() -> None:
    """A pair such as +1 and -1 among zeros cannot: its absolute values and norms are the same."""
    from audits.noisy_mean import pair

    one, other = pair.first.values, pair.second.values
    assert (np.abs(one[0]) != np.abs(other[0])).all()
    assert np.linalg.norm(one[0]) != np.linalg.norm(other[0])
    assert (np.linalg.norm(one[1:], axis=1) > 0).all()


class Holds:
    """A plain object, and what it holds."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Listed(dict[str, int]):
    """Holds more than its attributes."""


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (Holds(1), Holds(1), []),
        (Holds(1), Holds(2), ["value is another"]),
        (Holds(Holds(1)), Holds(Holds(2)), ["value.value is another"]),
        (Holds(1), Listed(), ["the program is Listed, not Holds"]),
        (Listed(a=1), Listed(a=2), ["the program is another"]),
        (lambda: 1, lambda: 1, ["the program is another"]),
    ],
)
def test_a_program_that_holds_something_else_is_another(
    one: Any, other: Any, said: list[str]
) -> None:
    assert differences(one, other) == said


def test_spaces_that_do_not_break_are_spaces_on_a_terminal() -> None:
    assert plain("\u03bc\xa0=\u202f1\x1b[2J") == "\u03bc = 1\\x1b[2J"


@pytest.mark.quality
def test_a_mechanism_comes_with_its_own_files_only(tmp_path: Path) -> None:
    start(tmp_path, "most_frequent")  # the name of a mechanism, and of no file
    ours = {
        f"{p}/classics/{n}.py"
        for p in ("mechanisms", "audits")
        for n in ("__init__", "exponential")
    }
    assert files(tmp_path) == ours | {
        "mechanisms/__init__.py",
        "audits/__init__.py",
        "dpaudit.toml",
    }
    start(tmp_path / "other", "noisy_count")
    assert "mechanisms/classics/noisy_count.py" in files(tmp_path / "other")
    assert not any("histogram" in name for name in files(tmp_path / "other"))


def test_a_shipped_mechanism_comes_with_everything_it_imports(
    tmp_path: Path, checkout: Path
) -> None:
    start(tmp_path, "diff2")
    copied = files(tmp_path)
    ours = ("diff2/__init__", "diff2/framework", "common/losses")
    assert {f"mechanisms/papers/{name}.py" for name in ours} <= copied
    assert "audits/diff2.py" in copied
    assert not any("broken" in name for name in copied)
    for name in copied - {"mechanisms/__init__.py", "audits/__init__.py", "dpaudit.toml"}:
        assert (tmp_path / name).read_bytes() == (checkout / name).read_bytes()
        for statement in ast.walk(ast.parse((tmp_path / name).read_text())):
            module = getattr(statement, "module", None) or ""
            if isinstance(statement, ast.ImportFrom) and module.startswith(
                ("mechanisms.", "audits.")
            ):
                base = module.replace(".", "/")
                assert copied & {f"{base}.py", f"{base}/__init__.py"}


@pytest.mark.parametrize("copied", [None, "diff2"])
def test_nothing_is_overwritten(copied: str | None, tmp_path: Path) -> None:
    first = "mechanisms/noisy_mean.py" if copied is None else "mechanisms/papers/diff2/framework.py"
    (tmp_path / first).parent.mkdir(parents=True)
    (tmp_path / first).write_text("mine")
    with pytest.raises(OutputNotWritable, match="exists; choose an empty folder"):
        start(tmp_path, copied)
    assert files(tmp_path) == {first}
    assert (tmp_path / first).read_text() == "mine"


def test_a_project_can_be_added_to(tmp_path: Path) -> None:
    (tmp_path / "mechanisms").mkdir()
    (tmp_path / "mechanisms" / "__init__.py").write_text('"""Mine."""\n')
    start(tmp_path, None)
    start(tmp_path, "diff2")
    assert (tmp_path / "mechanisms" / "__init__.py").read_text() == '"""Mine."""\n'
    assert {"mechanisms/noisy_mean.py", "mechanisms/papers/diff2/framework.py"} <= files(tmp_path)


@pytest.mark.quality
def test_an_unknown_file_is_answered_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownTarget, match="nothing of that name is shipped; shipped are"):
        start(tmp_path, "diff3")
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    "name", ["../audits/diff2", "/etc/passwd", "diff2.py", "", "a b", "broken/diff2"]
)
def test_a_path_is_no_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownTarget, match="give the name of a shipped file or mechanism"):
        start(tmp_path / "new", name)
    assert not (tmp_path / "new").exists()


def test_a_folder_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputNotWritable, match="choose a folder"):
        start(tmp_path / "file" / "new", None)
