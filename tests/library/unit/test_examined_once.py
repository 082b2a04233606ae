"""The shared examinations of the tests: once for a program and a seed, again for another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.examine import Examination
from dpaudit.certificate.order import Options, Order, plan
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import GDP
from dpaudit.kernels.base import KERNELS
from dpaudit.kernels.query import Records
from tests.library.cli.bench import DIGESTS, NoNoise, Releases, mechanism, suite
from tests.support.examined_once import examined_once

CASE = mechanism("case", Gaussian("a", 2), GDP(0.5), labels=("a",))
ORDER = Order(CASE, None, "project", DIGESTS)
RUN = plan([ORDER], Options(seed=1))
ROWS = Records(np.zeros((5, 1)))


class Another(Releases):
    """Of the same text."""


def test_what_an_examination_depends_on_is_examined_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def examined(*given: Any, **how: Any) -> Examination:
        asked.append((given, how))
        return Examination()

    once = examined_once(examined)
    for _ in range(3):
        once(RUN, ORDER)
    assert len(asked) == 1
    program = Another(CASE.declaration, ("a",))
    other = mechanism("case", Gaussian("a", 3), GDP(0.5), labels=("a",))
    for run, order, how in (
        (replace(RUN, seed=2), ORDER, {}),
        (RUN, ORDER, {"first": True}),
        (RUN, replace(ORDER, mechanism=replace(CASE, program=program)), {}),
        (RUN, replace(ORDER, mechanism=other), {}),
        (RUN, replace(ORDER, implementation={"a.py": "1" * 64}), {}),
        (RUN, replace(ORDER, suite=suite(CASE)), {}),
        (RUN, replace(ORDER, mechanism=replace(CASE, records_like=lambda rng: ROWS)), {}),
        (RUN, replace(ORDER, mechanism=replace(CASE, records=lambda: ROWS)), {}),
        (RUN, replace(ORDER, mechanism=replace(CASE, reaches={"a": "at most a tenth"})), {}),
    ):
        before = len(asked)
        once(run, order, **how)
        once(run, order, **how)
        assert len(asked) == before + 1
    monkeypatch.setitem(KERNELS, Gaussian, NoNoise)
    before = len(asked)
    once(RUN, ORDER)
    assert len(asked) == before + 1


def test_a_program_that_does_not_say_what_it_holds_is_examined_each_time() -> None:
    asked: list[Any] = []

    class Plain:
        def declaration(self, scope: Any) -> Any:
            return CASE.declaration

    def examined(*given: Any, **how: Any) -> Examination:
        asked.append((given, how))
        return Examination()

    once = examined_once(examined)
    order = replace(ORDER, mechanism=replace(CASE, program=Plain()))
    for _ in range(2):
        once(RUN, order)
    assert len(asked) == 2
