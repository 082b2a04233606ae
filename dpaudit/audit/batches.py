"""Secret batches in an audit: how they were drawn, and the noise of what was released on them.

A replay cannot know which records a secret batch holds; a sampler that notes them is used instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from dpaudit.audit.residuals import Finding, Status
from dpaudit.check.laws import is_broken, p_value
from dpaudit.curator.curator import Sampler
from dpaudit.curator.locations import at
from dpaudit.kernels.base import KERNELS
from dpaudit.kernels.batches import draws_batches
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node, postorder
from dpaudit.nodes.registry import load


def sampler_of(declaration: Node) -> type[Sampler]:
    """The sampler of an audit's training trials, which notes secret batches and hidden noise."""
    if not any(draws_batches(node) or _hides(node) for node in postorder(declaration)):
        return Sampler
    from dpaudit.audit.graybox.watch import Watched

    return Watched


def _hides(node: Node) -> bool:
    load("kernel")
    kernel: Any = KERNELS.get(type(node))
    return kernel is not None and bool(kernel.hides or kernel.searches)


def batch_noise(sampler: Any) -> tuple[dict[str, Array], list[str]]:
    """Residuals of releases on secret batches, or with hidden noise, which no replay knows.

    And how batches were drawn.

    The second is one line, a finding as JSON with its place, or none where no batch was noted.
    """
    every = getattr(sampler, "asked", ())
    labels = dict.fromkeys(a.label for a in every if a.batched or a.searched or a.session.hides)
    noise = {label: np.stack(sampler.residuals[label], axis=1) for label in labels}
    noise.update((k, np.stack(v, axis=1)) for k, v in getattr(sampler, "runs", {}).items())
    batched = [a for a in every if a.batched]
    if not batched:
        return noise, []
    finding = sampler.frequencies.check(0.5)
    place = at(batched[0].place)
    row = asdict(replace(finding, detail=finding.detail.partition("; p <=")[0]))
    return noise, [json.dumps([row, place])]


def sampling_frequencies(ordered: Sequence[Mapping[str, Any]], error: float) -> list[Finding]:
    """Whether secret batches were drawn as declared: the worst of all that were noted."""
    lines = [json.loads(str(r["frequencies"][0, 0])) for r in ordered if r["frequencies"].size]
    findings = [(Finding(**row), place) for row, place in lines]
    if not findings:
        return []
    for finding, place in findings:
        if finding.error_rate == 0:  # no statistics are needed
            return [replace(finding, detail=finding.detail + place)]
    findings = [(finding, place) for finding, place in findings if finding.status != "not_run"]
    if not findings:
        return []  # public batches, which no coin decides
    worst, place = min(findings, key=lambda pair: pair[0].p_value)
    among = len(findings) * worst.among
    p = p_value(worst.law, worst.statistic, worst.size, among, worst.parameter)
    status: Status = "broken" if is_broken(p, error) else "held"
    detail = f"{worst.detail}; p <= {p:.2g}, broken at {error:.2g}"
    return [
        replace(
            worst,
            status=status,
            error_rate=error,
            detail=detail + (place if status == "broken" else ""),
            p_value=p,
            among=among,
        )
    ]
