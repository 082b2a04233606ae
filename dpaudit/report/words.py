"""The report's vocabulary: names of statuses and measures, and guarantees as formulas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from dpaudit.report import numbers
from dpaudit.report.say import message, say, translated
from dpaudit.scope import NOT_STATED

Json = Mapping[str, Any]

VERDICTS: dict[str, tuple[str, str]] = {
    "certified": (message("Certified"), "good"),
    "certified_under_assumptions": (message("Certified under assumptions"), "qualified"),
    "refuted": (message("Refuted"), "bad"),
    "inconclusive": (message("Inconclusive"), "caution"),
    "unconfirmed": (message("Unconfirmed"), "caution"),
    "unsupported": (message("Unsupported"), "neutral"),
    "alarm": (message("Alarm"), "bad"),
}

CHECKS: dict[str, tuple[str, str]] = {
    "proved": (message("Proved"), "good"),
    "refuted": (message("Refuted"), "bad"),
    "unproved": (message("Unproved"), "caution"),
    "unsupported": (message("Unsupported"), "neutral"),
}

AUDIT_VERDICTS: dict[str, tuple[str, str]] = {
    "refuted": (message("Refuted"), "bad"),
    "not_refuted": (message("Not refuted"), "neutral"),
    "inconclusive": (message("Inconclusive"), "caution"),
}

# How well an assumption is secured, from the strongest to the weakest.
STATUSES: dict[str, tuple[str, str]] = {
    "proved": (message("Proved"), "good"),
    "enforced": (message("Enforced"), "good"),
    "tested": (message("Tested"), "good"),
    "declared": (message("Declared"), "caution"),
    "unknown": (message("Unknown"), "caution"),
    "violated": (message("Violated"), "bad"),
}

CONFORMANCE_STATUSES: dict[str, tuple[str, str]] = {
    "held": (message("Held"), "good"),
    "broken": (message("Broken"), "bad"),
    "not_run": (message("Not run"), "neutral"),
}

ATTACKS = {
    "exact": message("exact likelihood ratio (optimal for this pair of data sets)"),
    "averaged": message(
        "likelihood ratio averaged over fresh secret coins (valid, not claimed optimal)"
    ),
    "declared": message("likelihood ratio under the declaration (valid, not claimed optimal)"),
}

RELEASED = {
    "transcript": message("all intermediate results, in full"),
    "last_iterate": message("the last intermediate result"),
    "output": message("the final output"),
}

KINDS = {
    "record": message("record"),
    "user": message("user"),
    "client": message("client"),
}

MODELS = {
    "central": message("central: one trusted curator holds the raw data and adds the noise"),
    "local": message("local: each person's device adds the noise before anything leaves it"),
    "shuffle": message("shuffle: locally noised messages are stripped of their senders and mixed"),
    "federated": message(
        "federated: clients keep their raw data and a trusted server adds the noise"
    ),
    "distributed": message("distributed: the parties add shares of the noise to an aggregate"),
}

MEASURES = {
    "approx_dp": message("(ε, δ)-differential privacy"),
    "pure_dp": message("pure ε-differential privacy"),
    "zcdp": message("zero-concentrated differential privacy (ρ)"),
    "gdp": message("Gaussian differential privacy (μ)"),
    "rdp": message("Rényi differential privacy"),
    "profile": message("privacy profile δ(ε)"),
    "tradeoff": message("trade-off curve"),
    "pairs": message("dominating pair of distributions"),
}

# Certificates hold the next five texts; changing one changes certificates.
# Beginning of a caveat that names what an examination did not reach; the checker has the same.
UNEXAMINED = "not examined: "
# Beginning of the caveat that an audit attacked a stand-in.
STAND_IN = "an audit attacks a stand-in with the same declaration, not the named program: "
# Beginning of the caveat that some releases or coins were never requested in an examination.
UNHEARD = "nothing is known of releases and coins that no run on made-up records asked for"
# Beginning of the caveat that no two runs of the program could be compared.
UNCOMPARED = (
    "nothing is known of what the program asks for and gives beside its queries' values: no two "
    "runs on made-up records were compared"
)
# Part of the caveat on a program whose own loss moves its releases by less than is declared.
# How caveats on less evidence than usual begin; the terminal prints them.
UNATTACKED = "the named program was examined, and not attacked"
CUT_SHORT = "the examination was cut short by time"
TOGETHER = "of what its releases declare together"
# Part of the caveat that lists lines which no examination ran.
NEVER_RAN = "never ran while it was examined"

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
# Characters that reorder or hide the text around them, and surrogates, which cannot be encoded.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def measure_words(measure: str) -> str:
    """A measure in words; a measure that this table lacks is called by its registered name."""
    return say(MEASURES[measure]) if measure in MEASURES else measure.replace("_", " ")


def tone(table: Mapping[str, tuple[str, str]], status: str) -> tuple[str, str]:
    """The word of a status in the current language, and the name of its colour."""
    word, colour = table.get(status, (status.replace("_", " "), "neutral"))
    return say(word), colour


def adjacency(scope: Json) -> str:
    """The adjacency relation in words, with the unit of privacy named."""
    texts = {
        "add_remove": message("add or remove: neighbours differ by the presence of one {entity}"),
        "replace_one": message(
            "replace one: neighbours differ in one {entity}; their size is public"
        ),
        "zero_out": message("zero out: in one of two neighbours one {entity} is blanked"),
    }
    return say(texts[scope["adjacency"]], entity=entity(scope))


def observer_task(scope: Json) -> str:
    """The question that an attacker tries to answer under this adjacency."""
    texts = {
        "add_remove": message("whether one {entity} is in the data"),
        "replace_one": message("which of two versions of one {entity} the data hold"),
        "zero_out": message("whether one {entity} was used or blanked"),
    }
    return say(texts[scope["adjacency"]], entity=entity(scope))


def entity(scope: Json) -> str:
    """The unit of privacy as the author names it; without a name, its kind."""
    return embedded(scope["unit"]["entity"]) or kind(scope)


def kind(scope: Json) -> str:
    """The kind of the unit of privacy: record, user or client in the current language."""
    named = scope["unit"]["kind"]
    return say(KINDS[named]) if named in KINDS else embedded(named)


def unit(scope: Json) -> str:
    """The unit of privacy; if the author did not name it, its kind and a note that says so."""
    unknown = message("{kind} (who that is, is not stated)")
    return scope["unit"]["entity"] or say(unknown, kind=kind(scope))


def guarantee(value: Json, side: str) -> str:
    """A guarantee as a formula.

    ``side``: "stated" (=, exact), "upper" (≤, rounded up) or "lower" (≥, rounded down).
    """
    relation, shown = _RELATIONS[side]
    return _formula(value, relation, shown)


def _formula(value: Json, relation: str, shown: Callable[[str], str]) -> str:
    measure = value["measure"]
    if measure in MEASURES and measure not in _PARAMETERS:
        points = say(", {count} points", count=len(value["curve"])) if "curve" in value else ""
        return f"{measure_words(measure)}{points}"
    letter, key = _PARAMETERS.get(measure, (measure_words(measure), "value"))
    formula = f"{letter} {relation} {shown(value[key])}".replace(" ", "\u00a0")
    delta = {"approx_dp": value.get("delta"), "pure_dp": "0"}.get(measure)
    if delta is None:
        return formula
    return say("{formula} at δ\u00a0=\u00a0{delta}", formula=formula, delta=numbers.exact(delta))


def stated(claim: Json) -> str:
    """A claim in one line: its numbers, or the author's text for a claim without numbers."""
    return guarantee(claim["stated"], "stated") if claim["stated"] else claim["stated_text"]


def accounted(claim: Json) -> str:
    """A claim's upper bound in one line; rounding never moves it past the claimed value."""
    value, claimed = claim["upper"], claim["stated"]
    if not value:
        return say("none")
    key = comparable(claimed, value)
    if not key:
        return guarantee(value, "upper")
    return _formula(value, "≤", lambda text: numbers.upper_beside(text, claimed[key]))


def attacked(claim: Json) -> str:
    """A claim's unconditional lower bound in one line."""
    return guarantee(claim["lower"], "lower") if claim["lower"] else say("none")


def likely(predicate: Json, claim: Json) -> str:
    """The largest bound of a claim from likelihoods, with its runs; empty if there is none."""
    stated = claim["stated"] or {"measure": ""}
    measure, delta = stated["measure"], numbers.parse(stated.get("delta", "0"))
    if measure == "pure_dp":
        measure = "approx_dp"
    bounds = [
        (numbers.parse(bound["lower"][key]), row["runs"], bound)
        for row in predicate.get("likelihoods", ())
        for bound in row["bounds"]
        for key in [comparable(bound["lower"], bound["lower"])]
        if bound["lower"]["measure"] == measure
        and numbers.parse(bound["lower"].get("delta", "0")) == delta
    ]
    if not bounds:
        return ""
    _, runs, bound = max(bounds, key=lambda ranked: ranked[0])
    text = say(
        "{bound} from likelihoods of {runs} runs",
        bound=guarantee(bound["lower"], "lower"),
        runs=runs,
    )
    share = share_of(claim, bound)
    return (
        say("{bound}, {share} of the accounted bound", bound=text, share=share) if share else text
    )


def is_attained(step: Json) -> bool:
    """Whether some data and queries of the declared kinds reach a step's bound, up to rounding."""
    reached = step["witness"].get("epsilon_lower")
    upper = step["conclusion"].get("epsilon")
    return step["attained"] and (reached in (None, upper) or numbers.is_tight(upper, reached))


def attained(step: Json) -> str:
    """Say whether a step's bound is known to be reached.

    A conversion of a profile may know a smaller epsilon that some data and queries reach.
    """
    if is_attained(step):
        return say("attained: some data and queries of the declared kind reach it")
    if not step["attained"]:
        return say("not shown to be attained: the truth may be smaller")
    return say(
        "not shown to be attained: some data and queries of the declared kind reach {value}",
        value=numbers.lower(step["witness"]["epsilon_lower"]),
    )


def share_of(claim: Json, bound: Json) -> str:
    """The share of a claim's accounted bound that a bound from likelihoods reaches.

    As the certificate states it; certificates made before it was stated are asked for both bounds.
    """
    if "share" not in bound:
        return reached(claim["upper"], bound["lower"])
    return numbers.percent(bound["share"]) if bound["share"] else ""


def reached(upper: Json | None, lower: Json | None) -> str:
    """The share of an accounted bound that an attack reaches, rounded down.

    Empty where the two do not compare, or nothing finite and positive is accounted.
    """
    if upper and upper["measure"] == "pure_dp" and lower and lower["measure"] == "approx_dp":
        upper = {**upper, "measure": "approx_dp", "delta": "0"}
    key = comparable(upper, lower)
    if not key or not upper or not lower:
        return ""
    return numbers.share_lower(numbers.parse(lower[key]), upper[key])


def attacked_conditionally(claim: Json) -> str:
    """The lower bound that assumes a family of distributions, marked as conditional; or empty."""
    bound = claim["lower_conditional"]
    if not bound:
        return ""
    family = embedded(fixed(bound["conditional_on"]))
    return say(
        "conditional: {bound}, only for {family}", bound=guarantee(bound, "lower"), family=family
    )


def comparable(first: Json | None, second: Json | None) -> str:
    """The parameter in which two guarantees compare; empty if their measures or deltas differ.

    Pure DP is approximate DP at delta 0.
    """
    if not first or not second:
        return ""
    if {first["measure"], second["measure"]} <= {"approx_dp", "pure_dp"}:
        deltas = {numbers.parse(guarantee.get("delta", "0")) for guarantee in (first, second)}
        return "epsilon" if len(deltas) == 1 else ""
    if first["measure"] != second["measure"]:
        return ""
    return _PARAMETERS.get(first["measure"], ("", "" if first["measure"] in MEASURES else "value"))[
        1
    ]


def unexamined(predicate: Json) -> list[str]:
    """The parts of a program that its examination did not reach, as its caveats say it."""
    caveats = [text for text in predicate["caveats"] if text.startswith(UNEXAMINED)]
    return [text.removeprefix(UNEXAMINED) for text in caveats]


def embedded(text: str) -> str:
    """Certificate text for use inside a sentence: cut to 200 characters.

    Text outside ASCII is put in a bidirectional isolate, so that it cannot reorder the sentence.
    """
    short = text if len(text) <= 200 else text[:199] + "…"
    return short if short.isascii() else f"\u2068{short}\u2069"


def quoted(text: str) -> str:
    """Certificate text inside a sentence, in quotation marks."""
    return f"“{embedded(text)}”"


def tidy(value: Any) -> Any:
    """A copy of a JSON value without the characters of ``_UNSAFE`` in its strings.

    The placeholder NOT_STATED becomes an empty string; the page then says "not stated" in its own
    language.
    """
    if isinstance(value, str):
        return "" if value == NOT_STATED else _UNSAFE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {tidy(key): tidy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [tidy(item) for item in value]
    return value


def outputs(scope: Json) -> tuple[str, ...]:
    """The released outputs, in words."""
    return tuple(say(RELEASED[text]) if text in RELEASED else text for text in scope["outputs"])


def fixed(text: str) -> str:
    """A certificate's text, translated if it is one of dpaudit's standing texts."""
    return translated(text)


def sentence(text: str) -> str:
    """The text with a capital first letter; a name such as ``dpaudit.toml`` stays as it is."""
    first = text.split(maxsplit=1)[0] if text.strip() else ""
    plain = first.strip(",;:.").replace("-", "")
    return text[:1].upper() + text[1:] if plain.isalpha() and first.islower() else text
