"""The audit of a baseline under the KL condition that releases differences, white box.

Descent needs none: the default attack reaches its accounted bound on its own loss.
"""

from __future__ import annotations

from dataclasses import replace

from audits.kl import REPLACED, Turning
from dpaudit.audit.suite import Suite
from mechanisms.papers.kl import baselines_catalogue as catalogue
from mechanisms.papers.kl.baselines import PrivateSpider

TRIALS = 3_000


def on_the_canary(program: PrivateSpider) -> PrivateSpider:
    """The same program and noise on a canary that saturates every clip."""
    own = program.problem
    turning = Turning(own.lipschitz, 4 * program.smoothness / own.lipschitz)
    return replace(program, problem=replace(own, loss=turning, features=0, start=()))


def suite(name: str, program: PrivateSpider) -> Suite:
    """White-box audit under replace_one."""
    return Suite(name, on_the_canary(program), REPLACED, trials=TRIALS)


private_spider = suite("private_spider", catalogue.SPIDER)
suites = [private_spider]
