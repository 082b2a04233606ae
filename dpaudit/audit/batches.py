"""Secret batches in an audit: how they were drawn, and the noise of what was released on them.

No replay knows which records were in a batch, so a sampler that notes it takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpaudit.audit.residuals import Finding, Status
from dpaudit.curator.curator import Sampler
from dpaudit.curator.locations import at
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node, postorder

SAMPLINGS = (PoissonSampled, SampledWithoutReplacement)


def sampler_of(declaration: Node) -> type[Sampler]:
    """The sampler of an audit's training part: one that notes batches, where any are declared."""
    if not any(isinstance(node, SAMPLINGS) for node in postorder(declaration)):
        return Sampler
    from dpaudit.audit.graybox.watch import Watched

    return Watched


def batch_noise(sampler: Any) -> tuple[dict[str, Array], list[str]]:
    """Residuals of releases on secret batches, which no replay knows; and how batches were drawn.

    The second is one line, ``p-value detail (place)``, or none where no batch was noted.
    """
    asked = [a for a in getattr(sampler, "asked", ()) if a.batched]
    if not asked:
        return {}, []
    labels = dict.fromkeys(a.label for a in asked)
    noise = {label: np.stack(sampler.residuals[label], axis=1) for label in labels}
    found = sampler.frequencies.check(0.5)
    return noise, [f"{found.statistic!r} {found.detail.partition('; p <=')[0]}{at(asked[0].place)}"]


def sampling_frequencies(ordered: Sequence[Mapping[str, Any]], error: float) -> list[Finding]:
    """Whether secret batches were drawn as declared: the worst of all that were noted."""
    lines = [str(row["frequencies"][0, 0]) for row in ordered if row["frequencies"].size]
    if not lines:
        return []
    p_value, _, detail = min((line.partition(" ") for line in lines), key=lambda w: float(w[0]))
    bounded = min(1.0, len(lines) * float(p_value))
    text, _, place = detail.rpartition(" (")
    status: Status = "broken" if bounded <= error else "held"
    shown = f"{text}; p <= {bounded:.2g}, broken at {error:.2g}"
    ending = f" ({place}" if status == "broken" else ""
    detail = shown + ending
    return [Finding("sampling frequencies", status, bounded, error, detail, p_value=bounded)]
