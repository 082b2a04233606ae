"""Audits of the baselines under the KL condition: the canaries of ``audits.kl``, white box.

Full-batch descent needs none: the default attack reaches its accounted bound on its own loss.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from audits.kl import REPLACED, Turning, linear
from dpaudit.audit.suite import Suite
from mechanisms.papers.kl import baselines_catalogue as catalogue
from mechanisms.papers.kl.baselines import PrivateSpider

TRIALS = 3_000


def on_the_canary(program: Any) -> Any:
    """The same program and noise on a canary that saturates every clip."""
    own = program.problem
    if isinstance(program, PrivateSpider):
        turning = Turning(own.lipschitz, 4 * program.smoothness / own.lipschitz)
        return replace(program, problem=replace(own, loss=turning, features=0, start=()))
    return replace(program, problem=linear(own, 2))


def suite(name: str, program: Any) -> Suite:
    """White-box audit under replace_one."""
    return Suite(name, on_the_canary(program), REPLACED, trials=TRIALS)


private_spider = suite("private_spider", catalogue.SPIDER)
epoch_localized_erm = suite("epoch_localized_erm", catalogue.EPOCHS)
spider_estimator = suite("spider_estimator", catalogue.ONE_PHASE)
growth_reduction = suite("growth_reduction", catalogue.REDUCED)
suites = [
    private_spider,
    epoch_localized_erm,
    spider_estimator,
    growth_reduction,
]
