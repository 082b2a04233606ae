"""Errors: one base class; every message names the value, the place and the way out."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

LONGEST_TEXT = 600
INTERNAL = 70  # exit code of an unexpected error (EX_SOFTWARE of sysexits.h)
_PACKAGE = str(Path(__file__).parent)
_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
_NOT_FOR_USERS = ("dev", "docs")
_IMPORTED_AS = {"scikit-learn": "sklearn"}  # where it is not the distribution's name
TRACEBACK = "DPAUDIT_TRACEBACK"  # set it to see an unforeseen error whole, private data and all
LEFT_OUT = f"its text may quote data and is left out, {TRACEBACK}=1 shows it"


class DpauditError(Exception):
    """Base of every error that dpaudit raises on purpose.

    ``exit_code`` is what the command line returns when the error reaches it.

    >>> import dpaudit as dp
    >>> dp.DpauditError.exit_code
    2
    """

    exit_code = 2


class InvalidParameter(DpauditError, ValueError):
    """A value outside its domain: not finite, not positive, of the wrong shape or type.

    >>> import dpaudit as dp
    >>> try:
    ...     dp.ApproxDP(1, delta=2)
    ... except dp.InvalidParameter as error:
    ...     print(error)
    ApproxDP.delta = 2: expected a probability below 1
    """


@contextmanager
def optional(
    extra: str, subject: str, error: type[DpauditError] = InvalidParameter
) -> Iterator[None]:
    """Import libraries of an extra inside this block; if one is missing, say how to get it.

    ``extra``: a name under ``project.optional-dependencies``; ``subject``: a plural or a noun that
    needs the extra, first in the message.
    Errors: ``error`` in the place of an ImportError; a missing library is named.
    """
    try:
        yield
    except ImportError as missing:
        library = f" (missing: {missing.name})" if missing.name else ""
        raise error(f"{subject}: pip install 'dpaudit[{extra}]'{library}") from None


def missing_extra(error: BaseException) -> str:
    """How to get the missing library of an extra that an import failed for; else no text.

    A missing library that a command needs is never an unexpected error, wherever it is imported.
    """
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    library = error.name.partition(".")[0]
    extras = [f"pip install 'dpaudit[{extra}]'" for extra in _extras_of().get(library, ())]
    return f"{library} is not installed: {' or '.join(extras)}" if extras else ""


@cache
def _extras_of() -> dict[str, tuple[str, ...]]:
    """The extras that bring a library, by the name it is imported by."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("dpaudit") or []
    except PackageNotFoundError:
        return {}
    extras: dict[str, tuple[str, ...]] = {}
    for line in lines:
        asked = re.match(r"([\w.-]+).*; extra == ['\"]([\w-]+)['\"]", line)
        if asked and asked[2] not in _NOT_FOR_USERS:
            name = _IMPORTED_AS.get(asked[1].lower(), asked[1].lower().replace("-", "_"))
            extras[name] = (*extras.get(name, ()), asked[2])
    return extras


class UnknownTarget(DpauditError):
    """A name or file that no project root holds, or a file that does not import."""


class Unsupported(DpauditError):
    """No rule for a node under this calculus and adjacency.

    >>> import dpaudit as dp
    >>> try:
    ...     dp.account(dp.Gaussian("mean", 1), dp.central("add_remove")).step("pure")
    ... except dp.Unsupported as error:
    ...     print(str(error).split(";")[0])
    Gaussian('mean'): pure has no rule for Gaussian under add_remove
    """

    exit_code = 4


class Undeclared(DpauditError):
    """A release that the declaration does not hold, or that it has used up."""


class Dependent(DpauditError):
    """Trials of one run would share a public coin, where they are counted as independent."""


class BudgetExceeded(DpauditError):
    """A charge that does not fit into what is left of a privacy budget."""


class Diverged(DpauditError):
    """A replay asked for other releases than the transcript recorded."""


class SensitivityExceeded(DpauditError):
    """Two neighbouring data sets moved a query by more than the sensitivity it states."""


class Disagreement(DpauditError):
    """One accountant's upper bound is below another's lower bound: one of them is wrong."""

    exit_code = 1


class InternalError(DpauditError):
    """dpaudit contradicts itself: a bound that no mechanism has, or two ends in the wrong order.

    No number from such an answer may be used.  The message asks for a report.
    """

    exit_code = 70


class CertificateRejected(DpauditError):
    """A certificate that is not well formed, was changed, or does not follow from its witnesses."""

    exit_code = 1


class ReleaseInterrupted(DpauditError):
    """A release that failed after it was charged: the charge is spent, and nothing is published."""

    exit_code = 1


class OutputNotWritable(DpauditError):
    """A folder or file that cannot be written."""


class UnknownName(AttributeError):
    """A name that the package does not have; its message quotes the program, and no data."""

    exit_code = 2


def exit_code(error: BaseException) -> int:
    """The exit code of an error: its own, that of a bad input where a program raised it, or 70.

    A program raised it where the innermost line outside of libraries is the program's.
    """
    if isinstance(error, DpauditError | UnknownName):
        return error.exit_code
    if missing_extra(error):
        return DpauditError.exit_code
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_program(frame.filename):
            return DpauditError.exit_code
        if _is_ours(frame.filename):
            break
    return INTERNAL


def is_program(file: str) -> bool:
    """Whether a file is of a user's project, or of the shipped catalogue."""
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    library = file.startswith(("<", _LIBRARY))
    return _is_catalogue(file) or not (_is_ours(file) or installed or library)


def _is_ours(file: str) -> bool:
    return file.startswith(f"{_PACKAGE}{os.sep}") and not _is_catalogue(file)


def _is_catalogue(file: str) -> bool:
    return file.startswith(f"{_PACKAGE}{os.sep}catalogue{os.sep}")


def described(error: Exception) -> str:
    """An error in one line: what was raised on purpose says it itself.

    An error of any other kind is told by its type and the program's innermost line alone, because
    its message may quote private data; an error of the system also by its file and the system's own
    words.
    """
    if isinstance(error, DpauditError | UnknownName):
        text = " ".join(str(error).split())
        return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."
    if needed := missing_extra(error):
        return needed
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:  # raised in another process, which left these words
        return next(iter(getattr(error, "__notes__", ())), type(error).__name__)
    last = next((frame for frame in reversed(frames) if is_program(frame.filename)), frames[-1])
    text = f"{type(error).__name__} at {last.filename}:{last.lineno}"
    if isinstance(error, OSError) and error.errno:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{os.strerror(error.errno)} ({text})"
    return text
