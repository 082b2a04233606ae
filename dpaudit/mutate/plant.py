"""Import a mechanism from changed source, in a process of its own.

A forked child imports the project anew, so that no module of the right program is left in it.  The
child sends its result back as JSON.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from dpaudit.mutate.operators import Planted, edited
from dpaudit.storage import roots
from dpaudit.storage.roots import EXPERIMENTS, PACKAGES, serve

MEMORY = 6 << 30  # bytes that a child may ask for beside what it has of its parent
FORKING = threading.Lock()
OVERTIME, DIED = "overtime", "died"


def _address_space() -> int:
    """Bytes of address space that this process has; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[0]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def forked(work: Callable[[], Any], seconds: float) -> Any:
    """The JSON result of ``work``, computed in a forked child.

    If the child took too long or died, the result is ``{"failed": OVERTIME}`` or
    ``{"failed": DIED}``.  ``seconds``: the limit of processor time.  The child's output goes to
    standard error.
    """
    # One fork at a time: a child forked meanwhile by another thread would inherit this pipe and
    # keep it open.
    with FORKING:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _child(work, seconds, writing)
        os.close(writing)
    deadline, chunks = time.monotonic() + 20 * seconds, []
    with os.fdopen(reading, "rb") as pipe:
        os.set_blocking(reading, False)
        while True:
            chunk = pipe.read()
            if chunk == b"":
                break
            if chunk:
                chunks.append(chunk)
            elif time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                break
            else:
                time.sleep(0.02)
    _, status = os.waitpid(pid, 0)
    try:
        return json.loads(b"".join(chunks))
    except ValueError:
        late = os.waitstatus_to_exitcode(status) in (-signal.SIGXCPU, -signal.SIGKILL)
        return {"failed": OVERTIME if late else DIED}


def _child(work: Callable[[], Any], seconds: float, writing: int) -> None:
    try:
        try:
            most = _address_space() + MEMORY
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 3))
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            os.dup2(2, 1)
            forget()
            result = work()
        except Exception as error:  # noqa: BLE001  (a mutant may fail in any way)
            result = {"failed": type(error).__name__, "text": traceback.format_exc()[-2000:]}
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(result).encode())
    finally:
        os._exit(0)


def forget() -> None:
    """Forget the served project root and all modules imported from it."""
    roots._served = None
    for name in [n for n in sys.modules if n.partition(".")[0] in (*PACKAGES, EXPERIMENTS)]:
        del sys.modules[name]


def file_of(root: Path, module: str) -> Path:
    """The source file of a module of a root."""
    place = root.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def import_planted(root: Path, home: str, planted: Planted | None, *, twin: bool = False) -> Any:
    """The module ``home`` of a root, imported with one change in it or in what it imports."""
    root = serve(root)
    if planted is not None:
        _replace_source(file_of(root, planted.module), planted, twin=twin)
    return importlib.import_module(home)


def _replace_source(path: Path, planted: Planted, *, twin: bool) -> None:
    """Make this process import the file with the change; nothing is written to disk."""
    right = roots.Recorded.get_code
    wanted = str(path)

    def get_code(loader: roots.Recorded, fullname: str) -> CodeType:
        if loader.path != wanted:
            return right(loader, fullname)
        tree = edited(ast.parse(path.read_bytes()), planted, twin=twin)
        return compile(tree, wanted, "exec", dont_inherit=True)

    roots.Recorded.get_code = get_code  # type: ignore[method-assign,assignment]
