"""Mechanisms that are certified by copies of a process, which a test runs without other threads."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from dpaudit.audit import workers
from dpaudit.audit.workers import WorkersLost
from dpaudit.certificate.order import Order
from dpaudit.certificate.publish import Failed, Finished, certify_each
from dpaudit.errors import OutputNotWritable, described
from dpaudit.families.additive import Gaussian
from dpaudit.kernels.query import Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from tests.library.cli.bench import DIGESTS, Releases
from tests.library.unit.test_kept import OTHER, order, processes_of, run_of


@dataclass(frozen=True)
class Dying(Releases):
    """Its process is killed, as by a system without memory."""

    def declaration(self, scope: Scope) -> Node:
        if os.getpid() != HERE:
            os._exit(9)
        return self.node


HERE = os.getpid()


def test_certificates_of_several_processes_are_those_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, also of a program that no other process could be sent."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")

    def drawn() -> Records:
        return Records(np.ones((4, 1)))

    unsent = replace(OTHER, records=drawn)
    orders = order(), Order(unsent, None, "project", DIGESTS)
    for folder, jobs in (("one", 1), ("two", 2)):
        run = run_of(*orders, jobs=jobs, trials=100)
        list(certify_each(run, tmp_path / folder, keep=False))
    for name in ("case", "other"):
        one, two = ((tmp_path / f / f"{name}.json").read_bytes() for f in ("one", "two"))
        assert one == two


def test_a_process_that_dies_fails_its_mechanism_alone(tmp_path: Path) -> None:
    dying = replace(OTHER, program=Dying(Gaussian("a", 2), ("a",)))
    made = processes_of(order(), Order(dying, None, "project", DIGESTS), out=tmp_path)
    failed = made["other"]
    assert isinstance(made["case"], Finished)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, WorkersLost)


@dataclass(frozen=True)
class Crashing(Releases):
    """Its declaration ends in an error that nobody raised on purpose."""

    def declaration(self, scope: Scope) -> Node:
        raise AttributeError("a text that may quote data")


def test_an_error_of_another_process_still_says_its_line(tmp_path: Path) -> None:
    crashing = replace(OTHER, program=Crashing(Gaussian("a", 2), ("a",)))
    failed = processes_of(order(), Order(crashing, None, "project", DIGESTS), out=tmp_path)["other"]
    assert isinstance(failed, Failed)
    assert failed.error.__traceback__ is None, "it was sent"
    assert re.fullmatch(r"AttributeError at .*:\d+", described(failed.error))
    assert described(KeyError("private")) == "KeyError"


def test_a_full_disk_stops_several_processes(tmp_path: Path) -> None:
    (tmp_path / "case.json" / "in the way").mkdir(parents=True)
    with pytest.raises(OutputNotWritable):
        processes_of(order(), order(OTHER), out=tmp_path)


class OwnError(Exception):
    """An error that is made of two numbers, and cannot be made again of its text."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


@dataclass(frozen=True)
class Failing(Releases):
    """Its declaration ends in an error of the user's own."""

    def declaration(self, scope: Scope) -> Node:
        raise OwnError(1, 2)


def test_an_error_that_cannot_be_sent_costs_its_mechanism_alone_beside_others(
    tmp_path: Path,
) -> None:
    failing = replace(OTHER, program=Failing(Gaussian("a", 2), ("a",)))
    made = processes_of(order(), Order(failing, None, "project", DIGESTS), out=tmp_path)
    failed = made["other"]
    assert isinstance(made["case"], Finished)
    assert isinstance(failed, Failed)
    assert re.fullmatch(r"OwnError at .*:\d+", described(failed.error))


@dataclass(frozen=True)
class Telling(Releases):
    """Its declaration names the process that it is made in."""

    def declaration(self, scope: Scope) -> Node:
        raise ValueError(os.getpid())


def test_nothing_is_forked_beside_the_threads_of_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    telling = replace(OTHER, program=Telling(Gaussian("a", 2), ("a",)))

    def process() -> int:
        made = processes_of(order(), Order(telling, None, "project", DIGESTS), out=tmp_path)
        failed = made["other"]
        assert isinstance(failed, Failed)
        return int(failed.error.args[0])

    assert process() != os.getpid()
    monkeypatch.setattr(workers, "native_threads", lambda: 10**6)
    assert process() == os.getpid()
