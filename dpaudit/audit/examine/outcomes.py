"""Outcomes of the conditions in a program's queries: which were never true of any record tried.

While a program is examined, the comparisons, masks, look-ups, patterns and joined conditions of its
own functions report their operands and outcomes: the functions' syntax trees are compiled again
with a call in the place of each, and their code is put back afterwards.  A function whose code is
not that of its source is left alone: what runs is what was given.  A condition counts if its
operands change with the records: one over shapes, rounds or parameters says the same of all data
sets of a size.  Left out are conditions that only refuse, ``is``, and what asks for gaps
(``isnan``).
Source: Chilenski and Miller 1994, condition coverage.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import itertools
import linecache
import operator
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from dpaudit.audit.examine.distances import (
    INSIDE,
    LOOKUPS,
    MANY,
    OPERATORS,
    apart,
    began,
    first_of,
)
from dpaudit.audit.examine.instants import instants_of
from dpaudit.audit.examine.lines import LARGEST, codes_of, functions_of
from dpaudit.curator.locations import line_of_code
from dpaudit.curator.reached import reached
from dpaudit.kernels.query import Array, Records

FEW = 64  # items of a container that is compared with itself on other data
MOST_LISTED = 800  # numbers of tables that are tried as entries
# Data sets of one size after which a condition that said the same of all depends on no record.
ALIKE = 64
LONGEST = 60  # letters of a condition that is shown
# Calls whose values are masks wherever they stand; those of any name count where a test is due.
MASKS = frozenset(
    {"isin", "in1d", "is_in", "between", "is_between", "equal", "not_equal", "less", "less_equal"}
    | {"greater", "greater_equal", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or"}
    | {"startswith", "endswith", "contains", "match", "fullmatch"}
)
# Calls that ask for gaps or kinds, which no value of a record meets or misses, or for their frame.
NO_VALUES = frozenset(
    {"isnan", "isfinite", "isinf", "isna", "isnull", "notna", "notnull", "is_null", "is_not_null"}
    | {"isinstance", "issubclass", "hasattr", "callable", "super", "locals", "globals", "vars"}
    | {"any", "all", "dir", "eval", "exec"}
)
MARK = "\0condition "  # of the constants in whose place the sites are put


class Site:
    """One condition of a program's code; called in its place with its operands.

    ``function``: gives its value; None where the first operand does.  ``true``, ``false``: whether
    it ever was, of some record; ``depends``: whether its operands changed with the records, where
    no number of records did; ``several``: whether it had more than one outcome on a data set: what
    has one, such as whether all rows are distinct, says nothing of single records.
    ``parts``: conditions inside it; ``joined``: whether it is true where all of them are;
    ``tests``: whether its value is tested where it stands.
    ``labels``: of the releases that asked for it.
    ``constants``: numbers that were compared, and how often.
    """

    watch: Watch | None = None

    def __init__(
        self, line: int, text: str, parts: list[Site], function: Any, *, joined: bool, tests: bool
    ) -> None:
        self.line, self.text, self.parts, self.function = line, text, parts, function
        self.joined, self.tests = joined, tests
        self.place = ""
        self.reset()

    def reset(self) -> None:
        """As if nothing had run."""
        self.true = self.false = self.depends = self.several = False
        self.outcomes = 0
        self.labels: dict[str, None] = {}
        self.constants: Counter[float] = Counter()
        self.digests: set[int] = set()
        self._known: dict[Any, set[int]] = {}
        self._compared: dict[Any, tuple[float, float]] = {}
        self._alike = 0

    def __call__(self, *operands: Any, **named: Any) -> Any:
        if self.function is None:
            result = operands[0](*operands[1:], **named)
        else:
            result = self.function(*operands)
        watch = Site.watch
        if watch is not None and watch.label is not None:
            aimed = watch.distances is not None and self in watch.distances
            if aimed or not (self.true and self.false):
                # An operand of any type may come; one that cannot be noted is left out.
                with contextlib.suppress(Exception):
                    watch.note(self, result, (*operands, *named.values()))
        return result

    def ended(self, size: Any) -> None:
        """A data set was asked: whether its operands are those of another of the same size."""
        before = self._known.setdefault(size, self.digests)
        self.depends = self.depends or before != self.digests
        self._alike += 1
        self.several = self.several or self.outcomes > 1
        self.digests, self.outcomes = set(), 0

    def compare(self, size: Any, operands: tuple[Any, ...]) -> None:
        """Two numbers that were compared on a data set of a size."""
        if len(operands) == 2 and all(isinstance(one, int | float | np.number) for one in operands):
            self._compared[size] = operands

    @property
    def out_of_reach(self) -> bool:
        """Whether it compares what grows with the records with a number that none made it reach."""
        if self.depends or self.true == self.false or not self._compared:
            return False
        first, second = map(set, zip(*self._compared.values(), strict=True))
        pairs = (first, second), (second, first)
        return any(len(one) == 1 < len(grows) and max(grows) < min(one) for one, grows in pairs)

    @property
    def public(self) -> bool:
        """Whether it said the same of so many data sets that none decides it."""
        return not self.depends and self._alike > ALIKE

    @property
    def turned(self) -> bool:
        """Whether it is of interest where it is false: an inequality, as an equality."""
        return self.function in (operator.ne, OPERATORS[ast.NotIn])

    @property
    def leaves(self) -> list[Site]:
        """The conditions that have to be true at once for this one to be."""
        parts = [part for part in self.parts if not part.turned] if self.joined else []
        return [leaf for part in parts for leaf in part.leaves] or [self]

    def outcome(self, result: Any, operands: tuple[Any, ...]) -> Any:
        """Whether it is true, of each number if there are several; None if it is no condition.

        A look-up is true if its key is in the table; another value, if a test of it is.
        """
        if self.function in (first_of, began):
            return result is True  # in the body of the case, or of the handler
        if self.function in INSIDE and not len(operands[1]):
            return None  # no value is in an empty list
        if self.function is None and getattr(operands[0], "__name__", "") in LOOKUPS:
            table = operands[1] if operands[0].__name__ == "map" else operands[0].__self__
            if operands[0].__name__ == "get":
                known = isinstance(table, Mapping) and len(table)
                return operands[1] in table if known else None
            # A function that is mapped misses nothing.
            return None if callable(table) else result == result
        if isinstance(result, bool | np.bool_ | re.Match) or result is None:
            return bool(result)
        if self.tests and isinstance(result, str | list | tuple | set | dict):
            return bool(result)
        values = np.asarray(result)
        if values.dtype.kind == "O" and {*map(type, values.flat)} <= {bool}:
            values = values.astype(bool)
        if values.dtype.kind != "b" and self.tests and not values.ndim:
            return bool(result)
        return values if values.dtype.kind == "b" and values.size else None

    def apart(self, result: Any, operands: tuple[Any, ...]) -> Array:
        """How far each number that is compared is from making the condition true."""
        truths = np.logical_xor(self.outcome(result, operands), self.turned)
        return apart(self.function, operands, truths, self.constants)


class Watch:
    """The conditions of a program while it is examined, for a ``with`` statement.

    ``label``: of the release that is asked for; None where no query is under way.  ``distances``:
    of the conditions that are aimed at, how far each of their numbers is from making them true.
    """

    def __init__(self, program: Any) -> None:
        self.label: str | None = None
        self.sites: dict[Site, None] = {}
        self.distances: dict[Site, list[Array]] | None = None
        self._noted: dict[Site, None] = {}
        self._outer: Watch | None = None
        self._size = 0, 0  # records of the data set that is asked, and those that are present
        self._functions = [*functions_of(program)]
        self._before: list[tuple[FunctionType, CodeType]] = []

    def __enter__(self) -> Watch:
        self._outer, Site.watch = Site.watch, self
        for function in self._functions:
            code = function.__code__
            again = _marked(code.co_filename).get(code)
            if again is None:
                continue
            self._before.append((function, code))
            function.__code__ = again
            for site in _sites(again):
                site.place = line_of_code(code, str(function.__module__), site.line)
                site.reset()
                self.sites[site] = None
        return self

    def __exit__(self, *error: object) -> None:
        Site.watch = self._outer
        for function, code in self._before:
            function.__code__ = code

    @contextlib.contextmanager
    def asking(self, label: str, records: Records) -> Iterator[None]:
        """In this block a query is asked on a data set."""
        before, self.label = self.label, label
        self._size = len(records), int(records.present.sum())
        try:
            yield
            for site in self._noted:
                site.ended(self._size)
        finally:
            self.label = before
            self._noted.clear()

    def note(self, site: Site, result: Any, operands: tuple[Any, ...]) -> None:
        """The outcome of a condition, and what its operands were."""
        values = site.outcome(result, operands)
        if values is None:
            return
        if site.function is began and isinstance(result, dict):
            operands = (*map(result.get, operands[1].split()),)
        values = np.logical_xor(values, site.turned)
        some, every = bool(np.any(values)), bool(np.all(values))
        site.false = site.false or not every
        # A row that meets it by chance while rows are measured is not kept.
        site.true = site.true or (some and self.distances is None)
        site.labels[str(self.label)] = None
        site.outcomes += max(1, np.size(values))
        site.compare(self._size, operands)
        if self.distances is not None and site in self.distances:
            self.distances[site].append(site.apart(result, operands))
        if not (site.public or (site.depends and site.several)):
            # How often it is asked is no matter.
            site.digests.add(hash((*map(_digest, operands),)))
            self._noted[site] = None

    @property
    def open(self) -> list[Site]:
        """The conditions that were true of no record, those inside others before these."""
        unmet = [site for site in self.sites if site.false and not site.true]
        unmet = [site for site in unmet if site.parts or not site.public]
        return sorted(unmet, key=lambda site: len(site.leaves))

    @property
    def never(self) -> list[Site]:
        """Those of them that are known to depend on records, and of which no part is such."""
        return [
            site
            for site in self.open
            if site.several
            and (site.depends or any(part.true for part in site.parts))
            and not any(part.false and not part.true for part in site.parts)
        ]

    @property
    def out_of_reach(self) -> list[Site]:
        """Comparisons with a number that no number of records reached."""
        return [site for site in self.sites if site.out_of_reach]


def _digest(value: Any) -> int:
    """A number that tells values apart; large containers by their length alone."""
    if isinstance(value, int | float | str | bytes | np.number):
        return hash(value)
    if isinstance(value, list | tuple | set | frozenset | dict):
        return hash((len(value), str(value) if len(value) <= FEW else ""))
    if callable(value):
        # A method of records, such as a series' or a text's.
        bound = getattr(value, "__self__", None)
        return 0 if bound is None or isinstance(bound, ModuleType | type) else _digest(bound)
    array = np.ascontiguousarray(value)
    return hash(array.tobytes() if array.dtype.kind != "O" else str(value))


def listed_in(program: Any) -> list[tuple[float, ...]]:
    """Numbers, texts of numbers and keys of several, in the tables and lists a program reaches.

    Before them, instants of the calendar, where it computes with dates.
    """
    objects = [*reached(program)]
    keys: dict[tuple[float, ...], None] = dict.fromkeys(instants_of(objects))
    for value in objects:
        items: list[Any] = []
        if isinstance(value, dict | list | tuple | set | frozenset):
            items = list(value)[:MANY]
        elif isinstance(value, np.ndarray) or hasattr(type(value), "to_numpy"):
            for part in (value, getattr(value, "index", ())):
                items += np.asarray(part).reshape(-1)[:MANY].tolist()
        for item in items:
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                key = tuple(float(one) for one in (item if isinstance(item, tuple) else (item,)))
                if all(abs(number) <= LARGEST for number in key):
                    keys[key] = None
    return [*keys][:MOST_LISTED]


def _sites(code: CodeType) -> Iterator[Site]:
    for one in codes_of(code):
        yield from (constant for constant in one.co_consts if isinstance(constant, Site))


# --- the code of a function with its conditions marked -------------------------------------------


@cache
def _marked(name: str) -> dict[CodeType, CodeType]:
    """The functions of a file, and the same with their conditions marked; none of no Python file.

    A function that was altered since is none of its file's: it is watched nowhere.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(name)))
        marks = _Marks()
        marked = ast.fix_missing_locations(marks.visit(copy.deepcopy(tree)))
        with warnings.catch_warnings():
            # That a constant is called, which a site takes the place of.
            warnings.simplefilter("ignore")
            plain, with_marks = (
                compile(t, name, "exec", dont_inherit=True) for t in (tree, marked)
            )
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return dict(zip(codes_of(plain), codes_of(_with_sites(with_marks, marks.sites)), strict=True))


def _with_sites(code: CodeType, sites: list[Site]) -> CodeType:
    def put(constant: Any) -> Any:
        if isinstance(constant, CodeType):
            return _with_sites(constant, sites)
        if isinstance(constant, str) and constant.startswith(MARK):
            return sites[int(constant.removeprefix(MARK))]
        return constant

    return code.replace(co_consts=tuple(map(put, code.co_consts)))


class _Marks(ast.NodeTransformer):
    """Puts a call of a site in the place of every condition.

    ``parts``: the conditions inside the node that is visited; ``tests``: what decides something;
    ``given``: calls that a name is given to; ``assigned``: conditions by the names that they were
    given.
    """

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.parts: list[Site] = []
        self.tests: set[ast.AST] = set()
        self.given: set[ast.AST] = set()
        self.assigned: dict[str, Site] = {}

    def _call(
        self,
        node: ast.expr | ast.ExceptHandler,
        text: str,
        parts: list[Site],
        function: Any,
        given: list[ast.expr],
        *,
        joined: bool = False,
    ) -> ast.Call:
        """The call of a new site, of which a constant holds the place."""
        tests = node in self.tests
        site = Site(node.lineno, text, parts, function, joined=joined, tests=tests)
        self.sites.append(site)
        self.parts.append(site)
        mark = ast.copy_location(ast.Constant(f"{MARK}{len(self.sites) - 1}"), node)
        return ast.copy_location(ast.Call(mark, given, []), node)

    def _inside(self, node: ast.AST) -> list[Site]:
        """The conditions inside, which are marked."""
        outside, self.parts = self.parts, []
        self.generic_visit(node)
        inside, self.parts = self.parts, outside
        return inside

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        # The number between two comparisons is computed twice here.
        between = [part for one in node.comparators[:-1] for part in ast.walk(one)]
        plain = not any(isinstance(part, ast.Call | ast.NamedExpr) for part in between)
        text, parts = _text(node), self._inside(node)
        operands = [node.left, *node.comparators]
        if not plain or not all(type(kind) in OPERATORS for kind in node.ops):
            self.parts += parts
            return node
        compared: list[ast.expr] = [
            self._call(node, _turned(text, kind), parts, OPERATORS[type(kind)], [one, two])
            for kind, one, two in zip(node.ops, operands, operands[1:], strict=False)
        ]
        if len(compared) == 1:
            return compared[0]
        chained = [self.parts.pop() for _ in compared]
        chain = ast.copy_location(ast.BoolOp(ast.And(), compared), node)
        return self._call(node, text, chained, _same, [chain], joined=True)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        masks = any(isinstance(one, ast.Compare) for one in (node.left, node.right))
        joins = isinstance(node.op, ast.BitAnd | ast.BitOr)
        named = [getattr(one, "id", None) for one in (node.left, node.right)]
        text, parts = _text(node), self._inside(node)
        if not joins and not (masks and isinstance(node.op, ast.Mult)):
            self.parts += parts
            return node
        parts += [self.assigned[name] for name in named if name in self.assigned]
        function, every = OPERATORS[type(node.op)], not isinstance(node.op, ast.BitOr)
        return self._call(node, text, parts, function, [node.left, node.right], joined=every)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, ast.Not):
            self.tests.add(node.operand)
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.tests |= set(node.values)
        text, parts = _text(node), self._inside(node)
        every = isinstance(node.op, ast.And)
        return self._call(node, text, parts, _same, [node], joined=every)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """The last condition that a name was given stands for the name."""
        before = len(self.parts)
        self.given.add(node.value)
        self.generic_visit(node)
        if len(self.parts) > before and isinstance(node.value, ast.Call):
            self.assigned |= {t.id: self.parts[-1] for t in node.targets if isinstance(t, ast.Name)}
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node not in self.tests:
            return node
        parts = [self.assigned[node.id]] if node.id in self.assigned else []
        return self._call(node, node.id, parts, _same, [node], joined=True)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = str(getattr(node.func, "attr", getattr(node.func, "id", "")))
        text, parts = _text(node), self._inside(node)
        marked = name in MASKS | LOOKUPS or node in self.tests | self.given
        if name in NO_VALUES or not marked:
            self.parts += parts
            return node
        call = self._call(node, text, parts, None, [node.func, *node.args])
        call.keywords = node.keywords
        return call

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.body[-1], ast.Raise):
            # Right data are never refused.
            node.body = [self.visit(one) for one in node.body]
            node.orelse = [self.visit(one) for one in node.orelse]
            return node
        return self._test(node)

    def _test(self, node: ast.If | ast.IfExp | ast.While) -> ast.AST:
        self.tests.add(node.test)
        return self.generic_visit(node)

    visit_IfExp = visit_While = _test

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.tests |= set(node.ifs)
        return self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> ast.AST:
        """Each case is a condition, which is true where its body begins."""
        subject = node.subject
        self.generic_visit(node)
        for case in node.cases:
            text = f"case {ast.unparse(case.pattern)}"
            if isinstance(case.body[-1], ast.Raise) or text == "case _":
                continue
            wanted = ast.parse(repr(_wanted(case.pattern)), mode="eval").body
            node.subject = self._call(subject, text, [], first_of, [node.subject, wanted])
            body: list[ast.expr] = [ast.Constant(True), ast.Constant(0)]
            mark = ast.Call(node.subject.func, body, [])
            case.body.insert(0, ast.copy_location(ast.Expr(mark), case.body[0]))
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """Each handler that does more than refuse is a condition, true where its body begins."""
        loaded = {n.id for one in node.body for n in ast.walk(one) if isinstance(n, ast.Name)}
        self.generic_visit(node)
        for handler in node.handlers:
            if isinstance(handler.body[-1], ast.Raise):
                continue
            text = f"except {ast.unparse(handler.type)}" if handler.type else "except"
            names = ast.Constant(" ".join(sorted(loaded)))
            here = ast.Call(ast.Name("locals", ast.Load()), [], [])
            begin = self._call(handler, text, [], began, [here, names])
            body: list[ast.expr] = [ast.Constant(True), ast.Constant("")]
            node.body.insert(0, ast.copy_location(ast.Expr(begin), node.body[0]))
            mark = ast.Expr(ast.Call(begin.func, body, []))
            handler.body.insert(0, ast.copy_location(mark, handler.body[0]))
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node


def _turned(text: str, kind: ast.cmpop) -> str:
    return f"not ({text})" if isinstance(kind, ast.NotEq | ast.NotIn) else text


def _wanted(pattern: ast.pattern) -> list[Any]:
    """Numbers or texts, or tuples of them, that a pattern matches; 0 where it takes any."""
    if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant):
        return [pattern.value.value]
    if isinstance(pattern, ast.MatchOr):
        return [value for one in pattern.patterns for value in _wanted(one)]
    if isinstance(pattern, ast.MatchSequence):
        return [*itertools.product(*map(_wanted, pattern.patterns))][:MANY]
    return [0]


def _same(value: Any) -> Any:
    return value


def _text(node: ast.expr) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
