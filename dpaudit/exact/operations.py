"""The operations of expressions, applied to Arb balls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpaudit.errors import InvalidParameter

MAXIMUM_CHOICE = 1_000_000  # binomial coefficients of larger numbers have too many digits
LARGEST_POWER = 2**60  # exponents above are computed by logarithms


def ball(text: str) -> Any:
    """The Arb ball of a decimal text, at the precision of the context."""
    import flint

    return flint.arb(text)


def folded(operation: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    """An operation on two balls as one on a list of them, from the left."""

    def apply(arguments: list[Any]) -> Any:
        result = arguments[0]
        for argument in arguments[1:]:
            result = operation(result, argument)
        return result

    return apply


def _power(arguments: list[Any]) -> Any:
    base, exponent = arguments
    if exponent.is_exact() and -LARGEST_POWER < exponent < LARGEST_POWER:
        integer_exponent = exponent.unique_fmpz()
        if integer_exponent is not None:
            return base ** int(integer_exponent)
    return base.sqrt() if exponent == ball("0.5") else base**exponent


def _choices(arguments: list[Any]) -> Any:
    import flint

    n, k = arguments
    all_whole = all(a.is_exact() and a.is_integer() and 0 <= a <= MAXIMUM_CHOICE for a in (n, k))
    if not all_whole:
        raise InvalidParameter(f"binomial({n}, {k}): expected whole numbers up to {MAXIMUM_CHOICE}")
    return flint.arb(flint.fmpz.bin_uiui(int(n.unique_fmpz()), int(k.unique_fmpz())))


CONSTANTS: dict[str, Callable[[], Any]] = {
    "Infinity": lambda: ball("inf"),
    "Pi": lambda: ball("0").pi(),
    "Exp1": lambda: ball("1").exp(),
}

ENCLOSURES: dict[str, Callable[[list[Any]], Any]] = {
    "Add": folded(lambda a, b: a + b),
    "Mul": folded(lambda a, b: a * b),
    "Pow": _power,
    "exp": lambda a: a[0].exp(),
    "log": lambda a: a[0].log(),
    "tanh": lambda a: a[0].tanh(),
    "erf": lambda a: a[0].erf(),
    "erfinv": lambda a: a[0].erfinv(),
    "Max": folded(lambda a, b: a.max(b)),
    "Min": folded(lambda a, b: a.min(b)),
    "Lesser": folded(lambda a, b: a.min(b)),
    "Abs": lambda a: abs(a[0]),
    "floor": lambda a: a[0].floor(),
    "ceiling": lambda a: a[0].ceil(),
    "binomial": _choices,
}
