"""Format the decimal strings of a certificate for readers: upper bounds up, lower bounds down."""

from __future__ import annotations

from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    Context,
    Decimal,
    DecimalException,
)

from dpaudit.errors import CertificateRejected
from dpaudit.report.say import grouped, localised, percentage, say

PAGE_DIGITS = 6  # Significant digits of a bound on a page; the certificate has all of them.
_YEAR, _LARGEST_WRITTEN = 9999, Decimal(10) ** 18  # Between them thousands are separated.
_HUNDRED = Decimal(100)  # For percentages, as an exact decimal.
_TIGHT_RATIO = Decimal("1e-6")  # A bound is called attained up to this share above it.


def parse(text: str) -> Decimal:
    """The exact value of a decimal string, ``inf`` and ``nan`` included.

    Errors: CertificateRejected for any other text.
    """
    try:
        return _context(max(len(text), 1), ROUND_CEILING).create_decimal(text)
    except (DecimalException, TypeError, ValueError) as error:
        raise CertificateRejected(
            f"certificate: {str(text)[:40]!r} is not a decimal string; "
            "check the file with 'dpaudit verify'"
        ) from error


def exact(text: str) -> str:
    """The value with all its digits: for claimed numbers, which must not be rounded."""
    return _written(parse(text))


def upper(text: str, digits: int = PAGE_DIGITS) -> str:
    """The value with at most ``digits`` significant digits, rounded up."""
    return _written(_rounded(parse(text), digits, ROUND_CEILING))


def upper_beside(text: str, other: str) -> str:
    """The value rounded up, with enough digits that it stays on the same side of ``other``.

    A bound that is at or below the claim is never shown as above it.
    """
    value, fixed = parse(text), parse(other)
    for digits in range(PAGE_DIGITS, max(PAGE_DIGITS, len(text)) + 1):
        shown = _rounded(value, digits, ROUND_CEILING)
        if (shown > fixed) == (value > fixed):
            return _written(shown)
    return _written(value)


def lower(text: str, digits: int = PAGE_DIGITS) -> str:
    """The value with at most ``digits`` significant digits, rounded down."""
    return _written(_rounded(parse(text), digits, ROUND_FLOOR))


def is_tight(bound: str, reached: str) -> bool:
    """Whether a bound exceeds the value that some data reach by at most a millionth of it."""
    return parse(bound) <= parse(reached) * (1 + _TIGHT_RATIO)


def percent_upper(text: str) -> str:
    """A probability as a percentage, rounded up to three digits and never above 100 %."""
    share = min(parse(text), Decimal(1))
    return percentage(_written(_rounded(share * _HUNDRED, 3, ROUND_CEILING)))


def percent(text: str) -> str:
    """A probability as a percentage with all its digits, unrounded."""
    exact_share = _context(len(text) + 2, ROUND_CEILING).multiply(parse(text), _HUNDRED)
    return percentage(_written(exact_share))


def difference(larger: str, smaller: str) -> Decimal:
    """``larger - smaller``, rounded down; both must be finite."""
    return _context(50, ROUND_FLOOR).subtract(parse(larger), parse(smaller))


def share_lower(part: Decimal, whole: str) -> str:
    """``part / whole`` as a percentage rounded down to three digits; empty for a zero ``whole``."""
    denominator = parse(whole)
    if not denominator or not denominator.is_finite() or not part.is_finite():
        return ""
    ratio = _context(50, ROUND_FLOOR).divide(part * _HUNDRED, denominator)
    return percentage(_written(_rounded(ratio, 3, ROUND_FLOOR)))


def written_lower(value: Decimal) -> str:
    """A decimal rounded down to ``PAGE_DIGITS`` significant digits."""
    return _written(_rounded(value, PAGE_DIGITS, ROUND_FLOOR))


def written_upper(value: Decimal) -> str:
    """A decimal rounded up to ``PAGE_DIGITS`` significant digits."""
    return _written(_rounded(value, PAGE_DIGITS, ROUND_CEILING))


def plotted(text: str) -> float:
    """The value as a float, for drawing only."""
    return float(parse(text))


def statistic(text: str) -> str:
    """A test statistic: a number with all its digits, or free text unchanged."""
    try:
        return exact(text)
    except CertificateRejected:
        return text


def published(text: str) -> str:
    """A published value with all its digits, its thousands separated; free text unchanged.

    Four digits stay together, because they may be a year.
    """
    try:
        value = parse(text)
    except CertificateRejected:
        return text
    if value.is_finite() and _YEAR < abs(value) < _LARGEST_WRITTEN:
        return grouped(value).replace("-", "−")
    return _written(value)


def at_most(value: float, digits: int) -> str:
    """A number of a plot in words, rounded up."""
    return _written(_rounded(Decimal(value), digits, ROUND_CEILING))


def at_least(value: float, digits: int) -> str:
    """A number of a plot in words, rounded down."""
    return _written(_rounded(Decimal(value), digits, ROUND_FLOOR))


def estimate(value: float, digits: int = 3) -> str:
    """An estimate to some significant digits, which bounds nothing."""
    return _written(parse(f"{value:.{digits}g}"))


def _context(digits: int, rounding: str) -> Context:
    return Context(prec=digits, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _rounded(value: Decimal, digits: int, rounding: str) -> Decimal:
    return _context(digits, rounding).plus(value)


def _written(value: Decimal) -> str:
    if not value.is_finite():
        return say("not a number") if value.is_nan() else "−∞" if value < 0 else "∞"
    if not value:
        return "0"
    digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    exponent = value.adjusted()
    sign = "−" if value < 0 else ""
    if -5 < exponent < 9:
        return localised(sign + _plain(digits, exponent))
    mantissa = digits[0] + ("." + digits[1:] if digits[1:] else "")
    return localised(f"{sign}{mantissa}e{exponent}")


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    integer_part = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return integer_part + ("." + fraction if fraction else "")
