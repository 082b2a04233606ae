"""One case of each kind stays in ``make test``."""

from __future__ import annotations

from tests.support.long_cases import WHOLE, long_cases, named


def test_the_shortest_case_of_a_kind_stays() -> None:
    seconds = {"a.py::test[1]": 9.0, "a.py::test[2]": 5.0, "a.py::test[3]": 0.1, "a.py::alone": 9.0}
    assert long_cases(seconds) == ["a.py::test[1]", "a.py::test[2]"]
    assert long_cases({f"{WHOLE[0]}::test[{k}]": 9.0 for k in range(3)}) == []


def test_the_list_names_cases_and_no_whole_test() -> None:
    assert named()
    assert all("[" in node for node in named() if node)
