"""Places: the line of a program that asked a curator for something, as ``folder/file.py:12``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath
from types import CodeType, FrameType

LIBRARIES = frozenset({"dpaudit", "numpy", "scipy", "joblib", "pandas", "polars"})
# Modules of dpaudit that hold programs: what runs one of them is no line of a program's.
OWN = frozenset({"dpaudit.releases.program"})
INSTALLED = {"site-packages", "dist-packages"}


def program_line() -> str:
    """The innermost running line that is neither dpaudit's nor a library's; empty if none is."""
    return next((_place(f, f.f_lineno) for f in _callers() if is_program(f)), "")


def line_of_error(error: BaseException) -> str:
    """The innermost line of a program that an error went through; empty if none is known.

    Lines of installed packages count only where there are no others.
    """
    own, installed, trace = "", "", error.__traceback__
    while trace is not None:
        if is_program(trace.tb_frame):
            place = _place(trace.tb_frame, trace.tb_lineno)
            if INSTALLED & set(PurePath(trace.tb_frame.f_code.co_filename).parts):
                installed = place
            else:
                own = place
        trace = trace.tb_next
    return own or installed


def line_of_code(code: CodeType, module: str, line: int | None = None) -> str:
    """A line (the first by default) of a function's code, its file named as its module is."""
    return f"{_file(code.co_filename, module)}:{line or code.co_firstlineno}"


def own_functions(query: object) -> list[str]:
    """Where a program's own functions begin that a query holds, or is: ``rows, own.py:12``."""
    functions = [getattr(value, "func", value) for value in vars(query).values() if callable(value)]
    if is_own(type(query).__module__):
        functions.append(getattr(type(query), "value", None))
    return [
        f"{code.co_qualname}, {line_of_code(code, function.__module__)}"
        for function in functions
        if (code := getattr(function, "__code__", None)) and is_own(function.__module__)
    ]


def at(place: str) -> str:
    """A place as the end of a message: `` (folder/file.py:12)``, or nothing."""
    return f" ({place})" if place else ""


def place_in(message: str) -> str:
    """The place that ends a message (see :func:`at`); empty if none does."""
    match = re.search(r"\((?:after )?([^()\s]+:\d+)\)$", message)
    return match.group(1) if match else ""


def is_program(frame: FrameType) -> bool:
    """Whether a frame runs code of a user's project, by the name of its module."""
    return is_own(str(frame.f_globals.get("__name__", "")))


def private_read(name: str, caller: FrameType) -> str | None:
    """The program's line, as :func:`at` says it, where its own frame reads a private attribute.

    A read by a library on behalf of the program is not seen (``SECURITY.md``).
    """
    private = name == "__dict__" or (name.startswith("_") and not name.startswith("__"))
    return at(program_line()) if private and is_program(caller) else None


@cache
def is_own(module: str) -> bool:
    """Whether a module is of a user's project, by its name: neither dpaudit's nor a library's."""
    top = module.partition(".")[0]
    return top not in LIBRARIES and top not in sys.stdlib_module_names


def _callers() -> Iterator[FrameType]:
    """The running frames from the innermost on, up to a program of dpaudit's own."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") not in OWN:
        yield frame
        frame = frame.f_back


def _place(frame: FrameType, line: int) -> str:
    return line_of_code(frame.f_code, str(frame.f_globals.get("__name__", "")), line)


def _file(filename: str, module: str) -> str:
    """The end of a path that a dotted module name stands for: no folder of the user's shows."""
    path = PurePath(filename)
    depth = module.count(".") + (2 if path.stem == "__init__" else 1)
    return "/".join(path.parts[-depth:])
