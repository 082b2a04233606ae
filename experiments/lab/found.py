"""The experiments of a project root, found by name."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import sys
from collections.abc import Mapping
from pathlib import Path

from dpaudit.errors import UnknownTarget
from dpaudit.storage import roots
from experiments.lab.figures import Figure
from experiments.lab.model import Experiment
from experiments.lab.papers import Paper


def load(root: Path, *, figures: bool = False) -> Mapping[str, Experiment]:
    """Serve a root and collect the module-level experiments of its ``experiments/``, by name.

    ``figures``: also those that only a figure runs.

    One that belongs to a paper is read as the paper quotes its bands.  A root without that package
    has none.  Its modules print to standard error.
    Errors: UnknownTarget for a module that does not import, or two experiments of one name.
    """
    root = roots.serve(root)
    with contextlib.redirect_stdout(sys.stderr):
        modules = roots.import_all(root, roots.optional(root))
    found: dict[str, Experiment] = {}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Experiment) and found.setdefault(value.name, value) is not value:
                raise UnknownTarget(
                    f"{module.__name__}: another experiment is called {value.name!r}; rename one"
                )
            if figures and isinstance(value, Figure) and value.own is not None:
                found[value.own.name] = value.own
    papers = [v for module in modules for v in vars(module).values() if isinstance(v, Paper)]
    for name, paper in itertools.product(found, papers):
        if name.startswith(f"{paper.name}_"):
            found[name] = paper.reads(found[name])
    return found


def named(found: Mapping[str, Experiment], name: str, root: Path) -> Experiment:
    """The experiment of that name.

    Errors: UnknownTarget, with the names that come close.
    """
    if name in found:
        return found[name]
    close = difflib.get_close_matches(name, found, n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(close)}?" if close else "`python -m experiments run` lists all"
    )
    raise UnknownTarget(f"no experiment {name!r} in {root}: {hint}")
