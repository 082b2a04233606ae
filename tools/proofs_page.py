"""The page docs/proofs.md: theorems with their proofs, and claims that a proof kernel accepts."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Checked, Claim
from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import DpauditError, Unsupported
from dpaudit.exact.wire import encode_number
from dpaudit.families.opaque.node import ApproxDP
from dpaudit.nodes import Node
from dpaudit.nodes.tables import to_table
from dpaudit.project.project import load
from dpaudit.proofs import Exported, accepted, cited, library, written
from dpaudit.proofs.kernel import EXAMPLES, FILES
from dpaudit.scope import Scope

RESULTS = Path("docs/proofs.json")
UNREAD = "not read by the kernel yet"
INTRODUCTION = """\
# Theorems: proved here, or cited

Made by `python -m tools proofs`.  [How to export a certificate](how-to/proofs.md) says how to let
Coq read one.  A *hypothesis* is a theorem of the literature that the proofs take as given, under
its own name; everything else ends in `Qed`.
"""
Row = dict[str, Any]
_IMPORT = re.compile(r"^From DPAudit Require Import ([^.]*)\.", re.MULTILINE)
_ASKED = re.compile(r"^Print Assumptions .*$", re.MULTILINE)
_NUMBER = re.compile(r"^Theorem (number_\w+)( : .*?)\nProof\..*?^Qed\.$", re.MULTILINE | re.DOTALL)
# An axiom of everything, for a second reading alone: the first has proved the whole file without.
# The second shows which theorems a claim rests on, and would take minutes over the inequalities.
ASSUMING = """\
Axiom computed_before : forall statement : Prop, statement.
Ltac number ::= exact (computed_before _).
"""
_ROUTE = re.compile(r"(?:^|: )([^:;]+): no Coq export yet; it needs ([^;]+)")
_CITED = re.compile(
    r"\(\*(?P<text>[^*]*?\b(?:19|20)\d\d\b[^*]*?)\*\)\s+"
    r"(?P<kind>Axiom|Theorem|Lemma|Definition) (?P<name>\w+)"
)


def measured(
    root: Path, results: Path = RESULTS, told: Callable[[str], None] = lambda text: None
) -> list[Row]:
    """Let the kernel read every entry of the catalogue; entries whose file is the same are kept.

    ``told``: called with a line after each entry.
    """
    rows = {row["name"]: row for row in read(results)} if results.exists() else {}
    mechanisms = load(root).mechanisms
    for name, mechanism in mechanisms.items():
        if mechanism.claims and name not in rows:
            rows[name] = _unread(name, mechanism)
    # Entries without a conversion take seconds: they come first.
    order = sorted(mechanisms, key=lambda name: (_conversions(mechanisms[name]), name))
    for place, name in enumerate(order, 1):
        known = rows.pop(name, {})
        row = _measured(name, mechanisms[name], known)
        said = "kept" if row is known else f"{row['seconds']:g} s"
        told(f"{place} of {len(order)}: {name}: {len(row['proved'])} accepted, {said}")
        if row["proved"] or row["left_out"]:
            rows[name] = row
        # Results are kept after each entry: all of them take half an hour.
        kept = [rows[name] for name in sorted(rows)]
        results.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
    return [rows[name] for name in sorted(set(rows) & set(mechanisms))]


def _unread(name: str, mechanism: Mechanism) -> Row:
    left_out = {claim.text: UNREAD for claim in mechanism.claims}
    return {"name": name, "proved": {}, "left_out": left_out, "seconds": 0}


def _conversions(mechanism: Mechanism) -> int:
    return sum(isinstance(claim.guarantee, ApproxDP) for claim in mechanism.claims)


def read(results: Path = RESULTS) -> list[Row]:
    """The rows that were measured last."""
    rows: list[Row] = json.loads(results.read_text("utf-8"))
    return rows


def _measured(name: str, mechanism: Mechanism, known: Row) -> Row:
    certificate = statement_of(mechanism)
    texts = [row["stated_text"] for row in certificate["predicate"]["claims"]]
    try:
        proof = written(certificate)
    except Unsupported as error:
        reason = str(error)
        return {"name": name, "proved": {}, "left_out": dict.fromkeys(texts, reason), "seconds": 0}
    digest = hashlib.sha256("".join([proof.text, *_read_with(proof.text)]).encode()).hexdigest()
    if known.get("digest") == digest:
        return known
    return {"name": name, "digest": digest, **_asked(proof, texts)}


def _read_with(text: str) -> list[str]:
    """The library's files that a Coq file needs, in their order."""
    files, needed, new = library(), set[str](), {text}
    while new:
        names = {name for one in new for line in _IMPORT.findall(one) for name in line.split()}
        needed |= (found := names - needed)
        new = {files[f"{name}.v"] for name in found}
    return [files[f"{name}.v"] for name in FILES if name in needed]


def _asked(proof: Exported, texts: list[str]) -> Row:
    """Let the kernel read all, then list what claims rest on beside inequalities of numbers.

    To list what a theorem rests on takes Coq seven seconds where interval arithmetic is below it;
    inequalities that are proved in the first reading are therefore assumed in the second.
    """
    left_out = dict(proof.left_out)
    readings = []
    try:
        if _NUMBER.search(proof.text):
            readings.append(accepted(_ASKED.sub("", proof.text), ()))
            listed, assumed = _assuming_numbers(proof.text)
            readings.append(accepted(listed, proof.claims, numbers=assumed))
        else:
            readings.append(accepted(proof.text, proof.claims))
    except DpauditError as error:
        refused = {text: str(error) for text in texts if text not in left_out}
        return {"proved": {}, "left_out": left_out | refused, "seconds": 0}
    place = [int(claim.rpartition("_")[2]) - 1 for claim in proof.claims]
    found = readings[-1].claims.values()
    proved = {texts[p]: list(names) for p, names in zip(place, found, strict=True)}
    seconds = round(sum(reading.seconds for reading in readings), 1)
    return {"proved": proved, "left_out": left_out, "seconds": seconds}


def _assuming_numbers(text: str) -> tuple[str, list[str]]:
    """A Coq file that assumes its inequalities of numbers, and the names of these axioms."""
    numbers = [found[1] for found in _NUMBER.finditer(text)]
    head, scope, body = _NUMBER.sub(r"Axiom \1\2", text).partition("Open Scope R_scope.\n")
    return f"{head}{scope}{ASSUMING}{body}", [*numbers, "computed_before"]


def statement_of(mechanism: Mechanism) -> Row:
    """The parts of a mechanism's certificate that an export reads, without an audit."""
    return statement(mechanism.declaration, mechanism.scope, mechanism.claims, mechanism.title)


def statement(node: Node, scope: Scope, claims: Sequence[Claim], title: str) -> Row:
    """As :func:`statement_of`, of a declaration and its claims."""
    account = Account(node, scope)
    return statement_by(node, scope, [claim.check_account(account) for claim in claims], title)


def statement_by(node: Node, scope: Scope, checked: Sequence[Checked], title: str) -> Row:
    """As :func:`statement`, of claims that were checked by derivations of the caller's choice."""
    steps = steps_of([one.step for one in checked if one.step is not None])
    number = {id(step): place for place, step in enumerate(steps)}
    rows = [
        {
            "id": f"claim-{place}",
            "check": str(one.outcome),
            "step": None if one.step is None else number[id(one.step)],
            "exact": encode_number(one.claim.value),
            "stated_text": one.claim.text,
        }
        for place, one in enumerate(checked, 1)
    ]
    predicate = {
        "claims": rows,
        "derivation": {"steps": step_rows(steps)},
        "scope": {"adjacency": str(scope.adjacency)},
        "mechanism": {"title": title, "declaration": to_table(node)},
    }
    return {"subject": [{"digest": {"sha256": "0" * 64}}], "predicate": predicate}


# --- the page ------------------------------------------------------------------------------------


def markdown(rows: list[Row]) -> str:
    """The page, from what was measured."""
    return "\n".join([INTRODUCTION, *_theorems(), *_share(rows), *_hypotheses(rows), *_open(rows)])


def _theorems() -> Iterator[str]:
    yield "| theorem | here | name | file |"
    yield "|---|---|---|---|"
    for file, text in library((*FILES, *EXAMPLES)).items():
        for found in _CITED.finditer(text):
            kind = {"Axiom": "hypothesis", "Definition": "definition"}.get(found["kind"], "`Qed`")
            said = " ".join(found["text"].split()).rstrip(".")
            yield f"| {said} | {kind} | `{found['name']}` | `{file}` |"
    yield ""


def _share(rows: list[Row]) -> Iterator[str]:
    claims = sum(len(row["proved"]) + len(row["left_out"]) for row in rows)
    left_out = [why for row in rows for why in row["left_out"].values()]
    unread = left_out.count(UNREAD)
    unproved = sum("nothing to prove" in why and "no Coq export" not in why for why in left_out)
    proved = [names for row in rows for names in row["proved"].values()]
    most = max(map(len, proved), default=0)
    seconds = sorted(row["seconds"] for row in rows if row["proved"]) or [0]
    yield "## The catalogue\n"
    waiting = f", and has not read {unread} of them yet" if unread else ""
    yield (
        f"The kernel accepts {len(proved)} of the catalogue's {claims} claims{waiting}. "
        f"Certificates do not prove {unproved} of the {claims - unread} that were read, and "
        f"{len(left_out) - unread - unproved} have no export. A claim rests on at most {most} "
        f"hypotheses; an entry took {seconds[-1]:g} s of one core at most, "
        f"{seconds[len(seconds) // 2]:g} s in the middle.\n"
    )


def _hypotheses(rows: list[Row]) -> Iterator[str]:
    leaning = Counter(name for row in rows for names in row["proved"].values() for name in names)
    alone = sum(not names for row in rows for names in row["proved"].values())
    yield "| hypothesis | claims that lean on it | source |"
    yield "|---|---|---|"
    for name, source in sorted(cited().items(), key=lambda item: (-leaning[item[0]], item[0])):
        yield f"| `{name}` | {leaning[name]} | {source} |"
    yield f"| none: proved from definitions alone | {alone} | |"
    yield ""


def _open(rows: list[Row]) -> Iterator[str]:
    needs = Counter(needed(why) for row in rows for why in row["left_out"].values())
    yield "## Claims without a proof\n"
    yield "| route | what an export would need | claims |"
    yield "|---|---|---|"
    for (route, need), number in sorted(needs.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {route} | {need} | {number} |"
    yield ""


def needed(why: str) -> tuple[str, str]:
    """The route that a claim without a proof takes, and what an export of it would need."""
    if found := _ROUTE.search(why):
        return found[1], found[2]
    return ("the certificate does not prove the claim" if "nothing to prove" in why else why), ""
