"""The first screen: what was released about whom, what was proved, attacked and left unchecked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from dpaudit.report import numbers, words
from dpaudit.report.model import Banner, Glance, Line
from dpaudit.report.say import message, say
from dpaudit.report.words import Json
from dpaudit.sign import Signed
from dpaudit.storage.fields import missing

SHAKEN = frozenset({"refuted", "alarm", "inconclusive", "unconfirmed", "unsupported"})

_MEANING = {
    "certified": message(
        "{claims} proved for the declared algorithm; every assumption this rests on is enforced by "
        "the software or was tested."
    ),
    "certified_under_assumptions": message(
        "{claims} proved for the declared algorithm, on conditions that nothing here verifies."
    ),
    "refuted": message("{claims} refuted: at least one does not hold."),
    "inconclusive": message("{claims} neither proved nor refuted. This is not a pass."),
    "unconfirmed": message(
        "{claims} decided by a number that only the accountant computed: the checker has no method "
        "of its own for it, so that it is taken on trust. This is not a pass."
    ),
    "unsupported": message("{claims} not judged: no rule covers a part of the declared algorithm."),
    "alarm": message(
        "The evidence contradicts itself: the attack showed more leakage than the accounting "
        "allows. The program or the accounting is wrong; rely on neither."
    ),
}


def banner(predicate: Json, mismatch: str) -> Banner:
    """The verdict in a word and a sentence, and how hard the program was attacked."""
    status = predicate["verdict"]["status"]
    word, colour = words.tone(words.VERDICTS, status)
    count = len(predicate["claims"])
    claims = (
        say("The claim is")
        if count == 1
        else say("The {count} claims, taken together, are", count=count)
        if count
        else say("No claim was stated; the derived bounds are")
    )
    attack_text, attack_tone = attacked(predicate)
    return Banner(
        word=word,
        tone=colour,
        sentence=say(_MEANING[status], claims=claims),
        attack=attack_text,
        attack_tone=attack_tone,
        warnings=_warnings(predicate, mismatch),
    )


def glance(predicate: Json, signed: Sequence[Signed]) -> Glance:
    """The questions a reviewer asks first, each answered in a sentence with its evidence."""
    scope, fields = predicate["scope"], predicate.get("fields", {})
    unknown = say("not stated")
    # That an attack was on a stand-in is said where it is told how hard it was.
    caveats = [
        # Which lines they are stands with the others, farther down.
        text.partition(": ")[0] if words.NEVER_RAN in text else text
        for text in predicate["caveats"]
        if not text.startswith(words.STAND_IN)
    ]
    by = "; ".join(filter(None, (scope["controller"] or unknown, *_processor(fields))))
    lines = (
        Line(say("What was released"), _released(predicate), "protected"),
        Line(say("About whom"), _about(scope, fields), "protected"),
        Line(say("By whom"), (words.sentence(by),), "stated"),
        Line(say("For what purpose"), tuple(fields.get("purpose", (unknown,))), "stated"),
        Line(say("The guarantee"), _guarantee(predicate), "plain-words"),
        Line(say("What was proved"), (_proved(predicate),), "guarantee"),
        Line(say("What was attacked, and how hard"), _effort(predicate), "audits"),
        Line(say("What nobody checked"), unchecked(predicate), "assumptions"),
        *(
            [Line(say("Caveats"), tuple(map(words.sentence, caveats)), "protected")]
            if caveats
            else []
        ),
        Line(say("Who signed"), signers(signed), "trust"),
    )
    return Glance(lines, scale=risk_scale(guess_upper(predicate)))


def attacked(predicate: Json) -> tuple[str, str]:
    """How hard the program was attacked, in a sentence, and the tone of its colour.

    An audit that could not have contradicted any claim is told from one that could, and both from
    none at all.
    """
    audits = predicate["audits"]
    if any(audit["verdict"] == "refuted" for audit in audits):
        return say("An attack on the program contradicted what is claimed of it."), "bad"
    why = predicate.get("examination", {}).get("not_examined", "")
    if why:
        text = message("Not examined: the program was not run on made-up records, for {why}.")
        return say(text, why=words.embedded(why)), "caution"
    if not audits:
        return say("Nobody attacked the program: nothing was measured on it."), "caution"
    if all(audit.get("about") == "stand_in" for audit in audits):
        text = message(
            "A stand-in was attacked, not the program itself; it differs in {parts}. Nothing "
            "contradicted what is claimed."
        )
        parts = dict.fromkeys(part for audit in audits for part in audit.get("differs", ()))
        return say(text, parts=words.embedded(", ".join(parts))), "caution"
    if not could_refute(predicate):
        return (
            say(
                "The program was attacked, but no result of so small an attack could have "
                "contradicted any claim: it is no evidence."
            ),
            "caution",
        )
    return say(
        "The program was attacked, and nothing contradicted what is claimed of it."
    ), "neutral"


def could_refute(predicate: Json) -> bool:
    """Whether some audit, at its best, could have shown more than some claim allows."""
    pairs = [
        (claim["stated"], audit["strongest"], words.comparable(claim["stated"], audit["strongest"]))
        for claim in predicate["claims"]
        for audit in predicate["audits"]
    ]
    return any(
        numbers.parse(best[name]) > numbers.parse(stated[name])
        for stated, best, name in pairs
        if name
    )


def guess_upper(predicate: Json) -> str:
    """The most often that anybody's guess about one unit is right; empty if nothing bounds it.

    From the certificate's plain words, else from its accounted (epsilon, delta): the error rates of
    any test satisfy a + e^eps b >= 1 - delta, so that an even guess is right at most
    (e^eps + delta) / (e^eps + 1) of the time.  Source: Kairouz, Oh and Viswanath 2015, Theorem 2.1.
    """
    values = predicate.get("in_plain_words")
    if values:
        return str(values["membership_guess_upper"])
    found = [
        _even_guess(claim["upper"]["epsilon"], claim["upper"].get("delta", "0"))
        for claim in predicate["claims"]
        if claim["upper"] and claim["upper"]["measure"] in ("approx_dp", "pure_dp")
    ]
    return str(min(found)) if found else ""


def _even_guess(epsilon: str, delta: str) -> Decimal:
    value, slack = numbers.parse(epsilon), numbers.parse(delta)
    if not value.is_finite() or value > 100:
        return Decimal(1)
    growth = value.exp() * (1 + Decimal("1e-20"))
    share = (growth + slack) / (growth + 1)
    return min(Decimal(1), share + Decimal("1e-20"))


def risk_scale(guess: str) -> str:
    """A line from a coin toss to certainty, filled as far as a guess can be right, as SVG."""
    if not guess:
        return ""
    share = min(max(float(numbers.parse(guess)), 0.5), 1.0)
    end = 10 + (share - 0.5) * 2 * 380
    shown = numbers.percent_upper(guess)
    label = say("The best guess is right at most {share} of the time", share=shown)
    return (
        f'<svg class="scale" viewBox="0 0 400 46" role="img" aria-label="{label}">'
        '<rect x="10" y="6" width="380" height="10" rx="5" class="scale-all"/>'
        f'<rect x="10" y="6" width="{max(end - 10, 3):.1f}" height="10" rx="5" class="scale-part"/>'
        f'<circle cx="{end:.1f}" cy="11" r="6" class="scale-mark"/>'
        f'<text x="10" y="36">50\u00a0% {say("coin toss")}</text>'
        f'<text x="390" y="36" text-anchor="end">{say("certainty")} 100\u00a0%</text></svg>'
    )


def unchecked(predicate: Json) -> tuple[str, ...]:
    """What is taken on trust or not known, a line each."""
    found = [
        words.fixed(item["statement"])
        for item in predicate["assumptions"]
        if item["status"] in ("declared", "unknown")
    ]
    found += [
        say("Broken: {statement}", statement=words.fixed(item["statement"]))
        for item in predicate["assumptions"]
        if item["status"] == "violated"
    ]
    accesses = predicate["scope"]["data_accesses"]["uncovered"]
    found += [say("Access to the data outside the guarantee: {text}", text=t) for t in accesses]
    if not predicate["audits"]:
        found.append(say("Whether the program does what is declared: it was not attacked."))
    absent = not_stated(predicate)
    if absent:
        found.append(say("{count} facts that a report needs are not stated.", count=len(absent)))
    return tuple(found) or (say("Nothing is left open by the certificate itself."),)


def not_stated(predicate: Json) -> list[str]:
    """The fields that a report needs and the certificate does not state."""
    absent = missing(predicate.get("fields", {}))
    return [name for name in absent if name != "controller" or not predicate["scope"][name]]


def signers(signed: Sequence[Signed]) -> tuple[str, ...]:
    """Who signed, as far as the given keys tell."""
    texts = {
        "valid": message("{name}, whose signature is valid (key {id})"),
        "unknown": message("a key that was not given to check it with ({id})"),
        "wrong": message("a signature in the name of {name} that is not over this certificate"),
        "unstamped": message("{name}, without the time stamp that was asked for (key {id})"),
    }
    found = tuple(
        say(texts[one.state], name=words.embedded(one.name), id=one.key_id[:16]) + _stamp(one)
        for one in signed
    )
    return found or (say("Nobody: it is unsigned."),)


def _stamp(one: Signed) -> str:
    if one.timestamp in ("", "unchecked", "wrong"):
        return ""
    return say(", no later than {time} by a time stamp", time=one.timestamp)


def _released(predicate: Json) -> tuple[str, ...]:
    scope = predicate["scope"]
    lines = [scope["title"], words.sentence(", ".join(words.outputs(scope)))]
    body = predicate["run"]
    if body is None:
        lines.append(say("Nothing so far: no run on data is part of this certificate."))
    elif body["entropy"] != "operating system":
        lines.append(
            say("This run's noise came from a stored seed; its outputs must not be published.")
        )
    return tuple(lines)


def _about(scope: Json, fields: Json) -> tuple[str, ...]:
    unit = scope["unit"]
    source = [*fields.get("data_source", ()), *fields.get("data_period", ())]
    lines = [
        say("The unit that is protected: one {entity}", entity=words.embedded(words.unit(scope)))
    ]
    lines += [", ".join(source)] if source else []
    lines += [words.sentence(words.embedded(unit["bound"]))] if unit["bound"] else []
    return tuple(lines)


def _processor(fields: Json) -> list[str]:
    names = "; ".join(fields.get("processor", ()))
    return [say("processor: {names}", names=names)] if names else []


def _guarantee(predicate: Json) -> tuple[str, ...]:
    guess = guess_upper(predicate)
    if not guess:
        return (say("No bound was derived, so that nothing can be promised to anybody."),)
    task = words.observer_task(predicate["scope"])
    text = say(
        "Whoever sees everything that is released, and knows all other data, still guesses {task} "
        "right at most {share} of the time; a coin toss is right 50\u00a0% of the time.",
        task=task,
        share=numbers.percent_upper(guess),
    )
    if predicate["verdict"]["status"] in SHAKEN:
        return (text, say("This follows from the declaration and is not established."))
    return (text,)


def _proved(predicate: Json) -> str:
    claims = predicate["claims"]
    proved = sum(claim["check"] == "proved" for claim in claims)
    if not claims:
        return say("No claim was stated.")
    if not proved:
        return say("None of the claims.")
    return say(
        "{proved} of {count} claims, for the algorithm as it is declared; the proof can be checked "
        "again without this software's accountant.",
        proved=proved,
        count=len(claims),
    )


def _effort(predicate: Json) -> tuple[str, ...]:
    """How the program was attacked, how a stand-in was, and how many checks held."""
    text, _ = attacked(predicate)
    own = [one for one in predicate["audits"] if one.get("about") != "stand_in"]
    others = [one for one in predicate["audits"] if one.get("about") == "stand_in"]
    lines = [text]
    if own:
        lines.append(
            say(
                "{trials} runs of the program on each of two neighbouring data sets: {found}.",
                **_hardest(own),
            )
        )
    if others:
        lines.append(
            say(
                "{trials} runs of a stand-in for it, which is declared alike and is not the "
                "program: {found}.",
                **_hardest(others),
            )
        )
    return (*lines, *(_conformance(predicate) if lines[1:] else ()))


def _hardest(audits: Sequence[Json]) -> dict[str, str]:
    """The trials of the largest of some audits, and how often its attacker is right at least."""
    largest = max(audits, key=lambda audit: audit["trials"])
    share = _share_right(largest)
    found = (
        say(
            "an attacker tells them apart at least {share} of the time (95\u00a0% confidence; a "
            "coin toss: 50\u00a0%)",
            share=numbers.percent(str(math.floor(share * 1000) / 1000)),
        )
        if share > 0.5
        else say("not told apart more often than by a coin toss")
    )
    return {"trials": numbers.grouped(largest["trials"]), "found": found}


def _share_right(audit: Json) -> float:
    """A lower bound, at 95% confidence, on how often the attack is right: (2 - fpr - fnr)/2.

    At the best of the thresholds whose rates are bounded together; else at the one of its bound.
    """
    witness = audit["witness"]
    pairs = [(row[2], row[3]) for row in audit["roc"]] or [
        (witness["false_positive_rate_upper"], witness["false_negative_rate_upper"])
    ]
    return max(1 - (float(one) + float(other)) / 2 for one, other in pairs)


def _conformance(predicate: Json) -> tuple[str, ...]:
    checks = predicate["conformance"]
    broken = sum(check["status"] == "broken" for check in checks)
    if broken:
        text = message("{broken} of {count} checks found that the program is not what is declared.")
        return (say(text, broken=broken, count=len(checks)),)
    held = sum(check["status"] == "held" for check in checks)
    text = message("{held} of {count} checks compared it with its declaration and held.")
    return (say(text, held=held, count=len(checks)),) if checks else ()


def _warnings(predicate: Json, mismatch: str) -> tuple[str, ...]:
    """Where the certificate says two things at once; the page must not choose the better one."""
    found = [mismatch] if mismatch else []
    expires = "".join(predicate.get("fields", {}).get("expires", ()))
    if expires and expires < datetime.now(UTC).date().isoformat():
        found.append(say("It expired on {date}.", date=expires))
    if predicate["verdict"]["status"].startswith("certified"):
        found += [
            say(
                "Claim {claim} is not proved, yet the verdict is certified.",
                claim=words.quoted(words.stated(claim)),
            )
            for claim in predicate["claims"]
            if claim["check"] != "proved"
        ]
        found += [
            say(
                "An assumption is violated, yet the verdict is certified: {statement}",
                statement=words.fixed(item["statement"]),
            )
            for item in predicate["assumptions"]
            if item["status"] == "violated"
        ]
    return tuple(found)


def summary(predicate: Json, signed: Sequence[Signed] = ()) -> list[tuple[str, tuple[str, ...]]]:
    """The first screen as label and lines, for formats without layout."""
    return [(line.label, line.texts) for line in glance(predicate, signed).lines]
