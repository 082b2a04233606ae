"""Examinations that certificates of the tests share: most tests of a certificate only read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpaudit.audit.examine import Examination, examination
from dpaudit.certificate.order import Order, Run
from dpaudit.kernels.base import KERNELS

ADDRESS = " at 0x"  # in the text of an object that does not say what it holds


def examined_once(examined: Callable[..., Examination]) -> Callable[..., Examination]:
    """The function, called once for each program, declaration, shape, hooks, seed and work.

    An examination takes three quarters of the time of a small certificate.  Tests of examinations
    call ``examine`` itself, which this leaves alone.
    """
    made: dict[tuple[Any, ...], Examination] = {}

    def once(run: Run, order: Order, *, first: bool = False) -> Examination:
        mechanism, suite = order.mechanism, order.suite
        kind = type(mechanism.program)
        parts = (mechanism.program, mechanism.declaration, mechanism.scope, order.implementation,
                 mechanism.reaches, mechanism.claims,
                 suite and suite.neighbours.first.values.shape)  # fmt: skip
        texts = tuple(map(repr, parts))
        if any(ADDRESS in text for text in texts):
            return examined(run, order, first=first)
        key = (mechanism.name, kind.__module__, kind.__qualname__, *texts, run.seed, first,
               examination.WORK, mechanism.records, mechanism.records_like,
               frozenset(KERNELS.items()))  # fmt: skip
        if key not in made:
            made[key] = examined(run, order, first=first)
        return made[key]

    return once
