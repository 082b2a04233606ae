"""No value of a certificate can be changed: not with new digests, and not a digit without them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpaudit.certificate.certificate import save
from dpaudit.check import check
from dpaudit.check.file import load, validate
from dpaudit.check.rows import verify_file
from dpaudit.check.unchecked import UNCHECKED
from dpaudit.errors import CertificateRejected
from dpaudit.exact.wire import digest
from tests.library.cli import bench
from tests.library.cli.bench import Json, held
from tests.support.forger import _lowered as lowered
from tests.support.forger import remembered


@pytest.fixture(scope="module", autouse=True)
def kept() -> Iterator[None]:
    """Special functions are computed once: a forgery changes one number, and the rest repeats."""
    with remembered():
        yield


# --- every value, changed ------------------------------------------------------------------------

# What no certificate can show of itself; `dpaudit verify` says so ("on trust").
ON_TRUST = {
    "issued", "scope", "run", "environment", "reproduce/command", "verdict/reasons",
    "mechanism/name", "mechanism/title", "mechanism/source", "mechanism/program", "mechanism/root",
    "mechanism/implementation", "derivation/accountant",
    "claims/*/id", "claims/*/by", "claims/*/source", "claims/*/reading", "claims/*/reason",
    "derivation/steps/*/cite",
    # Any order at which the theorem gives the stated epsilon is as good a witness.
    "derivation/steps/*/witness/order",
    "audits/*/threat_model", "audits/*/attack", "audits/*/neighbours", "audits/*/neighbours_text",
    "audits/*/training_trials", "audits/*/threshold", "audits/*/estimator",
    "conformance/*/detail", "conformance/*/tried", "examination",
    *(
        field.replace(" ", "/*/", 1).replace("bounds ", "bounds/*/").replace(" ", "/")
        for group in UNCHECKED
        for field in group.fields
        if field.startswith("likelihoods ") and field != "likelihoods bounds lower"
    ),
}  # fmt: skip
# A p-value of 1 bounds its statistic from one side, and a check that was not run has none.
OPEN = {"statistic", "size", "among", "parameter"}
STEP = 31  # of the many points of a curve, every 31st is forged

Path_ = tuple[str | int, ...]


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    elif value is not None:
        yield path, value
    for key, inside in items:
        yield from leaves(inside, (*path, key))


def pattern(path: Path_) -> str:
    return "/".join("*" if isinstance(part, int) else part for part in path)


def protected(predicate: Json) -> list[tuple[Path_, Any]]:
    found = []
    # Of the rows of conformance, one of each law, and of each check without one.
    kinds = {
        (row["check"].partition(" of ")[0], row["p_value"] == "1", row["status"]): number
        for number, row in enumerate(predicate["conformance"])
    }
    for path, value in leaves(predicate):
        shape = pattern(path)
        if path[0] == "conformance" and path[1] not in kinds.values():
            continue
        if path[0] == "conformance" and path[-1] in OPEN:
            row = predicate["conformance"][path[1]]
            if row["p_value"] == "1" or row["status"] == "not_run":
                continue
        point = ("curve" in path or "roc" in path) and path[-2] % STEP  # type: ignore[operator]
        if not point and not any(f"{shape}/".startswith(f"{known}/") for known in ON_TRUST):
            found.append((path, value))
    return found


WORDS = [
    ["proved", "refuted", "unproved", "unsupported"],
    ["certified", "certified_under_assumptions", "refuted", "inconclusive", "alarm"],
    ["refuted", "not_refuted", "inconclusive"],
    ["enforced", "tested", "declared", "violated"],
    ["gdp", "zcdp", "pure_dp", "approx_dp", "rdp"],
    ["gdp", "zcdp", "pure", "approx", "rdp"],
    ["gdp.gaussian", "gdp.laplace", "gdp.opaque", "gdp.composition", "gdp.disjoint"],
    ["zcdp.gaussian", "gdp.gaussian", "zcdp.repetition", "zcdp.unchanged", "zcdp.composition"],
    ["rdp.laplace", "pure.laplace", "zcdp.laplace", "gdp.laplace", "pure.opaque"],
    ["convert.gdp_to_approx", "convert.pure_to_approx", "convert.zcdp_to_approx"],
    ["", "the Gaussian family"],
    ["0.95", "0.99"],
    ["lens", "raw-0.00001", "raw-0"],
    ["interval", "exact"],
]


def neighbours(value: Any) -> list[Any]:
    """Other values of the same kind, as near as may be; for a word, every other of its list."""
    alternatives = [word for words in WORDS if value in words for word in words if word != value]
    if alternatives:
        return list(dict.fromkeys(alternatives))
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(value - 1, 0) if value else 2]
    digits = [i for i, letter in enumerate(value) if letter.isdigit()]
    if not digits:
        return [value + "x" if value else "x"]
    changed = []
    for place, shift in ((digits[0], 1), (digits[min(5, len(digits) - 1)], 9)):
        digit = str((int(value[place]) + shift) % 10)
        changed.append(value[:place] + digit + value[place + 1 :])
    return list(dict.fromkeys(changed))


SHARES = 48
OTHER = [pytest.param(share, marks=pytest.mark.quality) for share in range(1, SHARES)]


@pytest.mark.quality
@pytest.mark.parametrize("share", [0, *OTHER])
@pytest.mark.parametrize("name", [pytest.param("held", marks=pytest.mark.quality), "pure"])
def test_no_value_can_be_changed(name: str, share: int) -> None:
    """Every leaf that is not listed as trusted, to neighbouring values, with new digests.

    A share is every forty-eighth leaf; `make quality` changes the others.
    """
    certificate = copy.deepcopy(getattr(bench, name)())
    predicate, own = certificate["predicate"], certificate["subject"][0]["digest"]
    accepted, tried = [], 0
    for path, value in protected(predicate)[share::SHARES]:
        inside: Any = functools.reduce(lambda at, key: at[key], path[:-1], predicate)
        for other in neighbours(value):
            inside[path[-1]] = other
            own["sha256"] = digest(predicate)
            tried += 1
            if not is_rejected(certificate) and not weaker(path, value, other):
                accepted.append((*path, value, other))
        inside[path[-1]] = value
    assert accepted == [], accepted
    assert tried > 200 / SHARES


def weaker(path: Path_, value: Any, other: Any) -> bool:
    """Whether an upper bound's numbers only became larger, or a lower bound smaller."""
    if pattern(path).startswith("likelihoods/*/bounds/*/lower/"):
        return float(other) < float(value)
    return pattern(path) == "derivation/steps/*/expression" and lowered((value, other)) <= 0


def is_rejected(certificate: Json) -> bool:
    for verify in (check, validate):
        try:
            verify(certificate)
        except CertificateRejected:
            return True
    return False


def test_every_kind_of_value_is_tried() -> None:
    shapes = {pattern(path) for path, _ in protected(held()["predicate"])}
    wanted = {
        "derivation/steps/*/conclusion/mu", "derivation/steps/*/premises/*",
        "derivation/steps/*/rule", "derivation/steps/*/attained", "derivation/steps/*/expression",
        "derivation/steps/*/witness/epsilon", "derivation/steps/*/witness/delta",
        "derivation/upper_bounds/*/curve/*/*", "derivation/upper_bounds/*/mu",
        "claims/*/exact", "claims/*/stated/epsilon", "claims/*/stated/delta",
        "claims/*/stated_text", "claims/*/check", "claims/*/verdict", "claims/*/attained",
        "claims/*/lower/mu", "claims/*/lower_conditional/epsilon", "claims/*/lower/confidence",
        "audits/*/counts/false_positives", "audits/*/witness/decisive_lower",
        "audits/*/witness/decisive_error", "audits/*/witness/false_negative_rate_upper",
        "audits/*/confidence/adjusted_for", "audits/*/confidence/decision_error",
        "audits/*/lower_bounds/*/epsilon", "audits/*/strongest/mu", "audits/*/roc/*/*",
        "audits/*/trials", "audits/*/verdict", "audits/*/seed",
        "assumptions/*/status", "assumptions/*/statement", "mechanism/digest",
        "mechanism/declaration_text", "in_plain_words/posterior/*/*",
        "in_plain_words/membership_guess_upper", "verdict/status", "verdict/margin",
    }  # fmt: skip
    assert wanted <= shapes


@pytest.mark.quality
def test_no_digit_of_the_file_can_be_changed(tmp_path: Path) -> None:
    """Without new digests: 300 places in the predicate, and every third digit outside it."""
    path = tmp_path / "held.json"
    save(held(), path)
    text = path.read_text()
    places = [i for i, letter in enumerate(text) if letter.isdigit()]
    head = text.index('"predicate":{')
    tail = text.index('"predicateType"')
    outside = [i for i in places if not head < i < tail]
    inside = [i for i in places if head < i < tail]
    for count, place in enumerate([*inside[:: len(inside) // 300], *outside[::3]]):
        digit = str((int(text[place]) + 1) % 10)
        path.write_text(text[:place] + digit + text[place + 1 :])
        if head < place < tail and count % 10:  # every tenth goes the whole way
            with pytest.raises(CertificateRejected, match="was changed"):
                check(load(path))
        else:
            assert not verify_file(path)["verified"], text[max(0, place - 40) : place + 10]
    path.write_text(text)
    assert verify_file(path)["verified"]
