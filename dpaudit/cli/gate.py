"""`dpaudit check`: compare a project with its committed certificates, for use in a pipeline.

Declarations, claims, files and budgets are compared.  Nothing is run and no data is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit.certificate.budget import entry_of, totals
from dpaudit.certificate.certificate import PREDICATE, stated
from dpaudit.certificate.rendering import expired
from dpaudit.check import SECONDS
from dpaudit.check.file import parsed, read
from dpaudit.check.process import verify_files
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import CertificateRejected, DpauditError
from dpaudit.project.project import Project, implementation
from dpaudit.report.exports import RULES, findings
from dpaudit.scope import name_key
from dpaudit.storage.evidence import Evidence
from dpaudit.storage.fields import ProjectFields, stated_in

Json = Mapping[str, Any]

_NAMED_FILES = 3  # Changed files that a message names.
# Problems for which `check` fails.
_KINDS = ("broken", "expired", "stale", "not_loaded", "weaker", "missing", "over_budget")


@dataclass(frozen=True)
class Problem:
    """A problem that stops a pipeline: its place, its kind, and a line of text.

    ``place``: a file or the name of a mechanism.  ``kind``: a key of exports.RULES.
    """

    place: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.kind.replace('_', ' ')}: {self.text}"


@dataclass(frozen=True)
class Checked:
    """The certificates of a folder by file, and all problems found."""

    certificates: Mapping[str, Json]
    problems: tuple[Problem, ...]

    @property
    def of_the_gate(self) -> list[Problem]:
        """The problems that come from the comparison, not from a certificate's own findings."""
        return [problem for problem in self.problems if problem.kind in _KINDS]


def check_project(project: Project, folder: Path, seconds: float = SECONDS) -> Checked:
    """Compare a project with the certificates of a folder.

    Other JSON files are ignored; a broken certificate is a problem, as is one that is not verified
    within ``seconds``.
    """
    fields = stated_in(project.root, project.mechanisms, Path.cwd())
    problems: list[Problem] = []
    shown: dict[str, Json] = {}
    files = filter(_is_certificate, map(read, sorted(folder.glob("*.json"))))
    for verified in verify_files(list(files), seconds):
        path = verified.file.path
        try:
            shown[str(path)] = verified.certificate
        except CertificateRejected as error:
            problems.append(Problem(str(path), "broken", str(error)))
            continue
        problems += _problems(project, fields, path, shown[str(path)])
    problems += [Problem(place, "not_loaded", why) for place, why in project.refused.items()]
    problems += _missing(project, shown)
    problems += _over_budget(shown, fields)
    return Checked(shown, tuple(problems))


def _is_certificate(file: Evidence) -> bool:
    """Whether a file claims to be a dpaudit certificate; an unreadable file counts as one."""
    try:
        return bool(parsed(file).get("predicateType") == PREDICATE)
    except CertificateRejected:
        return True


def _problems(
    project: Project, fields: ProjectFields, path: Path, certificate: Json
) -> Iterator[Problem]:
    """Problems of a committed certificate: expired, failing, stale or weaker."""
    predicate, place = certificate["predicate"], str(path)
    name = predicate["mechanism"]["name"]
    if date := expired(certificate):
        yield Problem(place, "expired", f"on {date}; certify again")
    for finding in [
        finding for finding in findings(certificate) if RULES[finding.rule][0] == "error"
    ]:
        yield Problem(place, finding.rule, finding.text)
    if "plan" in {item["name"] for item in predicate["mechanism"]["implementation"]}:
        return  # A release was drawn once; a plan that changes later makes another release.
    mechanism = project.mechanisms.get(name)
    if mechanism is None:
        text = f"no mechanism is called {name!r} any more; remove it, or certify again"
        yield Problem(place, "stale", text)
        return
    for text in changes(project, mechanism, predicate, fields):
        yield Problem(place, "stale", f"{text}; certify again")
    for text in _weaker(mechanism, predicate):
        yield Problem(place, "weaker", text)


def changes(
    project: Project, mechanism: Mechanism, predicate: Json, fields: ProjectFields
) -> Iterator[str]:
    """The differences between a mechanism and its certificate, one line for each kind.

    The certificate is not verified here.
    """
    certified = predicate["mechanism"]
    if mechanism.declaration.digest != certified["declaration"]["root"]:
        yield "the declaration changed"
    current = implementation(project, mechanism, project.suites.get(mechanism.name))
    committed = {item["name"]: item["digest"]["sha256"] for item in certified["implementation"]}
    differ = sorted(
        name for name in {*current, *committed} if current.get(name) != committed.get(name)
    )
    if differ:
        more = f" and {len(differ) - _NAMED_FILES} more" if len(differ) > _NAMED_FILES else ""
        yield f"files changed: {', '.join(differ[:_NAMED_FILES])}{more}"
    if fields.of(mechanism.name) != predicate.get("fields", {}):
        yield "dpaudit.toml states other fields"
    if str(mechanism.scope.adjacency) != predicate["scope"]["adjacency"]:
        yield "the adjacency changed"
    claims = [(claim.text, claim.reading, claim.by) for claim in mechanism.claims]
    if claims != [(row["stated_text"], row["reading"], row["by"]) for row in predicate["claims"]]:
        yield "the claims changed"


def _weaker(mechanism: Mechanism, predicate: Json) -> Iterator[str]:
    """The certified claims that no current claim implies, because it is weaker or was removed."""
    current = [stated(claim) for claim in mechanism.claims]
    for row in predicate["claims"]:
        committed = row["stated"]
        if committed is None:
            continue
        same_measure = [
            claim_now
            for claim_now in current
            if claim_now and claim_now["measure"] == committed["measure"]
        ]
        if not same_measure:
            yield f"{row['stated_text']} is claimed no more"
        elif not any(_at_most(claim_now, committed) for claim_now in same_measure):
            yield f"{row['stated_text']} was certified, and less is claimed now"


def _at_most(guarantee: Json, other: Json) -> bool:
    """Whether a guarantee implies another of the same measure: no parameter is larger."""
    from dpaudit.report.numbers import parse

    return all(parse(guarantee[key]) <= parse(other[key]) for key in other if key != "measure")


def _missing(project: Project, shown: Mapping[str, Json]) -> Iterator[Problem]:
    """The mechanisms without a certificate."""
    certified = {c["predicate"]["mechanism"]["name"] for c in shown.values()}
    for name in sorted(set(project.mechanisms) - certified):
        yield Problem(name, "missing", f"no certificate; `dpaudit certify {name}` makes one")


def _over_budget(shown: Mapping[str, Json], fields: ProjectFields) -> Iterator[Problem]:
    if not fields.budgets:
        return
    entries = []
    for path, certificate in shown.items():
        try:
            entries.append(entry_of(certificate, Path(path)))
        except DpauditError as error:
            yield Problem(path, "over_budget", str(error))
    keys = {name_key(name) for name in fields.budgets}
    entries_of_data = [entry for entry in entries if entry.protects.data_keys & keys]
    for total in totals(entries_of_data, fields.budgets):
        if total.of_all or name_key(total.data) not in keys:
            continue
        if total.refused:
            yield Problem(total.data, "over_budget", f"not added: {total.refused}")
        elif total.over:
            text = f"epsilon <= {total.epsilon_upper} at delta = {total.delta}, {total.left} left"
            yield Problem(total.data, "over_budget", text)
