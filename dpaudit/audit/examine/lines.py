"""Which lines of a program's own code ran while it was examined, and which never did.

The run on the data is not traced: which lines a query takes there would tell about records.  So
what is listed is every line of the functions that a run can reach by name, whatever the data are,
less those that ran: all that the data could reach and no examination did is among it.  Audits of
the same program are not traced: what they alone ran is listed too.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import PurePath
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

import numpy as np

from dpaudit.curator.locations import INSTALLED, LIBRARIES, is_own, line_of_code
from dpaudit.curator.reached import reached

MOST_FUNCTIONS = 500  # functions whose lines are followed: libraries have more
MOST_CONSTANTS = 12  # constants of a program's code from which records are made
LARGEST, TINY = 1e12, 1e-4  # between these sizes a constant may be a threshold of records
# Calls and lines in a row, none of them new, after which nothing is traced: of the first stage, and
# of each other, for tracing takes as long again as what it traces.
QUIET, LATER = 200_000, 20_000
MANY = 500  # the largest number that may be one of records
EMPTY: set[int] = set()
ASKS = frozenset({"release", "best_of", "coin"})


@dataclass(frozen=True)
class Ran:
    """How many lines of code there are, how many ran, and where the others are.

    ``missed``: ``folder/file.py:12-15 in function``, one a stretch of lines; ``asks``: the lines of
    these, ``folder/file.py:12``, that ask for a release, a search or a public coin.
    """

    lines: int
    run: int
    missed: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()


@dataclass
class Lines:
    """A tracer of a program's own code, for ``with`` statements; cheap once all lines were seen.

    Until the next ``with`` it stops after ``QUIET`` events that showed no new line, and after
    ``LATER`` once it has: a line that runs later, for the first time, is listed as one that did
    not.
    Where another tracer is at work (a debugger's, a coverage's) nothing is traced, and ``found``
    is None.
    """

    program: Any
    left: dict[CodeType, set[int]] = field(default_factory=dict)
    entered: dict[CodeType, str] = field(default_factory=dict)
    _traced: bool = False
    _before: Any = None
    _quiet: int = 0
    _most: int = QUIET

    def __post_init__(self) -> None:
        self._packages = {
            str(kind.__module__).partition(".")[0] for kind in _own_kinds(self.program)
        }

    @property
    def own(self) -> bool:
        """Whether the program is somebody's own code; a library's has no lines to follow."""
        return bool(self._packages)

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        if self._before is None and self.own:
            self._traced, self._quiet = True, 0
            sys.settrace(self._call)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is None:
            sys.settrace(None)
            self._most = LATER

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        unrun = self.left.get(code)
        self._quiet += 1
        if self._quiet > self._most:
            sys.settrace(None)
            return None
        if unrun is None:
            module = str(frame.f_globals.get("__name__", ""))
            own = module.partition(".")[0] in self._packages and code.co_filename[:1] != "<"
            unrun = self.left[code] = _lines(code) if own else EMPTY
            if own:
                self.entered[code] = module
        return self._line if unrun else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        unrun = self.left[frame.f_code]
        self._quiet += 1
        if frame.f_lineno in unrun:
            unrun.discard(frame.f_lineno)
            self._quiet = 0
        if not unrun:
            frame.f_trace_lines = False
        return self._line

    @property
    def found(self) -> Ran | None:
        """The lines that ran, of all that a run can reach by name."""
        if not self._traced or not self.entered:
            return None
        codes = dict(self.entered)
        for code, module in _reachable(self.program):
            codes.setdefault(code, module)
        total = missed = 0
        places: list[str] = []
        asks: dict[str, None] = {}
        for code, module in sorted(
            codes.items(), key=lambda item: (item[1], item[0].co_firstlineno)
        ):
            lines = _lines(code)
            unrun = self.left[code] if code in self.entered else lines
            total, missed = total + len(lines), missed + len(unrun)
            places += _stretches(code, module, unrun, lines)
            for call in _asking(code.co_filename):
                if unrun.intersection(call):
                    asks[line_of_code(code, module, call.start)] = None
        return Ran(total, total - missed, tuple(places), tuple(asks))


def _own_kinds(program: Any) -> list[type[Any]]:
    libraries = LIBRARIES | sys.stdlib_module_names
    kinds = type(program).__mro__
    return [kind for kind in kinds if str(kind.__module__).partition(".")[0] not in libraries]


def _lines(code: CodeType) -> set[int]:
    """The lines of a function that can run, without its head and without refusals."""
    lines = {line for *_, line in code.co_lines() if line is not None}
    if code.co_name != "<lambda>":
        lines.discard(code.co_firstlineno)
    return lines - _refusals(code.co_filename)


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


@cache
def _nodes(name: str) -> tuple[ast.AST, ...]:
    """The nodes of a file's syntax tree; none where the file is no Python."""
    try:
        return tuple(ast.walk(ast.parse("".join(linecache.getlines(name)))))
    except SyntaxError:
        return ()


@cache
def _refusals(name: str) -> frozenset[int]:
    """Lines of a file that refuse something or only define it: they run on no right data."""
    lines: set[int] = set()
    for node in _nodes(name):
        if isinstance(node, ast.ExceptHandler) and isinstance(node.body[-1], ast.Raise):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Raise):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            lines.update([node.lineno, *(d.lineno for d in node.decorator_list)])
    return frozenset(lines)


@cache
def _asking(name: str) -> tuple[range, ...]:
    """The lines of every call in a file that asks a curator for something."""
    return tuple(
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in _nodes(name)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ASKS
    )


def _reachable(program: Any) -> Iterator[tuple[CodeType, str]]:
    """Functions of the program's own classes and modules, from ``run`` on, by the names used."""
    methods: dict[str, Any] = {}
    for kind in reversed(_own_kinds(program)):
        methods.update(vars(kind))
    run = _function(methods.get("run"))
    queue = [] if run is None else [(run.__code__, run.__globals__)]
    codes_seen: set[CodeType] = set()
    while queue and len(codes_seen) < MOST_FUNCTIONS:
        code, around = queue.pop()
        if code in codes_seen:
            continue
        codes_seen.add(code)
        if code.co_filename[:1] != "<":
            yield code, str(around.get("__name__", ""))
        inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        queue += [(constant, around) for constant in inner]
        for name in code.co_names:
            method = _function(methods.get(name))
            if method is not None and name != "declaration":
                queue.append((method.__code__, method.__globals__))


def names_of(program: Any) -> frozenset[str]:
    """The names that the functions which a run can reach use."""
    return frozenset(name for code, _ in _reachable(program) for name in code.co_names)


def takes_apart(program: Any) -> bool:
    """Whether a function that a run can reach makes items of rows: three axes, one left open."""
    for code, _ in _reachable(program):
        for call in _reshapes(code.co_filename):
            first = call.args[0] if call.args else None
            sizes = first.elts if isinstance(first, ast.Tuple) else call.args
            last = max((line for *_, line in code.co_lines() if line is not None), default=0)
            inside = code.co_firstlineno <= call.lineno <= last
            if inside and len(sizes) > 2 and any(ast.unparse(size) == "-1" for size in sizes):
                return True
    return False


@cache
def _reshapes(name: str) -> tuple[ast.Call, ...]:
    return tuple(
        node
        for node in _nodes(name)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "reshape"
    )


def functions_of(program: Any) -> Iterator[FunctionType]:
    """The functions of the user's own modules that a program's run can reach by name or holds.

    Those too that the library's queries hold for it.
    """
    ours = [item for item in reached(program) if str(type(item).__module__).startswith("dpaudit.")]
    held = [value for item in ours for value in getattr(item, "__dict__", {}).values()]
    for item in reached([*held, program]):
        if (
            isinstance(item, FunctionType)
            and is_own(str(item.__globals__.get("__name__")))
            and not INSTALLED & set(PurePath(item.__code__.co_filename).parts)
        ):
            yield item


def constants_of(program: Any) -> list[float]:
    """Numbers that a program's own functions name, in their code or by a global name; a few."""
    # 0 and 1 are tried anyway.
    numbers = (float(n) for n in _named_by(program) if TINY < abs(n) <= LARGEST and abs(n) != 1)
    return list(dict.fromkeys(numbers))[:MOST_CONSTANTS]


def _named_by(program: Any) -> Iterator[float]:
    """The numbers in the code of its functions, and those that their modules have by a name."""
    for function in functions_of(program):
        around = function.__globals__
        # A declared number is none of a record.
        for code in codes_of(function.__code__) if function.__name__ != "declaration" else ():
            named = [around[name] for name in code.co_names if name in around]
            for source in (*code.co_consts, *named):
                yield from _numbers_of(source)


def _numbers_of(value: Any) -> list[float]:
    """A number, or the few that a tuple, a list, a set, an array or a table holds."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        value = value.reshape(-1)[:MOST_CONSTANTS].tolist()
    is_container = isinstance(value, list | tuple | set | frozenset | dict)
    several = list(value) if is_container else [value]
    several += value.values() if isinstance(value, dict) else []
    return [
        item
        for item in several[:MOST_CONSTANTS]
        if isinstance(item, int | float) and not isinstance(item, bool)
    ]


def count_beyond(program: Any, rows: int) -> int:
    """The largest number from ``rows`` to ``MANY`` in a program's fields, or in its code, or 0.

    A number that a program compares a count of its records with is likely one of them.
    """
    fields = [*vars(program).values()] if hasattr(program, "__dict__") else []
    numbers = [*map(_numbers_of, fields), _named_by(program)]
    return math.ceil(max((n for part in numbers for n in part if rows <= n <= MANY), default=0))


def _function(value: Any) -> FunctionType | None:
    value = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
    value = getattr(value, "func", value)
    return value if inspect.isfunction(value) else None


def _stretches(code: CodeType, module: str, left: set[int], lines: set[int]) -> Iterator[str]:
    """Missed lines that follow one another, among the lines that can run, as one place each."""
    ordered = sorted(lines)
    for missed, group in groupby(ordered, key=lambda line: line in left):
        if not missed:
            continue
        stretch = list(group)
        place = line_of_code(code, module, stretch[0])
        last = f"-{stretch[-1]}" if len(stretch) > 1 else ""
        yield f"{place}{last} in {code.co_name}"
