"""Bugs in the source text: constants, comparisons, operators, conditions and clipping calls.

A mutated function gets the code object that its changed source compiles to; everything else of its
module stays as it is, and the right code is put back afterwards.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.curator.locations import is_program, line_of_code
from dpaudit.mutate.changes import CONTROL, EVERY, Change, changes_of
from dpaudit.mutate.mutant import Mutant, Planted, Survey

MOST_CHANGES = 60  # of one target: the rest are like the first
PER_RECORD = "_clipped"  # inside this a row is clipped afterwards, whatever the program made of it


@dataclass(frozen=True)
class Reached:
    """A function of the project that ran: its code, and whether it ran where privacy is decided."""

    code: CodeType
    module: str
    private: bool


def source_mutants(found: Survey) -> Iterator[Mutant]:
    """Changes of the functions that declare, that queries run, and of the control flow of the rest.

    In public code only comparisons, conditions and whole numbers are changed: a program's
    arithmetic on released values is post-processing, which costs no privacy.
    """
    made = 0
    for reached in _reached(found):
        functions = _functions(reached)
        if not functions:
            continue
        for change in changes_of(_tree(reached), EVERY if reached.private else CONTROL):
            made += 1
            if made > MOST_CHANGES:
                return
            yield _mutant(found, reached, functions, change)


def _mutant(
    found: Survey, reached: Reached, functions: list[FunctionType], change: Change
) -> Mutant:
    @contextmanager
    def plant() -> Iterator[Planted]:
        wrong = _compiled(reached, change)
        right = functions[0].__code__
        for function in functions:
            function.__code__ = wrong
        try:
            yield Planted(found.mechanism, found.suite)
        finally:
            for function in functions:
                function.__code__ = right

    where = line_of_code(reached.code, reached.module, change.line)
    return Mutant(
        name=f"{where}.{change.column}-{change.end[0]}.{change.end[1]}.{change.name}",
        family="source",
        what=f"{change.what}, in {reached.code.co_qualname}",
        where=where,
        plant=plant,
        private=reached.private,
    )


# --- which functions run -------------------------------------------------------------------------


def _reached(found: Survey) -> list[Reached]:
    """Functions of the project that run in the declaration or in a run, in order of place."""
    seen: dict[CodeType, Reached] = {}

    def note(private: Callable[[FrameType], bool]) -> Callable[[FrameType, str, Any], None]:
        def trace(frame: FrameType, event: str, argument: Any) -> None:
            code = frame.f_code
            if event != "call" or not is_program(frame) or not _ordinary(code):
                return
            if _above(frame, PER_RECORD):
                return
            known = seen.get(code)
            decided = private(frame) or (known is not None and known.private)
            seen[code] = Reached(code, str(frame.f_globals["__name__"]), decided)

        return trace

    with _tracing(note(lambda frame: True)):
        found.suite.program.declaration(found.mechanism.scope)
    sampler = Sampler(
        found.mechanism.declaration,
        found.mechanism.scope,
        found.suite.neighbours.first,
        rng=np.random.default_rng(0),
        kernels=found.suite.kernels,
    )
    with _tracing(note(lambda frame: _above(frame, "release"))):
        found.suite.program.run(sampler)
    return sorted(seen.values(), key=lambda r: (r.module, r.code.co_firstlineno))


@contextmanager
def _tracing(trace: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(before)


def _ordinary(code: CodeType) -> bool:
    return not code.co_name.startswith("<") and Path(code.co_filename).is_file()


def _above(frame: FrameType, name: str) -> bool:
    """Whether dpaudit's function of that name is running further out."""
    outer = frame.f_back
    while outer is not None:
        module = str(outer.f_globals.get("__name__", ""))
        if outer.f_code.co_name == name and module.partition(".")[0] == "dpaudit":
            return True
        outer = outer.f_back
    return False


# --- from source to code -------------------------------------------------------------------------


def _tree(reached: Reached) -> ast.Module:
    """The module's syntax tree with only the statements that hold the function."""
    tree = ast.parse(Path(reached.code.co_filename).read_text("utf-8"))
    held = [node for node in ast.walk(tree) if _is(node, reached.code)]
    if len(held) != 1:
        return ast.Module([], [])
    return ast.Module([held[0]], [])  # type: ignore[list-item]


def _is(node: ast.AST, code: CodeType) -> bool:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != code.co_name:
        return False
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return first == code.co_firstlineno


def _compiled(reached: Reached, change: Change) -> CodeType:
    """The code object of the changed function, found in its freshly compiled module."""
    filename = reached.code.co_filename
    tree = ast.parse(Path(filename).read_text("utf-8"))
    change.apply(tree)
    future = compile(ast.fix_missing_locations(tree), filename, "exec", dont_inherit=True)
    return next(
        code
        for code in _codes(future)
        if code.co_qualname == reached.code.co_qualname
        and code.co_firstlineno == reached.code.co_firstlineno
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _functions(reached: Reached) -> list[FunctionType]:
    """The functions of the loaded module that run this code: methods, properties, plain ones."""
    module = sys.modules.get(reached.module)
    if module is None:
        return []
    return [f for f in _held(module) if f.__code__ is reached.code]


def _held(module: ModuleType) -> Iterator[FunctionType]:
    for value in list(vars(module).values()):
        if isinstance(value, FunctionType):
            yield value
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            yield from _methods(value)


def _methods(kind: type[Any]) -> Iterator[FunctionType]:
    for member in list(vars(kind).values()):
        inner = getattr(member, "fget", None) or getattr(member, "__func__", None)
        inner = inner or getattr(member, "func", None) or member
        if isinstance(inner, FunctionType):
            yield inner
