"""Audits of DP-SGD, DP-SRM and SRN-SGD: worst-case neighbours of replace_one, white box.

One record is s = +1 or -1 and all others are -1, on the loss that is beyond every clip: the mean
over a batch moves by its whole sensitivity if the batch holds the record.
"""

from __future__ import annotations

from dataclasses import replace

from audits.diff2 import DIMENSION, EXCESS, beyond, neighbours, opposed
from dpaudit.audit.suite import Suite
from mechanisms.papers.diff2 import baselines as catalogue
from mechanisms.papers.diff2.baselines import DpSrm
from mechanisms.papers.diff2.srn import SrnSgd

TRIALS = 400  # each draws 50 batches of 500 of 16,150 records, thrice
PREFIX_TRIALS = 10_000


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


def prefix_suite(name: str, program: SrnSgd) -> Suite:
    """White-box audit under replace_one of a record in the first block, which most nodes hold.

    All other records have zero gradient.  Differences of a pass that returns near to where it was
    are small: another thousand of curvature takes them beyond their clip.
    """
    loss = beyond(EXCESS * program.gradient_radius, EXCESS * program.difference_radius)
    return Suite(
        mechanism=name,
        program=replace(program, loss=loss, features=0),
        neighbours=neighbours((program.size,)),
        trials=PREFIX_TRIALS,
    )


dp_sgd = suite("dp_sgd", catalogue.SGD)
dp_srm = suite("dp_srm", catalogue.SRM)
srn_sgd = prefix_suite("srn_sgd", catalogue.SRN)
suites = [dp_sgd, dp_srm, srn_sgd]
