"""Starting a project: the two packages, with a first mechanism or a copy of a shipped one."""

from __future__ import annotations

from pathlib import Path

from dpaudit.errors import OutputNotWritable, UnknownTarget
from dpaudit.storage.files import write_atomically
from dpaudit.storage.imported import imported
from dpaudit.storage.roots import PACKAGES, catalogue_root

MECHANISM = '''"""A first mechanism: a clipped mean with Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.nodes import Node
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.scope import Scope


@dataclass(frozen=True)
class NoisyMean:
    """The mean of rows clipped to norm 1, with Gaussian noise of twice its sensitivity."""

    noise_multiplier: int = 2

    def declaration(self, scope: Scope) -> Node:
        """One Gaussian release."""
        return Gaussian("mean", self.noise_multiplier)

    def run(self, curator: Curator) -> Array:
        """Release the mean, shape (trials, features)."""
        return curator.release("mean", ClippedMean(self.rows, radius=1.0))

    def rows(self, values: Array) -> Array:
        """Each record as it is: (1, records, features)."""
        return np.asarray(values)[None]


SCOPE = Scope(adjacency="replace_one", unit="record", trust="central", released="output")

noisy_mean = Mechanism(
    name="noisy_mean",
    title="Mean of clipped rows with Gaussian noise",
    source="Dwork and Roth 2014, Appendix A",
    program=NoisyMean(),
    scope=SCOPE,
    claims=(
        Claim(GDP(0.5), by="this file"),
        Claim(ApproxDP(2, 1e-5), by="this file"),
    ),
    setting=Setting(
        controller="you",
        unit_entity="record",
        unit_bound="one row",
        covered=("one noisy mean",),
    ),
)
'''

AUDIT = '''"""The audit of noisy_mean: two data sets that move the mean by its whole sensitivity."""

from __future__ import annotations

import numpy as np

from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.kernels.query import Records
from mechanisms.noisy_mean import noisy_mean as mechanism

first, second = np.zeros((10, 1)), np.zeros((10, 1))
first[0], second[0] = 1.0, -1.0

noisy_mean = Suite(
    mechanism="noisy_mean",
    program=mechanism.program,
    neighbours=Neighbours(Records(first), Records(second), "replace_one", "one record is +1 or -1"),
)
'''


# Where the catalogue keeps what a project may copy.
SHELVES = ("mechanisms/papers", "audits")


def start(folder: Path, copied: str | None) -> list[Path]:
    """Write a new project; returns the files written.

    Errors: OutputNotWritable where a file of the same name exists; UnknownTarget for a mechanism
    file that is not shipped.
    """
    files = _first() if copied is None else _shipped(copied)
    packages = {f"{name}/__init__.py": f'"""This project\'s {name}."""\n' for name in PACKAGES}
    present = [name for name in files if (folder / name).exists()]
    if present:
        raise OutputNotWritable(f"{folder / present[0]} exists; choose an empty folder")
    wanted = {**{k: v for k, v in packages.items() if not (folder / k).exists()}, **files}
    for name, text in wanted.items():
        write_atomically(folder / name, text.encode())
    return [folder / name for name in wanted]


def _first() -> dict[str, str]:
    return {"mechanisms/noisy_mean.py": MECHANISM, "audits/noisy_mean.py": AUDIT}


def _shipped(name: str) -> dict[str, str]:
    if not name.isidentifier():
        raise UnknownTarget(f"--with {name!r}: give the name of a shipped file, such as diff2")
    root = catalogue_root()
    starts = [path for folder in SHELVES for path in _modules(root, f"{folder}/{name}")]
    if not starts:
        held = {p.stem for folder in SHELVES[:-1] for p in (root / folder).glob("[a-z]*")}
        known = ", ".join(sorted(held - {"common"}))
        raise UnknownTarget(f"--with {name}: no such shipped file; there are {known}")
    # The two packages are the project's own.
    paths = [
        path
        for path in imported(root, starts)
        if path.name != "__init__.py" or path.parent.parent != root
    ]
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in paths}


def _modules(root: Path, name: str) -> list[Path]:
    """A module or every module of a package."""
    found = sorted((root / name).glob("*.py")) or [root / f"{name}.py"]
    return [path for path in found if path.is_file()]
