"""Randomised response: every calculus."""

from __future__ import annotations

from dpaudit.exact import Number, enclose, erfinv, exp, is_symbolic, log, sqrt, tanh, unknowns
from dpaudit.families.discrete import RandomizedResponse
from dpaudit.families.discrete.rules import CORNERS, both, faint, grown
from dpaudit.measures.calculus import Source, Step
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.implied import largest_loss
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import Atoms, Losses

RESPONSE_CHOICES = 6  # choices up to which the corner is the largest

WARNER = Source("Warner", 1965, "randomized response; Kairouz, Oh, Viswanath 2016, Definition 2")
RESPONSE_ZCDP = Source(
    "Harrison, Manurangsi", 2026, "k-randomized response; proof in rules.discrete"
)


# The loss of telling the truth.
largest_loss("randomized_response", lambda node: node.epsilon, WARNER, RandomizedResponse)


@PROFILE.rule(RandomizedResponse, "randomized_response_pair", cite=WARNER)
def randomized_response_pair(node: RandomizedResponse) -> Losses:
    """The two values that neighbours hold, and all others, of which nothing is learnt."""
    odds, others = exp(node.epsilon), node.choices - 2
    total = odds + node.choices - 1
    answers = ((odds / total, 1 / total), (1 / total, odds / total))
    other_answers = ((others / total, others / total),) if others != 0 else ()
    return both(Atoms((*answers, *other_answers)))


def _response_is_sharp(node: Node, premises: tuple[Step, ...]) -> bool:
    return isinstance(node, RandomizedResponse) and not faint(node.epsilon)


def _plainer(node: RandomizedResponse) -> dict[str, bool]:
    return {"plain": True} if faint(node.epsilon) else {}


@RENYI.rule(
    RandomizedResponse,
    "randomized_response_curve",
    cite=WARNER,
    attained=_response_is_sharp,
    witness=_plainer,
)
def randomized_response_curve(node: RandomizedResponse) -> Number:
    """The Renyi divergence of its pair (faint: alpha times its zCDP)."""
    alpha, epsilon = order(), node.epsilon
    if faint(epsilon):
        return alpha * randomized_response_divergence(node)
    moments = exp(alpha * epsilon) + exp((1 - alpha) * epsilon) + node.choices - 2
    return log(moments / (exp(epsilon) + node.choices - 1)) / (alpha - 1)


def _few_choices(node: RandomizedResponse) -> bool:
    """Whether rho is proved to be the divergence at order 1.

    Up to six choices: Harrison and Manurangsi; above: F(u) = 2 e^(epsilon/2) cosh(epsilon u)
    + choices - 2 has imaginary zeros only while choices - 2 <= 2 e^(epsilon/2).
    """
    if is_symbolic(node.choices):
        return False
    if node.choices <= RESPONSE_CHOICES:
        return True
    if unknowns(node.epsilon):
        return False
    return bool(enclose(node.choices - 2) <= 2 * enclose(node.epsilon / 2).exp())


def _response_reached(node: Node, premises: tuple[Step, ...]) -> bool:
    return isinstance(node, RandomizedResponse) and _few_choices(node)


@CONCENTRATED.rule(
    RandomizedResponse,
    "randomized_response_divergence",
    cite=RESPONSE_ZCDP,
    attained=_response_reached,
)
def randomized_response_divergence(node: RandomizedResponse) -> Number:
    """epsilon (e^epsilon - 1) / (e^epsilon + choices - 1), reached at order 1.

    With many choices the worst order is another: then epsilon tanh(epsilon/2), that of two.
    """
    if not _few_choices(node) or node.choices == 2:
        return node.epsilon * tanh(node.epsilon / 2)
    return node.epsilon * grown(node.epsilon) / (exp(node.epsilon) + node.choices - 1)


@GAUSSIAN.rule(RandomizedResponse, "randomized_response_corner", cite=CORNERS)
def randomized_response_corner(node: RandomizedResponse) -> Number:
    """-Phi^{-1}(1/w) - Phi^{-1}((choices-1)/w), w = e^epsilon + choices - 1: its two corners."""
    if node.choices == 2:
        return 2 * sqrt(2) * erfinv(tanh(node.epsilon / 2))
    total = exp(node.epsilon) + node.choices - 1
    return sqrt(2) * (erfinv(1 - 2 / total) + erfinv(1 - 2 * (node.choices - 1) / total))
