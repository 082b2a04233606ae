"""The checker: confirms a certificate from its witnesses, without the accountant.

It imports the declaration language and exact arithmetic alone, re-states each theorem in its own
table, and searches for nothing.  What it cannot re-derive it lists as taken on trust.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpaudit.check.assumptions import standing, statuses
from dpaudit.check.bounds import rederive_bounds
from dpaudit.check.claims import Case, check_claims, is_unconfirmed
from dpaudit.check.curves import check_curves
from dpaudit.check.derivation import rederive, require_numbers
from dpaudit.check.profile.conversions import is_computed
from dpaudit.check.reading import Json, require
from dpaudit.errors import CertificateRejected, DpauditError
from dpaudit.exact.wire import digest
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table

__all__ = ["Confirmed", "check", "is_computed", "is_taken_on_trust", "standing"]

# What a certificate of the wrong shape raises where it is read.
_MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
ON_TRUST = (
    "counts, thresholds, conformance checks and the run: replay them from the seed",
    "the scope, the program and its files, and all words: read them",
)


@dataclass(frozen=True)
class Confirmed:
    """What was re-derived, and what was taken on trust; one line each."""

    confirmed: tuple[str, ...]
    on_trust: tuple[str, ...]


def check(certificate: Json) -> Confirmed:
    """Confirm a certificate that already fits the schema.

    Errors: CertificateRejected naming the first part that was changed or does not follow.
    """
    try:
        return _check(certificate)
    except CertificateRejected:
        raise
    except DpauditError as error:
        raise CertificateRejected(f"the certificate does not follow: {error}") from None
    except _MALFORMED as error:
        raise CertificateRejected(
            f"the certificate is malformed ({type(error).__name__}: {str(error)[:80]})"
        ) from None


def is_taken_on_trust(
    steps: list[Json], root: Node, adjacency: str, outcome: str, claimed: Any
) -> bool:
    """Whether an outcome of the last step, against a number, rests on what is not confirmed.

    Errors: CertificateRejected for steps that do not follow.
    """
    predicate = {"derivation": {"steps": steps}, "scope": {"adjacency": adjacency}}
    return is_unconfirmed(rederive(predicate, root)[-1], outcome, claimed)


def _check(certificate: Json) -> Confirmed:
    predicate = certificate["predicate"]
    mechanism = predicate["mechanism"]
    first, *files = certificate["subject"]
    changed = "the predicate does not have the recorded digest: the certificate was changed"
    require(first["digest"]["sha256"] == digest(predicate), changed)
    require(files == mechanism["implementation"], "the subjects are not the implementation's files")
    root = from_table(mechanism["declaration"])
    require(root.digest == mechanism["digest"], "the declaration's digest is another")
    require(mechanism["declaration_text"] == repr(root), "the declaration's text is of another")
    require_numbers(root)
    values = rederive(predicate, root)
    known = statuses(predicate, root)
    check_curves(predicate, root)
    bounds = rederive_bounds(predicate)
    check_claims(Case(predicate, root, values, bounds, known))
    trusted = dict.fromkeys(text for value in values for text in value.trusted)
    return Confirmed(
        confirmed=(
            "digest of the predicate",
            "declaration",
            f"{len(values)} steps of the derivation",
            "privacy profile, trade-off curve and plain words",
            f"{len(bounds)} lower bounds, from their counts",
            f"{len(predicate['claims'])} claims and the verdict",
        ),
        on_trust=(*(f"{name} ({status})" for name, status in known.items()), *trusted, *ON_TRUST),
    )
