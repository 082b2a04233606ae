"""The proof kernel: the library's files, and what Coq says of an exported certificate."""

from __future__ import annotations

import math
import re
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from dpaudit.errors import CertificateRejected, Unsupported

# In the order in which they compile: each needs those before it.  Finite is needed by no export.
FILES = (
    "Laws",
    "Composition",
    "Normal",
    "Nodes",
    "Theorems",
    "Tactics",
    "Balls",
    "Stable",
    "Losses",
    "Sampled",
)
EXAMPLES = ("Finite",)  # files of the library that no export needs
SECONDS = 300  # of a processor, for one file: a clock also counts what other processes take
FLAGS = ("-w", "-ambiguous-paths")  # that silence warnings of Coq's own libraries
HOW = "install Coq 8.16 with Interval: apt-get install coq libcoq-interval"
# Axioms of Coq's own libraries: its real numbers and its machine integers.
OF_COQ = re.compile(
    r"(ClassicalDedekindReals|FunctionalExtensionality|functional_extensionality|Classical_|"
    r"classic|PrimInt63|Uint63|Sint63|PrimFloat|FloatAxioms)"
)
# The files of the library that a text needs.
REQUIRED = re.compile(r"^From DPAudit Require Import ([\w ]+)\.$", re.MULTILINE)
# Parameters of the library, of which only the named hypotheses assume anything.
PARAMETERS = ("runs", "holds")


@dataclass(frozen=True)
class Accepted:
    """The claims that the kernel accepted, each with its hypotheses, and a processor's seconds."""

    claims: dict[str, tuple[str, ...]]
    seconds: float

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The hypotheses of all claims, each once."""
        return tuple(dict.fromkeys(name for names in self.claims.values() for name in names))


def library(names: Sequence[str] = FILES) -> dict[str, str]:
    """The library's files by name."""
    folder = resources.files("dpaudit.proofs")
    return {f"{name}.v": folder.joinpath(f"{name}.v").read_text("utf-8") for name in names}


def coqc() -> str:
    """Where Coq's compiler is; empty where it is not installed."""
    return shutil.which("coqc") or ""


def cited() -> dict[str, str]:
    """The hypotheses of the library by name, each with its citation."""
    axiom = re.compile(r"\(\*((?:(?!\*\)).)*)\*\)\s+Axiom (\w+)", re.DOTALL)
    rows = axiom.findall(library()["Theorems.v"])
    return {name: " ".join(text.split()) for text, name in rows}


@cache
def _sources() -> tempfile.TemporaryDirectory[str]:
    """A folder that holds the library, and what of it is compiled, once a process."""
    folder = tempfile.TemporaryDirectory(prefix="dpaudit-proofs-")
    for name, text in library().items():
        (Path(folder.name) / name).write_text(text, "utf-8")
    return folder


def _compile(text: str) -> Path:
    """Compile the files of the library that a text requires; the library's folder."""
    folder = Path(_sources().name)
    for name in " ".join(REQUIRED.findall(text)).split():
        if name in FILES:
            _compile_file(name, folder)
    return folder


@cache
def _compile_file(name: str, folder: Path) -> None:
    _compile((folder / f"{name}.v").read_text("utf-8"))
    _run(f"{name}.v", folder, folder, SECONDS)


def accepted(
    text: str,
    claims: tuple[str, ...],
    seconds: float = SECONDS,
    *,
    numbers: Collection[str] = (),
) -> Accepted:
    """Let the kernel read an exported certificate.

    ``claims``: the theorems in it, in the order of its ``Print Assumptions``.
    ``numbers``: inequalities between numbers that the text assumes, which are proved elsewhere.
    Errors: CertificateRejected where the kernel refuses it, runs out of ``seconds``, or finds a
    hypothesis that the library does not state; Unsupported without Coq.
    """
    library_folder = _compile(text)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "certificate.v").write_text(text, "utf-8")
        before = spent()
        shown = _run("certificate.v", Path(folder), library_folder, seconds)
        taken = spent() - before
    parts = re.split(r"^(?:Axioms:|Closed under the global context)$", shown, flags=re.MULTILINE)
    if len(parts) != len(claims) + 1:
        raise CertificateRejected("the kernel did not list what each claim rests on")
    rows = {name: _hypotheses(part, numbers) for name, part in zip(claims, parts[1:], strict=True)}
    return Accepted(rows, taken)


def spent() -> float:
    """The processor's seconds of all processes that this one has ended waiting for."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def _hypotheses(listed: str, numbers: Collection[str]) -> tuple[str, ...]:
    """The names that ``Print Assumptions`` lists, without Coq's own and the parameters."""
    cited_names, names = cited(), []
    for name in re.findall(r"^([\w.]+)\s*:", listed, re.MULTILINE):
        short = name.rpartition(".")[2]
        if short in cited_names:
            names.append(short)
        elif short not in (*PARAMETERS, *numbers) and not OF_COQ.match(name):
            raise CertificateRejected(f"it rests on {name}, which the library does not state")
    return tuple(names)


def _run(name: str, folder: Path, library_folder: Path, seconds: float) -> str:
    if not coqc():
        raise Unsupported(f"no coqc on this machine: {HOW}")
    most = math.ceil(seconds)
    # A shell sets the limit: Python's own code in a child of a process with threads may crash.
    limited = ["sh", "-c", 'ulimit -t "$0" && exec "$@"', str(most)]
    command = [*limited, coqc(), *FLAGS, "-Q", str(library_folder), "DPAudit", name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
        raise CertificateRejected(f"{name}: the kernel ran for {most} s without an end")
    if done.returncode != 0:
        if "Cannot find a physical path bound to logical path" in done.stderr:
            raise Unsupported(f"Coq lacks a library: {HOW}")
        raise CertificateRejected(f"the kernel refuses it: {' '.join(done.stderr.split())[:400]}")
    return done.stdout
