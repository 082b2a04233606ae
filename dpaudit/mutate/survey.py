"""Survey the unchanged mechanism: the places of its releases, and the code that a run executes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import numpy as np

from dpaudit.audit.engine import generator
from dpaudit.audit.examine.made import worlds_of
from dpaudit.audit.examine.shapes import Shape
from dpaudit.audit.examine.study import clips_itself
from dpaudit.audit.graybox.watch import Asked, Watched
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import DpauditError
from dpaudit.families.events import EventSlack
from dpaudit.kernels.query import ClippedMean, Query
from dpaudit.mutate.operators import Reached, Site
from dpaudit.mutate.wrong import wrong
from dpaudit.nodes import Node, postorder
from dpaudit.scope import Adjacency
from dpaudit.storage.roots import EXPERIMENTS, PACKAGES


@dataclass(frozen=True)
class Survey:
    """The places of a mechanism's releases, and the code that a run executes.

    ``home`` and ``attribute``: the module and name that define it.  ``rows`` and ``row``: the shape
    of the generated records.  ``lines``: the executed lines, by module.
    """

    home: str
    attribute: str
    rows: int
    row: tuple[int, ...]
    sites: tuple[Site, ...]
    reached: tuple[Reached, ...]
    lines: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        """The shape of the generated records."""
        return Shape(self.rows, self.row)

    def as_json(self) -> dict[str, Any]:
        """The survey as JSON values, for another process."""
        return asdict(self)


def read(table: dict[str, Any]) -> Survey:
    """Rebuild a survey from its JSON values."""
    return Survey(
        **table
        | {
            "row": tuple(table["row"]),
            "sites": tuple(Site(**site) for site in table["sites"]),
            "reached": tuple(Reached(**row) for row in table["reached"]),
        }
    )


def home_of(mechanism: Mechanism) -> tuple[str, str]:
    """The project's module, and the name in it, that define a mechanism."""
    holders = [
        (name, attribute)
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] in PACKAGES
        for attribute, value in list(vars(module).items())
        if value is mechanism
    ]
    # The longest name: a package may re-export mechanisms of its modules.
    return max(holders, key=lambda holder: len(holder[0]))


def survey(mechanism: Mechanism, home: tuple[str, str], shape: Shape, seed: int) -> Survey:
    """Run the unchanged mechanism once on generated records, and record releases and code."""
    seen: dict[CodeType, Reached] = {}
    places: list[tuple[str, int]] = []

    lines: dict[str, set[int]] = {}

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        lines[str(frame.f_globals["__name__"])].add(frame.f_lineno)
        return inside

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if event != "call" or not _own(frame):
            return None
        lines.setdefault(str(frame.f_globals["__name__"]), set())
        asked, free = _above(frame, "release"), _above(frame, "_clipped")
        earlier = seen.get(code)
        module = str(frame.f_globals["__name__"])
        seen[code] = Reached(
            module,
            code.co_firstlineno,
            code.co_name,
            asked=asked or (earlier is not None and earlier.asked),
            free=free and (earlier is None or earlier.free),
        )
        return inside

    class Placed(Watched):
        """Notes the module and line of every release."""

        def release(self, label: str, query: Query, **options: Any) -> Any:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and not _own(frame):
                frame = frame.f_back
            places.append(("", 0) if frame is None else _place(frame))
            return super().release(label, query, **options)

    records = worlds_of(shape, np.random.default_rng(seed))[3].records()
    with _tracing(trace):
        declaration = mechanism.declaration
    sampler = Placed(declaration, mechanism.scope, records, rng=generator(seed, (0x73,)))
    with _tracing(trace), np.errstate(all="ignore"):
        mechanism.program.run(sampler)
    grouped: dict[tuple[str, int], list[Asked]] = {}
    for place, asked in zip(places, sampler.asked, strict=False):
        grouped.setdefault(place, []).append(asked)
    sites = [_site(place, visits, mechanism, len(records)) for place, visits in grouped.items()]
    reached = sorted(
        (reached for reached in seen.values() if not reached.name.startswith("<")),
        key=lambda reached: (reached.module, reached.line),
    )
    ran = {module: sorted(visits) for module, visits in sorted(lines.items())}
    return Survey(*home, shape.rows, shape.row, tuple(sites), tuple(reached), ran)


def _site(place: tuple[str, int], visits: list[Asked], mechanism: Mechanism, size: int) -> Site:
    """The facts about a query's place, from one run, by which bugs are planted."""
    first = visits[0]
    query: Any = first.query
    clips = isinstance(query, ClippedMean) and _sums(query, first)
    adjacency = mechanism.scope.adjacency
    counted = adjacency is not Adjacency.REPLACE_ONE or (first.batched and not first.members)
    with np.errstate(all="ignore"):
        value = np.asarray(query.value(first.records.placeholder(), None if not first.batched
                           else np.zeros((1, len(first.records)), dtype=bool)))  # fmt: skip
    return Site(
        module=place[0],
        line=place[1],
        kind=type(query).__name__,
        clips=clips,
        exact=type(query) is ClippedMean,
        weighted=clips and (query.weights is not None or query.divisor is not None),
        summed=clips and query.divisor == 1,
        private_count=counted,
        parts=first.batched or len(first.records) < size,
        uses=len(visits),
        dimension=int(value.shape[-1]),
        shared=bool(getattr(first.session, "memory", False)),
        rows=len(first.records),
        bounded=clips_itself(query),
        alike=_alike(query, adjacency, len(first.records)),
        searched=first.searched,
        on_its_path=not clips and len(visits) > 1 and _but_for_events(mechanism.declaration),
    )


def _but_for_events(declaration: Node) -> bool:
    """Whether a declaration holds bounds that may fail in an event of the noise (EventSlack)."""
    return any(isinstance(node, EventSlack) for node in postorder(declaration))


def _sums(query: ClippedMean, asked: Asked) -> bool:
    """Whether a query equals the weighted sum of clipped rows that the planted bugs start from."""
    chosen = np.ones((1, len(asked.records)), dtype=bool) if asked.batched else None
    plain: Any = wrong(query, "right", SimpleNamespace(trials=1))
    with np.errstate(all="ignore"):
        value, plain_value = (np.asarray(q.value(asked.records, chosen)) for q in (query, plain))
    size = float(np.nan_to_num(np.abs(value)).max(initial=0.0))
    return value.shape == plain_value.shape and np.allclose(
        value, plain_value, rtol=0, atol=1e-6 * size
    )


def _alike(query: Query, adjacency: Adjacency, size: int) -> bool:
    """Whether a query states no larger sensitivity for half as many records."""
    try:
        of_all, of_half = (query.sensitivity(adjacency, n) for n in (size, max(1, size // 2)))
    except DpauditError:
        return False
    return bool((np.asarray(of_half) <= np.asarray(of_all) * (1 + 1e-12)).all())


def _place(frame: FrameType) -> tuple[str, int]:
    return str(frame.f_globals["__name__"]), frame.f_lineno


def _own(frame: FrameType) -> bool:
    """Whether a frame runs code of the project, as opposed to a library's."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in (*PACKAGES, EXPERIMENTS)


def _above(frame: FrameType, name: str) -> bool:
    """Whether a function of dpaudit with this name is among the callers of a frame."""
    outer = frame.f_back
    while outer is not None:
        module = str(outer.f_globals.get("__name__", ""))
        if outer.f_code.co_name == name and module.partition(".")[0] == "dpaudit":
            return True
        outer = outer.f_back
    return False


@contextmanager
def _tracing(trace: Callable[[FrameType, str, Any], Any]) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
