"""A process that has imported everything, and forks one for each run of the command.

A run is the real command (``python -m dpaudit ...``) from its first line to the interpreter's end,
but for two things that touch no file: the seconds that imports take, and the examination of a
program on generated records, whose result is the rehearsal's (figures of pages too).  One line of
JSON a request on standard input, one back.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import runpy
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OWN = ("mechanisms", "audits", "experiments", "__main__")  # of the project, and of each run
KEPT = (
    ("dpaudit.certificate.certify", "examine"),
    ("dpaudit.report.plots", "profile_svg"),
    ("dpaudit.report.plots", "tradeoff_svg"),
)


def serve() -> tuple[list[str], str]:
    """Answer requests; returns in each forked child alone.

    The arguments of its command, and the file where a rehearsal leaves what is kept of it.
    """
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            return begin(asked), asked["rehearsal"]
        answer = {"status": ended(child, asked["seconds"])}
        if asked["rehearsal"]:
            learn(Path(asked["rehearsal"]))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    os._exit(0)


def learn(place: Path) -> None:
    """Import what a rehearsal imported, and answer as it did; its threads ended with it."""
    with place.open("rb") as file:
        for name in pickle.load(file):  # noqa: S301  (our own child's)
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        answers = pickle.load(file)  # noqa: S301
    for module, name in KEPT:
        if (module, name) in answers:
            setattr(sys.modules[module], name, repeated(answers[module, name]))


def repeated(answers: list[Any]) -> Callable[..., Any]:
    """A function that answers as it did in the rehearsal, call by call."""
    left = list(answers)
    return lambda *_, **__: left.pop(0) if left[1:] else left[0]


def rehearse(place: Path) -> None:
    """The command, of which modules and answers are written down."""
    answers: dict[tuple[str, str], list[Any]] = {}
    for module, name in KEPT:
        noted(module, name, answers)
    with contextlib.suppress(SystemExit):
        runpy.run_module("dpaudit", run_name="__main__")
    loaded = [n for n, m in sys.modules.items() if m is not None and n.split(".")[0] not in OWN]
    place.write_bytes(pickle.dumps(loaded) + pickle.dumps(answers))


def noted(module: str, name: str, answers: dict[tuple[str, str], list[Any]]) -> None:
    """Have what a function answers written down."""
    owner = importlib.import_module(module)
    call = getattr(owner, name)

    def noting(*given: Any, **named: Any) -> Any:
        found = call(*given, **named)
        answers.setdefault((module, name), []).append(found)
        return found

    setattr(owner, name, noting)


def begin(asked: dict[str, Any]) -> list[str]:
    """The child: a session of its own, files for its streams, the folder it works in."""
    os.setsid()
    streams = [os.open(os.devnull, os.O_RDONLY)]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    streams += [os.open(asked[name], flags) for name in ("out", "err")]
    for place, handle in enumerate(streams):
        os.dup2(handle, place)
        os.close(handle)
    os.chdir(asked["cwd"])
    return list(asked["arguments"])


def ended(child: int, seconds: float) -> int:
    """How a child ended; whatever it started is ended with it."""
    end = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            break
        time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    arguments, rehearsal = serve()
    sys.argv = ["dpaudit", *arguments]
    if os.environ["FAULTS_SABOTAGE"]:
        getattr(
            importlib.import_module("tests.support.faults.sabotage"), os.environ["FAULTS_SABOTAGE"]
        )()
    if rehearsal:
        rehearse(Path(rehearsal))
    else:
        runpy.run_module("dpaudit", run_name="__main__")
