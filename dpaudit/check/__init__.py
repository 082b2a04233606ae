"""The checker: confirms a certificate from its witnesses, without the accountant.

It imports the declaration language and exact arithmetic alone, re-states each theorem in its own
table, and searches for nothing.  It lists as taken on trust all that it cannot re-derive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dpaudit.check.assumptions import standing, statuses
from dpaudit.check.bounds import curve_exceeds, rederive_bounds
from dpaudit.check.claims import Case, attackers, check_claims, is_unconfirmed, powerless
from dpaudit.check.conformance import check_conformance
from dpaudit.check.curves import check_curves
from dpaudit.check.derivation import rederive, require_numbers
from dpaudit.check.empirical import UNCHECKED as UNCHECKED_OF_AUDITS
from dpaudit.check.empirical import check_empirical
from dpaudit.check.file import NotACertificate, NotDone, is_empirical
from dpaudit.check.likelihoods import rederive_likelihoods, require_complete, require_unbroken
from dpaudit.check.profile.coarse import is_computed
from dpaudit.check.profile.conversions import OWN_PARAMETERS
from dpaudit.check.reading import Json, require
from dpaudit.check.theorem import added
from dpaudit.check.unchecked import UNCHECKED, Unchecked
from dpaudit.errors import CertificateRejected, DpauditError
from dpaudit.exact.effort import PER_SECOND, TooMuch, limited
from dpaudit.exact.wire import digest
from dpaudit.nodes import Node, hiding, postorder
from dpaudit.nodes.tables import Stranger, from_table

__all__ = [
    "Confirmed",
    "check",
    "curve_exceeds",
    "declared_digest",
    "is_computed",
    "is_taken_on_trust",
    "standing",
]

# Exceptions that a certificate of the wrong shape raises where it is read.
_MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
SECONDS, MEMORY = 20.0, 500 * 2**20  # limits of one verification, in processor seconds and bytes
# Parts of a certificate that no checker can re-derive.
ON_TRUST = ("counts, conformance checks and the run: replay them from the seed",)


@dataclass(frozen=True)
class Confirmed:
    """Parts that were re-derived, and parts that were taken on trust; one line each.

    ``unconfirmed``: bounds among the latter that only the accountant computed.  ``epsilons``: the
    accounted epsilon of each claim of one, and its delta, by its text.  ``powerless``: claims that
    no audit here could have refuted, with the reason, and audits smaller than their suite asks for.
    ``unchecked``: the fields of the file that may hold something else.
    """

    confirmed: tuple[str, ...]
    on_trust: tuple[str, ...]
    unconfirmed: tuple[str, ...] = ()
    epsilons: tuple[tuple[str, str, str], ...] = ()
    powerless: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = UNCHECKED


def check(
    certificate: Json, seconds: float = SECONDS, *, clock: float | None = None, advice: str = ""
) -> Confirmed:
    """Confirm a certificate that already fits the schema, by ``seconds`` of work at most.

    ``clock``: seconds of this process at most; by default ``seconds``.  A browser takes more time
    for the same work, and has a limit of its own.  ``advice``: how its reader allows more time.
    Errors: CertificateRejected naming the first part that was changed or does not follow; NotDone
    where it takes more work, or more than 500 MB.
    """
    try:
        allowed = seconds if clock is None else clock
        with limited(work=seconds * PER_SECOND, seconds=allowed, memory=MEMORY, advice=advice):
            return _check(certificate)
    except CertificateRejected:
        raise
    except TooMuch as error:
        raise NotDone(f"not verified: {error}") from None
    except DpauditError as error:
        raise CertificateRejected(f"the certificate does not follow: {error}") from None
    except _MALFORMED as error:
        raise CertificateRejected(
            f"the certificate is malformed ({type(error).__name__}: {str(error)[:80]})"
        ) from None


def is_taken_on_trust(
    steps: Sequence[Json], root: Node, adjacency: str, outcome: str, claimed: Any
) -> bool:
    """Whether an outcome of the last step, against a number, rests on what is not confirmed.

    Errors: CertificateRejected for steps that do not follow.
    """
    predicate = {"derivation": {"steps": steps}, "scope": {"adjacency": adjacency}}
    return is_unconfirmed(rederive(predicate, root)[-1], outcome, claimed)


def declared_digest(root: Node, scope: Json) -> str:
    """The digest of what is promised: the declaration, and to whom, about what, by which accesses.

    Title and controller may be reworded.
    """
    named = {name: part for name, part in scope.items() if name not in ("title", "controller")}
    return digest({"declaration": root.digest, "scope": named})


def _theorems(root: Node) -> Iterator[str]:
    """Statements of trust in whoever added a theorem to this process."""
    files = added()
    for name in dict.fromkeys(type(node).__name__ for node in postorder(root)):
        if name in files:
            yield f"the theorem of {name}, which whoever verifies added ({files[name][0]})"


def _check(certificate: Json) -> Confirmed:
    """Re-derive every part of a certificate, in the order in which they rest on each other."""
    if is_empirical(certificate):
        return Confirmed(*check_empirical(certificate), unchecked=UNCHECKED_OF_AUDITS)
    predicate = certificate["predicate"]
    mechanism = predicate["mechanism"]
    first, *files = certificate["subject"]
    changed = "the predicate does not have the recorded digest: the certificate was changed"
    if first["digest"]["sha256"] != digest(predicate):
        raise NotACertificate(changed)
    require(files == mechanism["implementation"], "the subjects are not the implementation's files")
    root = from_table(mechanism["declaration"], strangers=True)
    declared = declared_digest(root, predicate["scope"])
    require(mechanism["digest"] == declared, "the digest of declaration and scope is another")
    if not any(isinstance(node, Stranger) for node in postorder(root)):
        same = mechanism["declaration_text"] == repr(root)
        require(same, "the declaration's text is of another")
    require_numbers(root)
    if predicate["scope"]["model"] == "local":
        require(hiding(root) is None, "local trust: the declaration rests on somebody's secret")
    values = rederive(predicate, root)
    settled = statuses(predicate, root)
    check_curves(predicate, root, values)
    bounds = rederive_bounds(predicate)
    likely = rederive_likelihoods(predicate)
    case = Case(predicate, root, values, bounds, settled, likely)
    check_claims(case)
    require_unbroken(predicate, likely)
    require_complete(predicate)
    check_conformance(predicate, root)
    doubted = dict.fromkeys(t for v in values for t in v.trusted if t != OWN_PARAMETERS)
    trusted = dict.fromkeys(text for value in values for text in value.trusted)
    return Confirmed(
        confirmed=(
            "digest of the predicate",
            "declaration",
            f"{len(values)} steps of the derivation",
            "privacy profile, trade-off curve and plain words",
            f"{len(bounds)} lower bounds, from their counts",
            *([f"{len(likely)} lower bounds, from their likelihoods"] if likely else []),
            f"{len(predicate['claims'])} claims and the verdict",
        ),
        on_trust=(
            *(f"{name} ({status})" for name, status in settled.items()),
            *trusted,
            *attackers(predicate),
            *_theorems(root),
            *ON_TRUST,
        ),
        unconfirmed=tuple(doubted),
        epsilons=tuple(
            (
                row["stated_text"],
                row["upper"]["epsilon"] if row["upper"] else "inf",
                row["stated"].get("delta", "0"),
            )
            for row in predicate["claims"]
            if "epsilon" in row["stated"]
        ),
        powerless=powerless(case),
    )
