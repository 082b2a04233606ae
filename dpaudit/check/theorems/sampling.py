"""Amplification by sampling."""

from __future__ import annotations

from typing import Any

from dpaudit.arithmetic import exp, log, settled
from dpaudit.check.theorems.core import Table, Theorem


def _amplified(epsilon: Any, share: Any) -> Any:
    return settled(log(1 + share * (exp(epsilon) - 1)))


SAMPLING: Table = {
    ("pure", "PoissonSampled"): Theorem(
        "poisson_sampled",
        lambda n, epsilon: _amplified(epsilon, n.rate),
        frozenset({"add_remove"}),
    ),
    ("pure", "SampledWithoutReplacement"): Theorem(
        "sampled_without_replacement",
        lambda n, epsilon: _amplified(epsilon, n.batch_size / n.population),
        frozenset({"replace_one"}),
    ),
}
