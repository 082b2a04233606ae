"""Small mechanisms with a certificate each: what the tests of certificates and verdicts share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from dpaudit.accountant.claim import Claim
from dpaudit.audit.examine import Examination
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.certificate import certify as certification
from dpaudit.certificate.certify import Certified, certify
from dpaudit.certificate.order import Options, Order, Run
from dpaudit.check import Confirmed, check, standing
from dpaudit.check.file import validate
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.errors import CertificateRejected
from dpaudit.exact.wire import digest
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.families.composition import Assuming, Compose, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Assumption, Node
from dpaudit.scope import Scope

SETTING = Setting("a test", "row", "one row", ("the releases",))
DIGESTS = {"mechanisms/case.py": "0" * 64}


@dataclass(frozen=True)
class Releases:
    """Releases the mean of the rows under each label in turn; the last of them is the output.

    ``batches``: each is the sum of a batch of its own.  Without labels the program asks nothing:
    what is proved of it stays unconfirmed.
    """

    node: Node
    labels: tuple[str, ...] = ()
    batches: bool = False

    def declaration(self, scope: Scope) -> Node:
        return self.node

    def run(self, curator: Curator) -> Array:
        released = np.zeros((curator.trials, 1))
        for label in self.labels:
            query = ClippedMean(
                rows, 1.0, norm=self._norm(label), divisor=1 if self.batches else None
            )
            with curator.batch(label) if self.batches else nullcontext() as batch:
                released = curator.release(label, query, rows=batch)
        return released

    def _norm(self, label: str) -> Any:
        return "l1" if label.startswith("laplace") else "l2"


def rows(values: Array) -> Array:
    """Each record as it is: (1, records, features)."""
    return np.asarray(values)[None]


def scope(adjacency: str = "replace_one") -> Scope:
    return Scope(adjacency, "record", "central", "transcript")  # type: ignore[arg-type]


def mechanism(
    name: str,
    node: Node,
    *guarantees: Node,
    labels: Sequence[str] = (),
    batches: bool = False,
    adjacency: str = "replace_one",
    records: Callable[[], Records] | None = None,
) -> Mechanism:
    """A mechanism that declares a node and claims guarantees of it."""
    return Mechanism(
        name=name,
        title=f"Case {name}",
        source="dpaudit's tests",
        program=Releases(node, tuple(labels), batches),
        scope=scope(adjacency),
        claims=tuple(Claim(guarantee, by="dpaudit's tests") for guarantee in guarantees),
        setting=SETTING,
        records=records,
    )


def suite(of: Mechanism, trials: int = 400, **changes: Any) -> Suite:
    """One of four rows is +1 or -1; the others are zero."""
    first, second = np.zeros((4, 1)), np.zeros((4, 1))
    first[1], second[1] = 1.0, -1.0
    pair = Neighbours(Records(first), Records(second), "replace_one", "a row is +1 or -1")  # type: ignore[arg-type]
    return Suite(of.name, changes.pop("program", of.program), pair, trials=trials, **changes)


def certified(of: Mechanism, attacked: Suite | None = None, seed: int = 7) -> Certified:
    """Its certificate, by the library's own door."""
    order = Order(of, attacked, "project", DIGESTS)
    return certify([order], Options(seed=seed, targets=(of.name,)))[0]


def unattacked(of: Mechanism, seed: int = 7) -> Certified:
    """Its certificate without an attack: on the pair that its examination found there is none."""
    examined = certification.examined

    def without_pair(run: Run, order: Order) -> Examination:
        return replace(examined(run, order), pair=None)

    with patch.object(certification, "examined", without_pair):
        return certified(of, seed=seed)


Json = dict[str, Any]


def forged(certificate: Json, change: Callable[[Json], object]) -> Json:
    """The certificate with its predicate changed and its digests made again, as a forger would."""
    forgery = copy.deepcopy(certificate)
    predicate = forgery["predicate"]
    change(predicate)
    own = {"name": "predicate", "digest": {"sha256": digest(predicate)}}
    forgery["subject"] = [own, *predicate["mechanism"]["implementation"]]
    return forgery


def renumber(predicate: Json) -> None:
    """Conformance rows in order, as one who left one out would number them."""
    for number, row in enumerate(predicate["conformance"]):
        row["id"] = f"conformance-{number + 1}"


def follow(predicate: Json) -> None:
    """The standing assumptions as the forged conformance rows have them."""
    found = {a.id: a for a in standing(predicate["conformance"])}
    for row in predicate["assumptions"]:
        if row["id"] in found:
            own = found[row["id"]]
            row.update(status=str(own.status), evidence=own.evidence)


def accept(certificate: Json) -> Confirmed:
    """What `dpaudit verify` does with a certificate it has read.

    Errors: CertificateRejected.
    """
    validate(certificate)
    return check(certificate)


# --- certificates that tests forge ----------------------------------------------------------------

TINY = Fraction(1, 10**5)
WEIGHTS = Assumption("weights", "the weights are public", "declared", "by contract")  # type: ignore[arg-type]
Change = Callable[[Json], object]


class NoNoise(GaussianKernel):
    """Adds nothing."""

    def sample(self, values: Any, scale: Any, rng: Any) -> Any:
        return values.copy()


def certificate_of(*arguments: Any, attacked: bool = True, **changes: Any) -> Json:
    labels = changes.pop("labels", ())
    of = mechanism(*arguments, labels=labels)
    return certified(of, suite(of, **changes) if attacked else None).certificate


@cache
def held() -> Json:
    """Certified under assumptions; not attained, because of what it assumes; attacked."""
    node = Compose(
        Gaussian("first", 2),
        Repeat(Gaussian("second", 3), 2),
        Assuming(Gaussian("third", 4), WEIGHTS),
    )
    claims = (ApproxDP(4, TINY), GDP(Fraction(3, 4)), ZCDP(Fraction(1, 2)))
    return certificate_of("held", node, *claims, labels=("first", "second", "second", "third"))


@cache
def refuted() -> Json:
    """Claims below an attained bound: the accountant refutes them."""
    claims = (GDP(Fraction(2, 5)), ApproxDP(Fraction(3, 2), TINY), ZCDP(Fraction(1, 10)))
    return certificate_of("refuted", Gaussian("first", 2), *claims, attacked=False)


@cache
def caught() -> Json:
    """No noise where some is declared: the attack refutes every claim."""
    claims = (GDP(Fraction(1, 2)), ApproxDP(2, TINY), ZCDP(Fraction(1, 8)))
    kernels = {Gaussian: NoNoise}
    return certificate_of(
        "caught", Gaussian("first", 2), *claims, labels=("first",), kernels=kernels
    )


@cache
def pure() -> Json:
    """Laplace noise, with a raw bound at delta = 0."""
    claims = (PureDP(Fraction(1, 3)), ApproxDP(Fraction(1, 3), TINY))
    return certificate_of("pure", Laplace("laplace", 3), *claims, labels=("laplace",))


def rejected(certificate: Json, change: Change) -> str:
    """Why a forgery is rejected."""
    with pytest.raises(CertificateRejected) as found:
        accept(forged(certificate, change))
    return str(found.value)
