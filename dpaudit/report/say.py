"""The texts, numbers and dates of reports in the reader's language.

The English sentence is the key; ``locale/LANGUAGE/LC_MESSAGES/messages.po`` holds its translations,
and such a folder is all that a language is.  Babel knows how each language writes numbers,
percentages and dates, and which plural it takes.  Texts that a certificate's author wrote (titles,
claims) are never translated.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from decimal import Decimal
from functools import cache
from gettext import GNUTranslations, NullTranslations
from importlib import resources
from typing import TYPE_CHECKING

from dpaudit.errors import InvalidParameter

if TYPE_CHECKING:
    from babel import Locale

_FOLDER = resources.files("dpaudit.report").joinpath("locale")
# In which reports are written.
LANGUAGES = ("en", *sorted(entry.name for entry in _FOLDER.iterdir()))
# English pages put a space before the sign, as the SI does; Babel's English has none.
_PERCENT = {"en": "#\u00a0%"}

_NAME = re.compile(r"\{\w+\}")
_FEWEST_LETTERS = 8  # of a message beside its names; a shorter one would match what authors write

_language: ContextVar[str] = ContextVar("language", default="en")


def say(text: str, /, **values: object) -> str:
    """The message in the current language, with ``values`` put in the place of its ``{names}``.

    Whole numbers among the values are written as the language groups their digits.
    """
    return _filled(_messages(language()).gettext(text), values)


def counted(one: str, many: str, /, count: int, **values: object) -> str:
    """The message about ``count`` things in the plural that the language has for this number."""
    return _filled(_messages(language()).ngettext(one, many, count), {**values, "count": count})


def message(text: str) -> str:
    """Return the text unchanged; marks a literal that :func:`say` translates later."""
    return text


def translated(text: str) -> str:
    """A sentence that dpaudit wrote into a certificate, in the current language.

    A message with ``{names}`` matches a sentence that has other words in their place.  A sentence
    that no message matches stays as it is.
    """
    if language() == "en" or not text:
        return text
    spoken = _messages(language()).gettext(text)
    if spoken != text:
        return spoken
    for pattern, template in _patterns(language()):
        if match := pattern.fullmatch(text):
            return template.format(**{k: _value(v) for k, v in match.groupdict().items()})
    return text


def _value(text: str) -> str:
    """The text in a sentence's gap: a number as the language writes it, or a sentence."""
    if re.fullmatch(r"\d{1,3}(,\d{3})+|\d+", text):
        return grouped(int(text.replace(",", "")))
    return localised(text) if re.fullmatch(r"[-+\d.e<= ]*\d", text) else translated(text)


def grouped(number: int | Decimal) -> str:
    """A number with its thousands separated: ``20,000``, in German ``20.000``."""
    from babel.numbers import format_decimal

    locale = _locale(language())
    return str(format_decimal(number, locale=locale, decimal_quantization=False))


def localised(text: str) -> str:
    """The text with the language's sign at every decimal point between two digits."""
    sign = _locale(language()).number_symbols["latn"]["decimal"]
    return re.sub(r"(?<=\d)\.(?=\d)", sign, text)


def percentage(number: str) -> str:
    """A number with the language's percent sign, given the number as the language writes it."""
    pattern = _PERCENT.get(language(), _locale(language()).percent_formats[None].pattern)
    return re.sub("[#,0.]+", lambda _: number, pattern, count=1)


def day(text: str) -> str:
    """A date, given as YYYY-MM-DD with or without a time; another text stays as it is."""
    from babel.dates import format_date

    try:
        read = datetime.fromisoformat(text).date()
    except ValueError:
        return text
    return str(format_date(read, "long", locale=_locale(language())))


def language() -> str:
    """The current language: en, de or fr."""
    return _language.get()


@contextmanager
def speaking(chosen: str) -> Iterator[None]:
    """Use a language for all messages within this block.

    Errors: InvalidParameter for a language without a folder of messages.
    """
    if chosen not in LANGUAGES:
        raise InvalidParameter(f"language {chosen[:20]!r}: expected one of {', '.join(LANGUAGES)}")
    token = _language.set(chosen)
    try:
        yield
    finally:
        _language.reset(token)


def catalogue(chosen: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The forms of each message in English, and those in a language: one, or two and its plurals.

    Errors: FileNotFoundError for a language without a folder.
    """
    from babel.messages.pofile import read_po

    def forms(text: object) -> tuple[str, ...]:
        return tuple(map(str, text)) if isinstance(text, list | tuple) else (str(text),)

    file = _FOLDER.joinpath(chosen, "LC_MESSAGES", "messages.po")
    with file.open("rb") as stream:
        return {forms(entry.id): forms(entry.string) for entry in read_po(stream) if entry.id}


def _filled(text: str, values: dict[str, object]) -> str:
    shown = {
        name: grouped(value) if isinstance(value, int) else value for name, value in values.items()
    }
    return text.format(**shown) if values else text


@cache
def _locale(chosen: str) -> Locale:
    from babel import Locale

    return Locale.parse(chosen)


@cache
def _messages(chosen: str) -> NullTranslations:
    if chosen == "en":
        return NullTranslations()
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    compiled = io.BytesIO()
    with _FOLDER.joinpath(chosen, "LC_MESSAGES", "messages.po").open("rb") as stream:
        write_mo(compiled, read_po(stream))
    compiled.seek(0)
    return GNUTranslations(compiled)


@cache
def _patterns(chosen: str) -> list[tuple[re.Pattern[str], str]]:
    """The messages with names, as patterns of the sentences that they make, the longest first."""
    named = [
        (english[0], spoken[0])
        for english, spoken in catalogue(chosen).items()
        if len(english) == 1 and _NAME.search(english[0])
        if len(_NAME.sub("", english[0])) >= _FEWEST_LETTERS
    ]
    return [
        (re.compile(_pattern_of(key), re.DOTALL), value)
        for key, value in sorted(named, key=lambda pair: -len(pair[0]))
    ]


def _pattern_of(text: str) -> str:
    seen: set[str] = set()
    parts = []
    for part in re.split(r"(\{\w+\})", text):
        if not _NAME.fullmatch(part):
            parts.append(re.escape(part))
        elif part in seen:
            parts.append(f"(?P={part[1:-1]})")
        else:
            seen.add(part)
            parts.append(f"(?P<{part[1:-1]}>.+?)")
    return "".join(parts)
