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
from types import CellType, CodeType, FrameType, FunctionType, TracebackType
from typing import Any

import numpy as np

from dpaudit.curator.locations import LIBRARIES, line_of_code

MOST_FUNCTIONS = 500  # functions whose lines are followed: libraries have more
MOST_CONSTANTS = 12  # constants of a program's code from which records are made
LARGEST, TINY = 1e12, 1e-4  # between these sizes a constant may be a threshold of records
DEEP = 4  # how many objects deep functions are looked for
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
        self._packages = {kind.__module__.partition(".")[0] for kind in _own_kinds(self.program)}

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
    return [kind for kind in kinds if kind.__module__.partition(".")[0] not in libraries]


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


def constants_of(program: Any) -> list[float]:
    """Numbers that the functions which a run can reach or its fields hold name; a few.

    Those too that their modules have by a name which they use.
    """
    numbers: dict[float, None] = {}
    modules = {kind.__module__ for kind in _own_kinds(program)}
    around = [vars(sys.modules[name]) for name in modules if name in sys.modules]
    own = [(code, around) for code, _ in _reachable(program)]
    of_objects = [(code, [namespace]) for code, namespace in _held(program)]
    for code, namespace in (*own, *of_objects):
        named = [source[name] for name in code.co_names for source in namespace if name in source]
        for value in (
            number for source in (*code.co_consts, *named) for number in _numbers_of(source)
        ):
            # 0 and 1 are tried anyway.
            if TINY < abs(value) <= LARGEST and abs(value) != 1:
                numbers[float(value)] = None
    return list(numbers)[:MOST_CONSTANTS]


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


def _held(program: Any) -> Iterator[tuple[CodeType, dict[str, Any]]]:
    """Functions that ``run`` or a program's fields hold, and methods of what these hold.

    And the functions that these name, of the program's own packages; each with its module's names.
    """
    packages = {kind.__module__.partition(".")[0] for kind in _own_kinds(program)}
    level, ids_seen, codes = [program], set[int](), dict[CodeType, None]()
    first = [_function(vars(kind).get("run")) for kind in _own_kinds(program)]
    functions = [function for function in first if function is not None]
    for _ in range(DEEP):
        deeper: list[Any] = []
        for item in level:
            if id(item) in ids_seen:
                continue
            ids_seen.add(id(item))
            function = _function(item)
            if function is not None:
                functions.append(function)
                cells = function.__closure__ or ()
                deeper += [cell.cell_contents for cell in cells if not _is_empty(cell)]
                continue
            if item is not program:
                functions += [f for f in map(_function, vars(type(item)).values()) if f is not None]
            held = (
                item if isinstance(item, list | tuple) else getattr(item, "__dict__", {}).values()
            )
            deeper += held
        level = deeper
    while functions and len(codes) < MOST_FUNCTIONS:
        item = functions.pop()
        if item.__module__.partition(".")[0] not in packages or item.__code__ in codes:
            continue
        codes[item.__code__] = None
        yield item.__code__, item.__globals__
        inner = [code for code in item.__code__.co_consts if isinstance(code, CodeType)]
        codes |= dict.fromkeys(inner)
        yield from ((code, item.__globals__) for code in inner)
        for code in (item.__code__, *inner):
            named = (_function(item.__globals__.get(name)) for name in code.co_names)
            functions += [f for f in named if f is not None]


def _is_empty(cell: CellType) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


def count_beyond(program: Any, rows: int) -> int:
    """The largest number from ``rows`` to ``MANY`` in a program's fields, or in its modules, or 0.

    A number that a program compares a count of its records with is likely one of them.
    """
    files = {code.co_filename for code, _ in _reachable(program)}
    numbers = [*vars(program).values()] if hasattr(program, "__dict__") else []
    numbers += [number for name in files for number in _numbers_in(name)]
    plain = [n for n in numbers if isinstance(n, int | float) and not isinstance(n, bool)]
    return math.ceil(max((n for n in plain if rows <= n <= MANY), default=0))


@cache
def _numbers_in(name: str) -> tuple[Any, ...]:
    return tuple(node.value for node in _nodes(name) if isinstance(node, ast.Constant))


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
