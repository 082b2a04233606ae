"""Audits of DP-SGD and DP-SRM: worst-case neighbours of replace_one, white box.

One record is s = +1 or -1 and all others are -1, on the loss that is beyond every clip: the mean
over a batch moves by its whole sensitivity if the batch holds the record.
"""

from __future__ import annotations

from dataclasses import replace

from audits.diff2 import DIMENSION, beyond, opposed
from dpaudit.audit.suite import Suite
from mechanisms.papers.diff2 import baselines as catalogue
from mechanisms.papers.diff2.baselines import DpSrm

TRIALS = 400  # each draws 50 batches of 500 of 16,150 records, thrice


def worst_case(program: DpSrm, dimension: int = DIMENSION) -> DpSrm:
    """The same program, noise and schedule on the loss that is beyond every clip."""
    loss = beyond(program.gradient_radius, program.difference_radius, dimension)
    return replace(program, loss=loss, features=0)


def suite(name: str, program: DpSrm) -> Suite:
    """White-box audit under replace_one."""
    return Suite(
        mechanism=name,
        program=worst_case(program),
        neighbours=opposed((program.size,)),
        trials=TRIALS,
    )


dp_sgd = suite("dp_sgd", catalogue.SGD)
dp_srm = suite("dp_srm", catalogue.SRM)
suites = [dp_sgd, dp_srm]
