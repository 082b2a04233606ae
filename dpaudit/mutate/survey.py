"""The unchanged mechanism: what ``certify`` says of it, where it asks, and what code it runs."""

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
    """Where a mechanism is defined, its releases, and the code that a run executes.

    ``lines``: those that a run executes, by module.
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
        """Of the records that the tool makes up."""
        return Shape(self.rows, self.row)

    def as_json(self) -> dict[str, Any]:
        """For another process."""
        return asdict(self)


def read(found: dict[str, Any]) -> Survey:
    """A survey of its JSON."""
    return Survey(
        **found
        | {
            "row": tuple(found["row"]),
            "sites": tuple(Site(**site) for site in found["sites"]),
            "reached": tuple(Reached(**one) for one in found["reached"]),
        }
    )


def home_of(mechanism: Mechanism) -> tuple[str, str]:
    """The module of the project, and its attribute, that hold a mechanism."""
    held = [
        (name, attribute)
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] in PACKAGES
        for attribute, value in list(vars(module).items())
        if value is mechanism
    ]
    # A package may import what its modules define.
    return max(held, key=lambda one: len(one[0]))


def survey(mechanism: Mechanism, home: tuple[str, str], shape: Shape, seed: int) -> Survey:
    """Run the unchanged mechanism once on made-up records, watched and traced."""
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
        known = seen.get(code)
        module = str(frame.f_globals["__name__"])
        seen[code] = Reached(
            module,
            code.co_firstlineno,
            code.co_name,
            asked=asked or (known is not None and known.asked),
            free=free and (known is None or known.free),
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
    sites = [_site(place, found, mechanism, len(records)) for place, found in grouped.items()]
    reached = sorted(
        (one for one in seen.values() if not one.name.startswith("<")),
        key=lambda one: (one.module, one.line),
    )
    ran = {module: sorted(found) for module, found in sorted(lines.items())}
    return Survey(*home, shape.rows, shape.row, tuple(sites), tuple(reached), ran)


def _site(place: tuple[str, int], found: list[Asked], mechanism: Mechanism, size: int) -> Site:
    first = found[0]
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
        uses=len(found),
        dimension=int(value.shape[-1]),
        shared=bool(getattr(first.session, "memory", False)),
        rows=len(first.records),
        bounded=clips_itself(query),
        alike=_alike(query, adjacency, len(first.records)),
        searched=first.searched,
        on_its_path=not clips and len(found) > 1 and _but_for_events(mechanism.declaration),
    )


def _but_for_events(declaration: Node) -> bool:
    """Whether a declaration's bounds may fail in an event of the noise, as of a run's own steps."""
    return any(isinstance(node, EventSlack) for node in postorder(declaration))


def _sums(query: ClippedMean, asked: Asked) -> bool:
    """Whether a query is the weighted sum of clipped rows that wrong ones are made of."""
    chosen = np.ones((1, len(asked.records)), dtype=bool) if asked.batched else None
    plain: Any = wrong(query, "right", SimpleNamespace(trials=1))
    with np.errstate(all="ignore"):
        one, two = (np.asarray(q.value(asked.records, chosen)) for q in (query, plain))
    size = float(np.nan_to_num(np.abs(one)).max(initial=0.0))
    return one.shape == two.shape and np.allclose(one, two, rtol=0, atol=1e-6 * size)


def _alike(query: Query, adjacency: Adjacency, size: int) -> bool:
    """Whether a query states no larger a sensitivity of half as many records."""
    try:
        whole, half = (query.sensitivity(adjacency, n) for n in (size, max(1, size // 2)))
    except DpauditError:
        return False
    return bool((np.asarray(half) <= np.asarray(whole) * (1 + 1e-12)).all())


def _place(frame: FrameType) -> tuple[str, int]:
    return str(frame.f_globals["__name__"]), frame.f_lineno


def _own(frame: FrameType) -> bool:
    """Whether a frame runs code of the project, and none of a library's."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in (*PACKAGES, EXPERIMENTS)


def _above(frame: FrameType, name: str) -> bool:
    """Whether a function of dpaudit of that name is running further out."""
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
