"""What every guarantee rests on besides its rules, and what a node adds to that."""

from __future__ import annotations

from typing import Any

from dpaudit.check.reading import Json, require
from dpaudit.nodes import Assumption, Node, Status, postorder

REAL_NUMBERS = Assumption(
    "real_arithmetic",
    "The guarantee is proved for real numbers; noise is sampled and added in 64-bit floats.",
    Status.DECLARED,
    "Plain samplers: low-order bits of a release are outside the proof (Mironov 2012).",
)
RANDOM_BITS = Assumption(
    "random_bits",
    "An observer cannot predict the generator's output.",
    Status.DECLARED,
    "A release draws from PCG64-DXSM seeded with 256 bits of the operating system's entropy.",
)
BOUNDED = Assumption(
    "bounded_queries",
    "No query moves by more than the sensitivity that its noise is scaled to.",
    Status.ENFORCED,
    "A clipped mean clips each row itself, and rows that are not finite count as zero; a query of "
    "another kind is bounded by its construction, or lists what bounds it with the assumptions.",
)
EVIDENCE = {
    Status.DECLARED: "No audit was run.",
    Status.TESTED: "See the audits and conformance checks.",
    Status.VIOLATED: "A conformance check is broken.",
}


def standing(noise: Status) -> list[Assumption]:
    """The standing assumptions; ``noise``: declared, tested by an audit, or found violated."""
    implemented = Assumption(
        "declared_noise",
        "The implementation makes the declared releases, with independent noise as declared.",
        noise,
        EVIDENCE[noise],
    )
    return [BOUNDED, implemented, REAL_NUMBERS, RANDOM_BITS]


def own_assumption(node: Node) -> dict[str, str] | None:
    """The row of what a node rests on beyond its rule; None for most nodes."""
    assumption = getattr(node, "assumption", None)
    if isinstance(assumption, Assumption):
        return _row(assumption)
    if not hasattr(node, "source"):
        return None
    who = node.source or "its author"
    statement = f"{node.head} holds under the declared scope, as proved by {who}"
    return _row(Assumption(f"opaque:{node.digest[:12]}", statement, Status.DECLARED))


def _row(assumption: Assumption) -> dict[str, str]:
    return {
        "id": assumption.id,
        "statement": assumption.statement,
        "status": str(assumption.status),
        "evidence": assumption.evidence,
    }


def statuses(predicate: Json, root: Node) -> dict[str, str]:
    """The status of every assumption by id: the standing ones, and those of the derivation.

    Errors: CertificateRejected for an assumption that is missing, changed, or of no step.
    """
    expected = {row["id"]: row for row in map(_row, standing(_noise(predicate)))}
    own = {row["id"]: row for node in postorder(root) if (row := own_assumption(node))}
    used = [i for step in predicate["derivation"]["steps"] for i in step["assumes"]]
    require(not set(used) & set(expected), "a step's assumption has the id of a standing one")
    expected.update((i, own.get(i, {})) for i in used)
    listed: dict[str, Any] = {row["id"]: row for row in predicate["assumptions"]}
    require(len(listed) == len(predicate["assumptions"]), "an assumption is listed twice")
    for name in {**expected, **listed}:
        same = listed.get(name) == expected.get(name)
        require(same, f"assumption {name[:60]}: missing, changed, or of no step")
    return {name: row["status"] for name, row in listed.items()}


def _noise(predicate: Json) -> Status:
    if not predicate["conformance"]:
        return Status.DECLARED
    broken = any(row["status"] == "broken" for row in predicate["conformance"])
    return Status.VIOLATED if broken else Status.TESTED
