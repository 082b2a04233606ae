"""Finite sums and minima as expressions that SymPy leaves alone.

Whenever an expression around a ``Sum`` or ``Min`` of numbers changes, SymPy evaluates it to learn
its sign, which takes minutes where they are nested.  These two never look like numbers to it.  An
exponential of a large multiple of log(q) is never written as a power of q.
"""

from __future__ import annotations

from typing import Any

import sympy


class InertSum(sympy.Sum):  # type: ignore[misc]
    """A sum over finitely many whole numbers."""

    @property
    def is_number(self) -> bool:
        return False

    def _eval_evalf(self, prec: int) -> Any:
        index, first, last = self.limits[0]
        if not (first.is_Integer and last.is_Integer):
            return self
        rounds = range(int(first), int(last) + 1)
        terms = (self.function.xreplace({index: sympy.Integer(k)}) for k in rounds)
        return sympy.Add(*(term._eval_evalf(prec) for term in terms))


class LargeExp(sympy.exp):  # type: ignore[misc]
    """exp(x) of a large x, which SymPy would write as a power of very many digits."""

    @classmethod
    def eval(cls, arg: Any) -> None:
        """Leave the expression as it is."""

    def _eval_is_rational(self) -> None:
        return None

    _eval_is_algebraic = _eval_is_rational

    def as_base_exp(self) -> tuple[Any, Any]:
        """A product does not collect it with other powers of e."""
        return self, sympy.S.One

    def _eval_evalf(self, prec: int) -> Any:
        return sympy.exp(self.args[0], evaluate=False)._eval_evalf(prec)


LargeExp.__name__ = "exp"


class Lesser(sympy.Function):  # type: ignore[misc]
    """The smaller of two real numbers."""

    nargs = 2
    is_extended_real = True

    @property
    def is_number(self) -> bool:
        return False

    def _eval_evalf(self, prec: int) -> Any:
        first, second = (argument._eval_evalf(prec) for argument in self.args)
        return sympy.Min(first, second)

    def _sympystr(self, printer: Any) -> str:
        return f"Min({', '.join(map(printer._print, self.args))})"

    def _latex(self, printer: Any) -> str:
        inside = ", ".join(map(printer._print, self.args))
        return rf"\min\left({inside}\right)"
