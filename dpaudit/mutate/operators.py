"""The operators: bugs that are planted in the source of a mechanism.

Each operator changes the syntax tree of a module in one place.  Operators were chosen without
looking at which bugs are caught.  An operator is not planted where it cannot break privacy,
whatever the examination does; :data:`HARMLESS` gives the reasons.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpaudit.mutate import wrong

WRONG = wrong.__name__  # the module that planted code imports
ALIAS = "_mutant"  # the name of that module in planted code


@dataclass(frozen=True)
class Site:
    """A place in a program that makes releases, as seen in one run on generated records.

    ``module`` and ``line``: of the call.  ``kind``: the class of the query.  ``clips``: the query
    has the value of a :class:`ClippedMean`.  ``exact``: it is an instance of that class itself.
    ``weighted``: it has public weights or a divisor.  ``summed``: its divisor is 1.
    ``private_count``: the number of records in it is private, by the adjacency or because the batch
    is random.  ``parts``: it reads a part of the records, or a batch.  ``uses``: the number of
    releases of the run at this place.  ``dimension``: of the released vector.  ``shared``: its
    rounds share noise or a threshold, and so need equal sensitivities.  ``rows``: the number of
    records that it reads.  ``bounded``: the library's own code clips every row.  ``alike``: on half
    as many records it states no larger sensitivity.  ``searched``: the release is in a run of a
    search.  ``on_its_path``: its sensitivity is proved only for the steps that the program takes,
    and may fail with a declared probability.
    """

    module: str
    line: int
    kind: str
    clips: bool
    exact: bool
    weighted: bool
    summed: bool
    private_count: bool
    parts: bool
    uses: int
    dimension: int
    shared: bool = False
    rows: int = 2
    bounded: bool = False
    alike: bool = False
    searched: bool = False
    on_its_path: bool = False


@dataclass(frozen=True)
class Reached:
    """A function of the project that a run executes, by module, line and name.

    ``asked``: it runs while a query is evaluated, and so sees records.  ``free``: the library's
    clipped mean clips every vector that comes from it.
    """

    module: str
    line: int
    name: str
    asked: bool
    free: bool


@dataclass(frozen=True)
class Planted:
    """One mutant: an operator at a line of a module.

    ``what``: the bug in words.  ``number``: the column, which distinguishes several places in a
    line.  ``twin``: whether a correct variant of the change (the right twin) exists.
    """

    operator: str
    module: str
    line: int
    what: str
    number: int = 0
    twin: bool = True


Edit = Callable[[ast.Module], bool]


# --- releases ---------------------------------------------------------------------------------


def _never(site: Site) -> bool:
    return True


RELEASES: dict[str, tuple[str, Callable[[Site], bool]]] = {
    "delete_the_clip": ("no row is clipped", lambda s: s.clips),
    "clip_after_averaging": ("the mean is clipped, not the rows", lambda s: s.clips),
    "clip_twice_a_batch": (
        "the means of two halves are clipped, not the rows",
        lambda s: s.clips,
    ),
    "norm_of_part": (
        "the norm is of the first half of the coordinates",
        lambda s: s.clips and s.dimension > 1,
    ),
    "centre_by_the_batch": ("the batch's own mean is taken from each row", lambda s: s.clips),
    "divide_by_the_realised_count": (
        "divided by how many records there are",
        lambda s: s.clips and s.private_count and not s.summed,
    ),
    "skip_when_one_trial": ("a run of one trial does not clip", lambda s: s.clips),
    "carry_a_record_over": (
        "the first row counts once more in the next release",
        lambda s: s.clips and s.parts and s.uses > 1,
    ),
    "private_radius": (
        "the radius follows what was seen of the records",
        lambda s: s.exact and s.uses > 1 and not s.shared,
    ),
    "private_step": ("a released value is scaled by what was seen of the records", _never),
    "test_on_part": (
        "the query is of the first half of the records",
        lambda s: not s.weighted and not s.alike and s.rows > 1,
    ),
    "seed_fixed_per_round": ("every round's noise is of the same seed", lambda s: s.uses > 1),
    "noise_of_one_node_in_two": ("every second release has no noise", lambda s: s.uses > 1),
}  # fmt: skip
# The right twin of an operator: a change of the same place that is correct.
RIGHT = {
    "private_radius": "released_radius",
    "private_step": "released_step",
    **dict.fromkeys(
        (
            "delete_the_clip",
            "clip_after_averaging",
            "clip_twice_a_batch",
            "norm_of_part",
            "centre_by_the_batch",
            "divide_by_the_realised_count",
            "skip_when_one_trial",
            "carry_a_record_over",
        ),
        "right",
    ),
}


# Operators that wrap the curator instead of the query.
CURATORS = {"seed_fixed_per_round": "Reseeding", "noise_of_one_node_in_two": "Silencing"}


def _call(name: str, *arguments: ast.expr | str) -> ast.Call:
    function = ast.Attribute(ast.Name(ALIAS, ast.Load()), name, ast.Load())
    made = [ast.Constant(a) if isinstance(a, str) else a for a in arguments]
    return ast.Call(function, made, [])


def _released(call: ast.Call, operator: str) -> ast.expr:
    """A release call, rewritten by an operator or by its right twin."""
    assert isinstance(call.func, ast.Attribute)  # noqa: S101  (found as one)
    curator, query = call.func.value, call.args[1]
    if operator in CURATORS:
        function = ast.Attribute(_call(CURATORS[operator], curator), "release", ast.Load())
        return ast.Call(function, call.args, call.keywords)
    bug = {
        "private_step": "noting",
        "released_step": None,
        "released_radius": "private_radius_of_released",
    }.get(operator, operator)
    asked = [*call.args[:1], query if bug is None else _call("wrong", query, bug, curator)]
    made: ast.expr = ast.Call(call.func, asked, call.keywords)
    if operator in ("released_step", "released_radius"):
        made = _call("told", made, curator)
    if operator in ("private_step", "released_step"):
        scale = ast.BinOp(ast.Constant(1), ast.Add(), _call("kept", curator))
        # A lambda, because the release must run first: it stores the number that scales it.
        made = _call(
            "scaled", made, ast.Lambda(ast.arguments([], [], None, [], [], None, []), scale)
        )
    return made


class _AtLine(ast.NodeTransformer):
    """Replaces the first node that spans a line and fits."""

    def __init__(self, line: int, fits: Callable[[ast.AST], bool], swap: Any) -> None:
        self.line, self.fits, self.swap, self.done = line, fits, swap, False

    def visit(self, node: ast.AST) -> Any:
        spans = getattr(node, "lineno", 0) <= self.line <= getattr(node, "end_lineno", 0)
        if not self.done and spans and self.fits(node):
            self.done = True
            return ast.copy_location(self.swap(node), node)
        return self.generic_visit(node)


def _is_release(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "release"
        and len(node.args) == 2
    )


# --- inside queries ---------------------------------------------------------------------------


def _searches(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and len(node.args) == 1
        and not isinstance(node.args[0], (ast.Constant, ast.Starred))
        and (
            (isinstance(node.func, ast.Name) and node.func.id == "range")
            or (isinstance(node.func, ast.Attribute) and node.func.attr == "arange")
        )
    )


def _half(node: ast.Call) -> ast.expr:
    plus_one = ast.BinOp(node.args[0], ast.Add(), ast.Constant(1))
    return ast.Call(
        node.func, [ast.BinOp(plus_one, ast.FloorDiv(), ast.Constant(2))], node.keywords
    )


def _levels(node: ast.AST) -> bool:
    """Whether a call counts levels: ceil, floor or int of a base-2 logarithm, or bit_length."""
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    inner = ast.unparse(node.args[0]) if node.args else ""
    return name == "bit_length" or (name in ("ceil", "floor", "int") and "log2(" in inner)


def _one_less(node: ast.expr) -> ast.expr:
    return _call("less", node)


def _parts(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "part"
        and len(node.args) == 2
    )


def _part_before(node: ast.Call) -> ast.expr:
    """Replace part k by part k - 1, whose records are then used twice."""
    return ast.Call(node.func, [_call("before", node.args[0]), node.args[1]], node.keywords)


OLDER = ("previous", "before")  # names of variables that hold the point of one step earlier


def _from_a_point(node: ast.AST) -> bool:
    """Whether a call has a point and the previous point as consecutive arguments."""
    return isinstance(node, ast.Call) and any(
        isinstance(b, ast.Name) and b.id in OLDER and isinstance(a, ast.Name)
        for a, b in zip(node.args, node.args[1:], strict=False)
    )


def _stale(node: ast.Call) -> ast.expr:
    """Replace the previous point by the one before it, extrapolated as 2 previous - now."""
    made = list(node.args)
    for k, (now, before) in enumerate(zip(node.args, node.args[1:], strict=False)):
        if isinstance(before, ast.Name) and before.id in OLDER:
            made[k + 1] = _call("older", now, before)
    return ast.Call(node.func, made, node.keywords)


def _compares(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Compare)
        and len(node.ops) == 1
        and isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
    )


def _private_threshold(node: ast.Compare) -> ast.expr:
    moved = ast.BinOp(
        node.comparators[0], ast.Add(), _call("kept", ast.Name("curator", ast.Load()))
    )
    return ast.Compare(node.left, node.ops, [moved])


@dataclass(frozen=True)
class Inside:
    """An operator on code outside releases: which nodes it changes, in which functions, and how."""

    what: str
    fits: Callable[[ast.AST], bool]
    swap: Callable[[Any], ast.expr]
    where: Callable[[Reached, ast.FunctionDef], bool]


def _of_records(reached: Reached, function: ast.FunctionDef) -> bool:
    return reached.asked and not reached.free


def _of_runs(reached: Reached, function: ast.FunctionDef) -> bool:
    return not reached.asked


def _of_curators(reached: Reached, function: ast.FunctionDef) -> bool:
    named = any(a.arg == "curator" for a in function.args.args)
    return named and any(_is_release(n) for n in ast.walk(function))


CODE: dict[str, Inside] = {
    "half_the_search": Inside("half of what is searched", _searches, _half, _of_records),
    "one_level_short": Inside("one level less", _levels, _one_less, lambda r, f: True),
    "one_record_in_two_parts": Inside("the part before", _parts, _part_before, _of_runs),
    "stale_point": Inside("a point from one step earlier", _from_a_point, _stale,
                          lambda r, f: not r.free),
    "private_threshold": Inside("the threshold follows what was seen of the records", _compares,
                                _private_threshold, _of_curators),
}  # fmt: skip

OPERATORS = (*RELEASES, *CODE)  # all that plant a bug
OF_ROWS = ("half_the_search", "stale_point")  # they change rows, or values of queries

# Reasons for not planting an operator at a place: there it cannot break privacy.
HARMLESS = {
    "norm_of_part": "half of one coordinate is the whole vector",
    "divide_by_the_realised_count": "a public count equals the declared divisor; a sum divided by "
    "a count of at least one has a smaller sensitivity",
    "test_on_part": "a sum with public weights has no larger sensitivity on half of the records; "
    "a query that states no larger sensitivity for half as many records is right on half of them; "
    "half of one row is that row",
    "private_radius": "if rounds share noise or a threshold, the curator refuses any second "
    "radius, public or private",
    "half_the_search": "the result ends in rows that the library's own query clips afterwards",
    "stale_point": "the difference ends in rows that the library's own query clips afterwards",
}


# --- all of them ------------------------------------------------------------------------------


def planted_in(
    trees: dict[str, ast.Module],
    sites: list[Site],
    reached: list[Reached],
    lines: Mapping[str, Sequence[int]],
) -> Iterator[Planted]:
    """Every mutant of the lines that a run executes, in order of place."""
    for site in sites:
        # A call in the project's own code, not in a wrapper around it.
        calls = [n for n in ast.walk(trees[site.module]) if _is_release(n) and _spans(n, site.line)]
        for operator, (what, fits) in RELEASES.items() if calls else ():
            if fits(site):
                # There is no right twin inside a search: the releases of its other runs are secret,
                # so that using them is a bug too.  Nor is there one if the sensitivity is proved
                # only for the steps that the program itself takes.
                released = RIGHT.get(operator, "").startswith("released")
                twin = not (released and (site.searched or site.on_its_path))
                yield Planted(operator, site.module, site.line, what, twin=twin)
    done: set[tuple[str, str, int, int]] = set()
    bounded = all(site.bounded for site in sites)
    for executed in reached:
        function = _function(trees[executed.module], executed)
        for operator, inside in CODE.items() if function is not None else ():
            assert function is not None  # noqa: S101  (just asked)
            if not inside.where(executed, function) or (bounded and operator in OF_ROWS):
                continue
            for node in ast.walk(function):
                if not inside.fits(node) or not _runs(node, lines.get(executed.module, ())):
                    continue
                line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
                if (operator, executed.module, line, column) not in done:
                    done.add((operator, executed.module, line, column))
                    yield Planted(operator, executed.module, line, inside.what, column)


def _runs(node: ast.AST, lines: Sequence[int]) -> bool:
    first = getattr(node, "lineno", 0)
    return any(first <= line <= getattr(node, "end_lineno", first) for line in lines)


def _spans(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= getattr(node, "end_lineno", 0)


def _function(tree: ast.Module, reached: Reached) -> ast.FunctionDef | None:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef)
            and node.name == reached.name
            and min([node.lineno, *(d.lineno for d in node.decorator_list)]) == reached.line
        ):
            return node
    return None


def edited(tree: ast.Module, planted: Planted, *, twin: bool = False) -> ast.Module:
    """Apply a mutant, or its right twin, to a module's tree, in place; returns the tree.

    Errors: ValueError if nothing in the line fits, because the tree is of another source.
    """
    operator = RIGHT.get(planted.operator, "") if twin else planted.operator
    if operator and planted.operator in RELEASES:
        change = _AtLine(planted.line, _is_release, lambda call: _released(call, operator))
    elif operator:
        inside = CODE[operator]

        def fits(node: ast.AST) -> bool:
            here = (getattr(node, "lineno", 0), getattr(node, "col_offset", -1))
            return here == (planted.line, planted.number) and inside.fits(node)

        change = _AtLine(planted.line, fits, inside.swap)
    else:
        return tree
    change.visit(tree)
    if operator == "private_threshold":
        _note_all(tree)
    if not change.done:
        raise ValueError(f"{planted.operator} finds nothing in line {planted.line}")
    after = next(
        i
        for i, node in enumerate(tree.body)
        if not isinstance(node, ast.Expr)
        and not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
    )
    package, _, name = WRONG.rpartition(".")
    tree.body.insert(after, ast.ImportFrom(package, [ast.alias(name, ALIAS)], 0))
    return ast.fix_missing_locations(tree)


def _note_all(tree: ast.Module) -> None:
    """Make every release of a module store its noise-free value, which then moves a threshold."""

    class Noting(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            if not _is_release(node):
                return node
            assert isinstance(node.func, ast.Attribute)  # noqa: S101  (a release)
            noted = _call("wrong", node.args[1], "noting", node.func.value)
            return ast.copy_location(
                ast.Call(node.func, [node.args[0], noted], node.keywords), node
            )

    Noting().visit(tree)
