"""The search that every method of a comparison gets: so many settings, over all free parameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from dpaudit.errors import InvalidParameter

FIRST_FACTOR = 4.0  # of the first moves of a search; it is refined by square roots
LAST_FACTOR = 1.1  # finer moves than this are below the noise of any choice here


@dataclass(frozen=True)
class Protocol:
    """How methods are compared: settings tried for each, seeds that choose, seeds that judge.

    Errors: InvalidParameter for no setting, no choosing seed, or fewer than two judging ones.
    """

    budget: int
    choosing: int
    judging: int

    def __post_init__(self) -> None:
        if self.budget < 1 or self.choosing < 1 or self.judging < 2:
            raise InvalidParameter(
                f"{self}: expected at least 1 setting, 1 choosing seed and 2 judging seeds"
            )

    @property
    def stamp(self) -> dict[str, int]:
        """Its fields as a result records them."""
        return asdict(self)


@dataclass(frozen=True)
class Axis:
    """A free parameter of a method: where its search starts, and which values the method admits.

    ``least``, ``most``: limits of the method itself, such as one step or n of them; a best value
    there is not at the end of a grid.  ``whole``: whole numbers only.
    """

    name: str
    start: float
    least: float = 0.0
    most: float = math.inf
    whole: bool = False

    def at(self, value: float) -> float:
        """The nearest admitted value."""
        value = min(max(value, self.least), self.most)
        return float(round(value)) if self.whole else value


@dataclass(frozen=True)
class Search:
    """Every setting that was tried with its mean loss, and the one of the least mean."""

    free: tuple[Axis, ...]
    tried: Mapping[tuple[float, ...], float]

    @property
    def best(self) -> tuple[float, ...]:
        """The setting of the least mean; the first of several."""
        return min(self.tried, key=lambda setting: self.tried[setting])

    def at_end(self, index: int) -> bool:
        """Whether a parameter's best value has no tried value on a side that has admitted ones."""
        value, axis = self.best[index], self.free[index]
        tried = [setting[index] for setting in self.tried]
        below = value <= axis.least or min(tried) < value
        above = value >= axis.most or max(tried) > value
        return not (below and above)


def search(free: Sequence[Axis], loss: Callable[[tuple[float, ...]], float], budget: int) -> Search:
    """At most ``budget`` settings: moves along each parameter, and finer ones where none helps.

    A setting whose loss is not a number counts as infinitely bad.
    """
    tried: dict[tuple[float, ...], float] = {}

    def better(setting: tuple[float, ...]) -> bool:
        if setting in tried or len(tried) >= budget:
            return False
        least = min(tried.values(), default=math.inf)
        value = loss(setting)
        tried[setting] = value if math.isfinite(value) else math.inf
        return tried[setting] < least

    point = tuple(axis.at(axis.start) for axis in free)
    better(point)
    factor = FIRST_FACTOR if free else 1.0
    while factor > LAST_FACTOR and len(tried) < budget:
        moved = False
        for index, way in itertools.product(range(len(free)), (1, -1)):
            while True:
                value = free[index].at(point[index] * factor**way)
                candidate = (*point[:index], value, *point[index + 1 :])
                if not better(candidate):
                    break
                point, moved = candidate, True
        if not moved:
            factor = math.sqrt(factor)
    return Search(tuple(free), tried)
