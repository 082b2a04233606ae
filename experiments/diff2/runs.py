"""Running DIFF2 on a curator and reading its iterates back from what was released."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import central
from mechanisms.papers.diff2.framework import Diff2

SCOPE = central("replace_one")


@dataclass(frozen=True)
class Visit:
    """One round of DIFF2-GD: the iterate it starts from, its step so far, and its estimate.

    ``moved``: ||x_{r-1} - x_{r-2}||, 0 in a restart.  Shapes (trials, d) and (trials,).
    """

    round: int
    point: Array
    moved: Array
    estimate: Array


def visits(
    program: Diff2, records: Records, rng: np.random.Generator, trials: int
) -> Iterator[Visit]:
    """Run DIFF2-GD and give each round anew, from the released values alone.

    The iterates are post-processing of the releases, so a transcript holds them all.
    """
    curator = Sampler(program.declaration(SCOPE), SCOPE, records, rng=rng, trials=trials)
    program.run(curator)
    released = [e.released for e in curator.transcript if e.label in ("gradient", "difference")]
    x = previous = program.loss.initial(program.features, trials, program.start_seed)
    estimate = np.zeros_like(x)
    for r, value in enumerate(released):
        restart = r % program.restart_every == 0
        moved = np.zeros(trials) if restart else np.linalg.norm(x - previous, axis=-1)
        estimate = value if restart else estimate + value
        yield Visit(r, x, moved, estimate)
        previous, x = x, x - program.step_size * estimate
