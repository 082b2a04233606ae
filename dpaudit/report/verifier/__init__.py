"""``verify.html``: a page that verifies certificates in a browser, without a network.

The page holds the checker's own modules and a Python for browsers, and is one file.  The runtime is
of other people: Pyodide (npm) and wheels (PyPI), each fixed by its SHA-256, fetched once by ``npm``
and ``pip`` into the cache, and never part of dpaudit.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path

from dpaudit.errors import DpauditError
from dpaudit.storage.files import own_or_absent, write_made
from dpaudit.version import __version__

PAGE = "verify.html"
SECONDS = 300  # after which the page ends a check
LEVEL = 7  # of gzip; 9 takes two and a half times as long, for a page of 23 MB that is 0.6% smaller
LONGEST_FETCH = 600  # seconds of one download
RUNTIME = "pyodide-314.0.7.tgz"
# Libraries that the page brings along.
WHEELS = (
    "attrs-26.1.0-py3-none-any.whl",
    "jsonschema-4.17.3-py3-none-any.whl",  # later ones need a compiled library
    "mpmath-1.3.0-py3-none-any.whl",
    "pyrsistent-0.20.0-py3-none-any.whl",
    "python_flint-0.9.0-cp314-cp314-pyemscripten_2026_0_wasm32.whl",
    "rfc8785-0.1.4-py3-none-any.whl",
    "sympy-1.14.0-py3-none-any.whl",
)
SHA256 = dict(
    zip(
        (RUNTIME, *WHEELS),
        (
            "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0",
            "c647aa4a12dfbad9333ca4e71fe62ddc36f4e63b2d260a37a8b83d2f043ac309",
            "a870ad254da1a8ca84b6a2905cac29d265f805acc57af304784962a2aa6508f6",
            "a0b2b9fe80bbcd81a6647ff13108738cfb482d481d826cc0e02f5b35e5c88d2c",
            "c55acc4733aad6560a7f5f818466631f07efc001fd023f34a6c203f8b6df0f0b",
            "b31f5c00e0e36040ab58d00b3025156e20869b990d776e4bf90f870b1ee11ad3",
            "520d690b448ecf0703691c76e1a34a24ddcd4fc5bc41d589cb7c58ec651bcd48",
            "e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5",
        ),
        strict=True,
    )
)
# Folders of wheels that the checker never imports; the tests run it without them.
LEFT_OUT = ("tests", "benchmarks", "physics", "stats", "vector", "holonomic", "categories")
LONGEST_COMPILE = 300  # seconds of a busy machine; a quiet one takes ten
# Packages of dpaudit that the checker imports, and the parts of each family.
ROOMS = ("check", "exact", "grids", "nodes", "pairs", "storage")
# Files of dpaudit that the checker needs besides its folder.
FILES = ("__init__.py", "errors.py", "scope.py", "version.py", "certificate_schema.json")


class NoRuntime(DpauditError):
    """The browser's Python could not be fetched, or is not the pinned one."""


def kept() -> Path:
    """The folder that keeps the fetched files: ``dpaudit/verifier`` of the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "dpaudit" / "verifier"


def runtime() -> dict[str, bytes]:
    """The pinned files by their names, from the cache; those that are not there are fetched.

    Errors: NoRuntime for a file that cannot be fetched, or has another digest.
    """
    folder = kept()
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name in (RUNTIME, *WHEELS):
        path = folder / name
        if not path.is_file():
            _fetch(name, folder)
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != SHA256[name]:
            raise NoRuntime(f"{path}: not the pinned file; remove it, so that it is fetched again")
        files[name] = content
    return files


def _fetch(name: str, folder: Path) -> None:
    project, version, *tags = name.removesuffix(".tgz").removesuffix(".whl").split("-")
    if name == RUNTIME:
        command = ["npm", "pack", f"{project}@{version}", "--pack-destination", str(folder)]
    else:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--python-version=314", "--implementation=cp"]
        command += ["--abi=cp314", f"--platform={tags[-1]}", f"--dest={folder}"]
        command += [f"{project}=={version}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LONGEST_FETCH
        )
        said = done.stderr.strip().splitlines()[-1:]
    except (OSError, subprocess.TimeoutExpired) as error:
        said = [str(error)]
    if not (folder / name).is_file():
        raise NoRuntime(
            f"{name}: not fetched by `{' '.join(command[:4])} ...` ({' '.join(said)[:200]}); fetch "
            f"it where there is a network, with SHA-256 {SHA256[name]}, and put it into {folder}"
        )


def assets() -> dict[str, bytes]:
    """All files that the page's worker is given, by name.

    Errors: as :func:`runtime`; NoRuntime without Node, whose Python compiles what a page loads at
    its start.
    """
    return dict(_assets(tuple(runtime().items())))


@cache
def _assets(fetched: tuple[tuple[str, bytes], ...]) -> dict[str, bytes]:
    files = dict(fetched)
    with tarfile.open(fileobj=io.BytesIO(files.pop(RUNTIME))) as package:
        parts = {
            name: _member(package, f"package/{name}")
            for name in ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
        }
        lock = json.loads(_member(package, "package/pyodide-lock.json"))
    # Packages that Pyodide would load from a network.
    parts["lock.json"] = json.dumps({**lock, "packages": {}}).encode()
    for name, content in files.items():
        parts[name] = _smaller(content)
    parts["dpaudit-0-py3-none-any.whl"] = checker()
    with tempfile.TemporaryDirectory() as folder:
        for_node(parts, Path(folder))
        _compile(Path(folder))
        return {name: Path(folder, name).read_bytes() for name in parts}


def for_node(parts: dict[str, bytes], folder: Path) -> None:
    """Write the worker's files where Node can run them."""
    sockets = folder / "node_modules" / "ws"  # which Pyodide imports and nobody uses
    sockets.mkdir(parents=True)
    (sockets / "index.js").write_text("")
    for name, content in parts.items():
        (folder / name).write_bytes(content)


def _compile(folder: Path) -> None:
    here = Path(__file__).parent
    command = [shutil.which("node") or "node", str(here / "bytecode.mjs"), str(folder)]
    command += [str(here / "bytecode.py")]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LONGEST_COMPILE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoRuntime(
            f"the page's modules were not compiled by Node ({error}); install Node 18 or newer"
        ) from None
    if done.returncode != 0:
        raise NoRuntime(f"the page's modules were not compiled by Node: {done.stderr[-400:]}")


def _member(package: tarfile.TarFile, name: str) -> bytes:
    stream = package.extractfile(name)
    assert stream is not None  # noqa: S101  (a regular file of the pinned package)
    return stream.read()


def _smaller(wheel: bytes) -> bytes:
    """A wheel without the folders that are left out."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        names = [n for n in archive.namelist() if not set(n.split("/")[:-1]) & set(LEFT_OUT)]
        return _zipped({name: archive.read(name) for name in names})


def _zipped(files: dict[str, bytes]) -> bytes:
    """A zip archive, the same bytes whenever it is made; the page compresses it as a whole."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), content)
    return stream.getvalue()


def checker() -> bytes:
    """The checker's modules as a wheel: no accountant, no rule, nothing that runs a program."""
    root = Path(__file__).parents[2]
    paths = [root / name for name in FILES]
    paths += [path for room in ROOMS for path in (root / room).rglob("*") if path.is_file()]
    paths += [p for p in (root / "families").rglob("*.py") if not _of_the_accountant(p.stem)]
    modules = [p for p in paths if p.suffix in (".py", ".json") and p.name != "process.py"]
    return _zipped({str(p.relative_to(root.parent)): p.read_bytes() for p in modules})


def _of_the_accountant(module: str) -> bool:
    return module.endswith(("rules", "kernel"))


def beside(folder: Path) -> str:
    """The page that verifies, as pages of this folder link to it; empty where there is none."""
    return PAGE if (folder / PAGE).is_file() else ""


def write_verifier(folder: Path) -> Path:
    """Write ``verify.html`` into a folder, and return its path.

    Errors: NoRuntime without the runtime; OutputNotWritable.
    """
    own_or_absent(folder / PAGE)
    parts = {name: gzip.compress(content, LEVEL, mtime=0) for name, content in assets().items()}
    blocks = [
        f'<script type="application/octet-stream" data-name="{name}">'
        f"{base64.b64encode(content).decode()}</script>"
        for name, content in parts.items()
    ]
    here = resources.files(__name__)
    text = here.joinpath("page.html").read_text("utf-8")
    for mark, value in (
        ("@@VERSION@@", __version__),
        ("@@SECONDS@@", str(SECONDS)),
        ("@@WORKER@@", here.joinpath("worker.js").read_text("utf-8")),
        ("@@PAGE@@", here.joinpath("page.js").read_text("utf-8")),
        ("@@ASSETS@@", "\n".join(blocks)),
    ):
        text = text.replace(mark, value)
    folder.mkdir(parents=True, exist_ok=True)
    write_made({folder / PAGE: text.encode()})
    return folder / PAGE
