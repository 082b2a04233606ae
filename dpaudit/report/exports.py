"""Certificates for other programs: CSV, JUnit XML, SARIF 2.1.0 and a badge."""

from __future__ import annotations

import html
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from dpaudit.errors import CertificateRejected
from dpaudit.report import assurance, empirical, front, words
from dpaudit.report.say import message, say
from dpaudit.report.view import MALFORMED
from dpaudit.report.words import Json
from dpaudit.storage.csv_text import csv_text
from dpaudit.storage.files import MADE

Certificates = Mapping[str, Mapping[str, Any]]

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_INFORMATION = "https://pypi.org/project/dpaudit/"
_COLOURS = {
    "good": "#116329",
    "qualified": "#0b4f9e",
    "caution": "#7d4e00",
    "bad": "#a40e26",
    "neutral": "#4b535d",
}
# The rules of findings: the level in SARIF, and the meaning.
RULES = {
    "alarm": ("error", message("The program or its accounting is contradicted by evidence")),
    "refuted-claim": ("error", message("A claim does not hold")),
    "broken-check": ("error", message("The program differs from its declaration")),
    "violated-assumption": ("error", message("An assumption is known not to hold")),
    "inconclusive-claim": ("warning", message("A claim is neither proved nor refuted")),
    "unconfirmed-claim": ("warning", message("A claim was not confirmed")),
    "unsupported-claim": ("warning", message("No rule covers a part of the declared algorithm")),
    "no-attack": ("warning", message("Nobody attacked the program")),
    "powerless-attack": ("warning", message("No result of the attack could have refuted a claim")),
    "void-audit": ("warning", message("A membership audit gave no bound")),
    "measured-only": ("note", message("A membership audit refuted no claim")),
    "broken": ("error", message("A certificate does not verify")),
    "expired": ("error", message("A certificate has expired")),
    "stale": ("error", message("The project has changed since it was certified")),
    "not_loaded": ("error", message("A file or a suite of the project was not loaded")),
    "weaker": ("error", message("A claim is weaker than the certified one")),
    "missing": ("warning", message("A mechanism has no certificate")),
    "over_budget": ("error", message("The releases from a data set exceed its budget")),
    "declared-assumption": ("note", message("An assumption that nothing verifies")),
}
# Verdicts that neither certify nor refute.
_UNDECIDED = ("inconclusive", "unconfirmed", "unsupported")
_OF_VERDICT = {
    "alarm": "alarm",
    "refuted": "refuted-claim",
    "inconclusive": "inconclusive-claim",
    "unconfirmed": "unconfirmed-claim",
    "unsupported": "unsupported-claim",
}


@dataclass(frozen=True)
class Finding:
    """A fact that a reviewer of a certificate has to know; ``rule`` is a key of RULES."""

    rule: str
    text: str


def findings(certificate: Mapping[str, Any]) -> list[Finding]:
    """The findings: claims that are not certified, broken checks, open assumptions.

    Errors: CertificateRejected if the certificate lacks a field that this reads.
    """
    try:
        return list(_findings(words.tidy(certificate)["predicate"]))
    except MALFORMED as error:
        raise _refused(error) from error


def _findings(predicate: Json) -> Iterator[Finding]:
    if empirical.is_empirical(predicate):
        yield from (Finding(rule, text) for rule, text in empirical.findings(predicate))
        return
    for claim in predicate["claims"]:
        rule = _OF_VERDICT.get(claim["verdict"])
        if rule:
            reading = f" ({claim['reading']})" if claim["reading"] else ""
            yield Finding(rule, f"{words.stated(claim)}{reading}: {claim['reason']}")
    for check in predicate["conformance"]:
        if check["status"] == "broken":
            yield Finding("broken-check", f"{check['check']}: {check['detail']}")
    for item in predicate["assumptions"]:
        rule = {"violated": "violated-assumption", "declared": "declared-assumption"}.get(
            item["status"]
        )
        if rule:
            yield Finding(rule, words.fixed(item["statement"]))
    if not predicate["audits"]:
        yield Finding("no-attack", front.attacked(predicate)[0])
    elif not front.could_refute(predicate) and not any(
        audit["verdict"] == "refuted" for audit in predicate["audits"]
    ):
        yield Finding("powerless-attack", front.attacked(predicate)[0])


def render_csv(certificates: Certificates) -> str:
    """One row for each block of NIST SP 800-226 and each hazard, for every certificate.

    Cells that a spreadsheet would compute as formulas are written as text.
    """
    table: list[list[str]] = []
    for name, certificate in certificates.items():
        try:
            predicate = words.tidy(certificate)["predicate"]
            rows = (
                empirical.rows(predicate)
                if empirical.is_empirical(predicate)
                else [*assurance.rows(predicate), *assurance.hazards(predicate)]
            )
        except MALFORMED as error:
            raise _refused(error) from error
        for row in rows:
            layer = row.layer or say("Hazard")
            cells = (name, layer, row.statement, row.status, row.evidence)
            table.append([" ".join(cell.split()) for cell in cells])
    return csv_text(("certificate", "layer", "statement", "status", "evidence"), table)


def render_junit(certificates: Certificates) -> str:
    """JUnit XML: one suite for each certificate, one case for each claim.

    A refuted claim is a failure, and an undecided one an error.  Bounds are properties such as
    ``dp_epsilon_upper`` and ``dp_epsilon_lower``.
    """
    root = ElementTree.Element("testsuites", name="dpaudit")
    for name, certificate in certificates.items():
        try:
            predicate = words.tidy(certificate)["predicate"]
            suite = _measured if empirical.is_empirical(predicate) else _suite
            suite(root, name, predicate)
        except MALFORMED as error:
            raise _refused(error) from error
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(root: ElementTree.Element, name: str, predicate: Json) -> None:
    claims = predicate["claims"]
    verdicts = [claim["verdict"] for claim in claims]
    failed = sum(verdict in ("refuted", "alarm") for verdict in verdicts)
    undecided = sum(verdict in _UNDECIDED for verdict in verdicts)
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=name,
        tests=str(len(claims)),
        failures=str(failed),
        errors=str(undecided),
        timestamp=predicate["issued"].rstrip("Z"),
    )
    for claim in claims:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=predicate["mechanism"]["name"],
            name=words.stated(claim).replace("\u00a0", " "),
        )
        properties = ElementTree.SubElement(case, "properties")
        for key, value in _bounds(claim):
            ElementTree.SubElement(properties, "property", name=key, value=value)
        if claim["verdict"] in ("refuted", "alarm"):
            ElementTree.SubElement(case, "failure", type=claim["verdict"], message=claim["reason"])
        elif claim["verdict"] in _UNDECIDED:
            ElementTree.SubElement(case, "error", type=claim["verdict"], message=claim["reason"])


def _measured(root: ElementTree.Element, name: str, predicate: Json) -> None:
    """A membership audit as one case: refuted is a failure, anything else is skipped.

    It is never a pass, because an attack cannot prove a claim.
    """
    verdict, bound = predicate["verdict"], empirical.best(predicate)
    refuted = verdict["status"] == "refuted"
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=name,
        tests="1",
        failures=str(int(refuted)),
        skipped=str(int(not refuted)),
        timestamp=predicate["issued"].rstrip("Z"),
    )
    claim = predicate["claim"]["words"] if predicate["claim"] else say("none stated")
    title = predicate["target"]["training"]
    case = ElementTree.SubElement(suite, "testcase", classname=title, name=claim)
    properties = ElementTree.SubElement(case, "properties")
    rows = {"dp_verdict": verdict["status"], "dp_models": str(predicate["study"]["models"])}
    if bound is not None:
        rows |= {f"dp_{bound['measure']}_lower": bound["value"], "dp_delta_lower": bound["delta"]}
    for key, value in rows.items():
        ElementTree.SubElement(properties, "property", name=key, value=value)
    if refuted:
        ElementTree.SubElement(case, "failure", type="refuted", message=verdict["reason"])
    else:
        ElementTree.SubElement(case, "skipped", message=verdict["reason"])


def _bounds(claim: Json) -> Iterator[tuple[str, str]]:
    yield "dp_verdict", claim["verdict"]
    for side in ("stated", "upper", "lower"):
        for key, value in (claim[side] or {}).items():
            if key in ("epsilon", "delta", "rho", "mu"):
                yield f"dp_{key}_{side}", value


def render_sarif(certificates: Certificates, extra: Iterable[tuple[str, Finding]] = ()) -> str:
    """All findings as SARIF 2.1.0, each at the mechanism's file and line if these are known.

    ``extra``: further findings, each with the name of its certificate, mechanism or file.
    """
    ids = list(RULES)
    rules = [
        {
            "id": rule,
            "shortDescription": {"text": say(text)},
            "defaultConfiguration": {"level": level},
        }
        for rule, (level, text) in RULES.items()
    ]
    placed_findings = [
        (name, _place(certificates, name), finding)
        for name, certificate in certificates.items()
        for finding in findings(certificate)
    ]
    placed_findings += [(name, _place(certificates, name), finding) for name, finding in extra]
    results = [
        {
            "ruleId": finding.rule,
            "ruleIndex": ids.index(finding.rule),
            "level": RULES[finding.rule][0],
            "message": {"text": finding.text or say(RULES[finding.rule][1])},
            "locations": [{"physicalLocation": place}],
            "partialFingerprints": {"dpaudit/v1": f"{name}:{finding.rule}:{finding.text}"[:200]},
        }
        for name, place, finding in placed_findings
    ]
    driver = {"name": "dpaudit", "informationUri": _INFORMATION, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def render_sbom(certificate: Mapping[str, Any]) -> str:
    """The software that a certificate names, as CycloneDX 1.5, with the digests of its files.

    A certificate names only the libraries that decide its numbers, so the list is marked as
    incomplete.
    """
    try:
        statement = words.tidy(certificate)
        predicate = statement["predicate"]
        measured = empirical.is_empirical(predicate)
        environment, mechanism = (
            _made_with(predicate)
            if measured
            else (predicate["environment"], predicate["mechanism"])
        )
        versions = {"dpaudit": environment["dpaudit"], **environment["packages"]}
        libraries = [
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name}@{version}",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
            }
            for name, version in sorted(versions.items())
        ]
        files = [
            {
                "type": "file",
                "bom-ref": f"file:{item['name']}",
                "name": item["name"],
                "hashes": [{"alg": "SHA-256", "content": item["digest"]["sha256"]}],
            }
            for item in mechanism["implementation"]
        ]
        language = {"type": "platform", "bom-ref": "python", "name": "Python"}
        if environment["python"]:
            language["version"] = environment["python"]
        digest = statement["subject"][0]["digest"]["sha256"]
        bom = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32])}",
            "version": 1,
            "metadata": {
                "timestamp": predicate["issued"],
                "component": {
                    "type": "application",
                    "bom-ref": "mechanism",
                    "name": mechanism["name"],
                    "description": mechanism["title"],
                },
            },
            "components": [language, *libraries, *files],
            "compositions": [{"aggregate": "incomplete", "assemblies": ["mechanism"]}],
        }
    except MALFORMED as error:
        raise _refused(error) from error
    return json.dumps(bom, indent=2, ensure_ascii=False) + "\n"


def _made_with(predicate: Json) -> tuple[Json, Json]:
    """The environment and mechanism of a membership audit, whose certificate names only dpaudit."""
    training = {"name": predicate["target"]["training"], "title": predicate["target"]["training"]}
    environment = {"dpaudit": predicate["tool"]["version"], "packages": {}, "python": ""}
    return environment, training | {"implementation": []}


def _place(certificates: Certificates, name: str) -> Json:
    """The place that defines a certificate's mechanism; the certificate's own file if unknown."""
    predicate = certificates[name]["predicate"] if name in certificates else {}
    mechanism = predicate.get("mechanism", {})
    place = words.tidy(mechanism.get("place"))
    file, line = (place["file"], place["line"]) if place else (name, 1)
    return {
        "artifactLocation": {"uri": quote(file), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": line},
    }


def render_badge(certificate: Mapping[str, Any]) -> str:
    """The verdict as an SVG badge: colour and word, for readers who do not see colours."""
    try:
        predicate = words.tidy(certificate)["predicate"]
        measured = empirical.is_empirical(predicate)
        word, tone = (
            empirical.verdict(predicate)
            if measured
            else words.tone(words.VERDICTS, predicate["verdict"]["status"])
        )
        claims = [] if measured else predicate["claims"]
        accounted = [words.accounted(claim) for claim in claims if claim["upper"]]
        bound = empirical.best(predicate) if measured else None
    except MALFORMED as error:
        raise _refused(error) from error
    label = say("privacy")
    shown = f"{word}: {accounted[0]}" if accounted and tone in ("good", "qualified") else word
    if bound is not None:
        shown = f"{word}: {empirical.measured(bound)}"
    left, right = 9 + 6.6 * len(label), 11 + 6.6 * len(shown)
    total_width, text = f"{left + right:.0f}", html.escape(f"{label}: {shown}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width}" height="20" role="img" '
        f'aria-label="{text}"><title>{text}</title>'
        f'<rect width="{total_width}" height="20" rx="3" fill="#3b434c"/>'
        f'<path d="M{left:.0f} 0h{right - 3:.0f}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right - 3:.0f}z" '
        f'fill="{_COLOURS[tone]}"/><g fill="#ffffff" font-family="Verdana,DejaVu Sans,sans-serif" '
        f'font-size="11"><text x="5" y="14">{html.escape(label)}</text>'
        f'<text x="{left + 5:.0f}" y="14">{html.escape(shown)}</text></g></svg>\n{MADE}\n'
    )


def _refused(error: Exception) -> CertificateRejected:
    return CertificateRejected(
        f"certificate: cannot be exported, {type(error).__name__} at {str(error)[:80]!r}; "
        "check the file with 'dpaudit verify'"
    )
