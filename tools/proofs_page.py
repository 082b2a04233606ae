"""The page docs/proofs.md: what is proved by whom, and which claims a proof kernel accepts."""

from __future__ import annotations

import hashlib
import json
import re
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import DpauditError, Unsupported
from dpaudit.exact.wire import encode_number
from dpaudit.nodes.tables import to_table
from dpaudit.project.project import load
from dpaudit.proofs import Exported, accepted, cited, exported, library

RESULTS = Path("docs/proofs.json")
INTRODUCTION = """\
# What is proved by whom

Made by `python -m tools proofs`.  [How to export a certificate](how-to/proofs.md) says how to let
Coq read one.  A *hypothesis* is a theorem of the literature that the proofs take as given, under
its own name; everything else ends in `Qed`.
"""
Row = dict[str, Any]
_CITED = re.compile(
    r"\(\*(?P<text>[^*]*?\b(?:19|20)\d\d\b[^*]*?)\*\)\s+"
    r"(?P<kind>Axiom|Theorem|Lemma|Definition) (?P<name>\w+)"
)


def measured(root: Path, results: Path = RESULTS) -> list[Row]:
    """Let the kernel read every entry of the catalogue; entries whose file is the same are kept."""
    known = {row["name"]: row for row in read(results)} if results.exists() else {}
    rows: list[Row] = []
    for name, mechanism in sorted(load(root).mechanisms.items()):
        row = _measured(name, mechanism, known.get(name, {}))
        if row["proved"] or row["left_out"]:
            rows.append(row)
        # What is known is kept after each entry: the whole takes half an hour.
        kept = [*rows, *(known[other] for other in sorted(known) if other > name)]
        results.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
    return rows


def read(results: Path = RESULTS) -> list[Row]:
    """The rows that were measured last."""
    rows: list[Row] = json.loads(results.read_text("utf-8"))
    return rows


def _measured(name: str, mechanism: Mechanism, known: Row) -> Row:
    certificate = statement_of(mechanism)
    texts = [row["stated_text"] for row in certificate["predicate"]["claims"]]
    try:
        proof = exported(certificate)
    except Unsupported as error:
        reason = str(error)
        return {"name": name, "proved": {}, "left_out": dict.fromkeys(texts, reason), "seconds": 0}
    digest = hashlib.sha256("".join([proof.text, *library().values()]).encode()).hexdigest()
    if known.get("digest") == digest:
        return known
    return {"name": name, "digest": digest, **_asked(proof, texts)}


def _asked(proof: Exported, texts: list[str]) -> Row:
    left_out, before = dict(proof.left_out), _seconds()
    try:
        found = accepted(proof.text, proof.claims).claims
    except DpauditError as error:
        return {"proved": {}, "left_out": dict.fromkeys(texts, str(error)), "seconds": 0}
    place = [int(claim.rpartition("_")[2]) - 1 for claim in proof.claims]
    proved = {texts[p]: list(names) for p, names in zip(place, found.values(), strict=True)}
    return {"proved": proved, "left_out": left_out, "seconds": round(_seconds() - before, 1)}


def _seconds() -> float:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def statement_of(mechanism: Mechanism) -> Row:
    """The parts of a mechanism's certificate that an export reads, without an audit."""
    account = Account(mechanism.declaration, mechanism.scope)
    checked = [claim.check_account(account) for claim in mechanism.claims]
    steps = steps_of([one.step for one in checked if one.step is not None])
    number = {id(step): place for place, step in enumerate(steps)}
    claims = [
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
        "claims": claims,
        "derivation": {"steps": step_rows(steps)},
        "scope": {"adjacency": str(mechanism.scope.adjacency)},
        "mechanism": {"title": mechanism.title, "declaration": to_table(mechanism.declaration)},
    }
    return {"subject": [{"digest": {"sha256": "0" * 64}}], "predicate": predicate}


# --- the page ------------------------------------------------------------------------------------


def markdown(rows: list[Row]) -> str:
    """The page, from what was measured."""
    return "\n".join([INTRODUCTION, *_theorems(), *_share(rows), *_hypotheses(rows), *_open(rows)])


def _theorems() -> Iterator[str]:
    yield "| theorem | here | name | file |"
    yield "|---|---|---|---|"
    for file, text in library().items():
        for found in _CITED.finditer(text):
            kind = {"Axiom": "hypothesis", "Definition": "definition"}.get(found["kind"], "`Qed`")
            said = " ".join(found["text"].split()).rstrip(".")
            yield f"| {said} | {kind} | `{found['name']}` | `{file}` |"
    yield ""


def _share(rows: list[Row]) -> Iterator[str]:
    claims = sum(len(row["proved"]) + len(row["left_out"]) for row in rows)
    open_claims = [why for row in rows for why in row["left_out"].values()]
    not_proved = sum(
        "nothing to prove" in why and "no Coq export" not in why for why in open_claims
    )
    proved = [names for row in rows for names in row["proved"].values()]
    most = max(map(len, proved), default=0)
    seconds = sorted(row["seconds"] for row in rows if row["proved"])
    yield "## The catalogue\n"
    yield (
        f"The kernel accepts {len(proved)} of the {claims} claims of the catalogue "
        f"({len(proved) / max(claims, 1):.0%}); {claims - not_proved} of them are proved by their "
        f"accounts ({len(proved) / max(claims - not_proved, 1):.0%} of these). A claim rests on at "
        f"most {most} hypotheses; an entry took {seconds[-1] if seconds else 0:g} s of one core at "
        f"most, {seconds[len(seconds) // 2] if seconds else 0:g} s in the middle.\n"
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
    needs: Counter[str] = Counter()
    for row in rows:
        for why in row["left_out"].values():
            found = re.search(r"([\w.]+(?: of \w+)?): no Coq export yet", why)
            stated = "the certificate does not prove the claim"
            needs[found[1] if found else stated if "nothing to prove" in why else why[:80]] += 1
    yield "## Claims without a proof\n"
    yield "| what it would need | claims |"
    yield "|---|---|"
    for name, number in sorted(needs.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {name} | {number} |"
    yield ""
