"""Pure differential privacy: value = epsilon, the largest absolute privacy loss."""

from __future__ import annotations

from dpaudit.arithmetic import Number, exp, log
from dpaudit.calculus import Calculus, Source, always, register
from dpaudit.nodes import Laplace, PoissonSampled, PureDP, SampledWithoutReplacement
from dpaudit.rules.common import add_structure
from dpaudit.scope import Adjacency

PURE = register(Calculus("pure", "epsilon of pure differential privacy"))

DWORK = Source("Dwork, McSherry, Nissim, Smith", 2006, "Proposition 1")
DECLARED = Source("dpaudit", 2026, "definition of an opaque leaf")
MCSHERRY = Source("McSherry", 2009, "Theorem 4 (parallel composition)")
BASIC = Source("Dwork, Rothblum, Vadhan", 2010, "Section III.A (adaptive k-fold composition)")
BALLE_POISSON = Source("Balle, Barthe, Gaboardi", 2018, "Theorem 8")
BALLE_BATCH = Source("Balle, Barthe, Gaboardi", 2018, "Theorem 9")

add_structure(PURE, compose=BASIC, parallel=MCSHERRY)


@PURE.rule(Laplace, cite=DWORK, attained=always)
def laplace(node: Laplace) -> Number:
    """Loss of Laplace noise of scale b times the sensitivity: at most 1/b, and reached."""
    return 1 / node.noise_multiplier


@PURE.rule(PureDP, cite=DECLARED)
def opaque(node: PureDP) -> Number:
    """What somebody else proved."""
    return node.epsilon


@PURE.rule(PoissonSampled, cite=BALLE_POISSON, adjacency=(Adjacency.ADD_REMOVE,))
def poisson_sampled(node: PoissonSampled, epsilon: Number) -> Number:
    """log(1 + q (e^epsilon - 1)) at rate q."""
    return log(1 + node.rate * (exp(epsilon) - 1))


@PURE.rule(SampledWithoutReplacement, cite=BALLE_BATCH, adjacency=(Adjacency.REPLACE_ONE,))
def sampled_without_replacement(node: SampledWithoutReplacement, epsilon: Number) -> Number:
    """log(1 + q (e^epsilon - 1)) with q = batch_size / population."""
    return log(1 + node.batch_size / node.population * (exp(epsilon) - 1))
