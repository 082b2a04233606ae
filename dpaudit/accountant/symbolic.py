"""The privacy profile of compositions of Gaussian noise, in symbols.

With mu of the Gaussian calculus, a = epsilon / mu - mu / 2 and b = epsilon / mu + mu / 2,

    delta(epsilon) = Phi(-a) - e^epsilon Phi(-b) = phi(a) (R(a) - R(b)),

R(x) = Phi(-x) / phi(x) being Mills' ratio, since e^epsilon phi(b) = phi(a).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import exact, is_infinite, is_symbolic, sympify, unknowns
from dpaudit.exact.inequality import at_most, ends_of
from dpaudit.measures.calculus import Step
from dpaudit.nodes import postorder


class Trend(StrEnum):
    """How delta moves with a symbol."""

    RISES = "rises"
    FALLS = "falls"
    CONSTANT = "constant"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SymbolicProfile:
    """``delta`` as a function of the symbol ``epsilon`` and of the declaration's own symbols.

    ``mu``: of the Gaussian calculus; ``step``: its derivation.  Where ``step.attained`` is false,
    the profile of mu is an upper bound of the declaration's.  Expressions are SymPy's.
    """

    step: Step
    epsilon: Any
    mu: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", sympify(self.step.value))

    @property
    def delta(self) -> Any:
        """Phi(-a) - e^epsilon Phi(-b); Balle and Wang (2018), Theorem 8."""
        import sympy

        a, b = self._ends()
        root = sympy.sqrt(2)
        return (sympy.erfc(a / root) - sympy.exp(self.epsilon) * sympy.erfc(b / root)) / 2

    @property
    def elementary(self) -> tuple[Any, Any]:
        """(lower, upper) ends of delta without the error function, where epsilon >= mu^2 / 2.

        Their ratio tends to 1 as a grows.
        Proof: R' = x R - 1, so that R(a) - R(b) is the integral of 1 - x R(x) over [a, b]; and
        x / (x^2 + 1) <= R(x) <= (x^2 + 2) / (x^3 + 3 x) for x > 0 (convergents of Laplace's
        continued fraction; Gordon 1941, Shenton 1954), so that 1 / (x^2 + 3) <= 1 - x R(x) <=
        1 / (x^2 + 1), whose integrals are arcus tangents.
        """
        import sympy

        a, b = self._ends()
        density, root = _density(a), sympy.sqrt(3)
        lower = density * (sympy.atan(b / root) - sympy.atan(a / root)) / root
        return lower, density * (sympy.atan(b) - sympy.atan(a))

    @property
    def asymptotic(self) -> Any:
        """phi(a) mu / (a b), to which delta is asymptotic as epsilon grows.

        Both ends of ``elementary`` are: atan(b) - atan(a) = atan(mu / (1 + a b)).
        """
        a, b = self._ends()
        return _density(a) * self.mu / (a * b)

    def epsilon_above(self, delta: object) -> Any:
        """mu^2 / 2 + mu sqrt(2 log(1 / (2 delta))): no epsilon at ``delta`` <= 1/2 is above it.

        It is asymptotic to epsilon as delta falls to 0.
        Proof: delta(epsilon) <= Phi(-a), and Phi(-a) <= exp(-a^2 / 2) / 2 for a >= 0.
        Errors: InvalidParameter for a number that is no probability of at most 1/2.
        """
        import sympy

        at = exact(delta, "delta")
        if not unknowns(at) and not 0 < at <= sympify(1) / 2:
            raise InvalidParameter(f"delta = {delta}: expected a number in (0, 1/2]")
        return self.mu**2 / 2 + self.mu * sympy.sqrt(-2 * sympy.log(2 * sympify(at)))

    def trend(self, symbol: Any, ranges: Mapping[Any, tuple[Any, Any]] | None = None) -> Trend:
        """How delta moves with ``symbol``, shown for all values of the symbols, or in the ranges.

        delta falls with epsilon (its derivative is -e^epsilon Phi(-b)) and rises with mu (phi(a)),
        so that the sign of d mu / d symbol tells of any other symbol.  ``UNKNOWN`` where neither
        sign could be shown.

        ``symbol``, and the keys of ``ranges``: a symbol of the profile, or its name; a symbol of
        other assumptions stands for the one of its name.
        Errors: InvalidParameter for one that neither the profile nor its declaration has.
        """
        import sympy

        chosen = self._named(symbol, "symbol")
        if chosen == self.epsilon:
            return Trend.FALLS
        named = {self._named(s, "a key of ranges"): ends for s, ends in (ranges or {}).items()}
        within = {s: ends_of(s, ends, "ranges") for s, ends in named.items()}
        slope = sympy.simplify(sympy.diff(self.mu**2, chosen))
        if slope == 0:
            return Trend.CONSTANT
        if slope.has(sympy.Derivative, sympy.Subs):
            return Trend.UNKNOWN  # floors have no derivative
        if at_most(slope, 0, within):
            return Trend.FALLS
        return Trend.RISES if at_most(0, slope, within) else Trend.UNKNOWN

    def _named(self, symbol: Any, place: str) -> Any:
        """The one symbol that is meant.

        Errors: InvalidParameter for none of the profile, or a name that several have.
        """
        nodes = postorder(self.step.node)
        symbols = {self.epsilon, *unknowns(self.mu)}.union(
            *(unknowns(value) for node in nodes for value in node.parameters.values())
        ) - {getattr(node, "index", None) for node in nodes}
        if is_symbolic(symbol) and symbol in symbols:
            return symbol
        text = isinstance(symbol, str) or is_symbolic(symbol)
        matches = [own for own in symbols if text and str(own) == str(symbol)]
        if len(matches) == 1:
            return matches[0]
        shown = ", ".join(sorted(set(map(str, symbols))))
        if matches:
            raise InvalidParameter(
                f"{place} = {symbol}: {len(matches)} symbols of this name, which differ in their "
                "assumptions; give the symbol itself"
            )
        raise InvalidParameter(
            f"{place} = {symbol!r}: the profile does not hold it: it has {shown}"
        )

    def _ends(self) -> tuple[Any, Any]:
        return self.epsilon / self.mu - self.mu / 2, self.epsilon / self.mu + self.mu / 2


def symbolic_profile(step: Step, epsilon: Any = None) -> SymbolicProfile:
    """The profile of a step of the Gaussian calculus, symbols and all.

    ``epsilon``: the symbol to use, a positive one of that name by default.
    Errors: Unsupported for another calculus, or where no finite mu > 0 is derived;
    InvalidParameter for no symbol, or one that mu has.
    """
    import sympy

    chosen = sympy.Symbol("epsilon", positive=True) if epsilon is None else epsilon
    if not isinstance(chosen, sympy.Symbol):
        raise InvalidParameter(f"epsilon = {epsilon!r}: expected a symbol")
    if step.calculus != "gdp" or is_infinite(step.value) or step.value == 0:
        raise Unsupported(f"{step.node.head}: {step.calculus} of {step.value} is no Gaussian's")
    if chosen in unknowns(sympify(step.value)):
        raise InvalidParameter(f"epsilon = {chosen}: the declaration has this symbol; give another")
    return SymbolicProfile(step, chosen)


def _density(x: Any) -> Any:
    import sympy

    return sympy.exp(-(x**2) / 2) / sympy.sqrt(2 * sympy.pi)
