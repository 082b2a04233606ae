"""The free parameters of a mechanism: keyword arguments of its ``for_shape``, and values for them.

A mechanism opts in by the signature of its ``for_shape``: each keyword-only argument annotated with
``Annotated[int, Free(...)]`` (or ``float``, ``Fraction``) is free, and its default is the value of
the mechanism as it ships.  ``for_shape`` makes program and claims anew, so that nothing about
privacy is kept from the default values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import partial
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from dpaudit.errors import InvalidParameter
from dpaudit.exact import readable
from dpaudit.exact.domains import Domain, integer, rational

LEAST_FLOAT = Fraction(1, 10**300)  # Parameters that are used as float64 are at least this.
LARGEST_FLOAT = Fraction(10**300)  # Parameters that are used as float64 are at most this.


class Cost(StrEnum):
    """How privacy depends on a parameter."""

    CLAIM = "the claim is recomputed, and the noise with it"
    NOISE = "the claim stays, and the noise is recomputed for it"
    SCALE = "the claim stays, and the noise grows in proportion to it"
    NOTHING = "no privacy depends on it"


def above_zero(value: Any, place: str) -> None:
    """Errors: InvalidParameter unless the number is positive."""
    if not value > 0:
        raise InvalidParameter(f"{place} = {readable(value)}: expected a number above 0")


@dataclass(frozen=True)
class Free:
    """An annotation that makes a keyword argument of ``for_shape`` a free parameter.

    ``unit``: the quantity and its unit.  ``domain`` refuses values outside; counts are whole
    numbers from 1 on.  ``default``: in words, where None stands for a value made from the shape;
    ``start``: that value, where a search begins, of the parameters by name with ``count`` and
    ``features``.
    """

    unit: str
    cost: Cost
    domain: Domain = above_zero
    default: str = ""
    start: Callable[[Mapping[str, Any]], float] | None = None


@dataclass(frozen=True)
class Parameter:
    """One free parameter: its name, type (int, float or Fraction), default and annotation."""

    name: str
    kind: type
    default: Any
    free: Free

    @property
    def default_text(self) -> str:
        """The default for people."""
        return self.free.default if self.default is None else shown(self.default)

    def read(self, value: object, place: str) -> int | float | Fraction:
        """A value of this parameter; errors: InvalidParameter outside its domain."""
        if self.kind is int:
            return integer(value, place)
        number = rational(value, place)
        self.free.domain(number, place)
        if self.kind is Fraction:
            return number
        if not LEAST_FLOAT <= abs(number) <= LARGEST_FLOAT:
            raise InvalidParameter(f"{place}: expected a number of 1e-300 to 1e300")
        return float(number)


def shown(value: Any) -> str:
    """A parameter's value for people and for the command line, which reads it back."""
    if not isinstance(value, float):
        return readable(Fraction(value))
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def parameters(hook: Callable[..., Any] | None) -> tuple[Parameter, ...]:
    """The free parameters of a ``for_shape``, in the order of its signature; none without one."""
    return () if hook is None else tuple(_parameters(hook))


def _parameters(hook: Callable[..., Any]) -> Iterator[Parameter]:
    function: Any = hook
    while isinstance(function, partial) or hasattr(function, "__wrapped__"):
        function = function.func if isinstance(function, partial) else function.__wrapped__
    hints = get_type_hints(function, include_extras=True)
    for name, argument in inspect.signature(hook).parameters.items():
        hint = hints.get(name)
        if argument.kind is not argument.KEYWORD_ONLY or get_origin(hint) is not Annotated:
            continue
        kind, *notes = get_args(hint)
        kinds = [type_ for type_ in get_args(kind) or (kind,) if type_ is not NoneType]
        for free in notes:
            if isinstance(free, Free):
                yield Parameter(name, kinds[0], argument.default, free)


def read_values(
    name: str, hook: Callable[..., Any] | None, given: Sequence[str]
) -> dict[str, int | float | Fraction]:
    """``KEY=VALUE`` texts as values of the free parameters of the mechanism ``name``.

    Errors: InvalidParameter for another form, a key that is given twice or is not free, with a list
    of those that are, and a value outside its domain.
    """
    free = {parameter.name: parameter for parameter in parameters(hook)}
    values: dict[str, int | float | Fraction] = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not separator:
            raise InvalidParameter(f"--set {text[:40]!r}: expected KEY=VALUE, such as epsilon=2")
        if key not in free:
            names = f"it has {', '.join(free)}" if free else "it has none"
            raise InvalidParameter(f"{name}: no free parameter {key[:40]!r}; {names}")
        if key in values:
            raise InvalidParameter(f"--set {key}: given twice; give it one value")
        values[key] = free[key].read(value, f"{name}: {key}")
    return values


def in_words(hook: Callable[..., Any] | None, values: Mapping[str, Any]) -> str:
    """The value of every free parameter in one sentence, and which were set; empty without any."""
    parts = []
    for parameter in parameters(hook):
        if parameter.name in values:
            value = shown(values[parameter.name])
            parts.append(f"{parameter.name} = {value} (set; {parameter.default_text} by default)")
        else:
            parts.append(f"{parameter.name} = {parameter.default_text}")
    return f"parameters: {', '.join(parts)}" if parts else ""


def in_unit_interval(value: Any, place: str) -> None:
    """Errors: InvalidParameter unless the number is above 0 and below 1."""
    if not 0 < value < 1:
        raise InvalidParameter(f"{place} = {readable(value)}: expected above 0 and below 1")
