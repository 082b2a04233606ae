"""What reports say, in English, German and French, from one table of messages.

The English sentence is the key; ``messages.csv`` holds the others beside it.  Texts of a
certificate (titles, statements of its author) stay as they were written.
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
    """A message in the language that is spoken, its ``{names}`` filled in."""
    spoken = _table(_language.get()).get(text, text)
    return spoken.format(**values) if values else spoken


def message(text: str) -> str:
    """Marks a message that is said later; the same text."""
    return text


def language() -> str:
    """The language that is spoken: en, de or fr."""
    return _language.get()


@contextmanager
def speaking(chosen: str) -> Iterator[None]:
    """Say everything in a language within this block.

    Errors: InvalidParameter for a language without messages.
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
