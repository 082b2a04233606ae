"""Users in a public random order: parts of a program are blocks of it, not of the file's order.

Whoever arranged the file then has no say in who is in which phase, and the users of a phase are a
uniform draw.  The guarantee is that of the program for every order, since phases compose in
parallel whatever the order is; nothing is gained from its randomness.
Source: Lowy, Liu, Asi 2024, Algorithms 1 and 3 (disjoint users of a phase, drawn at random).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.user_level.phased_erm import UserLevelPhasedERM
from mechanisms.papers.user_level.phased_sgd import Solution, UserLevelPhasedSGD
from mechanisms.papers.user_level.problem import Problem


@dataclass(frozen=True)
class OrderedSolution(Solution):
    """A solution with the public order of its run: (trials, users), user ``order[t, k]`` at k."""

    order: NDArray[Any]


@dataclass(frozen=True)
class InPublicOrder:
    """A phased program on users in an order that is drawn first, as a public coin.

    The coin is in the transcript, and the order in the output, so that a run's certificate has its
    digest.  All trials of a run share it.
    """

    program: UserLevelPhasedSGD | UserLevelPhasedERM

    @property
    def problem(self) -> Problem:
        """That of the program."""
        return self.program.problem

    def declaration(self, scope: Scope) -> Node:
        return self.program.declaration(scope)

    def run(self, curator: Curator) -> OrderedSolution:
        order = curator.permute()
        found = self.program.run(curator)
        orders = np.broadcast_to(order, (curator.trials, order.shape[1]))
        return OrderedSolution(found.output, found.halted, orders)
