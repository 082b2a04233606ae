"""How far what a condition compares is from making it true: numbers, dates, keys and texts."""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from dpaudit.kernels.query import Array

CONSTANTS = 8  # numbers that something is compared with, of each list, that are kept
MANY = 500  # numbers or texts of a table that one is compared with


def first_of(value: Any, others: Any) -> Any:
    """The subject of a match, beside what its cases match."""
    return value


def began(values: Any, names: Any) -> Any:
    """The values of the names around a ``try``, as it begins; True where a handler of it does."""
    return values


OPERATORS: dict[type[ast.cmpop] | type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Mult: operator.mul,
}
INSIDE = frozenset({OPERATORS[ast.In], OPERATORS[ast.NotIn], first_of})
DISTANCES = INSIDE | {operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge}
MEMBERS, RANGES = frozenset({"isin", "in1d", "is_in"}), frozenset({"between", "is_between"})
LOOKUPS = frozenset({"get", "map"})  # calls whose condition is that a key is in a table
PATTERNS = frozenset({"match", "fullmatch", "search", "contains"})
ENDS = frozenset({"startswith", "endswith", "contains"})
SAMPLES = 6  # texts that are made for a regular expression
LETTERS = {"CATEGORY_DIGIT": "1", "CATEGORY_WORD": "1", "CATEGORY_SPACE": " "}


def apart(
    function: Any, operands: tuple[Any, ...], truths: Any, constants: Counter[float]
) -> Array:
    """How far each number that is compared is from making a condition true, 0 where it is.

    ``function``: of the operands; None where the first of them is called with the others.
    ``constants``: numbers that are compared, which are counted.
    """
    unmet = 1.0 - np.asarray(truths, dtype=np.float64)
    name = "" if function is not None else getattr(operands[0], "__name__", "")
    operands = operands if function is not None else _of_call(name, *operands)
    if len(operands) < 2 or (function is not None and function not in DISTANCES):
        return unmet
    if name in RANGES:
        number, *ends = map(_numbers, operands[:3])
        constants.update(float(end.flat[0]) for end in ends)
        return unmet * np.minimum(np.abs(number - ends[0]), np.abs(number - ends[-1]))
    texts = _of_texts(name, *operands[:2])
    if texts is not None:
        return np.where(unmet > 0, texts.reshape(unmet.shape), 0.0)
    listed = function in INSIDE or name in MEMBERS | LOOKUPS
    if function is None and not listed:
        return unmet
    try:
        left, right = _numbers(operands[0]), _numbers(operands[1])
    except (TypeError, ValueError, IndexError):
        return unmet
    for side in (right,) if listed else (left, right):
        few = side.reshape(-1)[:: max(1, side.size // CONSTANTS)][:CONSTANTS]
        if listed or side.size <= CONSTANTS:
            constants.update(few[np.isfinite(few)].tolist())
    if listed:
        # Keys may be of several numbers.
        several = right.ndim == 2 and left.shape == right.shape[1:]
        every = np.abs(left - right).sum(axis=1) if several else left[..., None] - right.reshape(-1)
        return np.asarray(np.abs(every).min(axis=-1, initial=np.inf))
    return np.where(unmet > 0, np.abs(left - right) + (left == right), 0.0)


def _of_call(name: str, function: Any, *given: Any) -> tuple[Any, ...]:
    """The operands that a call compares: the number or text first, then list, table or pattern."""
    bound = getattr(function, "__self__", None)
    compared = given if bound is None or isinstance(bound, ModuleType) else (bound, *given)
    if name == "map":
        return compared[0], getattr(compared[1], "index", compared[1])
    turned = name == "get" or (name in PATTERNS and isinstance(compared[0], str | re.Pattern))
    return compared[1::-1] if turned else compared


def _of_texts(name: str, first: Any, second: Any) -> Array | None:
    """How far texts are from what they are compared with; None where these are no texts."""
    texts = [first] if isinstance(first, str) else list(getattr(first, "_orig", ()))
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    if isinstance(second, re.Pattern) or name in PATTERNS:
        targets: Sequence[Any] = _matching(getattr(second, "pattern", second))
    else:
        targets = [second] if isinstance(second, str) else [*second][:MANY]
    each = [[_of_text(text, name, one) for one in targets] for text in texts]
    return np.array([min(distances, default=np.inf) for distances in each])


def _of_text(text: str, name: str, target: str) -> float:
    """How far the numbers in a text are from those of the nearest text with the target in it."""
    wanted = {target} if name not in ENDS else set()
    if name != "fullmatch" and (name in PATTERNS | ENDS) and name != "endswith":
        wanted.add(target + text[len(target) :])
    if name in {"endswith", "contains", "search"}:
        wanted.add(text[: max(0, len(text) - len(target))] + target)
    parts, distances = re.split(r"(\d+)", text), [np.inf]
    for one in wanted:
        others = re.split(r"(\d+)", one)
        if parts[::2] == others[::2]:
            pairs = zip(parts[1::2], others[1::2], strict=True)
            distances.append(float(sum(abs(int(a) - int(b)) for a, b in pairs)))
    return min(distances)


@cache
def _matching(pattern: str) -> list[str]:
    """A few texts that a regular expression matches; none where it is too involved."""
    try:
        return [*dict.fromkeys(_texts(list(re._parser.parse(pattern)), k) for k in range(SAMPLES))]  # type: ignore[attr-defined]
    except (re.error, KeyError, TypeError, ValueError, IndexError):
        return []


def _texts(items: list[Any], k: int) -> str:
    """The k-th text that a part of a regular expression matches."""
    text = ""
    for kind, value in items:
        kind = str(kind)
        if kind == "LITERAL":
            text += chr(value)
        elif kind == "IN":
            what, letter = value[k % len(value)]
            first = letter[0] + k % (letter[1] - letter[0] + 1) if str(what) == "RANGE" else letter
            text += LETTERS[str(letter)] if str(what) == "CATEGORY" else chr(first)
        elif kind in {"MAX_REPEAT", "MIN_REPEAT"}:
            least, most, part = value
            text += _texts(list(part), k) * (least or min(1, int(most)))
        elif kind == "SUBPATTERN":
            text += _texts(list(value[-1]), k)
        elif kind == "BRANCH":
            text += _texts(list(value[1][k % len(value[1])]), k)
        elif kind == "ANY":
            text += "1"
        elif kind != "AT":
            raise ValueError(kind)
    return text


def _numbers(value: Any) -> Array:
    """Numbers, and dates as numbers; the ends of a range.  Errors: TypeError, ValueError."""
    if isinstance(value, set | frozenset | dict):
        value = [*value]
    if not (isinstance(value, float) or hasattr(value, "dtype")):
        if hasattr(value, "__int__"):
            value = int(value)
        elif hasattr(value, "__getitem__") and not hasattr(value, "__len__"):
            value = [int(value[0]), int(value[-1])]  # a range of addresses, for one
    array = np.asarray(value)
    if array.dtype.kind == "O":
        array = np.asarray(value, dtype="datetime64[ns]")
    return (array.astype(np.int64) if array.dtype.kind in "mM" else array).astype(np.float64)
