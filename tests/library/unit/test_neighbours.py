"""Neighbouring data sets differ in one record, or are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.audit.neighbours import Neighbours, extra_last
from dpaudit.audit.suite import Suite
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.kernels.query import Records
from dpaudit.scope import Adjacency
from tests.support.kernels import Releases

ROWS = np.array([[1.0, np.nan], [0.0, 2.0], [5.0, 5.0]])


def changed(which: int, value: float) -> Records:
    rows = ROWS.copy()
    rows[which, 1] = value
    return Records(rows)


def without(which: int, rows: Any = ROWS) -> Records:
    return Records(rows, np.arange(3) != which)


ALL = Records(ROWS)
VALID: dict[str, tuple[Records, Records, Any]] = {
    "one value": (ALL, changed(1, 7.0), "replace_one"),
    "to not a number": (ALL, changed(1, np.nan), "replace-one"),
    "to zero": (ALL, changed(0, 0.0), Adjacency.REPLACE_ONE),
    "blanked": (ALL, without(0), "zero_out"),
    "blanked and overwritten": (ALL, without(1, changed(1, 9.0).values), "zero_out"),
    "last added": (Records(ROWS[:2]), ALL, "add_remove"),
    "last removed": (ALL, Records(ROWS[:2]), "add_remove"),
}


@pytest.mark.parametrize("name", VALID)
def test_neighbours_that_differ_in_one_record(name: str) -> None:
    first, second, adjacency = VALID[name]
    found = Neighbours(first, second, adjacency, name)
    assert found.pair == (first, second)
    assert isinstance(found.adjacency, Adjacency)
    assert len(set(found.digests)) == 2
    assert Neighbours(second, first, adjacency, name).digests == found.digests[::-1]


REFUSED: dict[str, tuple[Records, Records, Any, str]] = {
    "equal": (ALL, Records(ROWS.copy()), "replace_one", "0 records differ"),
    "equal and zero_out": (ALL, changed(1, 7.0), "zero_out", "0 records differ"),
    "all": (ALL, Records(ROWS + 1), "replace_one", "3 records differ"),
    "two blanked": (without(0), without(1), "zero_out", "2 records differ"),
    "blanked and another": (ALL, without(0, changed(1, 9.0).values), "zero_out", "2 records"),
    "signs of zero": (
        Records(np.zeros((3, 1))),
        Records(-np.zeros((3, 1))),
        "replace_one",
        "0 rec",
    ),
    "sizes": (ALL, Records(ROWS[:2]), "replace_one", "sizes 3 and 2"),
    "sizes, zero_out": (ALL, Records(ROWS[:2]), "zero_out", "sizes 3 and 2"),
    "blanked and replace_one": (ALL, without(0), "replace_one", "not replace_one"),
    "same size": (ALL, changed(1, 7.0), "add_remove", "sizes 3 and 3"),
    "two added": (ALL, Records(ROWS[:1]), "add_remove", "sizes 3 and 1"),
    "first removed": (ALL, Records(ROWS[1:]), "add_remove", "3 records differ"),
    "blanked and add_remove": (without(0), Records(ROWS[:2]), "add_remove", "not add_remove"),
    "widths": (ALL, Records(ROWS[:, :1]), "replace_one", "different shapes"),
    "unknown": (ALL, changed(1, 7.0), "hamming", "expected one of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_are_no_neighbours_is_refused(name: str) -> None:
    first, second, adjacency, message = REFUSED[name]
    with pytest.raises(InvalidParameter, match=message):
        Neighbours(first, second, adjacency, name)


def test_digests_tell_shape_and_presence_apart() -> None:
    flat = np.zeros((4, 1))
    same = Neighbours(Records(flat), Records(flat, np.arange(4) > 0), Adjacency.ZERO_OUT, "x")
    wide = Records(np.zeros((2, 2)))
    other = Neighbours(
        wide, Records(np.zeros((2, 2)), np.array([True, False])), same.adjacency, "y"
    )
    assert len({*same.digests, *other.digests}) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [({"threat_model": "psychic"}, "threat_model"), ({"trials": 1}, "trials")],
)
def test_a_suite_refuses_what_it_cannot_run(options: dict[str, Any], message: str) -> None:
    pair = Neighbours(ALL, changed(1, 7.0), Adjacency.REPLACE_ONE, "one value")
    assert Suite("name", Releases(Gaussian("a", 1), ()), pair).threshold == 0
    with pytest.raises(InvalidParameter, match=message):
        Suite("name", Releases(Gaussian("a", 1), ()), pair, **options)


@pytest.mark.parametrize("place", range(3))
def test_the_extra_record_is_moved_to_the_end(place: int) -> None:
    """In either order, at any place; the pair is then neighbours under add_remove."""
    shorter = Records(np.delete(ROWS, place, axis=0))
    for given in ((ALL, shorter), (shorter, ALL)):
        pair = extra_last(*given)
        assert pair is not None
        assert np.array_equal(pair[0].values[-1], ROWS[place], equal_nan=True)
        assert Neighbours(*pair, Adjacency.ADD_REMOVE, "one record").pair == pair


def test_data_sets_that_differ_in_more_have_no_extra_record() -> None:
    other = Records(ROWS[:2] + 1)
    for pair in ((ALL, other), (ALL, ALL), (ALL, Records(ROWS[:1])), (without(0), other)):
        assert extra_last(*pair) is None
