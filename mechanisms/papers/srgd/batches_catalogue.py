"""Phased ERM with a solver in batches on the RAND data, with its claims.

Source: Choquette-Choo, Ganesh, Thakurta 2024, Table 1.
"""

from __future__ import annotations

from mechanisms.papers.srgd import baselines_catalogue as baselines
from mechanisms.papers.srgd.variance_reduced import PhasedERMInBatches

phased_erm_in_batches = baselines.entry(
    "phased_erm_in_batches",
    "Phased regularised minimisation by variance-reduced batches, noise as cited",
    f"reconstructed; {baselines.PAPER} cite Zhang, Thekumparampil, Oh and He 2022 in Table 1; "
    "Xiao and Zhang 2014 for the solver",
    PhasedERMInBatches(
        baselines.PROBLEM,
        6,
        baselines.STEP_SIZE / 4,
        baselines.SMOOTHNESS,
        baselines.CITED,
        evidence=baselines.BOUNDED,
    ),
    baselines.REPLACE_ONE,
    tuple(baselines.phased_erm.claims),
    "6 noisy approximate minima over disjoint rows",
    baselines.LEFT_OVER,
    "batches are drawn by public coins; a step of descent certifies the accuracy, and descent is "
    "run where it does not, so that the accuracy holds for any data",
    "the first phase is solved in batches, the others, on fewer rows, by descent",
    "a quarter of the cited step size, on which privacy does not depend: a run takes seconds",
    "how long a phase takes may depend on the data: a run whose time is seen is not covered",
)
