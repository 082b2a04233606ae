"""Import a mechanism from changed source, in a process of its own.

The process imports the project anew, so that no module of the right program is in it, and sends
its result back as JSON.
"""

from __future__ import annotations

import ast
import importlib
import json
import multiprocessing
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType
from typing import Any

from dpaudit.mutate.operators import Planted, edited
from dpaudit.storage import roots
from dpaudit.storage.roots import EXPERIMENTS, PACKAGES, serve

EXTRA_MEMORY = 6 << 30  # Bytes that a child process may allocate beyond those of its parent.
EXIT_SECONDS = 5.0  # Seconds in which a process must end after it has answered or closed its pipe.
SERVER = multiprocessing.get_context("forkserver")
OVERTIME, DIED = "overtime", "died"


def _address_space() -> int:
    """Bytes of address space that this process has; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[0]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def separately(work: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    """The JSON result of ``work(*arguments)``, computed in a process of its own.

    ``work`` and ``arguments`` can be pickled.  ``seconds``: the limit of processor time.  The
    process writes to standard error alone.  If it took too long, the result is
    ``{"failed": OVERTIME}``; if it died, ``{"failed": DIED}`` with the exit status as ``detail``.

    The process is forked by a server that holds dpaudit alone.  A fork of the caller's own process
    would copy the locks of its threads (readers of tables start some) and open files.
    """
    SERVER.set_forkserver_preload(["dpaudit.mutate.run"])
    reading, writing = SERVER.Pipe(duplex=False)
    child = SERVER.Process(target=_child, args=(work, arguments, seconds, writing))
    late = True
    with reading:
        with writing:
            child.start()
        try:
            late = not reading.poll(20 * seconds)
            answer = b"" if late else reading.recv_bytes()
        except EOFError:
            answer = b""
        finally:
            child.join(0 if late else EXIT_SECONDS)
            child.kill()
            child.join()
    if answer:
        return json.loads(answer)
    if child.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"failed": OVERTIME}
    return {"failed": DIED, "detail": f"exit status {child.exitcode}"}


def _child(
    work: Callable[..., Any], arguments: tuple[Any, ...], seconds: float, writing: Connection
) -> None:
    most = _address_space() + EXTRA_MEMORY
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 3))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    os.dup2(2, 1)
    forget()
    try:
        result = work(*arguments)
    except Exception as error:  # noqa: BLE001  (a mutant may fail in any way)
        result = {"failed": type(error).__name__, "text": traceback.format_exc()[-2000:]}
    writing.send_bytes(json.dumps(result).encode())
    # A thread that the mutant started must not keep the process alive.
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
