"""A forger with the source at hand: changes certificates in every way that would help a liar.

A forgery changes one thing or several, and then makes everything else consistent as far as a forger
can: a lowered number is lowered wherever it stands, digests are made again.  What is accepted must
be true, or nothing but the signer's word.
"""

from __future__ import annotations

import copy
import json
import marshal
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

import dpaudit.check as check_module
from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.check import check, curves, declared_digest, laws, rates
from dpaudit.check.file import schema, validate
from dpaudit.check.measures import MEASURES
from dpaudit.check.profile import conversions
from dpaudit.check.profile.cells import NotConfirmed
from dpaudit.check.unchecked import (
    APART,
    CHOSEN,
    OBSERVED,
    ROUNDED,
    ROUNDING,
    SIGNERS_WORD,
    WEAKER,
    WEAKER_FROM_BELOW,
)
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
# What reading nonsense raises before a checker is asked.
NONSENSE = (DpauditError, ArithmeticError, TypeError, ValueError, LookupError, AttributeError)
KINDS = {"PureDP": PureDP, "ApproxDP": ApproxDP, "ZCDP": ZCDP, "GDP": GDP}

# The order of rows is any, and the claims may hold of another declaration as well.
AS_GOOD = (
    "assumptions order",
    "audits order",
    "likelihoods order",
    "likelihoods bounds order",
    "mechanism declaration",
    "mechanism declaration_text",
    "mechanism digest",
)
SEALED, MISSING = "0" * 64, object()


@dataclass(frozen=True)
class Tried:
    """One forgery: what was changed, and whether it was accepted, and is true.

    ``moved``: by which part of itself the number that changed most did; ``lowered``: the same of
    numbers that became smaller, in words too.
    """

    fields: tuple[str, ...]
    accepted: bool
    reason: str
    claims_hold: bool = True
    moved: float = 0.0
    lowered: float = 0.0
    raised: float = 0.0


@contextmanager
def remembered(*, sealed: bool = False) -> Iterator[None]:
    """Special functions are computed once: a forgery changes one number, and the rest repeats.

    ``sealed``: the digest of a predicate is taken to have been made again, as a forger would.
    """
    slow = [(rates, "tail"), (curves, "_mean_posterior"), (curves, "gaussian_delta")]
    slow += [(laws, name) for name in ("_variance", "_binomial", "_log_normal_tail")]
    with pytest.MonkeyPatch.context() as patch:
        for module, name in slow:
            patch.setattr(module, name, remembering(getattr(module, name)))
        patch.setattr(conversions, "smooth_bound", remembering_bounds(conversions.smooth_bound))
        if sealed:
            patch.setattr(check_module, "digest", lambda v: SEALED if "claims" in v else digest(v))
        for law in ("variance", "binomial"):
            for table in (laws.LAWS, laws.BY_PARAMETER):
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


def remembering_bounds(function: Any) -> Any:
    """A bound of factors, with what it gave for the same arguments, or that it gave none."""
    known: dict[tuple[Any, ...], Any] = {}

    def call(factors: Any, *arguments: Any) -> Any:
        key = (tuple(factors), *arguments)
        if key not in known:
            try:
                known[key] = function(factors, *arguments)
            except NotConfirmed as error:
                known[key] = error
        if isinstance(known[key], NotConfirmed):
            raise NotConfirmed(*known[key].args)
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
    if not isinstance(value, str) or old not in value:
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


def sealed(predicate: Json, *, whole: bool = False) -> Json:
    """The statement of a predicate, its digests made again, as a forger would.

    ``whole``: the digest of the predicate too, which :func:`remembered` does without.
    """
    mechanism = predicate["mechanism"]
    try:
        root = from_table(mechanism["declaration"])
        mechanism.update(digest=declared_digest(root, predicate["scope"]))
        mechanism.update(declaration_text=repr(root))
    except NONSENSE:
        pass
    implementation = mechanism.get("implementation")
    files = implementation if isinstance(implementation, list) else []
    own = digest(predicate) if whole else SEALED
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "predicate", "digest": {"sha256": own}}, *files],
        "predicateType": schema()["properties"]["predicateType"]["const"],
        "predicate": predicate,
    }


def differing(honest: Any, forged: Any, path: Path = ()) -> Iterator[str]:
    """The fields that differ."""
    if isinstance(honest, dict) and isinstance(forged, dict):
        for key in {**honest, **forged}:
            one, other = honest.get(key, MISSING), forged.get(key, MISSING)
            yield from differing(one, other, (*path, key))
    elif isinstance(honest, list) and isinstance(forged, list) and len(honest) == len(forged):
        name = field(path)
        if honest != forged and name in UNORDERED and _sorted(honest) == _sorted(forged):
            yield f"{name} order"
            return
        for index, (one, other) in enumerate(zip(honest, forged, strict=True)):
            yield from differing(one, other, (*path, index))
    elif honest != forged or type(honest) is not type(forged):
        yield f"{field(path)} left out" if _is_shorter(honest, forged) else field(path)


def _is_shorter(honest: Any, forged: Any) -> bool:
    """Whether rows of a list of objects were left out, and nothing else was done to it."""
    if not (isinstance(honest, list) and isinstance(forged, list)):
        return False
    whole, rest = (Counter(_sorted(rows)) for rows in (honest, forged))
    return rest < whole and all(isinstance(row, dict) for row in honest)


def _sorted(rows: list[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def attempt(honest: Json, forged: Json) -> Tried:
    """Verify a forgery; where it is accepted, ask the accountant whether its claims hold."""
    fields = tuple(sorted(set(differing(honest, forged))))
    try:
        statement = sealed(forged)
        check(statement)
        validate(statement)
    except CertificateRejected as error:
        return Tried(fields, accepted=False, reason=str(error))
    except NONSENSE as error:
        return Tried(fields, accepted=False, reason=f"not written: {error}")
    pairs = list(values(*map(without_choices, (honest, forged))))
    moved, lowered, raised = (
        max(map(how, pairs), default=0.0) for how in (_moved, _lowered, _raised)
    )
    return Tried(
        fields,
        accepted=True,
        reason="",
        claims_hold=holds(forged),
        moved=moved,
        lowered=lowered,
        raised=raised,
    )


def without_choices(predicate: Json) -> Json:
    """The predicate without what a prover chooses: any choice is as good, however far it moved."""
    found = copied(predicate)
    for step in found["derivation"]["steps"]:
        step.pop("witness", None)
    return found


def values(honest: Any, forged: Any, path: Path = ()) -> Iterator[tuple[Any, Any]]:
    """The values that differ, of fields that both have, but for the signer's word."""
    if isinstance(honest, dict) and isinstance(forged, dict):
        for key in honest.keys() & forged.keys():
            yield from values(honest[key], forged[key], (*path, key))
    elif isinstance(honest, list) and isinstance(forged, list) and len(honest) == len(forged):
        for one, other in zip(honest, forged, strict=True):
            yield from values(one, other, path)
    elif honest != forged and not _within(field(path), SIGNERS_WORD):
        yield honest, forged


def _moved(pair: tuple[Any, Any]) -> float:
    if all(isinstance(one, str) and not DECIMAL.match(one) for one in pair):
        return 0.0
    try:
        one, other = map(float, pair)
        return abs(one - other) / max(abs(one), abs(other))
    except (TypeError, ValueError, ArithmeticError):
        return math.inf


_known: dict[str, bool] = {}


def _lowered(pair: tuple[Any, Any]) -> float:
    before, after = (re.findall(r"[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?", str(one)) for one in pair)
    if len(before) != len(after):
        return math.inf
    both = [(float(a), float(b)) for a, b in zip(before, after, strict=True)]
    return max(((a - b) / a for a, b in both if a > 0), default=0.0)


def _raised(pair: tuple[Any, Any]) -> float:
    return _lowered((pair[1], pair[0]))


def holds(predicate: Json) -> bool:
    """Whether every claim that is said to be proved is, by the accountant's own account of it."""
    claims = [[row[k] for k in ("stated_text", "exact", "verdict", "check")]
              for row in predicate["claims"]]  # fmt: skip
    said = json.dumps([predicate["mechanism"]["declaration"], predicate["scope"], claims])
    if said not in _known:
        _known[said] = _holds(predicate)
    return _known[said]


def _holds(predicate: Json) -> bool:
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


def kind_of(tried: Tried) -> str:
    """How a forgery came out: refused, or accepted and why that is no falsehood."""
    if not tried.accepted:
        return "refused"
    if not tried.claims_hold:
        return "FALSE"
    others = [name for name in tried.fields if not _within(name, SIGNERS_WORD)]
    if not others:
        return "the signer's word"
    known = (*AS_GOOD, *OBSERVED, *CHOSEN, *APART, *(ROUNDED if tried.moved <= ROUNDING else ()))
    known = (*known, *(WEAKER if tried.lowered <= ROUNDING else ()))
    # A smaller lower bound is weaker, a larger one follows from other losses and weights alone.
    follows = tried.raised <= ROUNDING or "likelihoods scores" in tried.fields
    given = [name for name in WEAKER_FROM_BELOW if "bounds" not in name]
    known = (*known, *(WEAKER_FROM_BELOW if follows else given))
    if all(_within(name, known) for name in others):
        return "true"
    return "NOT LISTED: " + ", ".join(others)


def _within(name: str, fields: tuple[str, ...]) -> bool:
    return any(name == word or name.startswith(f"{word} ") for word in fields)


# --- every change of every field ------------------------------------------------------------------

UNORDERED = ("assumptions", "audits", "likelihoods", "likelihoods bounds")
NUMBERS = ("0", "inf", "1e-300", "1", "1e999999")
EXACT: tuple[Any, ...] = ("0/1", "1/0", "1", ["Infinity"], ["Symbol", "x", {}], None)
WHOLE = (0, 1, -1, 2, 10**9, 10**30)


def every(
    honest: Json, words: list[list[str]], rules: list[str]
) -> Iterator[tuple[str, Callable[[], Json]]]:
    """Each field of a predicate, by its first and its last place, changed in each way; what it is.

    What is given makes the forgery, and is called before the next is asked for.

    A forger's ways: smaller and larger numbers, at their last digit, at the ends of their range and
    beyond, alone and with every other place of the same number; other words of the same list; other
    rules, measures and nodes; extremes of what a prover chooses; rows left out, twice there,
    exchanged; fields left out, and of another kind.
    """
    shapes: dict[tuple[str, str], list[Path]] = {}
    for path, value in places(honest):
        shapes.setdefault((field(path), type(value).__name__), []).append(path)
    for (name, _), paths in shapes.items():
        for path in dict.fromkeys((paths[0], paths[-1])):
            value = reached(honest, path)
            for way, other in changes(name, value, words, rules, honest):
                if way == "everywhere":
                    yield way, partial(everywhere, honest, value, other)
                elif way == "field left out":
                    yield way, partial(without, honest, path, other)
                else:
                    yield way, partial(having, honest, path, other)


def without(honest: Json, path: Path, key: str) -> Json:
    """A copy that lacks a field of the object at a path."""
    forged = copied(honest)
    del reached(forged, path)[key]
    return forged


def having(honest: Json, path: Path, value: Any) -> Json:
    """A copy with another value at a path."""
    forged = copied(honest)
    put(forged, path, value)
    return forged


def places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value with its path; the objects and lists that hold them too."""
    if path:
        yield path, value
    items: Any = value.items() if isinstance(value, dict) else ()
    for key, inside in enumerate(value) if isinstance(value, list) else items:
        yield from places(inside, (*path, key))


def reached(value: Any, path: Path) -> Any:
    """What is at a path."""
    for part in path:
        value = value[part]
    return value


def copied(value: Json) -> Json:
    """A copy that shares nothing."""
    found: Json = marshal.loads(marshal.dumps(value))  # noqa: S302  (its own)
    return found


def changes(
    name: str, value: Any, words: list[list[str]], rules: list[str], honest: Json
) -> Iterator[tuple[str, Any]]:
    """What a forger would write in the place of a value."""
    last = name.rpartition(" ")[2]
    if isinstance(value, dict):
        yield from (("field left out", key) for key in list(value)[:3])
        yield "another kind", {**value, "more": "0"}
    elif isinstance(value, list):
        yield from (("rows", rows) for rows in rows_of(value))
    elif isinstance(value, bool):
        yield "another word", not value
    elif isinstance(value, int):
        yield from (("a number", n) for n in (*WHOLE, value + 1, value - 1, 10 * value))
    elif value is None:
        yield from (("another kind", other) for other in ("0", 0, "certified", {}, []))
    elif last in ("rule", "calculus", "node", "tilt", "step"):
        steps = honest["derivation"]["steps"]
        known = {
            "rule": rules,
            "calculus": sorted({rule.partition(".")[0] for rule in rules}),
            "node": sorted({row["node"] for row in steps}),
            "tilt": EXTREMES,
            "step": STEPS,
        }[last]
        yield from (("what a prover chooses", other) for other in known if other != value)
    elif DECIMAL.match(value):
        yield from numbers_near(value)
    elif FRACTION.match(value):
        exact = Fraction(value)
        for factor in ("1/2", "9/10", "999999999/1000000000", "11/10", "2", "-1"):
            changed = exact * Fraction(factor)
            yield "a number", f"{changed.numerator}/{changed.denominator}"
        yield from (("a number", other) for other in EXACT)
    else:
        alike = next((group for group in words if value in group), [])
        yield from (("another word", other) for other in alike if other != value)
        yield from (("a text", other) for other in ("", value + "x", "0.01", "x\x1b[2K", 1, None))


def rows_of(rows: list[Any]) -> Iterator[list[Any]]:
    """A list with rows left out, twice there, or in another order."""
    yield []
    if rows:
        yield rows[1:]
        yield rows[:-1]
        yield [*rows, rows[-1]]
        yield rows[::-1]


def numbers_near(value: str) -> Iterator[tuple[str, str]]:
    """Other decimals, alone and wherever this one stands."""
    for factor in ("0.5", "0.999", "0.999999", "1.000001", "2"):
        changed = Fraction(value) * Fraction(factor)
        shown = f"{float(changed):.12g}" if changed < 10**15 else str(int(changed))
        shown = shown if DECIMAL.match(shown) else f"{float(changed):.30f}".rstrip("0").rstrip(".")
        if shown != value:
            yield "a number", shown
            if float(value) not in (0, 1):
                yield "everywhere", shown
    for digit in range(10) if value[-1] in "123456789" and "e" not in value else ():
        if abs(digit - int(value[-1])) == 1:
            yield "a number", value[:-1] + str(digit)
    yield from (("a number", other) for other in NUMBERS if other != value)


def alternatives(form: Any, found: list[list[str]] | None = None) -> list[list[str]]:
    """The lists of words that fields of the schema take."""
    found = [] if found is None else found
    if isinstance(form, dict):
        if all(isinstance(word, str) for word in form.get("enum", (0,))):
            found.append(form["enum"])
        for inside in form.values():
            alternatives(inside, found)
    elif isinstance(form, list):
        for inside in form:
            alternatives(inside, found)
    return found


def all_of(
    certificates: dict[str, Json],
    most: int | None = None,
    only: str = "",
    *,
    part: int = 0,
    of: int = 1,
) -> Iterator[tuple[str, str, Tried]]:
    """The first part of the path, the way, and how it came out; ``most`` of them, spread evenly.

    ``only``: those that change this part. ``part`` of ``of``: of one share, dealt in turn.
    """
    words = [[str(word) for word in group] for group in alternatives(schema())]
    steps = [row for c in certificates.values() for row in c["predicate"]["derivation"]["steps"]]
    rules = sorted({row["rule"] for row in steps})

    def known() -> Iterator[tuple[Json, str, Json]]:  # made anew each time: there are gigabytes
        for certificate in certificates.values():
            honest = certificate["predicate"]
            for number, (way, make) in enumerate(every(honest, words, rules)):
                if number % of != part:
                    continue
                forged = make()
                if forged != honest and (not only or forged[only] != honest[only]):
                    yield honest, way, forged

    count = sum(1 for _ in known()) if most is not None else 0
    chosen = {k * count // most for k in range(most)} if most is not None else set()
    with remembered(sealed=True):
        for k, (honest, way, forged) in enumerate(known()):
            if most is None or count <= most or k in chosen:
                place = next(differing(honest, forged), "").split(" ")
                inside = place[0] in ("derivation", "mechanism")
                name = " ".join(place[:2] if inside else place[:1])
                yield name, way, attempt(honest, forged)
