"""Calls of a black-box mechanism, each with a generator of its own; exceptions as outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dpaudit.audit.blackbox.draws import Draws, joined, raised, read_output
from dpaudit.audit.blackbox.foreign import ProgramFailed, Unanswered
from dpaudit.audit.engine import generator
from dpaudit.curator.locations import at, line_of_error
from dpaudit.errors import DpauditError, InvalidParameter

Mechanism: TypeAlias = Callable[[Any, np.random.Generator, int], Any]
"""Called as mechanism(data, rng, size); returns ``size`` independent outputs."""

CELLS_PER_CALL = 4_000_000  # numbers that one call returns at most: 32 MB
_Kept = TypeVar("_Kept", bound=Draws)


class Part(StrEnum):
    """The purpose of draws; each purpose has a generator of its own."""

    PROBE = "probe"
    SINGLE_PROBE = "single probe"
    TRAINING = "training"
    MORE_TRAINING = "more training"
    TEST = "test"
    SEARCH = "search"


class Calls(StrEnum):
    """How trials are asked for: many a call, or one a call where a call's draws are not trials."""

    MANY = "many"
    SINGLE = "single"


class CallFailed(DpauditError):
    """The mechanism raised; the message names the call, the exception's type and the line."""


@dataclass(frozen=True, eq=False)
class Sampler:
    """Draws of one mechanism on two data sets; ``seconds`` adds up what its calls took.

    A call's generator is PCG64DXSM seeded by SeedSequence(seed, spawn_key=(run, side, part, call)).
    """

    mechanism: Mechanism
    data: tuple[Any, Any]
    seed: int
    run: int = 0
    calls: Calls = Calls.MANY
    seconds: list[float] = field(default_factory=list)

    def draw(self, side: int, part: Part, trials: int, kind: type[_Kept], pieces: int) -> _Kept:
        """``trials`` draws in at least ``pieces`` calls (as many as trials, if calls are single).

        Errors: CallFailed where a call of many raises; InvalidParameter for a wrong shape.
        """
        return joined(list(self.chunks(side, part, trials, pieces)), kind)

    def chunks(self, side: int, part: Part, trials: int, pieces: int) -> Iterator[Draws]:
        """The draws of :meth:`draw`, call by call; a single call that raises is one draw."""
        number = trials if self.calls is Calls.SINGLE else min(trials, pieces)
        bounds = np.linspace(0, trials, number + 1).astype(int)
        for index, size in enumerate(np.diff(bounds).tolist()):
            yield self._one(side, part, index, size)

    def _one(self, side: int, part: Part, index: int, size: int) -> Draws:
        try:
            return self.call(side, part, index, size)
        except CallFailed as error:
            if self.calls is Calls.SINGLE:
                return raised(_observed(error.__cause__))
            raise

    def call(self, side: int, part: Part, index: int, size: int) -> Draws:
        """One call with a generator of its own."""
        key = (self.run, side, list(Part).index(part), index)
        place = f"mechanism(d{side}, rng, {size})"
        started = perf_counter()
        try:
            with np.errstate(all="ignore"):
                returned = self.mechanism(self.data[side], generator(self.seed, key), size)
        except Unanswered:
            raise
        except ProgramFailed as error:
            raise CallFailed(f"{place}: {error}") from error
        except Exception as error:  # whatever the mechanism raises is an output
            where = at(line_of_error(error))
            raise CallFailed(f"{place} raised {type(error).__name__}{where}") from error
        finally:
            self.seconds.append(perf_counter() - started)
        return read_output(returned, size, place)


def _observed(error: BaseException | None) -> str:
    return error.observed if isinstance(error, ProgramFailed) else type(error).__name__


def checked_mechanism(mechanism: object) -> Mechanism:
    """Errors: InvalidParameter for something that cannot be called."""
    if not callable(mechanism):
        raise InvalidParameter(f"mechanism = {type(mechanism).__name__}: expected a function")
    return mechanism


def pieces_for(trials: int, columns: int, least: int) -> int:
    """Calls for ``trials`` draws: at least ``least``, none of more than 4e6 numbers."""
    return max(least, -(-trials * columns // CELLS_PER_CALL))
