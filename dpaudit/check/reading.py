"""Requirements, and decimals read with limits: a certificate comes from a stranger."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpaudit.errors import CertificateRejected
from dpaudit.exact import (
    decimal_upper,
    enclose,
    is_infinite,
    is_symbolic,
    readable,
    working_precision,
)
from dpaudit.exact.effort import spend
from dpaudit.pairs import Losses

SLACK = Fraction(1, 10**9)
TINY = Fraction(1, 10**300)
LONGEST = 1100  # characters of a number in a certificate
LARGEST_EXPONENT = 6  # characters of its exponent
Json = Mapping[str, Any]


def require(held: object, message: str) -> None:
    """Errors: CertificateRejected with the message unless ``held``; TooMuch."""
    spend()
    if not held:
        raise CertificateRejected(message)


def decimal(text: str) -> Fraction:
    """A finite decimal string; one whose digits or exponent would cost minutes is refused."""
    exponent = text.lower().partition("e")[2].removeprefix("-")
    require(len(text) <= LONGEST and len(exponent) <= LARGEST_EXPONENT, f"{text[:40]}: too long")
    require(text[:1].isdigit() and is_plain(text), f"{text[:40]}: expected a finite decimal")
    return Fraction(text)


def is_plain(text: str) -> bool:
    """Whether a number has no underscores, spaces, or digits of other scripts, which Python reads.

    Another verifier may not, or may read something else.
    """
    return text.isascii() and "_" not in text and "".join(text.split()) == text


def at_least(text: str, exact: Any) -> bool:
    """Whether a decimal, or "inf", is at least the exact value."""
    if text == "inf":
        return True
    if is_infinite(exact):
        return False
    shown = decimal(text)
    if isinstance(exact, Fraction):
        return shown >= exact
    with working_precision():
        return bool(enclose(shown) >= (exact if _is_ball(exact) else enclose(exact)))


def rounded_up(text: str, exact: Any, slack: Fraction = SLACK) -> bool:
    """Whether a decimal is at least the exact value, and equal to it up to rounding."""
    if is_infinite(exact) or text == "inf":
        return text == "inf" and is_infinite(exact)
    if not at_least(text, exact):
        return False
    shown = decimal(text)
    if isinstance(exact, Fraction):
        return bool(shown <= exact * (1 + slack) + TINY)
    with working_precision():
        ball = exact if _is_ball(exact) else enclose(exact)
        return bool(enclose(shown) <= ball * (1 + enclose(slack)) + enclose(TINY))


def rounded_down(text: str, exact: Any, slack: Fraction = SLACK) -> bool:
    """Whether a decimal is at most the value of a ball, and equal to it up to rounding."""
    with working_precision():
        shown = enclose(decimal(text))
        return bool(shown <= exact and exact <= shown * (1 + enclose(slack)) + enclose(slack))


def _is_ball(value: Any) -> bool:
    return type(value).__module__.startswith("flint")


def value_text(value: Any) -> str:
    """An exact value for people, with its decimal rounded up where that is not the same."""
    if isinstance(value, tuple):
        return "(" + ", ".join(map(value_text, value)) + ")"
    if isinstance(value, Losses):
        return value.text
    shown = readable(value)
    if is_symbolic(value) and (value.free_symbols or is_infinite(value)):
        return shown
    rounded = decimal_upper(value, digits=6)
    if shown == rounded:
        return shown
    return f"{shown} <= {rounded}" if len(shown) <= 60 else f"<= {rounded}"
