"""Mechanisms in any language: a program, an HTTP endpoint, or a query of a SQL engine.

The protocol is one question and one answer a call.  The question is the data set as JSON, how many
independent outputs are asked for (``size``) and a seed.  The answer is ``size`` outputs, one a
line: a number, numbers separated by commas, or a JSON value (``read_outputs``).

- ``Command``: a process a call.  The data set is on its standard input; ``DPAUDIT_SIZE`` and
  ``DPAUDIT_SEED`` are in its environment; the answer is its standard output.
- ``Endpoint``: a POST of ``{"data": ..., "size": ..., "seed": ...}``; the answer is the body.
- ``Database`` (module ``sql``): the data set is a database; the answer is the rows of a query.

A nonzero exit code, and a status of 400 and above, counts as an output, as an exception of a Python
function does.  Redirections and the statuses of a server that is busy or out of reach do not: they
are unrelated to the data.  An answer that is late, cut short or unreadable ends the audit with
``Unanswered``: bounds are made only of trials that the program finished.
"""

from __future__ import annotations

import csv
import http.client
import json
import math
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpaudit.errors import LEFT_OUT, TRACEBACK, DpauditError, InvalidParameter
from dpaudit.exact.domains import real

TIME_LIMIT = 60.0  # seconds a call, unless the caller says otherwise
LONGEST_LIMIT = 86_400.0  # seconds: a day
# Crashed calls repeated in one audit: so few that draws hardly depend on which call crashed.
MAX_RESTARTS = 3
BYTES_PER_OUTPUT = 4_096  # an answer beyond this, and LEAST_ANSWER, is a program out of control
LEAST_ANSWER = 1 << 20  # bytes that a program may always print
# HTTP statuses of a server or gateway under load; they say nothing about the data.
BUSY_STATUSES = (429, 502, 503, 504)
READ_BYTES = 1 << 16  # Bytes read at once.
SEED_BITS = 53  # whole numbers that a double holds, and so JavaScript and R


class Unanswered(DpauditError):
    """A call whose answer is late, cut short or unreadable; it ends the audit."""


class ProgramFailed(DpauditError):
    """A call that the program itself ended with an error: an output, named by ``observed``."""

    @property
    def observed(self) -> str:
        """The error as anybody sees it who runs the program."""
        return str(self.args[0])

    def __str__(self) -> str:
        return "".join(map(str, self.args))


@dataclass(frozen=True, eq=False)
class Foreign:
    """A mechanism outside of this process, called as ``mechanism(data, rng, size)``.

    ``time_limit``: seconds a call.  ``restarts``: calls that crashed and were asked again with the
    same seed, of at most ``MAX_RESTARTS``; the audit reports them.
    Errors: InvalidParameter for a time limit outside (0, 86400].
    """

    time_limit: float = field(default=TIME_LIMIT, kw_only=True)
    restarts: list[str] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < real(self.time_limit, "time_limit") <= LONGEST_LIMIT:
            raise InvalidParameter(
                f"time_limit = {self.time_limit!r}: expected seconds in (0, {LONGEST_LIMIT:g}]"
            )

    @property
    def code(self) -> str:
        """Python that makes the mechanism again."""
        raise NotImplementedError

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Any:
        """The answer to one question.

        Errors: ProgramFailed, which is an output; Unanswered, which ends the audit.
        """
        seed = int(rng.integers(2**SEED_BITS))
        while True:
            try:
                return self._asked(data, size, seed)
            except _Crashed as crash:
                if len(self.restarts) >= MAX_RESTARTS:
                    raise crash.last from None
                self.restarts.append(str(crash.last))

    def _asked(self, data: Any, size: int, seed: int) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Command(Foreign):
    r"""A program, started anew for every call, without a shell.

    ``argv``: the program and its arguments, or one text that is split as a shell would.
    Errors: InvalidParameter where there is no such program.

    >>> import sys
    >>> import numpy as np
    >>> code = "import os; print('0.5\n' * int(os.environ['DPAUDIT_SIZE']))"
    >>> halves = Command([sys.executable, "-c", code])
    >>> halves([1, 2], np.random.default_rng(1), 3).tolist()
    [0.5, 0.5, 0.5]
    """

    argv: Sequence[str] | str

    def __post_init__(self) -> None:
        super().__post_init__()
        argv = shlex.split(self.argv) if isinstance(self.argv, str) else list(self.argv)
        if not argv or not all(isinstance(word, str) for word in argv):
            raise InvalidParameter(f"command = {self.argv!r}: expected a program and its arguments")
        if shutil.which(argv[0]) is None:
            raise InvalidParameter(
                f"command: there is no program {argv[0]!r}; install it, or give its path"
            )
        object.__setattr__(self, "argv", tuple(argv))

    @property
    def code(self) -> str:
        limit = "" if self.time_limit == TIME_LIMIT else f", time_limit={self.time_limit!r}"
        return f"__import__('dpaudit').audit.Command({list(self.argv)!r}{limit})"

    def _asked(self, data: Any, size: int, seed: int) -> Any:
        given = {"DPAUDIT_SIZE": str(size), "DPAUDIT_SEED": str(seed)}
        with tempfile.TemporaryFile() as question, tempfile.TemporaryFile() as errors:
            question.write(_json(data).encode())
            question.seek(0)
            process = subprocess.Popen(
                list(self.argv),
                stdin=question,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | given,
                start_new_session=True,
            )
            with process, deadline(self.time_limit, lambda: _end(process)) as late:
                try:
                    answer = _answer(process, _longest(size), late)
                    if len(answer) <= _longest(size):
                        process.wait()
                finally:
                    _end(process)
            words = _said(errors)
        return self._read(answer, process.returncode, size, words, late=late.is_set())

    def _read(self, answer: bytes, status: int, size: int, words: str, *, late: bool) -> Any:
        place = f"the command {shlex.join(self.argv)[:80]}"
        if late:
            raise Unanswered(
                f"{place} did not answer within {self.time_limit:g} seconds for {size} outputs; "
                f"give it more time (time_limit=){words}"
            )
        if len(answer) > _longest(size):
            raise Unanswered(_too_long(place, size))
        if status < 0:
            raise _Crashed(ProgramFailed(f"ended by {_signal(-status)}", words))
        if status:
            raise ProgramFailed(f"exit code {status}", words)
        return read_outputs(answer, size, place)


@dataclass(frozen=True, eq=False)
class Endpoint(Foreign):
    """An HTTP endpoint that draws: a POST of JSON, answered by the outputs.

    Errors: InvalidParameter unless ``url`` begins with http:// or https://.
    """

    url: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_url(self.url):
            raise InvalidParameter(f"url = {self.url!r}: expected http://... or https://...")

    @property
    def code(self) -> str:
        limit = "" if self.time_limit == TIME_LIMIT else f", time_limit={self.time_limit!r}"
        return f"__import__('dpaudit').audit.Endpoint({self.url!r}{limit})"

    def _asked(self, data: Any, size: int, seed: int) -> Any:
        """One POST and its parsed answer.

        Errors: Unanswered for no answer or part of one; ProgramFailed for an error of the server.
        """
        place = f"the endpoint {self.url[:80]}"
        body = f'{{"data": {_json(data)}, "size": {size}, "seed": {seed}}}'.encode()
        request = urllib.request.Request(  # noqa: S310 (its scheme was checked)
            self.url, body, {"Content-Type": "application/json"}, method="POST"
        )
        try:
            with _OPENER.open(request, timeout=self.time_limit) as reply:
                answer = self._body(reply, _longest(size))
                stated = reply.headers.get("Content-Length")
        except urllib.error.HTTPError as error:
            if error.code < 400:
                raise Unanswered(
                    f"{place} answers from another address (HTTP status {error.code}); give that"
                ) from None
            if error.code in BUSY_STATUSES:
                busy = Unanswered(f"{place} is busy or out of reach (HTTP status {error.code})")
                raise _Crashed(busy) from None
            raise ProgramFailed(f"HTTP status {error.code}") from None
        except TimeoutError:
            raise Unanswered(
                f"{place} did not answer within {self.time_limit:g} seconds; give it more time "
                "(time_limit=)"
            ) from None
        except http.client.IncompleteRead:
            raise Unanswered(f"{place} sent a part of its answer and closed the line") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            unreachable = Unanswered(f"{place} cannot be reached: {type(reason).__name__}")
            raise _Crashed(unreachable) from None
        if len(answer) > _longest(size):
            raise Unanswered(_too_long(place, size))
        if stated is not None and stated.strip() != str(len(answer)):
            raise Unanswered(f"{place} sent {len(answer)} bytes, not all bytes of its answer")
        return read_outputs(answer, size, place)

    def _body(self, reply: Any, most: int) -> bytes:
        """The body; the time limit holds for each part and for the whole.  Errors: TimeoutError."""
        end, body = time.monotonic() + self.time_limit, b""
        while len(body) <= most and (part := reply.read1(READ_BYTES)):
            body += part
            if time.monotonic() > end:
                raise TimeoutError
        return body


class _Here(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the redirected request would not carry the data set."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Here)


class _Crashed(Exception):
    """A call that may be asked again; ``last``: the error where it may not."""

    def __init__(self, last: DpauditError) -> None:
        super().__init__()
        self.last = last


def is_url(text: str) -> bool:
    """Whether a text is the address of an endpoint."""
    return text.startswith(("http://", "https://"))


# --- answers ------------------------------------------------------------------------------------


def read_outputs(answer: bytes, size: int, place: str) -> Any:
    r"""``size`` outputs as an array of shape (size,) or (size, k).

    An output is a line: a number, numbers or texts separated by commas, or a JSON value; NaN for no
    output.  One line more than ``size``, without a number, is a header.  Or all are one object of
    JSON, ``{"outputs": [...]}``.
    Errors: Unanswered for another number of lines, a blank line, lines of different lengths, or
    what is no UTF-8.  No message quotes the answer.

    >>> read_outputs(b"1,2\n3,4\n", 2, "the command")
    array([[1, 2],
           [3, 4]])
    """
    try:
        text = answer.decode("utf-8")
    except UnicodeDecodeError:
        raise Unanswered(f"{place}: its answer is no UTF-8 text") from None
    if text.lstrip().startswith("{"):
        outputs = _document(text, place)
    else:
        lines = [line.rstrip("\r") for line in text.split("\n")]
        while lines and not lines[-1].strip():
            lines.pop()
        if len(lines) == size + 1 and _is_header(lines[0]):
            lines = lines[1:]
        outputs = [_line(line, number, place) for number, line in enumerate(lines, start=1)]
    if len(outputs) != size:
        raise Unanswered(
            f"{place} gave {len(outputs)} of {size} outputs: it prints DPAUDIT_SIZE outputs, one a "
            "line, and nothing else; a part of an answer is not used"
        )
    widths = {len(output) if isinstance(output, list) else -1 for output in outputs}
    if len(widths) > 1:
        raise Unanswered(
            f"{place}: its outputs have different lengths; give each as many numbers, NaN for none"
        )
    return as_array(outputs)


def _document(text: str, place: str) -> list[Any]:
    try:
        outputs = json.loads(text)["outputs"]
    except (ValueError, KeyError, RecursionError):
        outputs = None
    if not isinstance(outputs, list):
        raise Unanswered(f'{place}: expected JSON, whole, as in {{"outputs": [1.5, 2.5]}}')
    return outputs


def _line(line: str, number: int, place: str) -> Any:
    if not line.strip():
        raise Unanswered(f"{place}: line {number} of its answer is blank; write NaN for no output")
    with suppress(ValueError, RecursionError):
        value = json.loads(line)
        return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
    try:
        cells = [_cell(cell) for cell in next(csv.reader([line]))]
    except csv.Error:
        raise Unanswered(f"{place}: line {number} of its answer is no CSV") from None
    return cells[0] if len(cells) == 1 else cells


def _cell(text: str) -> Any:
    """A number where it is one; blank is no output."""
    text = text.strip()
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text or math.nan


def _is_header(line: str) -> bool:
    return all(isinstance(_cell(cell), str) for cell in line.split(","))


def as_array(outputs: list[Any]) -> Any:
    """Numbers as numbers; what is of several types as objects, which audits read as text."""
    cells = [
        cell for output in outputs for cell in (output if isinstance(output, list) else [output])
    ]
    types = {type(cell) for cell in cells}
    fits = all(abs(cell) < 2**63 for cell in cells if type(cell) is int)
    if fits and (types in ({int}, {bool}) or (types <= {int, float, bool} and float in types)):
        return np.array(outputs)
    plain = [cell if isinstance(cell, (int, float, str, type(None))) else json.dumps(cell)
             for cell in cells]  # fmt: skip
    array = np.empty(len(plain), dtype=object)
    array[:] = plain
    return array.reshape(len(outputs), -1) if isinstance(outputs[0], list) else array


# --- questions ------------------------------------------------------------------------------------


def _json(data: Any) -> str:
    """Errors: InvalidParameter for data that JSON cannot hold."""
    try:
        return json.dumps(data, default=_plain)
    except (TypeError, ValueError):
        raise InvalidParameter(
            "data: a program in another language is given JSON; give numbers, texts, lists, objects"
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError


def _longest(size: int) -> int:
    return LEAST_ANSWER + BYTES_PER_OUTPUT * size


def _too_long(place: str, size: int) -> str:
    return f"{place} gave more than {_longest(size):,} bytes for {size} outputs"


@contextmanager
def deadline(seconds: float, stop: Callable[[], None]) -> Iterator[threading.Event]:
    """Call ``stop`` where the block takes longer; the event says whether it did."""
    late = threading.Event()

    def end() -> None:
        late.set()
        stop()

    clock = threading.Timer(seconds, end)
    clock.daemon = True
    clock.start()
    try:
        yield late
    finally:
        clock.cancel()


def _answer(process: subprocess.Popen[bytes], most: int, late: threading.Event) -> bytes:
    """Standard output, read up to one byte beyond ``most`` and until ``late`` is set.

    A process that a program started may keep its output open after it has ended.
    """
    answer = b""
    with selectors.DefaultSelector() as ready:
        stream = process.stdout
        assert stream is not None  # noqa: S101  (it is a pipe)
        ready.register(stream, selectors.EVENT_READ)
        while len(answer) <= most and not late.is_set():
            if ready.select(timeout=0.1):
                part = os.read(stream.fileno(), READ_BYTES)
                if not part:
                    break
                answer += part
    return answer


def _signal(number: int) -> str:
    """A signal's name; those of real time have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody has waited for, and all that it started."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _said(stream: Any) -> str:
    """Standard error, for a message; its text is included only if the operator asks for it."""
    stream.seek(0)
    words = stream.read(10_000).decode("utf-8", "replace").strip()
    if not words:
        return ""
    return (
        f"\n{words}" if os.environ.get(TRACEBACK) else f" (it wrote to standard error; {LEFT_OUT})"
    )
