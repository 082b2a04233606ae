"""The mutants of one target, in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.mutate.mutant import FAMILIES, Mutant, Survey
from dpaudit.mutate.noise import noise_mutants
from dpaudit.mutate.programs import batch_mutants, program_mutants
from dpaudit.mutate.queries import query_mutants
from dpaudit.mutate.source import source_mutants


def mutants(found: Survey) -> list[Mutant]:
    """Every mutant of a target: noise, queries, requests, declarations, batches, source text.

    Errors: InvalidParameter where two mutants have one name.
    """
    made = [
        *noise_mutants(found),
        *query_mutants(found),
        *program_mutants(found),
        *batch_mutants(found),
        *source_mutants(found),
    ]
    names = [mutant.name for mutant in made]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidParameter(f"two mutants are called {twice!r}")
    return made


def chosen(made: Sequence[Mutant], limit: int | None, seed: int) -> list[Mutant]:
    """At most ``limit`` mutants, drawn by the seed from all families in turn; in fixed order."""
    if limit is None or limit >= len(made):
        return list(made)
    order = np.random.default_rng([seed, 0x6D7574]).permutation(len(made))
    queues = {f: [i for i in order if made[i].family == f] for f in FAMILIES}
    picked: list[int] = []
    while len(picked) < limit:
        for queue in queues.values():
            if queue and len(picked) < limit:
                picked.append(int(queue.pop(0)))
    return [made[i] for i in sorted(picked)]
