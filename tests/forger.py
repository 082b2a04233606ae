"""A forger with the source at hand: changes certificates in every way that would help a liar.

A forgery changes one thing or several, and then makes everything else consistent as far as a forger
can: a lowered number is lowered wherever it stands, digests are made again.  What is accepted must
be true, or nothing but the signer's word.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.check import bounds, check, conformance, curves, declared_digest
from dpaudit.check.file import schema, validate
from dpaudit.check.measures import MEASURES
from dpaudit.errors import CertificateRejected, DpauditError
from dpaudit.exact.wire import decode_number, digest
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.nodes.tables import from_table
from dpaudit.scope import Scope

Json = dict[str, Any]
Path = tuple[str | int, ...]
DECIMAL = re.compile(r"^(0|[1-9][0-9]*)(\.[0-9]+)?(e-?[0-9]+)?$")
FRACTION = re.compile(r"^-?[0-9]+/[0-9]+$")
EXTREMES = ("1e-6", "0.0000010000001", "0.0000018", "0.000004", "1", "1e3", "9999999", "1e9", "0")
STEPS = ("1/1000000000", "1/1000000", "1/7", "1/1", "9/1", "19/1", "1/1048576")
KINDS = {"PureDP": PureDP, "ApproxDP": ApproxDP, "ZCDP": ZCDP, "GDP": GDP}

# What nobody can derive again: the signer answers for it, and `dpaudit verify` says so.  Fields are
# named without the numbers of their rows.
SIGNERS_WORD = (
    "issued",
    "fields",
    "scope",
    "mechanism",
    "claims by",
    "claims source",
    "claims reading",
    "claims reason",
    "claims id",
    "derivation accountant",
    "derivation steps cite",
    "audits",
    "claims lower",
    "claims lower_conditional",
    "conformance",
    "examination",
    "run",
    "caveats",
    "environment",
    "reproduce",
    "verdict reasons",
    # The checker has its own windows and error terms, and says so.
    "derivation steps witness",
)


@dataclass(frozen=True)
class Tried:
    """One forgery: what was changed, and whether it was accepted, and is true."""

    fields: tuple[str, ...]
    accepted: bool
    reason: str
    claims_hold: bool = True


@contextmanager
def remembered() -> Iterator[None]:
    """Special functions are computed once: a forgery changes one number, and the rest repeats."""
    slow = [(bounds, "_tail"), (curves, "_mean_posterior"), (curves, "gaussian_delta")]
    slow += [(conformance, name) for name in ("_variance", "_binomial", "_log_normal_tail")]
    with pytest.MonkeyPatch.context() as patch:
        for module, name in slow:
            patch.setattr(module, name, remembering(getattr(module, name)))
        for law in ("variance", "binomial"):
            for table in (conformance.LAWS, conformance.BY_PARAMETER):
                if law in table:
                    patch.setitem(table, law, remembering(table[law]))
        for name, measure in MEASURES.items():
            if measure.from_rates is not None:
                known = replace(measure, from_rates=remembering(measure.from_rates))
                patch.setitem(MEASURES, name, known)
        for name, confirm in curves.CURVES.items():
            patch.setitem(curves.CURVES, name, row_by_row(remembering(confirm)))
        yield


def row_by_row(confirm: Any) -> Any:
    """A check of every row of a curve alone; a row that was confirmed once is remembered."""
    return lambda curve, mu: [confirm([row], mu) for row in curve]


def remembering(function: Any) -> Any:
    """The function, with what it gave for the same arguments, to the last digit."""
    known: dict[tuple[str, ...], Any] = {}

    def call(*arguments: Any) -> Any:
        key = tuple(a.str(60, more=True) if hasattr(a, "mid") else str(a) for a in arguments)
        if key not in known:
            known[key] = function(*arguments)
        return known[key]

    return call


def field(path: Path) -> str:
    """A path without the numbers of rows."""
    return " ".join(part for part in path if isinstance(part, str))


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value that is no object or list, and every list, with its path."""
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from leaves(inside, (*path, key))
    elif isinstance(value, list):
        yield path, value
        for index, inside in enumerate(value):
            yield from leaves(inside, (*path, index))
    else:
        yield path, value


def put(predicate: Json, path: Path, value: Any) -> None:
    """Set what is at a path."""
    inside: Any = predicate
    for part in path[:-1]:
        inside = inside[part]
    inside[path[-1]] = value


def everywhere(value: Any, old: str, new: str) -> Any:
    """The same with a number's text replaced wherever it stands, in words too."""
    if isinstance(value, dict):
        return {key: everywhere(inside, old, new) for key, inside in value.items()}
    if isinstance(value, list):
        return [everywhere(inside, old, new) for inside in value]
    if not isinstance(value, str):
        return value
    return new if value == old else re.sub(rf"(?<![\d.]){re.escape(old)}(?![\d.])", new, value)


def smaller(draw: random.Random, text: str) -> str:
    """Another decimal, mostly smaller; sometimes by its last digit alone."""
    if draw.random() < 0.3 and text[-1] in "123456789" and "e" not in text:
        return text[:-1] + str(int(text[-1]) - 1)
    factor = draw.choice(["0", "0.5", "0.9", "0.999", "0.999999", "1.1", "2", "1000"])
    value = Fraction(text) * Fraction(factor)
    shown = f"{float(value):.12g}"
    return shown if DECIMAL.match(shown) else f"{float(value):.20f}".rstrip("0").rstrip(".")


def enumerations(form: Any, found: set[str] | None = None) -> set[str]:
    """Every word that some field of the schema takes."""
    found = set() if found is None else found
    if isinstance(form, dict):
        found.update(word for word in form.get("enum", ()) if isinstance(word, str))
        for inside in form.values():
            enumerations(inside, found)
    elif isinstance(form, list):
        for inside in form:
            enumerations(inside, found)
    return found


class Forger:
    """Makes forgeries of some certificates, by a seed."""

    def __init__(self, honest: list[Json]) -> None:
        self.honest = honest
        self.words = sorted(enumerations(schema()))
        steps = [row for c in honest for row in c["predicate"]["derivation"]["steps"]]
        self.rules = sorted({row["rule"] for row in steps})
        self.calculi = sorted({row["calculus"] for row in steps})

    def forge(self, seed: int) -> tuple[Json, Json]:
        """An honest predicate, and a forged one."""
        draw = random.Random(seed)
        honest = draw.choice(self.honest)["predicate"]
        forged = copy.deepcopy(honest)
        for _ in range(draw.choice([1, 1, 1, 2, 3])):
            change = draw.choice(
                [self._field, self._field, self._lowered, self._row, self._verdict]
            )
            forged = change(draw, forged)
        return honest, forged

    def _field(self, draw: random.Random, predicate: Json) -> Json:
        """One field changed; fields of each part of the certificate alike."""
        part = draw.choice(["claims", "derivation", "derivation", "assumptions", "audits", "any"])
        found = [
            (path, value)
            for path, value in leaves(predicate)
            if not isinstance(value, list) and (part == "any" or path[0] == part)
        ]
        if not found:
            return predicate
        path, value = draw.choice(found)
        put(predicate, path, self._other(draw, path, value))
        return predicate

    def _other(self, draw: random.Random, path: Path, value: Any) -> Any:
        name = path[-1]
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return draw.choice([0, 1, value + 1, max(value - 1, 0), value * 10])
        if value is None or not isinstance(value, str):
            return draw.choice([None, "0", 0, "certified"])
        return self._other_text(draw, str(name), value)

    def _other_text(self, draw: random.Random, name: str, value: str) -> Any:
        if name == "tilt":
            return draw.choice(EXTREMES)
        if name == "step":
            return draw.choice(STEPS)
        if name == "rule":
            return draw.choice(self.rules)
        if name == "calculus":
            return draw.choice(self.calculi)
        if DECIMAL.match(value):
            return draw.choice([smaller(draw, value), smaller(draw, value), "inf", "0"])
        if FRACTION.match(value):
            changed = Fraction(value) * Fraction(draw.choice(["1/2", "9/10", "2", "0", "-1"]))
            return f"{changed.numerator}/{changed.denominator}"
        if value in self.words:
            return draw.choice(self.words)
        if name == "node":
            return draw.choice([row["node"] for c in self.honest for row in
                                c["predicate"]["derivation"]["steps"]])  # fmt: skip
        return draw.choice(["", value + "x", value[::-1], "0.01"])

    def _lowered(self, draw: random.Random, predicate: Json) -> Json:
        """A number of a claim or a conclusion lowered wherever it stands."""
        found = {
            value
            for path, value in leaves(predicate)
            if isinstance(value, str) and DECIMAL.match(value) and value not in ("0", "1")
            and path[0] in ("claims", "derivation")
        }  # fmt: skip
        if not found:
            return predicate
        old = draw.choice(sorted(found))
        new = smaller(draw, old)
        changed: Json = everywhere(predicate, old, new)
        exact = Fraction(new)
        for row, before in zip(changed["claims"], predicate["claims"], strict=True):
            if row["stated"] != before["stated"]:
                row["exact"] = f"{exact.numerator}/{exact.denominator}"
        return changed

    def _row(self, draw: random.Random, predicate: Json) -> Json:
        """A row left out, twice there, or exchanged with another; or a node's number changed."""
        if draw.random() < 0.4:
            return self._declared(draw, predicate)
        found = [
            (path, value) for path, value in leaves(predicate) if isinstance(value, list) and value
        ]
        path, rows = draw.choice(found)
        rows = list(rows)
        index, other = draw.randrange(len(rows)), draw.randrange(len(rows))
        kind = draw.choice(["left out", "twice", "exchanged", "none"])
        if kind == "left out":
            del rows[index]
        elif kind == "twice":
            rows.insert(index, copy.deepcopy(rows[index]))
        elif kind == "none":
            rows = []
        else:
            rows[index], rows[other] = rows[other], rows[index]
        put(predicate, path, rows)
        return predicate

    def _declared(self, draw: random.Random, predicate: Json) -> Json:
        """A parameter of a node changed, and every digest made again."""
        nodes = predicate["mechanism"]["declaration"]["nodes"]
        found = [
            (path, value)
            for path, value in leaves(nodes)
            if isinstance(value, str) and FRACTION.match(value)
        ]
        if not found:
            return predicate
        path, value = draw.choice(found)
        changed = Fraction(value) * Fraction(draw.choice(["1/2", "2", "10", "11/10"]))
        put(nodes, path, f"{changed.numerator}/{changed.denominator}")
        for _ in range(len(nodes)):
            for name, row in list(nodes.items()):
                new = digest(row)
                if new != name:
                    predicate = everywhere(predicate, name, new)
                    table = predicate["mechanism"]["declaration"]["nodes"]
                    table[new] = table.pop(name, row)
                    nodes = table
        return predicate

    def _verdict(self, draw: random.Random, predicate: Json) -> Json:
        """What a liar writes in the end: all proved, all certified, nothing refuted."""
        good = draw.choice(["certified", "certified_under_assumptions"])
        for row in predicate["claims"]:
            row.update(check="proved", verdict=good)
        for row in predicate["audits"]:
            row["verdict"] = "not_refuted"
        for row in predicate["conformance"]:
            row["status"] = "held"
        predicate["verdict"]["status"] = good
        return predicate


def sealed(predicate: Json) -> Json:
    """The statement of a predicate, its digests made again, as a forger would."""
    mechanism = predicate["mechanism"]
    try:
        root = from_table(mechanism["declaration"])
        mechanism.update(digest=declared_digest(root, predicate["scope"]))
        mechanism.update(declaration_text=repr(root))
    except (DpauditError, ArithmeticError, TypeError, ValueError, KeyError, AttributeError):
        pass
    implementation = mechanism.get("implementation")
    files = implementation if isinstance(implementation, list) else []
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "predicate", "digest": {"sha256": digest(predicate)}}, *files],
        "predicateType": schema()["properties"]["predicateType"]["const"],
        "predicate": predicate,
    }


def differing(honest: Any, forged: Any, path: Path = ()) -> Iterator[str]:
    """The fields that differ."""
    if isinstance(honest, dict) and isinstance(forged, dict):
        for key in {**honest, **forged}:
            yield from differing(honest.get(key), forged.get(key), (*path, key))
    elif isinstance(honest, list) and isinstance(forged, list) and len(honest) == len(forged):
        for index, (one, other) in enumerate(zip(honest, forged, strict=True)):
            yield from differing(one, other, (*path, index))
    elif honest != forged or type(honest) is not type(forged):
        yield field(path)


def attempt(honest: Json, forged: Json) -> Tried:
    """Verify a forgery; where it is accepted, ask the accountant whether its claims hold."""
    fields = tuple(sorted(set(differing(honest, forged))))
    try:
        statement = sealed(forged)
        validate(statement)
        check(statement)
    except CertificateRejected as error:
        return Tried(fields, accepted=False, reason=str(error))
    except DpauditError as error:
        return Tried(fields, accepted=False, reason=f"not written: {error}")
    return Tried(fields, accepted=True, reason="", claims_hold=holds(forged))


def holds(predicate: Json) -> bool:
    """Whether every claim that is said to be proved is, by the accountant's own account of it."""
    root = from_table(predicate["mechanism"]["declaration"])
    scope = Scope(predicate["scope"]["adjacency"], "record", "central", "transcript")
    account = Account(root, scope)
    for row in predicate["claims"]:
        kind, _, inside = row["stated_text"].partition("(")
        number = decode_number(row["exact"])
        arguments = [number]
        if kind == "ApproxDP":
            arguments.append(Fraction(inside.removesuffix(")").partition("delta=")[2]))
        found = Claim(KINDS[kind](*arguments), by="the forger").check_account(account).outcome
        said = row["verdict"].startswith("certified")
        if said and found is not Outcome.PROVED:
            return False
        if row["check"] == "refuted" and found is not Outcome.REFUTED:
            return False
    return True


def is_signers_word(name: str) -> bool:
    """Whether a field is one that only the signer answers for."""
    return any(name == word or name.startswith(f"{word} ") for word in SIGNERS_WORD)


Judge = Callable[[Json, Json], Tried]
