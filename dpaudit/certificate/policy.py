"""Policies: which certificates somebody accepts, from whom, and for how long.

A policy file names keys and rules.  A rule applies to the mechanisms and data sets that it names;
of a certificate every rule that applies has to hold, and one to which none applies is refused.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpaudit.check.claims import VERDICTS
from dpaudit.errors import InvalidParameter
from dpaudit.report.summary import data_of, data_sets_of
from dpaudit.scope import Protected, disguised, name_key, protected
from dpaudit.sign import Key, public_key
from dpaudit.storage.evidence import read_once
from dpaudit.storage.fields import _table, refuse_unknown

LARGEST_FILE = 2**20  # bytes of a policy
LEAST = "certified_under_assumptions"
KEY_FIELDS = ("file", "sha256")  # fields of a key in a policy
# Fields of a rule in a policy.
RULE_FIELDS = (
    "name",
    "mechanisms",
    "data",
    "adjacency",
    "unit",
    "kind",
    "period",
    "bound",
    "model",
    "outputs",
    "uncovered",
    "invariants",
    "keys",
    "threshold",
    "verdict",
    "epsilon",
    "delta",
    "rho",
    "mu",
    "days",
    "audit",
    "implementation",
    "assumptions",
)
CLOCK_SKEW = timedelta(minutes=10)  # A certificate's clock may be this far ahead of ours.

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """A rule for the certificates of some mechanisms and data sets.

    ``mechanisms``, ``data``: patterns, such as ``noisy_*``, one of which has to fit.
    ``adjacency``, ``unit``, ``kind``, ``model``: of the certificate's scope; any where they are
    empty.  ``period``, ``bound``: of the unit, which has none where they are empty and the unit is
    named.  ``outputs``, ``uncovered``, ``invariants``: those that a scope may have; None allows
    all.  ``keys``: who may certify, and ``threshold`` how many of them have to have signed.
    ``limits``: of a proved claim, the largest accounted epsilon, rho or mu; ``delta``: the largest
    delta of that epsilon.  ``days``: the largest age.  ``implementation``: the files, by their
    SHA-256.  ``assumptions``: those on which a guarantee may rest although nothing enforces them;
    None allows all.
    """

    name: str
    mechanisms: tuple[str, ...]
    data: tuple[str, ...]
    adjacency: str
    unit: str
    kind: str
    period: str
    bound: str
    model: str
    outputs: frozenset[str] | None
    uncovered: frozenset[str] | None
    invariants: frozenset[str] | None
    keys: tuple[Key, ...]
    threshold: int
    verdict: str
    limits: Mapping[str, Fraction]
    delta: Fraction
    days: int | None
    audit: bool
    implementation: Mapping[str, str] | None
    assumptions: frozenset[str] | None

    def applies(self, mechanism: str, data: str) -> bool:
        """Whether it is of certificates of this mechanism and data set."""
        return _is_among(mechanism, self.mechanisms) and _is_among(data, self.data)


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name fits a pattern, both as names are compared."""
    return any(fnmatchcase(name_key(name), name_key(pattern)) for pattern in patterns)


@dataclass(frozen=True)
class Policy:
    """The keys and rules of a policy file."""

    keys: tuple[Key, ...]
    rules: tuple[Rule, ...]

    def refusals(self, row: Json, certificate: Json, now: datetime | None = None) -> list[str]:
        """Reasons to refuse a certificate, one line a rule and kind; empty where it is accepted.

        ``row``: of `dpaudit verify`, with the signatures of the policy's keys.
        """
        predicate = certificate["predicate"]
        name = predicate.get("mechanism", {}).get("name", "")
        data = (data_sets_of(predicate) or (data_of(predicate),)) if name else ("",)
        scope = protected(predicate["scope"], data)
        if disguises := [*disguised(name), *scope.disguises]:
            return [
                f"policy: a name may be read as another one, {data_name}" for data_name in disguises
            ]
        ruled = {
            data_name: [rule for rule in self.rules if rule.applies(name, data_name)]
            for data_name in data
        }
        free = [data_name for data_name, applying in ruled.items() if not applying]
        if free:
            return [
                f"policy: no rule is of mechanism {name!r} on data {data_name!r}"
                for data_name in free
            ]
        rules = [
            rule for rule in self.rules if any(rule in applying for applying in ruled.values())
        ]
        at = now or datetime.now(UTC)
        return [
            f"policy, {rule.name}: {text}"
            for rule in rules
            for text in (
                *_unsigned(rule, row),
                *_weaker(rule, row["verdict"]),
                *_of_others(rule, scope),
                *_more(rule, scope, predicate["scope"]),
                *_above(rule, predicate),
                *_aged(rule, predicate["issued"], at),
                *(row["powerless"] if rule.audit else ()),
                *_other_files(rule, predicate),
                *_assumed(rule, predicate),
            )
        ]


# --- what a certificate lacks ---------------------------------------------------------------------


def _unsigned(rule: Rule, row: Json) -> list[str]:
    valid = {
        signature["key_id"]
        for signature in row.get("signatures", ())
        if signature["state"] == "valid"
    }
    # A key counts once, whatever it is called.
    signed = valid & {key.id for key in rule.keys}
    if len(signed) >= rule.threshold:
        return []
    names = ", ".join(key.name for key in rule.keys if key.id not in signed)
    return [f"{len(signed)} of {rule.threshold} wanted signatures: none valid of {names}"]


def _weaker(rule: Rule, verdict: str) -> list[str]:
    if verdict in VERDICTS and VERDICTS.index(verdict) >= VERDICTS.index(rule.verdict):
        return []
    return [f"the verdict is {verdict}, at least wanted: {rule.verdict}"]


def _of_others(rule: Rule, scope: Protected) -> list[str]:
    """Where others are protected than the rule wants, or from others."""
    refusals = []
    if rule.unit:
        kind = rule.kind or scope.kind
        wanted = replace(scope, kind=kind, entity=rule.unit, period=rule.period, bound=rule.bound)
        if wanted.unit_key != scope.unit_key:
            refusals.append(
                f"the unit is {scope.unit!r}, wanted: {wanted.unit!r} (a rule "
                "names what it accepts as unit, kind, period and bound)"
            )
    pairs = {
        "kind": (rule.kind, scope.kind),
        "adjacency": (rule.adjacency, scope.adjacency),
        "model": (rule.model, scope.model),
    }
    return refusals + [
        f"the {name} is {stated!r}, wanted: {wanted!r}"
        for name, (wanted, stated) in pairs.items()
        if wanted not in ("", stated)
    ]


def _more(rule: Rule, scope: Protected, row: Json) -> list[str]:
    """Outputs and uncovered parts of a scope that the rule does not allow."""
    texts_by_name = {
        "outputs": (rule.outputs, scope.outputs),
        "uncovered": (rule.uncovered, row.get("data_accesses", {}).get("uncovered", ())),
        "invariants": (rule.invariants, row.get("invariants", ())),
    }
    return [
        f"its {name} have {text!r}, which is not allowed"
        for name, (allowed, texts) in texts_by_name.items()
        for text in texts
        if allowed is not None and text not in allowed
    ]


def _above(rule: Rule, predicate: Json) -> list[str]:
    """Exceeded limits; one proved claim within a limit is enough, because it bounds the loss."""
    proved = [row for row in predicate.get("claims", ()) if row["check"] == "proved"]
    refusals = []
    for name, limit in rule.limits.items():
        shown = [row["upper"] for row in proved if row["upper"] and name in row["upper"]]
        if name == "epsilon":
            shown = [claim for claim in shown if _at_most(claim.get("delta", "0"), rule.delta)]
        if not any(_at_most(claim[name], limit) for claim in shown):
            at = f" at a delta of at most {float(rule.delta):g}" if name == "epsilon" else ""
            least = min(
                (claim[name] for claim in shown if claim[name] != "inf"), key=Fraction, default=""
            )
            least_text = (
                f"{name} <= {least} is the least that is proved" if least else "none is proved"
            )
            refusals.append(f"wanted {name} <= {float(limit):g}{at}: {least_text}")
    return refusals


def _at_most(text: str, limit: Fraction) -> bool:
    return text != "inf" and Fraction(text) <= limit


def _aged(rule: Rule, issued: str, now: datetime) -> list[str]:
    if rule.days is None:
        return []
    at = datetime.fromisoformat(issued)
    if at > now + CLOCK_SKEW:
        return [f"issued on {issued}, which is to come"]
    if now - at > timedelta(days=rule.days):
        return [f"issued on {issued}, more than {rule.days} days ago"]
    return []


def _other_files(rule: Rule, predicate: Json) -> list[str]:
    if rule.implementation is None:
        return []
    rows = predicate.get("mechanism", {}).get("implementation", ())
    listed = {row["name"]: row["digest"]["sha256"] for row in rows}
    return [
        f"{name}: another file than the policy's"
        for name in sorted({*listed, *rule.implementation})
        if listed.get(name) != rule.implementation.get(name)
    ]


def _assumed(rule: Rule, predicate: Json) -> list[str]:
    if rule.assumptions is None:
        return []
    return [
        f"it rests on the assumption {row['id']} ({row['status']}), which is not allowed"
        for row in predicate.get("assumptions", ())
        if row["status"] != "enforced" and row["id"] not in rule.assumptions
    ]


# --- the file -------------------------------------------------------------------------------------


def read_policy(path: Path) -> Policy:
    """The policy in a TOML file; the files of its keys are looked up from its folder.

    Errors: InvalidParameter naming the file and the key of what is unknown or malformed.
    """
    try:
        content = tomllib.loads(read_once(path, LARGEST_FILE).content.decode("utf-8"))
    except OSError as error:
        raise InvalidParameter(f"{path}: {error.strerror}; give a policy file") from None
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(f"{path}: not TOML ({str(error)[:120]})") from None
    refuse_unknown(content, ("keys", "rules"), f"{path}")
    tables = _table(content.get("keys", {}), f"{path}: [keys]")
    keys: dict[str, Key] = {}
    for name, row in tables.items():
        keys[name] = _key(name, row, path)
        same = [other for other, key in keys.items() if key.id == keys[name].id and other != name]
        if same:
            raise InvalidParameter(f"{path}: [keys.{name}]: the same key as {same[0]}")
    rows = content.get("rules", [])
    if not isinstance(rows, list) or not rows:
        raise InvalidParameter(f"{path}: no [[rules]]; without a rule nothing would be accepted")
    rules = tuple(_rule(row, f"{path}: rule {i}", keys) for i, row in enumerate(rows, start=1))
    return Policy(tuple(keys.values()), rules)


def _key(name: str, value: Any, path: Path) -> Key:
    place = f"{path}: [keys.{name}]"
    row = _table(value, place)
    refuse_unknown(row, KEY_FIELDS, place)
    key = public_key(path.parent / _text(row.get("file"), f"{place} file"), name)
    if "sha256" in row and row["sha256"] != key.id:
        raise InvalidParameter(f"{place}: its file holds the key {key.id}, not this one")
    return key


def _rule(value: Any, place: str, keys: Mapping[str, Key]) -> Rule:
    """A rule of a policy file.  Errors: InvalidParameter naming the entry."""
    row = _table(value, place)
    refuse_unknown(row, RULE_FIELDS, place)
    if "mechanisms" not in row and "data" not in row:
        raise InvalidParameter(f"{place}: name the mechanisms or data, or '*' for all")
    names = _texts(row.get("keys", []), f"{place} keys")
    refuse_unknown(dict.fromkeys(names), keys, f"{place} keys")
    threshold = row.get("threshold", min(1, len(names)))
    if type(threshold) is not int or not min(1, len(names)) <= threshold <= len(set(names)):
        raise InvalidParameter(f"{place} threshold = {threshold!r:.40}: {len(names)} keys may sign")
    verdict = row.get("verdict", LEAST)
    if verdict not in VERDICTS:
        raise InvalidParameter(f"{place} verdict = {verdict!r:.60}: expected {', '.join(VERDICTS)}")
    if "delta" in row and "epsilon" not in row:
        raise InvalidParameter(f"{place} delta: give its epsilon too")
    if "unit" not in row and {"period", "bound"} & set(row):
        raise InvalidParameter(f"{place} period, bound: give their unit too")
    days, audit = row.get("days"), row.get("audit", False)
    if days is not None and (type(days) is not int or days < 0):
        raise InvalidParameter(f"{place} days = {days!r:.40}: expected a whole number of days")
    if type(audit) is not bool:
        raise InvalidParameter(f"{place} audit = {audit!r:.40}: expected true or false")
    files = row.get("implementation")
    return Rule(
        name=_text(row.get("name", place.rpartition(": ")[2]), f"{place} name"),
        mechanisms=_texts(row.get("mechanisms", ["*"]), f"{place} mechanisms"),
        data=_texts(row.get("data", ["*"]), f"{place} data"),
        adjacency=_optional(row, "adjacency", place),
        unit=_optional(row, "unit", place),
        kind=_optional(row, "kind", place),
        period=_optional(row, "period", place),
        bound=_optional(row, "bound", place),
        model=_optional(row, "model", place),
        outputs=_allowed(row, "outputs", place),
        uncovered=_allowed(row, "uncovered", place),
        invariants=_allowed(row, "invariants", place),
        assumptions=_allowed(row, "assumptions", place),
        keys=tuple(keys[name] for name in dict.fromkeys(names)),
        threshold=threshold,
        verdict=verdict,
        limits={
            name: _number(row[name], f"{place} {name}")
            for name in ("epsilon", "rho", "mu")
            if name in row
        },
        delta=_number(row.get("delta", 0), f"{place} delta"),
        days=days,
        audit=audit,
        implementation=None if files is None else _files(files, f"{place} implementation"),
    )


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"{place} = {value!r:.60}: expected a text")
    return value


def _texts(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidParameter(f"{place} = {value!r:.60}: expected a list of texts")
    return tuple(_text(text, place) for text in value)


def _optional(row: Json, name: str, place: str) -> str:
    return _text(row[name], f"{place} {name}") if name in row else ""


def _allowed(row: Json, name: str, place: str) -> frozenset[str] | None:
    return frozenset(_texts(row[name], f"{place} {name}")) if name in row else None


def _files(value: Any, place: str) -> dict[str, str]:
    table = _table(value, place)
    for name, digest in table.items():
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise InvalidParameter(f"{place} {name[:60]!r}: expected a SHA-256, as 64 hex digits")
    return table


def _number(value: Any, place: str) -> Fraction:
    """A number as text, read exactly; a float is none."""
    text = str(value)
    if type(value) not in (str, int) or not re.fullmatch(
        r"[0-9]{1,30}(\.[0-9]{1,60})?([eE]-?[0-9]{1,3})?", text
    ):
        raise InvalidParameter(
            f'{place} = {text[:40]!r}: expected a number >= 0 as text, such as "0.5"'
        )
    return Fraction(text)
