"""Certificates as one row for each claim, for the terminal and for the index page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dpaudit.errors import CertificateRejected
from dpaudit.report import empirical, words
from dpaudit.report.model import Cell, formula
from dpaudit.report.say import day, say
from dpaudit.report.words import Json


@dataclass(frozen=True)
class SummaryRow:
    """One claim of one certificate in words; ``attacked`` is the unconditional lower bound.

    ``likely``: the bound from likelihoods, for the program with the declared noise.
    ``by``: author and place of the claim; ``reason``: of the verdict; ``data``: the data set;
    ``issued``: the date; ``caveats``: those of the whole certificate.
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
    data: str = ""
    issued: str = ""
    caveats: tuple[str, ...] = ()
    likely: str = ""


@dataclass(frozen=True)
class Link:
    """The cells of one index row and the relative address of the page it links to.

    ``caveats``: the certificate's caveats, given only with the row of its last claim.
    """

    address: str
    text: str
    note: str
    cells: tuple[tuple[str, Cell], ...]
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """The index rows of one data set, by date."""

    title: str
    links: tuple[Link, ...]


@dataclass(frozen=True)
class Index:
    """The index page: counts, one row for each claim, and the mechanisms without a certificate."""

    count: str
    verdicts: str
    groups: tuple[Group, ...]
    failed: tuple[str, ...]


def summary_rows(certificates: Iterable[Mapping[str, Any]]) -> list[SummaryRow]:
    """One row for each claim, in the order given; a certificate without claims gives one row.

    Errors: CertificateRejected if a certificate lacks a field that the table shows.
    """
    return [row for certificate in certificates for row in _rows(certificate)]


def index(
    certificates: Mapping[str, Mapping[str, Any]],
    failed: Mapping[str, str] | None = None,
    *,
    on_page: frozenset[str] = frozenset(),
) -> Index:
    """The index of pages by file name; file names are quoted and stay in the same folder.

    ``failed``: for each mechanism without a certificate, the reason.  ``on_page``: the certificates
    that are sections of this page; their links are anchors.
    """
    links_by_data: dict[str, list[tuple[str, Link]]] = {}
    verdict_counts: Counter[str] = Counter()
    for name, certificate in certificates.items():
        rows = _rows(certificate)
        for number, row in enumerate(rows, start=1):
            verdict_counts[row.verdict] += 1
            address = (
                f"#{section_of(name)}"
                if name in on_page
                else f"./{quote(name, safe='', errors='replace')}"
            )
            links_by_data.setdefault(row.data, []).append(
                (row.issued, _link(address, row, row.caveats if number == len(rows) else ()))
            )
    groups = tuple(
        Group(
            title, tuple(link for _, link in sorted(links_by_data[title], key=lambda pair: pair[0]))
        )
        for title in sorted(links_by_data)
    )
    missing = tuple(f"{name}: {reason}" for name, reason in words.tidy(failed or {}).items())
    total = sum(verdict_counts.values())
    count = say("{reports} reports, {claims} claims", reports=len(certificates), claims=total)
    if missing:
        count = say("{count}, {missing} not certified", count=count, missing=len(missing))
    verdicts = ", ".join(f"{word}: {times}" for word, times in sorted(verdict_counts.items()))
    return Index(count, verdicts, groups, missing)


def _rows(certificate: Mapping[str, Any]) -> list[SummaryRow]:
    try:
        predicate = words.tidy(certificate)["predicate"]
        if empirical.is_empirical(predicate):
            return [_empirical(predicate)]
        return [_row(predicate, claim) for claim in predicate["claims"]] or [_unclaimed(predicate)]
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise CertificateRejected(
            f"certificate: cannot be listed, {type(error).__name__} at {str(error)[:80]!r}; "
            "check the file with 'dpaudit verify'"
        ) from error


def _row(predicate: Json, claim: Json) -> SummaryRow:
    mechanism = predicate["mechanism"]
    word, tone = words.tone(words.VERDICTS, claim["verdict"])
    return SummaryRow(
        name=mechanism["name"],
        title=mechanism["title"],
        source=mechanism["source"],
        by=words.fixed(claim["by"]),
        claim=words.stated(claim),
        reading=claim["reading"],
        accounted=words.accounted(claim),
        attacked=words.attacked(claim),
        verdict=word,
        reason=claim["reason"],
        tone=tone,
        data=data_of(predicate),
        issued=predicate["issued"][:10],
        caveats=tuple(predicate["caveats"]),
        likely=words.likely(predicate, claim),
    )


def _unclaimed(predicate: Json) -> SummaryRow:
    mechanism, bounds = predicate["mechanism"], predicate["derivation"]["upper_bounds"]
    word, tone = words.tone(words.VERDICTS, predicate["verdict"]["status"])
    return SummaryRow(
        name=mechanism["name"],
        title=mechanism["title"],
        source=mechanism["source"],
        by="",
        claim=say("none stated"),
        reading="",
        accounted=words.guarantee(bounds[0], "upper") if bounds else say("none"),
        attacked=say("none"),
        verdict=word,
        reason="",
        tone=tone,
        data=data_of(predicate),
        issued=predicate["issued"][:10],
        caveats=tuple(predicate["caveats"]),
    )


def _empirical(predicate: Json) -> SummaryRow:
    """The row of a membership audit, which has a lower bound and no upper one."""
    verdict, claim = predicate["verdict"], predicate["claim"]
    word, tone = empirical.verdict(predicate)
    best = empirical.best(predicate)
    return SummaryRow(
        name=predicate["kind"],
        title=predicate["target"]["training"],
        source="",
        by="",
        claim=claim["words"] if claim else say("none stated"),
        reading=predicate["target"]["threat_model"],
        accounted=say("none: it measures only"),
        attacked=empirical.measured(best) if best else say("none"),
        verdict=word,
        reason=verdict["reason"],
        tone=tone,
        data=say("Data with digest {digest}", digest=predicate["data"]["sha256"][:12]),
        issued=predicate["issued"][:10],
        caveats=tuple(row["words"] for row in predicate["findings"]),
    )


def data_of(predicate: Json) -> str:
    """The data sets in words."""
    return ", ".join(data_sets_of(predicate)) or say("Data not stated")


def data_sets_of(predicate: Json) -> tuple[str, ...]:
    """The data sets as stated, else the part of the title after the algorithm's name."""
    stated = tuple(predicate.get("fields", {}).get("data_source", ()))
    title, algorithm = predicate["scope"]["title"], predicate["mechanism"]["title"]
    tail = title.removeprefix(algorithm).removeprefix(": ") if title.startswith(algorithm) else ""
    return stated or ((tail,) if tail else ())


def section_of(name: str) -> str:
    """The anchor of a certificate's section on a project's page."""
    return "report-" + re.sub(r"[^A-Za-z0-9-]", lambda found: f"_{ord(found[0]):x}", name)


def _link(address: str, row: SummaryRow, caveats: tuple[str, ...]) -> Link:
    stated = row.by or row.source or "—"
    sources = (row.source,) if row.source not in ("", stated) else ()
    # The reason is shown for verdicts other than certified; the certificate's page has all.
    why = () if row.tone in ("good", "qualified") or not row.reason else (row.reason,)
    cells = (
        (say("Issued"), Cell(day(row.issued), (), "date")),
        (say("Claim"), formula(row.claim, (row.reading,) if row.reading else ())),
        (say("Accounted (at most)"), formula(row.accounted)),
        (say("Attacked (at least)"), formula(row.attacked, (row.likely,) if row.likely else ())),
        (say("Verdict"), Cell(row.verdict, why, row.tone)),
        (say("Stated by"), Cell(stated, sources)),
    )
    return Link(address, row.title, row.name, cells, caveats)
