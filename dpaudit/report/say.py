"""The texts of reports in English, German and French, from one table of messages.

The English sentence is the key; ``messages.csv`` holds its translations.  Texts that a
certificate's author wrote (titles, claims) are never translated.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import resources

from dpaudit.errors import InvalidParameter

LANGUAGES = ("en", "de", "fr")

_language: ContextVar[str] = ContextVar("language", default="en")


def say(text: str, /, **values: object) -> str:
    """The message in the current language, with ``values`` put in the place of its ``{names}``."""
    spoken = _table(_language.get()).get(text, text)
    return spoken.format(**values) if values else spoken


def message(text: str) -> str:
    """Return the text unchanged; marks a literal that :func:`say` translates later."""
    return text


def language() -> str:
    """The current language: en, de or fr."""
    return _language.get()


@contextmanager
def speaking(chosen: str) -> Iterator[None]:
    """Use a language for all messages within this block.

    Errors: InvalidParameter for a language other than en, de and fr.
    """
    if chosen not in LANGUAGES:
        raise InvalidParameter(f"language {chosen[:20]!r}: expected one of {', '.join(LANGUAGES)}")
    token = _language.set(chosen)
    try:
        yield
    finally:
        _language.reset(token)


@cache
def _table(chosen: str) -> Mapping[str, str]:
    if chosen == "en":
        return {}
    return {row["en"]: row[chosen] for row in rows()}


def rows() -> list[dict[str, str]]:
    """All messages, a column for each language."""
    file = resources.files("dpaudit.report").joinpath("messages.csv")
    return list(csv.DictReader(io.StringIO(file.read_text("utf-8"), newline="")))
