"""KL-Spider as printed with its schedule in symbols: what its accounting is, whatever the numbers.

Every function here needs SymPy, which is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpaudit.exact import Number
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.kl.estimator import ANCHOR, DIFFERENCE
from mechanisms.papers.kl.problem import moves


@dataclass(frozen=True)
class SpiderSymbols:
    """rho, L0, gamma, n, kappa, K positive, and of phase k its T_k and Phi_k."""

    rho: Any
    lipschitz: Any
    gamma: Any
    size: Any
    kappa: Any
    phases: Any
    phase: Any
    length: Any
    level: Any

    @classmethod
    def with_whole_lengths(cls) -> SpiderSymbols:
        """T(k) >= 1 is a whole number, as the proof counts."""
        import sympy

        return cls._with(sympy.Function("T", positive=True, integer=True))

    @classmethod
    def with_real_lengths(cls) -> SpiderSymbols:
        """T_k = 1 + s(k) is real, as the schedule gives it."""
        import sympy

        beyond = sympy.Function("s", nonnegative=True)
        return cls._with(lambda phase: 1 + beyond(phase))

    @classmethod
    def _with(cls, length: Callable[[Any], Any]) -> SpiderSymbols:
        import sympy

        rho, lipschitz, gamma, size, kappa = sympy.symbols("rho L0 gamma n kappa", positive=True)
        phases, k = sympy.symbols("K k", positive=True, integer=True)
        level = sympy.Function("Phi", positive=True)(k)
        return cls(rho, lipschitz, gamma, size, kappa, phases, k, length(k), level)


def printed_spider(scope: Scope, symbols: SpiderSymbols, differences: Any) -> Node:
    """K phases of one anchor and ``differences``, with the printed noise over the sensitivities.

    sigma = L0 sqrt(K) / (n sqrt(rho)) against moves L0 / n; sigma_k = Phi_k^(1/kappa) sqrt(T_k K) /
    (gamma n sqrt(rho)) against moves Phi_k^(1/kappa) / (4 gamma n), moves = 1, or 2 under
    replace_one.
    Source: Menart et al. 2023, Algorithm 1, lines 4 and 7.
    """
    import sympy

    factor, own = moves(scope, "KL-Spider"), symbols
    root = own.size * sympy.sqrt(own.rho)
    anchor: Number = own.lipschitz * sympy.sqrt(own.phases) / root
    scale = own.level ** (1 / own.kappa) / own.gamma
    difference: Number = scale * sympy.sqrt(own.length * own.phases) / root
    return Repeat(
        Compose(
            Gaussian(ANCHOR, anchor * own.size / (factor * own.lipschitz)),
            Repeat(Gaussian(DIFFERENCE, difference * 4 * own.size / (factor * scale)), differences),
        ),
        own.phases,
        own.phase,
    )


def every_difference(symbols: SpiderSymbols) -> Any:
    """floor(T_k) + 1: what the printed loop releases in a full phase."""
    import sympy

    return sympy.floor(symbols.length) + 1


def influential_differences(symbols: SpiderSymbols) -> Any:
    """floor(T_k): the last difference of a full phase influences no iterate."""
    import sympy

    return sympy.floor(symbols.length)


# Shown beside the numbers of both entries; tests/catalogue/reference/test_kl_spider derives each
# of them.
SIDE_BY_SIDE = (
    "in symbols, under replace_one: at most 17*rho/8 for the iterates and 9*rho/4 with every noisy "
    "gradient; Theorem 1 claims rho (refuted), Lemma 8 claims 2*rho (refuted with every noisy "
    "gradient, unproved for the output alone)",
    "in symbols, under zero_out: at most 17*rho/32 for the iterates and 9*rho/16 with every noisy "
    "gradient; Theorem 1 and Lemma 8 are proved",
    "witness against Theorem 1 of the output alone, under replace_one: n = 100, d = 1, rho = 1, "
    "linear losses with mean gradients .0216 and .0416; one output has probability 1.624e-4 "
    "against 1.106e-8, which no 1-zCDP mechanism has",
)
