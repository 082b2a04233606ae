"""Whole runs on other records along one transcript: what may move, and what may not."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import PurePath
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from dpaudit.audit.examine.meter import Meter
from dpaudit.audit.examine.running import run
from dpaudit.audit.examine.said import Said, heard
from dpaudit.audit.examine.study import WALKED, Enough
from dpaudit.curator.curator import Event, OneRun, Program, Request
from dpaudit.curator.entitlement import PUBLIC_COIN, Mask
from dpaudit.curator.locations import INSTALLED, is_own
from dpaudit.curator.outputs import enclosed
from dpaudit.curator.reached import names_in, reached
from dpaudit.curator.replayer import (
    RELATIVE_TOLERANCE,
    ROUNDING,
    Visit,
    Walk,
    disclosures,
)
from dpaudit.kernels.base import Search
from dpaudit.kernels.query import Array, Query, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope

MOST_OBJECTS = 20_000  # objects of a program whose state is compared
# A program can keep data in these: containers, values, and functions with a cache.
CONTAINERS = (list, dict, set)
PLAIN = (int, float, complex, str, bytes, type(None), np.generic)
CACHED = functools._lru_cache_wrapper


class PartWalk(Walk):
    """A walk that notes the rows of every release, and refuses to be told less than it asks.

    ``cut``: it stops where the transcript ends, however many releases would follow.
    ``kept``: releases of a search that its run, made once more, asks for in another way.
    ``probe``: other records, of as many rows, that every query is asked on as well, before it is
    asked on its own; ``probed``: what it said, None where it failed or there is no probe.
    ``said``: its outputs beside the releases.
    """

    def __init__(
        self,
        *arguments: Any,
        meter: Meter,
        probe: Records | None = None,
        cut: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.cut = cut
        self.meter = meter
        self.probe = probe
        self.probed: list[Array | None] = []
        self._probes: dict[tuple[int, int], Records] = {}
        self.rows: list[tuple[int, int] | None] = []
        self.kept: list[Visit] = []
        self.said = Said()
        self._asked: tuple[int, int] | None = None

    def release(self, label: str, query: Query, **options: Any) -> Array:
        rows = options.get("rows")
        block = getattr(rows, "part", rows)
        self._asked = None if block is None else (block.start, block.stop)
        return super().release(label, query, **options)

    def _answer(self, request: Request) -> Array:
        probed_value = None
        if self.probe is not None:
            start, stop = self._asked or (0, len(self.probe))
            # A failure shows on the run's own records, or is no finding.
            with contextlib.suppress(Exception):
                part = self._probes.get((start, stop)) or self.probe.rows(start, stop)
                # Kept, so that equal rows are sought once.
                self._probes[start, stop] = part
                probed_value = np.array(self._value(request, request.first_draw, part))
        released = super()._answer(request)
        self.probed.append(probed_value)
        return released

    def _next(self, label: str, mask: Mask) -> Event:
        if self.cut and self._position >= len(self._transcript):
            raise Enough
        return super()._next(label, mask)

    def _visit(self, request: Request, value: Array, released: Array) -> None:
        super()._visit(request, value, released)
        self.rows.append(self._asked)

    def _value(
        self, request: Request, chosen: Mask | None = None, records: Records | None = None
    ) -> Array:
        self.meter.add(request.query, records or request.records, self.trials)
        return super()._value(request, chosen, records)

    def _close(self) -> None:
        """No likelihood is asked for."""
        self._in_pass = {}

    def _exact(self, request: Request, value: Array, released: Array) -> None:
        """No likelihood is asked for, but a kernel with memory keeps what was released."""
        session: Any = request.session
        if getattr(session, "memory", True):
            follow = getattr(session, "follow", session.log_density)
            with np.errstate(all="ignore"):
                centre = session.centre(value)
                shown = np.where(request.mask[:, None], released, centre)
                follow(shown, value, request.scale)

    def _best_of(self, label: str, session: Search, run: OneRun) -> tuple[Any, Mask]:
        """One run, and the same once more: a run is to know nothing of those before it."""
        noted: tuple[list[Any], ...] = (
            self.visits,
            self.rows,
            self.probed,
            self.redrawn,
            self.ranked,
        )
        before, place = [len(notes) for notes in noted], self._position
        best = super()._best_of(label, session, run)
        after = [len(notes) for notes in noted]
        self._position = place
        super()._best_of(label, session, run)
        first, again = self.visits[before[0] : after[0]], self.visits[after[0] :]
        self.kept += differing(first, again)
        for notes, length in zip(noted, after, strict=True):
            del notes[length:]
        return best

    def _ranked(self, *arguments: Any) -> None:
        """No likelihood is asked for."""

    def _mixes(self, request: Request) -> bool:
        """Asked where queries are studied."""
        return False


class Tiled(PartWalk):
    """Many equal trials along the transcript of one."""

    def coin(self, draw: Any) -> Array:
        released = super().coin(draw)
        drawn = self.redrawn[-1]
        if released.ndim and drawn.shape[1:] == released.shape[1:] and len(drawn) == self.trials:
            return np.repeat(released[:1], self.trials, axis=0)
        return released

    def _draw(self, sampling: Node, size: int) -> list[Mask]:
        """Every trial's batch is that of the one trial."""
        return [np.repeat(chosen, self.trials, axis=0) for chosen in self._coupled(1, size)]


def tiled(transcript: Sequence[Event], trials: int) -> list[Event]:
    """The transcript of one trial as that of several equal ones; public coins as they are."""
    events = []
    for event in transcript:
        on = np.repeat(event.on, trials)
        same = event.label == PUBLIC_COIN
        released = event.released if same else np.repeat(event.released, trials, axis=0)
        events.append(Event(event.label, released, on))
    return events


@dataclass(frozen=True, eq=False)
class Walker:
    """Walks one program along transcripts.

    ``unsteady``: ways out by which it says something else of the same records each time.
    """

    program: Program
    declaration: Node
    scope: Scope
    coins: int
    meter: Meter
    unsteady: frozenset[str] = frozenset()

    def walk(
        self,
        records: Records,
        transcript: Sequence[Event],
        kind: type[PartWalk] = PartWalk,
        probe: Records | None = None,
    ) -> tuple[PartWalk, Any]:
        """A walk that ends where the transcript does, or where it was cut.  Errors: Diverged.

        A transcript that was cut has no output.
        """
        given = (self.declaration, self.scope, records, transcript)
        cut = len(transcript) >= WALKED
        walk = kind(*given, coins=self.coins, draws=1, meter=self.meter, probe=probe, cut=cut)
        output, ended = None, False
        with heard() as walk.said, contextlib.suppress(Enough):
            output = run(self.program, walk)
            ended = True
        walk.said.leave(self.unsteady)
        if ended:
            walk.finish()
        return walk, output


def beyond(first: PartWalk, second: PartWalk) -> Iterator[tuple[Visit, float]]:
    """Releases that two neighbouring data sets move by more than is stated, and by how much."""
    for a, b in zip(first.visits, second.visits, strict=True):
        stated = np.minimum(a.sensitivity, b.sensitivity)
        with np.errstate(all="ignore"):
            distance = a.session.apart(a.value, b.value, stated)
            size = np.abs(a.value).max(-1, initial=0.0) + np.abs(b.value).max(-1, initial=0.0)
            fine = distance <= stated * (1 + RELATIVE_TOLERANCE) + ROUNDING * size
            factor = np.where(np.isfinite(distance), distance, np.inf) / stated
        if not bool(fine[a.on].all()):
            yield a, float(np.max(np.where(fine | ~a.on, 0.0, np.nan_to_num(factor, nan=np.inf))))


def strangers(first: PartWalk, second: PartWalk, row: int) -> Iterator[Visit]:
    """Releases whose value changed although the changed record is not among their rows."""
    place = first.place_of(row)
    for a, b, rows in zip(first.visits, second.visits, first.rows, strict=True):
        if rows is None or rows[0] <= place < rows[1]:
            continue
        if not _same(a.value, b.value, a.on):
            yield a


def otherwise_asked(first: PartWalk, second: PartWalk) -> Iterator[Visit]:
    """Releases that walks of one transcript asked in another way: their probes give other values.

    A query is made of what was released; what else of it differs comes from the records.
    """
    probed = _probes(first, second)
    yield from differing([a for a, _ in probed], [b for _, b in probed])


def unsound(first: PartWalk, second: PartWalk) -> Iterator[Visit]:
    """Releases whose value on other records is too far from itself, as their kernel measures it.

    Such a value breaks the declaration by itself, as an update that stretches distances too far
    does: no neighbour is needed.
    """
    for a, b in _probes(first, second):
        with np.errstate(all="ignore"):
            far = a.session.apart(a.value, a.value, a.sensitivity) > a.sensitivity
            finite = np.isfinite(a.value).all(-1) & a.on
        if (far & finite).any() and _same(a.value, b.value, a.on):
            yield a


def _probes(first: PartWalk, second: PartWalk) -> list[tuple[Visit, Visit]]:
    """Every release of two walks with what its query said of other records, where it said it."""
    pairs = zip(first.visits, second.visits, first.probed, second.probed, strict=True)
    return [
        (replace(a, value=value), replace(b, value=two))
        for a, b, value, two in pairs
        if value is not None and two is not None and value.shape == two.shape
    ]


def differing(first: Sequence[Visit], second: Sequence[Visit]) -> Iterator[Visit]:
    """Releases whose values without noise, or scales, differ in two walks of one data set."""
    for a, b in zip(first, second, strict=True):
        trials = min(len(a.on), len(b.on))
        stated = a.sensitivity[:trials]
        with np.errstate(all="ignore"):
            first_values, two = a.value[:trials], b.value[:trials]
            distance = a.session.apart(first_values, two, stated)
            size = np.abs(first_values).max(-1, initial=0.0) + np.abs(two).max(-1, initial=0.0)
            same = (distance <= 1e-6 * stated + ROUNDING * size) | (
                np.isnan(first_values) & np.isnan(two)
            ).any(-1)
            same |= (first_values == two).all(-1)
            # A query's statements are part of what it asks.
            same &= a.scale[:trials] == b.scale[:trials]
        if not bool(same[a.on[:trials]].all()):
            yield a


def _same(a: Array, b: Array, on: Any) -> bool:
    size = ROUNDING * max(1e-300, float(np.nan_to_num(np.abs(a)).max(initial=0.0)))
    return np.allclose(a[on], b[on], rtol=0.0, atol=size, equal_nan=True)


def told(first: tuple[PartWalk, Any], second: tuple[PartWalk, Any]) -> tuple[str, ...]:
    """Ways in which walks of one transcript reveal their records other than by released values."""
    spoken = (
        first[0].said.shown(way, second[0].said) for way in first[0].said.differs(second[0].said)
    )
    return (*disclosures(first, second), *spoken)


# --- what a program keeps ------------------------------------------------------------------------


def own_copy(program: Program) -> Program:
    """The program with nothing shared, or itself where it cannot be copied."""
    try:
        return copy.deepcopy(program)
    except Exception:  # noqa: BLE001  (a program may hold what cannot be copied)
        return program


def state(program: Program) -> dict[str, str]:
    """A digest of everything that a program can keep: fields, closures, its modules' globals."""
    digests: dict[str, str] = {}
    for path, value in reachable(program):
        if isinstance(value, np.ndarray):
            digests[path] = sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        elif isinstance(value, CACHED):
            digests[path] = str(value.cache_info().currsize)
        elif isinstance(value, PLAIN):
            digests[path] = repr(value)
    return digests


Shared = list[tuple[Any, Any]]


def shared(program: Program) -> Shared:
    """The changeable parts of a program, its modules, classes and objects, with their contents.

    Caches of functions come with none: they are emptied.
    """
    # A copy of a program shares the closures of its functions.
    values = [value for _, value in reachable(program)]
    items = [*_found(program, program), *values]
    items += _modules(program, _found(program, [program, *_functions(values)]))
    distinct = {id(item): item for item in items}.values()
    return [
        (item, copy.copy(item) if isinstance(item, CONTAINERS) else dict(_names(item)))
        for item in distinct
        if isinstance(item, (*CONTAINERS, CACHED)) or _names(item)
    ]


def _names(item: Any) -> Mapping[str, Any]:
    """The names of a module, a class or an object of a project, and their values."""
    kind = item if isinstance(item, type) else type(item)
    if isinstance(item, FunctionType) or not (
        isinstance(item, ModuleType | SimpleNamespace) or _own(str(kind.__module__))
    ):
        return {}
    return getattr(item, "__dict__", {})


def restore(before: Shared) -> None:
    """Put what was held then in the place of what is held now."""
    for item, content in before:
        if isinstance(item, list):
            item[:] = content
        elif isinstance(item, dict | set):
            item.clear()
            item.update(content)
        elif isinstance(item, CACHED):
            item.cache_clear()
        else:
            put: Any = type if isinstance(item, type) else object
            now = _names(item)
            # A module that was imported meanwhile stays.
            new = [name for name in now if name not in content]
            for name in [name for name in new if not isinstance(now[name], ModuleType)]:
                put.__delattr__(item, name)
            for name, value in content.items():
                if name not in now or now[name] is not value:
                    put.__setattr__(item, name, value)


@cache
def _own(module: str) -> bool:
    """Whether a module is of the user's project: of no library, and not installed."""
    place = str(getattr(sys.modules.get(module), "__file__", ""))
    known = module in sys.modules and is_own(module)
    return known and not INSTALLED & set(PurePath(place).parts)


def reachable(program: Any) -> Iterator[tuple[str, Any]]:
    """Values reachable from a program: fields, items, closures, defaults, and globals.

    Globals are those that its functions name, and the containers of the module that defines it.
    """
    ids_seen: set[int] = set()
    own = list(_inside([(type(program).__name__, program)], ids_seen))
    yield from own
    yield from _inside(_globals(program, [value for _, value in own]), ids_seen)


def _inside(level: list[tuple[str, Any]], ids_seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Values, and those inside them, that were not seen before."""
    while level and len(ids_seen) < MOST_OBJECTS:
        deeper: list[tuple[str, Any]] = []
        for path, value in level:
            if id(value) in ids_seen and not isinstance(value, (int, float, str, bool, type(None))):
                continue
            ids_seen.add(id(value))
            yield path, value
            deeper += _children(path, value)
        level = deeper


def _globals(program: Any, values: Sequence[Any]) -> list[tuple[str, Any]]:
    """Changeable globals that the functions of a program and of its values name."""
    found = _found(program, [program, *_functions(values)])
    named = {
        name for item in found if isinstance(item, FunctionType) for name in names_in(item.__code__)
    }
    held = []
    for module in _modules(program, found):
        defines = module.__name__ == str(type(program).__module__)
        held += [
            (f"{module.__name__}.{name}", value)
            for name, value in vars(module).items()
            if (name in named and (isinstance(value, (*PLAIN, CACHED)) or _names(value)))
            or ((name in named or defines) and isinstance(value, (*CONTAINERS, np.ndarray)))
            if not (name.startswith("__") or isinstance(value, type | ModuleType))
        ]
    return held


def _functions(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, FunctionType | MethodType)]


def _children(path: str, value: Any) -> list[tuple[str, Any]]:
    """The parts of an object in which a program could keep records, each with its path."""
    if isinstance(value, dict):
        return [(f"{path}[{_short(k)}]", v) for k, v in list(value.items())[:500]]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"{path}[{i}]", v) for i, v in enumerate(list(value)[:500])]
    if isinstance(value, FunctionType):
        inner_values = [*enclosed(value), *(value.__defaults__ or ()), *vars(value).values()]
        return [(f"{path}.closure[{i}]", v) for i, v in enumerate(inner_values)]
    if inspect.ismethod(value):
        return [(f"{path}.self", value.__self__)]
    if isinstance(value, (ModuleType, type, np.ndarray, Records)):
        return []
    if str(type(value).__module__).partition(".")[0] in ("sympy", "fractions", "builtins", "flint"):
        return []
    children = list(getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        names = getattr(kind, "__slots__", ())
        names = (names,) if isinstance(names, str) else names
        children += [(n, getattr(value, n)) for n in names if hasattr(value, n)]
    # Attributes of a class itself, such as a list that all instances share.
    for kind in type(value).__mro__:
        if _own(str(kind.__module__)):
            children += [
                (n, v)
                for n, v in vars(kind).items()
                if isinstance(v, (list, dict, set, np.ndarray)) and not n.startswith("__")
            ]
    return [(f"{path}.{name}", inner) for name, inner in children]


def _short(key: Any) -> str:
    if not isinstance(key, (*PLAIN, tuple)):
        return type(key).__name__
    text = repr(key)
    # Long keys that begin alike are told apart.
    return text if len(text) <= 40 else f"{text[:24]}... {sha256(text.encode()).hexdigest()[:8]}"


def _found(program: Any, items: Any) -> list[Any]:
    """All objects that some items, or one, reach.

    Installed packages other than the program's own are left out: they are larger than that.
    """
    home = str(type(program).__module__).partition(".")[0]

    def own(module: str) -> bool:
        return is_own(module) and (_own(module) or module.partition(".")[0] == home)

    return [*reached(items, own)]


def _modules(program: Any, found: Iterable[Any]) -> list[ModuleType]:
    """The modules of the project that define a program, and objects that were found."""
    names = {
        item.__module__: None
        for item in (type(program), *found)
        if isinstance(item, FunctionType | type) and _own(str(item.__module__))
    }
    return [sys.modules[name] for name in names if name in sys.modules]
