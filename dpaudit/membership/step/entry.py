"""``audit_step``: one optimiser step of private training, checked without training a model."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dpaudit.curator.generators import seeds_kept
from dpaudit.errors import InvalidParameter
from dpaudit.membership.data import Data
from dpaudit.membership.step.check import Check
from dpaudit.membership.step.result import StepAudit
from dpaudit.membership.step.runs import Make, described_function

ERROR = 1e-4  # false alarms of one check of a right training
TESTS = 20  # statistical tests of one check, which share the error
SAMPLINGS = ("poisson", "other")  # how batches are drawn


def audit_step(
    make: Make,
    data: Any,
    *,
    noise_multiplier: float | str,
    sampling_rate: float | str | None = None,
    sampling: str = "poisson",
    error: float | str = ERROR,
    seed: int = 0,
) -> StepAudit:
    """Check one optimiser step of private training, without training a model.

    Args:
        make: ``make(records, rng)`` gives a fresh training with ``parameters()`` and
            ``step(features, labels)``, and perhaps ``loader()`` and ``released()``
            (:class:`~dpaudit.membership.step.runs.Training`).
        data: records as training would get them, which probes are made of; they may be generated.
        noise_multiplier: declared standard deviation of the noise over the clipping norm.
        sampling_rate: declared chance of a record to be in a batch.
        sampling: ``poisson``, or ``other``, where batches are not checked.
        error: the most that a right training may be called wrong, over all tests.
        seed: of the noise, where the training draws it from its generator or its library's.

    Returns: a :class:`~dpaudit.membership.step.result.StepAudit`.

    >>> import dpaudit as dp, numpy as np
    >>> class Mean:
    ...     def __init__(self, records, rng):
    ...         self.rng, self.weights = rng, np.zeros(3)
    ...
    ...     def parameters(self):
    ...         return self.weights
    ...
    ...     def step(self, features, labels):
    ...         gradients = self.weights - features  # nobody clips them
    ...         self.weights = self.weights - 0.1 * (gradients.sum(0) + self.rng.normal(0, 1, 3))
    >>> audit = dp.audit_step(Mean, np.random.default_rng(0).normal(size=(50, 3)),
    ...                       noise_multiplier=1)
    >>> audit.verdict, [fault.kind for fault in audit.faults]
    (<Verdict.ALARM: 'alarm'>, ['not_clipped'])

    Errors: InvalidParameter for numbers outside their domain, fewer than 20 records, a step that
    fails on the records (with its line), and updates of which noise cannot be told.
    """
    records = Data.of(data)
    multiplier = _number(noise_multiplier, "noise_multiplier", 0.0, 1e6)
    rate = None if sampling_rate is None else _number(sampling_rate, "sampling_rate", 0.0, 1.0)
    level = _number(error, "error", 1e-12, 0.5)
    if sampling not in SAMPLINGS:
        raise InvalidParameter(f"sampling = {sampling!r}: expected {' or '.join(SAMPLINGS)}")
    if len(records) < 20:
        raise InvalidParameter(
            f"data: {len(records)} records; a step is checked on 20 or more, which may be generated"
        )
    started = time.perf_counter()
    check = Check(make, records, multiplier, level / TESTS, seed)
    with seeds_kept(), np.errstate(all="ignore"):
        check.run()
        if sampling == "poisson":
            check.sampling(rate)
    largest = max([0.0, *check.seen])
    effective = np.inf if largest == 0 else 1 / largest
    return StepAudit(
        described_function(make), multiplier, effective, tuple(check.faults), tuple(check.notes),
        check.runs, time.perf_counter() - started, level,
    )  # fmt: skip


def _number(given: Any, place: str, low: float, high: float) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = np.nan
    if not low < value <= high:
        raise InvalidParameter(f"{place} = {given!r}: expected a number in ({low:g}, {high:g}]")
    return value
