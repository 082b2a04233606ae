"""Rules of noise of bounded loss; of one number, moved by its sensitivity.

The largest move dominates.  Staircase noise: a move by d <= D makes losses of -epsilon, 0 and
epsilon alone, and y has the loss epsilon if a step (k + share) D lies between |y| and |y - d|; the
larger d, the more such y have |y| < |y - d|.  Student's t noise: delta at x >= 1 is P(S) - x Q(S)
for S = [a, b] with f(a) = x f(a - d) and f(b) = x f(b - d), and its derivative in d is
x f(b - d) - x f(a - d) = f(b) - f(a) >= 0, as the middle of S is not on the side of the move.
Truncated Laplace noise is log-concave on an interval: see rules.discrete.  Smaller x: by symmetry.
"""

from __future__ import annotations

from dpaudit.exact import Number, exp
from dpaudit.families.bounded import Staircase, StudentT, TruncatedLaplace, Tulap
from dpaudit.families.selection.rules import largest_losses
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.pairs import Losses, StudentShift, TruncatedLaplaceShift, one, staircase_shift, told

STAIRCASE = Source("Geng, Viswanath", 2014, "Theorem 1; moves below D: rules.bounded")
STUDENT = Source("Nissim, Raskhodnikova, Smith", 2007, "Section 2.1; its pair: rules.bounded")
TULAP = Source("Awan, Vadhan", 2023, "Proposition 2.8 (Tulap noise is canonical)")
TRUNCATED = Source("Geng, Ding, Guo, Kumar", 2020, "Theorem 1; its pair: rules.bounded")

largest_losses(Staircase, "staircase", lambda node: node.epsilon, STAIRCASE)
largest_losses(StudentT, "student", lambda node: student_shift(node).extremes[0], STUDENT)

for calculus in (PURE, CONCENTRATED, RENYI, GAUSSIAN):
    calculus.absent(
        Tulap, TruncatedLaplace, reason="losses are infinite with probability delta: use profile"
    )


@PROFILE.rule(Staircase, "staircase_pair", cite=STAIRCASE)
def staircase_pair(node: Staircase) -> Losses:
    """The outcomes of losses epsilon, -epsilon and 0 at a move by the sensitivity."""
    return one(staircase_shift(node.epsilon, node.share))


def student_shift(node: StudentT) -> StudentShift:
    """The noise around the sensitivity against around 0."""
    return StudentShift(node.noise_multiplier, node.degrees)


@PROFILE.rule(StudentT, "student_pair", cite=STUDENT)
def student_pair(node: StudentT) -> Losses:
    """The noise around the sensitivity against around 0."""
    return one(student_shift(node))


@APPROX.rule(Tulap, "tulap", cite=TULAP)
def tulap(node: Tulap) -> tuple[Number, Number]:
    """(epsilon, delta), by definition."""
    return node.epsilon, node.delta


@PROFILE.rule(Tulap, "tulap_pair", cite=TULAP)
def tulap_pair(node: Tulap) -> Losses:
    """The pair that every (epsilon, delta)-DP mechanism is dominated by, reached."""
    return one(told(node.epsilon, node.delta))


@APPROX.rule(TruncatedLaplace, "truncated_laplace", cite=TRUNCATED)
def truncated_laplace(node: TruncatedLaplace) -> tuple[Number, Number]:
    """(1 / b, the mass of the outcomes that one side alone has)."""
    epsilon = 1 / node.noise_multiplier
    alone = exp((1 - node.bound) * epsilon) - exp(-node.bound * epsilon)
    return epsilon, alone / (2 * (1 - exp(-node.bound * epsilon)))


@PROFILE.rule(TruncatedLaplace, "truncated_laplace_pair", cite=TRUNCATED)
def truncated_laplace_pair(node: TruncatedLaplace) -> Losses:
    """The noise around 0 against around the sensitivity."""
    return one(TruncatedLaplaceShift(1 / node.noise_multiplier, node.bound))
