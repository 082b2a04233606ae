"""Places: the line of a program, found on the stack and in errors, without a user's folders."""

from __future__ import annotations

import contextlib
import inspect
from pathlib import Path

import pytest

from dpaudit.curator.curator import Tracer
from dpaudit.curator.locations import at, line_of_code, line_of_error, place_in, program_line
from dpaudit.errors import Undeclared
from dpaudit.families.additive import Gaussian
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import ClippedMean, Records
from dpaudit.scope import Scope

HERE = "tests/library/unit/test_places.py"


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_the_line_that_asks_is_the_caller() -> None:
    assert program_line() == f"{HERE}:{here()}"
    found = [program_line() for _ in range(1)]
    assert found == [f"{HERE}:{here() - 1}"]


def test_libraries_between_are_passed_over() -> None:
    with contextlib.ExitStack() as stack:
        found: list[str] = []
        stack.callback(lambda: found.append(program_line()))
        stack.close()
    assert found[0].startswith(f"{HERE}:")


@pytest.mark.parametrize("label", ["a", "b"])
def test_an_error_has_the_line_of_the_program_not_of_dpaudit(label: str) -> None:
    scope = Scope("zero_out", "record", "central", "transcript")  # type: ignore[arg-type]
    tracer = Tracer(PoissonSampled(Gaussian("a", 1), 0.5), scope, Records([[0.0]]))  # type: ignore[arg-type]
    query = ClippedMean(lambda z: z[None], 1.0, divisor=1.0)
    with pytest.raises(Undeclared) as caught:
        tracer.release(label, query)
    assert line_of_error(caught.value) == f"{HERE}:{here() - 1}"


def test_an_error_that_was_never_raised_has_no_line() -> None:
    assert line_of_error(ValueError("x")) == ""


def test_a_package_is_named_by_its_file() -> None:
    code = test_a_package_is_named_by_its_file.__code__
    moved = code.replace(co_filename="/home/somebody/secret/mechanisms/__init__.py")
    assert line_of_code(moved, "mechanisms", 3) == "mechanisms/__init__.py:3"
    assert line_of_code(code, "tests.library.unit.test_places", 4) == f"{HERE}:4"
    assert not Path(line_of_code(code, "test_places")).is_absolute()


@pytest.mark.parametrize("place", ["mechanisms/diff2.py:12", "x.py:1"])
def test_a_place_is_read_back_from_a_message(place: str) -> None:
    assert place_in(f"release 'a': wrong{at(place)}") == place
    assert place_in(f"the program stopped{at(f'after {place}')}") == place


@pytest.mark.parametrize("message", ["", "nothing", "release 1 ('a')", "a (b) c", "x (y.py:z)"])
def test_a_message_without_a_place_has_none(message: str) -> None:
    assert place_in(message) == ""
    assert at("") == ""
