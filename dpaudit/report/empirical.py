"""Membership audits in reports: lower bounds and estimates, never an upper bound.

An empirical certificate has a first screen and table rows like any other certificate, so that one
project report can hold both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpaudit.report import numbers, words
from dpaudit.report.assurance import Assurance
from dpaudit.report.front import signers
from dpaudit.report.model import Banner, Glance, Line
from dpaudit.report.say import message, say
from dpaudit.report.words import Json
from dpaudit.sign import Signed

_VERDICTS = {
    "refuted": (message("Refuted"), "bad"),
    "inconclusive": (message("Inconclusive"), "caution"),
    "empirical": (message("No verdict"), "neutral"),
}
_MEANING = {
    "refuted": message("The claim does not hold: an attack on the training showed more."),
    "inconclusive": message(
        "No attack on the training showed more than is claimed. This is not a pass."
    ),
    "empirical": message("No claim was judged; the attack gives a lower bound on the leakage."),
}


def is_empirical(predicate: Json) -> bool:
    """Whether a certificate's predicate is that of a membership audit."""
    return bool(predicate.get("kind") == "empirical")


def verdict(predicate: Json) -> tuple[str, str]:
    """The word of the verdict in the current language, and the name of its colour."""
    word, tone = _VERDICTS[predicate["verdict"]["status"]]
    return say(word), tone


def banner(predicate: Json) -> Banner:
    """The verdict in a word and a sentence, and the certificate's reason."""
    word, tone = verdict(predicate)
    voided = any(row.get("voids") for row in predicate["findings"])
    return Banner(
        word=word,
        tone=tone,
        sentence=say(_MEANING[predicate["verdict"]["status"]]),
        attack=words.sentence(words.embedded(words.fixed(predicate["verdict"]["reason"]))),
        attack_tone="caution" if voided or predicate["verdict"].get("underpowered") else "neutral",
        warnings=(),
    )


def glance(predicate: Json, signed: Sequence[Signed] = ()) -> Glance:
    """The first screen of a membership audit: the same questions as for other certificates."""
    target, study = predicate["target"], predicate["study"]
    findings = tuple(words.sentence(row["words"]) for row in predicate["findings"])
    lines = (
        Line(
            say("What was released"),
            (target["training"], words.sentence(words.fixed(predicate["target"]["threat_model"]))),
            "",
        ),
        Line(
            say("About whom"),
            (
                say(
                    "{records} records in {units} units; each unit was in or out of each model by "
                    "a fair coin of the auditor's.",
                    records=predicate["data"]["records"],
                    units=study["units"],
                ),
            ),
            "",
        ),
        Line(
            say("The guarantee"),
            (say("None: an attack gives a lower bound on the leakage, and no upper bound."),),
            "",
        ),
        Line(
            say("What was attacked, and how hard"),
            (
                say(
                    "{models} models, {attacks} kinds of attack.",
                    models=study["models"],
                    attacks=len(predicate["estimates"]),
                ),
                shown(predicate)
                or say("No lower bound is part of this certificate: estimates alone."),
            ),
            "",
        ),
        Line(say("What nobody checked"), unchecked(predicate), ""),
        *([Line(say("Caveats"), findings, "")] if findings else []),
        Line(say("Who signed"), signers(signed), ""),
    )
    return Glance(lines, scale="")


def shown(predicate: Json) -> str:
    """The lower bound of the best attack in one line; empty where there is none."""
    row = best(predicate)
    if row is None:
        return ""
    level = say("{level} confidence", level=numbers.percent(predicate["confidence"]["level"]))
    return f"{measured(row)} ({level}, {words.embedded(row['attack'])})"


def best(predicate: Json) -> Json | None:
    """The best attack's lower bound at the shown confidence; None if no bound was made."""
    return next(
        (
            row
            for row in predicate["lower_bounds"]
            if row["attack"] == predicate["best"] and row["role"] == "shown"
        ),
        None,
    )


def measured(row: Json) -> str:
    """A row of lower bounds as a formula."""
    if row["measure"] == "mu":
        return words.guarantee({"measure": "gdp", "mu": row["value"]}, "lower")
    bound = {"measure": "approx_dp", "epsilon": row["value"], "delta": row["delta"]}
    return words.guarantee(bound, "lower")


def unchecked(predicate: Json) -> tuple[str, ...]:
    """The facts that a lower bound leaves open, and those that rest on the auditor's word."""
    open_points = [
        say("The largest possible leakage: an attack that finds little proves nothing."),
        say("The models were trained as stated, and gave the counts shown."),
    ]
    if predicate["verdict"].get("underpowered"):
        open_points.append(say("Whether the claim holds: so few models could not have refuted it."))
    return tuple(open_points)


def rows(predicate: Json) -> list[Assurance]:
    """The blocks of NIST SP 800-226 that a membership audit has evidence for."""
    guarantee, algorithm = say("Guarantee and unit"), say("Algorithm, trust and accounting")
    claim, status = predicate["claim"], predicate["verdict"]["status"]
    judged = {"refuted": "violated"}.get(status, "unknown")
    reason = predicate["verdict"]["reason"]
    blocks = [
        Assurance(guarantee, claim["words"] if claim else say("none stated"), judged, reason),
        Assurance(
            guarantee,
            say(
                "The unit that is protected: one {entity}",
                entity=words.embedded(predicate["scope"]["unit"].removeprefix("a ")),
            ),
            "declared",
            "",
        ),
    ]
    bound = shown(predicate)
    if bound:
        blocks.append(Assurance(algorithm, bound, "tested", ""))
    blocks += [Assurance(algorithm, text, "unknown", "") for text in unchecked(predicate)]
    blocks += [
        Assurance(algorithm, row["name"], "violated" if row["voids"] else "tested", row["words"])
        for row in predicate["findings"]
    ]
    return blocks


def findings(predicate: Json) -> Iterator[tuple[str, str]]:
    """The findings for reviewers, each as (key of exports.RULES, text)."""
    status, reason = predicate["verdict"]["status"], predicate["verdict"]["reason"]
    claim = f"{predicate['claim']['words']}: " if predicate["claim"] else ""
    if status == "refuted":
        yield "refuted-claim", f"{claim}{reason}"
    elif predicate["verdict"]["underpowered"]:
        yield "powerless-attack", f"{claim}{reason}"
    else:
        yield "measured-only", f"{claim}{reason}"
    for row in predicate["findings"]:
        if row["voids"]:
            yield "void-audit", f"{row['name']}: {row['words']}"
