"""Certificates in one line a claim: for a terminal and for the index page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dpaudit.errors import CertificateRejected
from dpaudit.report import words
from dpaudit.report.model import Cell, formula
from dpaudit.report.words import Json


@dataclass(frozen=True)
class SummaryRow:
    """One claim of one certificate in words; ``attacked`` is free of any family assumption.

    ``by`` names who states the claim, and where; ``reason`` why the verdict is what it is;
    ``caveats`` are those of the whole certificate.
    """

    name: str
    title: str
    source: str
    by: str
    claim: str
    reading: str
    accounted: str
    attacked: str
    verdict: str
    reason: str
    tone: str
    caveats: tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """The cells of one index row and the relative address of the page it links to."""

    address: str
    text: str
    note: str
    cells: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True)
class Index:
    """The index page: a sentence that counts, one link a claim, and what has no certificate."""

    count: str
    links: tuple[Link, ...]
    failed: tuple[str, ...]


def summary_rows(certificates: Iterable[Mapping[str, Any]]) -> list[SummaryRow]:
    """One row a claim in the order given; a certificate without claims has one row of its own.

    Raises CertificateRejected if a certificate lacks a field the table has to show.
    """
    return [row for certificate in certificates for row in _rows(certificate)]


def index(
    certificates: Mapping[str, Mapping[str, Any]], failed: Mapping[str, str] | None = None
) -> Index:
    """The index of pages by file name; file names are quoted and stay in the same folder.

    ``failed``: why a mechanism has no certificate, by its name.
    """
    links = tuple(
        _link(name, row) for name, certificate in certificates.items() for row in _rows(certificate)
    )
    missing = tuple(f"{name}: {reason}" for name, reason in words.tidy(failed or {}).items())
    count = f"{_count(certificates, 'report')}, {_count(links, 'claim')}"
    return Index(f"{count}, {len(missing)} not certified" if missing else count, links, missing)


def _count(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _rows(certificate: Mapping[str, Any]) -> list[SummaryRow]:
    try:
        predicate = words.tidy(certificate)["predicate"]
        return [_row(predicate, claim) for claim in predicate["claims"]] or [_unclaimed(predicate)]
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise CertificateRejected(
            f"certificate: cannot be listed, {type(error).__name__} at {str(error)[:80]!r}; "
            "check the file with 'dpaudit verify'"
        ) from error


def _row(predicate: Json, claim: Json) -> SummaryRow:
    mechanism = predicate["mechanism"]
    word, tone = words.VERDICTS[claim["verdict"]]
    return SummaryRow(
        name=mechanism["name"],
        title=mechanism["title"],
        source=mechanism["source"],
        by=claim["by"],
        claim=words.stated(claim),
        reading=claim["reading"],
        accounted=words.accounted(claim),
        attacked=words.attacked(claim),
        verdict=word,
        reason=claim["reason"],
        tone=tone,
        caveats=tuple(predicate["caveats"]),
    )


def _unclaimed(predicate: Json) -> SummaryRow:
    mechanism, bounds = predicate["mechanism"], predicate["derivation"]["upper_bounds"]
    word, tone = words.VERDICTS[predicate["verdict"]["status"]]
    return SummaryRow(
        name=mechanism["name"],
        title=mechanism["title"],
        source=mechanism["source"],
        by="",
        claim="none stated",
        reading="",
        accounted=words.guarantee(bounds[0], "upper") if bounds else "none",
        attacked="none",
        verdict=word,
        reason="",
        tone=tone,
        caveats=tuple(predicate["caveats"]),
    )


def _link(name: str, row: SummaryRow) -> Link:
    stated = row.by or row.source or "—"
    cells = (
        (
            "Paper and theorem",
            Cell(stated, (row.source,) if row.source not in ("", stated) else ()),
        ),
        ("Claim", formula(row.claim)),
        ("Accounted (at most)", formula(row.accounted)),
        ("Attacked (at least)", formula(row.attacked)),
        ("Verdict", Cell(row.verdict, _why(row), row.tone)),
        ("Reading", Cell(row.reading or "—")),
        ("Caveats", Cell(row.caveats[0], row.caveats[1:]) if row.caveats else Cell("—")),
    )
    return Link(f"./{quote(name, safe='', errors='replace')}", row.title, row.name, cells)


def _why(row: SummaryRow) -> tuple[str, ...]:
    """The reason of a verdict other than certified; the page of the algorithm has all reasons."""
    return () if row.tone in ("good", "qualified") or not row.reason else (row.reason,)
