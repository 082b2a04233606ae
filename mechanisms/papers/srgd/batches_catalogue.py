"""Phased ERM with a solver in batches on the RAND data, with its claims.

Source: Choquette-Choo, Ganesh, Thakurta 2024, Table 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from dpaudit.curator.parameters import Cost, Free
from mechanisms.papers.common.free import Delta, Epsilon, Phases, Radius
from mechanisms.papers.srgd import baselines_catalogue as baselines
from mechanisms.papers.srgd.variance_reduced import PhasedERMInBatches

QuarterStep = Annotated[
    float | None,
    Free(
        "step size of the first phase",
        Cost.SCALE,
        default="a quarter of the cited one",
        start=lambda of: baselines.cited_step(of) / 4,
    ),
]


def in_batches_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = baselines.EPSILON,
    delta: Delta = baselines.DELTA,
    phases: Phases = 6,
    step_size: QuarterStep = None,
    radius: Radius = 2.0,
) -> baselines.Made:
    """Phased regularised minimisation whose first phase is solved in batches."""
    cited, claims, setting = baselines.phased_erm_rows(
        features, count, epsilon=epsilon, delta=delta, phases=phases, radius=radius
    )
    program = PhasedERMInBatches(
        cited.problem,
        phases,
        cited.step_size / 4 if step_size is None else step_size,
        cited.smoothness,
        cited.noise_multiplier,
        evidence=cited.evidence,
    )
    notes = (
        *setting.notes[:-1],
        "batches are drawn by public coins; a step of descent certifies the accuracy, and descent "
        "is run where it does not, so that the accuracy holds for any data",
        "the first phase is solved in batches, the others, on fewer rows, by descent",
        "a quarter of the cited step size, on which privacy does not depend: a run takes seconds",
        "how long a phase takes may depend on the data: a run whose time is seen is not covered",
    )
    return program, claims, replace(setting, notes=notes)


phased_erm_in_batches = baselines.entry(
    "phased_erm_in_batches",
    "Phased regularised minimisation by variance-reduced batches, noise as cited",
    f"reconstructed; {baselines.PAPER} cite Zhang, Thekumparampil, Oh and He 2022 in Table 1; "
    "Xiao and Zhang 2014 for the solver",
    in_batches_rows,
    baselines.REPLACE_ONE,
)
