"""The report's vocabulary: what each status is called, and how a guarantee reads aloud."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from dpaudit.report import numbers

Json = Mapping[str, Any]

VERDICTS: dict[str, tuple[str, str]] = {
    "certified": ("Certified", "good"),
    "certified_under_assumptions": ("Certified under assumptions", "qualified"),
    "refuted": ("Refuted", "bad"),
    "inconclusive": ("Inconclusive", "caution"),
    "unsupported": ("Unsupported", "neutral"),
    "alarm": ("Alarm", "bad"),
}

CHECKS: dict[str, tuple[str, str]] = {
    "proved": ("Proved", "good"),
    "refuted": ("Refuted", "bad"),
    "unproved": ("Unproved", "caution"),
    "unsupported": ("Unsupported", "neutral"),
}

AUDIT_VERDICTS: dict[str, tuple[str, str]] = {
    "refuted": ("Refuted", "bad"),
    "not_refuted": ("Not refuted", "neutral"),
    "inconclusive": ("Inconclusive", "caution"),
}

ASSUMPTION_STATUSES: dict[str, tuple[str, str]] = {
    "enforced": ("Enforced", "good"),
    "tested": ("Tested", "good"),
    "declared": ("Declared", "caution"),
    "violated": ("Violated", "bad"),
}

CONFORMANCE_STATUSES: dict[str, tuple[str, str]] = {
    "held": ("Held", "good"),
    "broken": ("Broken", "bad"),
    "not_run": ("Not run", "neutral"),
}

ATTACKS = {
    "exact": "exact likelihood ratio (optimal for this pair of data sets)",
    "averaged": "likelihood ratio averaged over fresh secret coins (valid, not claimed optimal)",
    "declared": "likelihood ratio under the declaration (valid, not claimed optimal)",
}

MODELS = {
    "central": "central: one trusted curator holds the raw data and adds the noise",
    "local": "local: each person's device adds the noise before anything leaves it",
    "shuffle": "shuffle: locally noised messages are stripped of their senders and mixed",
    "federated": "federated: clients keep their raw data and a trusted server adds the noise",
    "distributed": "distributed: the parties add shares of the noise to an aggregate",
}

MEASURES = {
    "approx_dp": "(ε, δ)-differential privacy",
    "pure_dp": "pure ε-differential privacy",
    "zcdp": "zero-concentrated differential privacy (ρ)",
    "gdp": "Gaussian differential privacy (μ)",
    "rdp": "Rényi differential privacy",
    "profile": "privacy profile δ(ε)",
    "tradeoff": "trade-off curve",
    "pairs": "dominating pair of distributions",
}

_RELATIONS = {
    "stated": ("=", numbers.exact),
    "upper": ("≤", numbers.upper),
    "lower": ("≥", numbers.lower),
}
_PARAMETERS = {
    "approx_dp": ("ε", "epsilon"),
    "pure_dp": ("ε", "epsilon"),
    "zcdp": ("ρ", "rho"),
    "gdp": ("μ", "mu"),
}
# Controls that reorder or hide text, and code units that no encoder accepts.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def adjacency(scope: Json) -> str:
    """What makes two data sets neighbours, with the unit named."""
    entity = one_unit(scope)
    return {
        "add_remove": f"add or remove: neighbours differ by the presence of {entity}",
        "replace_one": f"replace one: neighbours differ in {entity}; their size is public",
        "zero_out": f"zero out: in one of two neighbours {entity} is blanked",
    }[scope["adjacency"]]


def observer_task(scope: Json) -> str:
    """What an attacker of this scope has to find out."""
    entity = one_unit(scope)
    return {
        "add_remove": f"whether {entity} is in the data",
        "replace_one": f"which of two versions of {entity} the data hold",
        "zero_out": f"whether {entity} was used or blanked",
    }[scope["adjacency"]]


def one_unit(scope: Json) -> str:
    """The protected unit with its count: ``one record``."""
    return f"one {embedded(scope['unit']['entity'])}"


def guarantee(value: Json, side: str) -> str:
    """A guarantee as a formula; ``side`` is stated, upper or lower and fixes sign and rounding."""
    relation, shown = _RELATIONS[side]
    return _formula(value, relation, shown)


def _formula(value: Json, relation: str, shown: Callable[[str], str]) -> str:
    measure = value["measure"]
    if measure not in _PARAMETERS:
        points = f", {len(value['curve'])} points" if "curve" in value else ""
        return f"{MEASURES[measure]}{points}"
    letter, key = _PARAMETERS[measure]
    formula = f"{letter} {relation} {shown(value[key])}".replace(" ", "\u00a0")
    delta = {"approx_dp": value.get("delta"), "pure_dp": "0"}.get(measure)
    return formula if delta is None else f"{formula} at δ\u00a0=\u00a0{numbers.exact(delta)}"


def stated(claim: Json) -> str:
    """A claim in one line: its numbers where it has some, its text otherwise."""
    return guarantee(claim["stated"], "stated") if claim["stated"] else claim["stated_text"]


def accounted(claim: Json) -> str:
    """A claim's upper bound in one line; rounding never moves it past the claimed number."""
    value, claimed = claim["upper"], claim["stated"]
    if not value:
        return "none"
    key = comparable(claimed, value)
    if not key:
        return guarantee(value, "upper")
    return _formula(value, "≤", lambda text: numbers.upper_beside(text, claimed[key]))


def attacked(claim: Json) -> str:
    """A claim's unconditional lower bound in one line."""
    return guarantee(claim["lower"], "lower") if claim["lower"] else "none"


def attacked_conditionally(claim: Json) -> str:
    """The bound that holds only within a family, marked as such; empty if there is none."""
    bound = claim["lower_conditional"]
    if not bound:
        return ""
    family = embedded(bound["conditional_on"])
    return f"conditional: {guarantee(bound, 'lower')}, only for {family}"


def comparable(first: Json | None, second: Json | None) -> str:
    """The parameter two guarantees can be compared in (at one delta), or an empty string."""
    if not first or not second or first["measure"] != second["measure"]:
        return ""
    if first["measure"] == "approx_dp":
        same = numbers.parse(first["delta"]) == numbers.parse(second["delta"])
        return "epsilon" if same else ""
    return _PARAMETERS.get(first["measure"], ("", ""))[1]


def embedded(text: str) -> str:
    """Certificate text inside a sentence of ours, kept from reordering it and from growing it."""
    short = text if len(text) <= 200 else text[:199] + "…"
    return short if short.isascii() else f"\u2068{short}\u2069"


def quoted(text: str) -> str:
    """Certificate text inside a sentence, in quotation marks."""
    return f"“{embedded(text)}”"


def tidy(value: Any) -> Any:
    """A copy of a JSON value in which no string can reorder, hide or break the page around it."""
    if isinstance(value, str):
        return _UNSAFE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {tidy(key): tidy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [tidy(item) for item in value]
    return value
