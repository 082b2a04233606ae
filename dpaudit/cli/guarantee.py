"""Guarantees in words of a command line: ``--claim`` and ``--budget``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpaudit.errors import InvalidParameter

if TYPE_CHECKING:
    from dpaudit.nodes import Node

SHOWN_CHARACTERS = 80  # Characters of a text that an error message repeats.
NAMES = ("epsilon", "delta", "none")  # of numbers without one; a third is refused
MEASURED = ("epsilon", "delta", "rho", "mu")  # parameters of a guarantee that can be capped
RENYI = "renyi="  # before ORDER:CAP


def guarantee_in(text: str, place: str) -> Node:
    """The guarantee that a text states: 2, or 2,1e-6, or epsilon=2 delta=1e-6, rho=1, mu=1.

    Errors: InvalidParameter, with the place, for other text or a value outside its domain.
    """
    from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP

    kinds: dict[tuple[str, ...], Any] = {
        ("epsilon",): PureDP,
        ("epsilon", "delta"): ApproxDP,
        ("rho",): ZCDP,
        ("mu",): GDP,
    }
    words = text.replace(",", " ").split()
    if not any("=" in word for word in words):
        words = [f"{name}={word}" for name, word in zip(NAMES, words, strict=False)]
    given = {name: value for name, _, value in (word.partition("=") for word in words)}
    for names, kind in kinds.items():
        if set(names) == set(given) and len(words) == len(names):
            return kind(*(given[name] for name in names))  # type: ignore[no-any-return]
    raise InvalidParameter(
        f"{place} = {text[:SHOWN_CHARACTERS]!r}: expected EPSILON or EPSILON,DELTA, as in 8,1e-5, "
        "or 'epsilon=8 delta=1e-5', or rho=RHO or mu=MU"
    )


def caps_in(text: str, place: str) -> tuple[Node | None, dict[object, object]]:
    """A ledger's cap: a guarantee as above, or ``renyi=ORDER:CAP``, repeated, by order.

    Errors: InvalidParameter, as :func:`guarantee_in`, for no positive number, or another form.
    """
    from dpaudit.exact.domains import rational

    words = text.split()
    if not words or not all(word.startswith(RENYI) for word in words):
        guarantee = guarantee_in(text, place)
        numbers = [guarantee.parameters[name] for name in MEASURED if name in guarantee.parameters]
        if not all(number > 0 for number in numbers):
            raise InvalidParameter(
                f"{place} = {text[:SHOWN_CHARACTERS]!r}: expected positive numbers"
            )
        return guarantee, {}
    caps: dict[object, object] = {}
    for word in words:
        order, separator, cap = word.removeprefix(RENYI).partition(":")
        if not separator:
            raise InvalidParameter(
                f"{place} = {word[:SHOWN_CHARACTERS]!r}: expected renyi=ORDER:CAP"
            )
        caps[rational(order, f"{place} renyi")] = rational(cap, f"{place} renyi")
    return None, caps
