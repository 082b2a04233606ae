"""Build the page of a certificate: the first screen, then the evidence, then the appendix."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpaudit.errors import CertificateRejected
from dpaudit.report import (
    accuracy,
    appendix,
    coverage,
    empirical,
    evidence,
    front,
    guarantee,
    reader,
    regulation,
    words,
)
from dpaudit.report.model import Page, Section
from dpaudit.report.say import language, message, say, translated
from dpaudit.report.words import Json
from dpaudit.sign import Signed

_TITLE_LENGTH = 160  # characters of a page's title
# The ledger writes these in English; a page says them in its own language.
ERRATA = (message("Corrected: use {title} in its place."), message("Withdrawn: {reason}"))
# Errors of reading a certificate that lacks a field or has another type in its place.
MALFORMED = (KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError)


def build(
    certificate: Mapping[str, Any],
    signed: Sequence[Signed] = (),
    proved: Mapping[str, Sequence[str]] = evidence.NOTHING,
    errata: Sequence[str] = (),
    previous: Mapping[str, Any] | None = None,
) -> Page:
    """The page of one certificate, errata first; arguments as :func:`dpaudit.report.render_html`.

    Errors: CertificateRejected if the certificate lacks a field that the page shows.
    """
    try:
        page = _page(certificate, signed, proved, previous)
        banner = replace(page.banner, warnings=(*map(translated, errata), *page.banner.warnings))
        return replace(page, banner=banner)
    except MALFORMED as error:
        raise CertificateRejected(
            f"certificate: cannot be shown, {type(error).__name__} at {str(error)[:80]!r}; "
            "check the file with 'dpaudit verify'"
        ) from error


def _page(
    certificate: Mapping[str, Any],
    signed: Sequence[Signed],
    proved: Mapping[str, Sequence[str]],
    previous: Mapping[str, Any] | None,
) -> Page:
    mismatch = digest_mismatch(certificate)
    statement: Json = words.tidy(certificate)
    predicate = statement["predicate"]
    digest = statement["subject"][0]["digest"]["sha256"]
    if empirical.is_empirical(predicate):
        # The evidence of a membership audit is on the page made by report/membership.py; this
        # page shares only the first screen.
        return Page(
            title=_cut(predicate["target"]["training"]),
            subtitle=say("A membership audit: it measures, and promises nothing"),
            language=language(),
            banner=empirical.banner(predicate),
            glance=empirical.glance(predicate, signed),
            sections=(),
            print_mark="",
        )
    return Page(
        title=_cut(predicate["scope"]["title"]),
        subtitle=_cut(predicate["scope"]["controller"] or say("Controller not stated")),
        language=language(),
        banner=front.banner(predicate, mismatch),
        glance=reader.glance(predicate, signed, previous),
        sections=_sections(predicate, statement, signed, mismatch, proved),
        print_mark=digest[:16] if re.fullmatch("[0-9a-f]{64}", digest) else "",
    )


def _sections(
    predicate: Json,
    statement: Json,
    signed: Sequence[Signed],
    mismatch: str,
    proved: Mapping[str, Sequence[str]],
) -> tuple[Section, ...]:
    return (
        guarantee.section(predicate),
        coverage.plain_words(predicate),
        accuracy.section(predicate),
        coverage.protected(predicate),
        coverage.stated(predicate),
        evidence.assumptions(predicate),
        evidence.hazards(predicate),
        evidence.audits(predicate),
        coverage.run(predicate),
        regulation.criteria(predicate),
        regulation.checklist(predicate),
        appendix.trust(predicate, signed),
        evidence.derivation(predicate, proved),
        appendix.reproduce(predicate),
        appendix.section(predicate, statement["subject"], mismatch),
    )


def digest_mismatch(certificate: Mapping[str, Any]) -> str:
    """A sentence if the certificate's digest does not match its content; otherwise empty."""
    import rfc8785

    stated = certificate["subject"][0]["digest"]["sha256"]
    try:
        content = rfc8785.dumps(certificate["predicate"])
    except rfc8785.CanonicalizationError:
        return say("The content has no canonical JSON form, so its digest cannot be checked.")
    if hashlib.sha256(content).hexdigest() == stated:
        return ""
    return say("The digest in the certificate is not that of its content.")


def _cut(text: str) -> str:
    return text if len(text) <= _TITLE_LENGTH else text[: _TITLE_LENGTH - 1] + "…"
