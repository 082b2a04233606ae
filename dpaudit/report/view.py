"""From a certificate to a page: the order of the sections, the verdict and the front matter."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from dpaudit.errors import CertificateRejected
from dpaudit.report import coverage, evidence, guarantee, words
from dpaudit.report.model import (
    Banner,
    Bullets,
    Cell,
    Fact,
    Facts,
    Heading,
    Page,
    Section,
    Table,
    formula,
)
from dpaudit.report.words import Json

_TITLE_LENGTH = 160
_MALFORMED = (KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError)
_MEANING = {
    "certified": "{claims} proved for the declared algorithm; every assumption this rests on is "
    "enforced by the software or was tested.",
    "certified_under_assumptions": "{claims} proved for the declared algorithm, provided that "
    "{provided}; nothing here verifies {them}.",
    "refuted": "{claims} refuted{scope}; the reasons are below.",
    "inconclusive": "{claims} neither proved nor refuted. This is not a pass.",
    "unsupported": "{claims} not judged: no rule covers a part of the declared algorithm.",
    "alarm": "The evidence contradicts itself: the attack showed more leakage than the accounting "
    "allows. The program or the accounting is wrong; rely on neither.",
}
_LIMITS = (
    "An audit that finds nothing proves nothing; only the derivation proves, and only about the "
    "declared algorithm under its assumptions.",
    "A lower bound can be wrong by bad luck; its confidence level says how rarely.",
    "That the program follows its declaration is checked, not proved; the conformance checks say "
    "how finely.",
    "This page is a view of the certificate with rounded numbers. The certificate file is "
    "decisive; check it with ‘dpaudit verify’.",
)


def build(certificate: Mapping[str, Any]) -> Page:
    """The page of one certificate; refuses one that lacks what the page has to say."""
    try:
        return _page(certificate)
    except _MALFORMED as error:
        raise CertificateRejected(
            f"certificate: cannot be shown, {type(error).__name__} at {str(error)[:80]!r}; "
            "check the file with 'dpaudit verify'"
        ) from error


def _page(certificate: Mapping[str, Any]) -> Page:
    mismatch = _digest_mismatch(certificate)
    statement: Json = words.tidy(certificate)
    predicate = statement["predicate"]
    digest = statement["subject"][0]["digest"]["sha256"]
    return Page(
        title=_cut(predicate["scope"]["title"]),
        subtitle=_cut(predicate["mechanism"]["title"]),
        banner=_banner(predicate, mismatch),
        front=_front(predicate, digest, mismatch),
        claims=_claims(predicate),
        sections=_sections(predicate, statement),
        print_mark=digest[:16] if re.fullmatch("[0-9a-f]{64}", digest) else "",
    )


def _sections(predicate: Json, statement: Json) -> tuple[Section, ...]:
    return (
        coverage.protected(predicate),
        guarantee.section(predicate),
        coverage.plain_words(predicate),
        evidence.derivation(predicate),
        evidence.assumptions(predicate),
        evidence.audits(predicate),
        evidence.conformance(predicate),
        coverage.run(predicate),
        coverage.not_covered(predicate),
        _reproduce(predicate, statement["subject"]),
    )


def _banner(predicate: Json, mismatch: str) -> Banner:
    verdict = predicate["verdict"]
    word, tone = words.VERDICTS[verdict["status"]]
    return Banner(
        word=word,
        tone=tone,
        sentence=_sentence(predicate),
        reasons=tuple(verdict["reasons"]),
        conditions=_conditions(predicate),
        caveats=tuple(predicate["caveats"]),
        margin=verdict["margin"],
        warnings=_warnings(predicate, mismatch),
    )


def _sentence(predicate: Json) -> str:
    claims = predicate["claims"]
    count = len(_unverified(predicate))
    provided = {0: "the assumptions below hold", 1: "1 declared assumption holds"}
    subject = (
        f"The claim {words.quoted(words.stated(claims[0]))} is"
        if len(claims) == 1
        else f"The {len(claims)} claims, taken together, are"
        if claims
        else "No claim was stated; the derived bounds are"
    )
    return _MEANING[predicate["verdict"]["status"]].format(
        claims=subject,
        provided=provided.get(count, f"{count} declared assumptions hold"),
        them="it" if count == 1 else "them",
        scope=": at least one does not hold" if len(claims) > 1 else "",
    )


def _unverified(predicate: Json) -> list[Json]:
    return [item for item in predicate["assumptions"] if item["status"] == "declared"]


def _conditions(predicate: Json) -> tuple[str, ...]:
    if predicate["verdict"]["status"] != "certified_under_assumptions":
        return ()
    return tuple(item["statement"] for item in _unverified(predicate))


def _warnings(predicate: Json, mismatch: str) -> tuple[str, ...]:
    """Where the certificate says two things at once; the page must not choose the better one."""
    found = [mismatch] if mismatch else []
    if predicate["verdict"]["status"].startswith("certified"):
        found += [
            f"Claim {words.quoted(claim['id'])} is not proved, yet the verdict is certified."
            for claim in predicate["claims"]
            if claim["check"] != "proved"
        ]
        found += [
            f"Assumption {words.quoted(item['id'])} is violated, yet the verdict is certified."
            for item in predicate["assumptions"]
            if item["status"] == "violated"
        ]
    return tuple(found)


def _front(predicate: Json, digest: str, mismatch: str) -> Facts:
    mechanism = predicate["mechanism"]
    state = mismatch or "SHA-256 of the content; it matches"
    return Facts(
        (
            Fact("Controller", (predicate["scope"]["controller"] or "not stated",)),
            Fact("Algorithm", (mechanism["name"], *filter(None, (mechanism["source"],)))),
            Fact("Certificate digest", (digest, state), "code"),
            Fact("Issued", (predicate["issued"],)),
            Fact("Signature", ("unsigned",)),
        )
    )


def _claims(predicate: Json) -> Table | None:
    rows = tuple(map(_claim, predicate["claims"]))
    columns = ("Claim", "Accounted (at most)", "Attacked (at least)", "Verdict")
    return Table("Claims", columns, rows) if rows else None


def _claim(claim: Json) -> tuple[Cell, ...]:
    word, tone = words.VERDICTS[claim["verdict"]]
    notes = tuple(filter(None, (claim["by"], claim["reading"])))
    note = words.attacked_conditionally(claim)
    return (
        formula(words.stated(claim), notes),
        formula(words.accounted(claim)),
        formula(words.attacked(claim), [note] if note else []),
        Cell(word, (), tone),
    )


def _reproduce(predicate: Json, subject: list[Json]) -> Section:
    environment, mechanism = predicate["environment"], predicate["mechanism"]
    packages = (f"{name} {version}" for name, version in environment["packages"].items())
    versions = (f"dpaudit {environment['dpaudit']}", f"Python {environment['python']}")
    facts = Facts(
        (
            Fact("Command", (predicate["reproduce"]["command"],), "code"),
            Fact("Root seed", (predicate["reproduce"]["root_seed"],), "code"),
            Fact("Program", (mechanism["program"], f"from the {mechanism['root']}"), "code"),
            Fact("Versions", versions, "list"),
            Fact("Packages", (", ".join(packages) or "none listed",)),
            Fact("Platform", (environment["platform"],)),
            Fact("Source revision", _git(environment["git"]), "code"),
            Fact("Declaration digest", (mechanism["digest"],), "code"),
            *_digests(subject),
        )
    )
    blocks = (facts, Heading("Limits"), Bullets(_LIMITS))
    return Section("reproduce", "Reproduce, and limits", blocks)


def _git(git: Json | None) -> tuple[str, ...]:
    if git is None:
        return ("none was found",)
    return (
        git["commit"],
        "the files below were changed since"
        if git["dirty"]
        else "the files below are as committed",
    )


def _digests(subject: list[Json]) -> tuple[Fact, ...]:
    """The source files' digests; the first subject is the certificate itself, shown in front."""
    return tuple(
        Fact(f"SHA-256 of {item['name']}", (item["digest"]["sha256"],), "code")
        for item in subject[1:]
    )


def _digest_mismatch(certificate: Mapping[str, Any]) -> str:
    """Empty if the stated digest is that of the content, otherwise a sentence that says so."""
    import rfc8785

    stated = certificate["subject"][0]["digest"]["sha256"]
    try:
        content = rfc8785.dumps(certificate["predicate"])
    except rfc8785.CanonicalizationError:
        return "The content has no canonical form, so that no digest is its own."
    if hashlib.sha256(content).hexdigest() == stated:
        return ""
    return "The digest in the certificate is not that of its content."


def _cut(text: str) -> str:
    return text if len(text) <= _TITLE_LENGTH else text[: _TITLE_LENGTH - 1] + "…"
