"""Outputs are compared with all that is in them, or what does not show it is refused by name."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.curator import outputs
from dpaudit.curator.curator import Curator
from dpaudit.curator.outputs import same_output
from tests.support.examined import Stepping, mechanism


class Slots:
    """An object without a dictionary."""

    __slots__ = ("inside",)

    def __init__(self, inside: Any) -> None:
        self.inside = inside


class Listed(list[int]):
    """A list with an attribute."""


class Tensor:
    """As a tensor of another library: an array that is seen in no attribute."""

    __slots__ = ("array",)

    def __init__(self, inside: float) -> None:
        self.array = np.array([inside])

    def __dlpack__(self) -> None:
        raise NotImplementedError

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.array

    def __reduce_ex__(self, _: Any) -> Any:
        return "another" + str(id(self))


def itself(inside: Any) -> Any:
    """A list that holds itself, and something else."""
    found: list[Any] = []
    found += [found, {"again": found}, inside]
    return found


def nested(inside: Any) -> Any:
    """Three thousand lists in one another."""
    for _ in range(3_000):
        inside = [inside]
    return inside


def listed(inside: Any) -> Any:
    """A list with something beside its items."""
    found = Listed([1])
    found.inside = inside  # type: ignore[attr-defined]
    return found


KINDS: dict[str, Callable[[float], Any]] = {
    "a list that holds itself": itself,
    "nested": nested,
    "slots": Slots,
    "a list with an attribute": listed,
    "a closure": lambda inside: lambda: inside,
    "a partial function": lambda inside: functools.partial(float, inside),
    "a method": lambda inside: Slots(inside).__reduce__,
    "a tensor": Tensor,
    "an array of objects": lambda inside: np.array([Slots(inside)]),
    "a generator": lambda inside: np.random.default_rng(int(10 * inside)),
    "keys": lambda inside: {(1, inside): 1},
    "a set": lambda inside: {inside},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_object_holds_is_compared(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = KINDS[kind]
    assert same_output(make(0.5), make(0.5))
    assert not same_output(make(0.5), make(1.5))
    # What sees it: without a look inside, two of a kind are the same.
    monkeypatch.setattr(outputs, "_inside", lambda _: iter(()))
    assert same_output(make(0.5), make(1.5)) == (kind != "a set")


def test_objects_without_attributes_are_the_same() -> None:
    assert same_output(object(), object())
    assert same_output([object(), {"a": object()}], [object(), {"a": object()}])
    assert not same_output(object(), Slots(1))
    assert same_output([np.nan, -0.0], [float("nan"), 0.0])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: (number for number in (1, 2)), "a builtins.generator"),
        (threading.Lock, "a _thread.lock"),
        (lambda: {object()}, "a builtins.set"),
    ],
)
def test_what_does_not_show_what_is_in_it_is_refused_by_name(
    make: Callable[[], Any], said: str
) -> None:
    with pytest.raises(dp.InvalidParameter, match=f"the output holds {said}, which does not show"):
        same_output([make()], [make()])


@dataclass(frozen=True)
class Giving(Stepping):
    """A right program whose output is made into something else."""

    make: Callable[[Any], Any] = itself

    def run(self, curator: Curator) -> Any:
        return self.make(super().run(curator))


@pytest.mark.quality
def test_an_output_that_holds_itself_is_no_finding_and_no_end() -> None:
    for make in (itself, lambda output: (output, object())):
        found = dp.certify(mechanism("gives", Giving(make=make)), seed=1, trials=200)
        assert found.verdict == "certified under assumptions"
    with pytest.raises(dp.InvalidParameter, match=r"a _thread\.lock"):
        dp.certify(mechanism("gives", Giving(make=lambda _: threading.Lock())), seed=1, trials=200)
