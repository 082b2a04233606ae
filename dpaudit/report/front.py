"""The verdict in words, and the facts that both the first screen and the evidence rest on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from dpaudit.report import numbers, words
from dpaudit.report.model import Banner
from dpaudit.report.say import counted, day, message, percentage, say
from dpaudit.report.words import Json
from dpaudit.sign import Signed
from dpaudit.storage.fields import missing

# Verdicts under which the accounted bound is not established for the program.
SHAKEN = frozenset({"refuted", "alarm", "inconclusive", "unconfirmed", "unsupported"})

_MEANING = {
    "certified": message(
        "{claims} proved for the declared algorithm; every assumption this rests on is enforced by "
        "the software or was tested."
    ),
    "certified_under_assumptions": message(
        "{claims} proved for the declared algorithm, on conditions that nothing here verifies; "
        "‘What it took on trust’ lists them."
    ),
    "refuted": message("{claims} refuted: at least one does not hold."),
    "inconclusive": message("{claims} neither proved nor refuted. This is not a pass."),
    "unconfirmed": message(
        "{claims} not confirmed: either the examination did not reach a part of the program, or "
        "the checker has no method of its own for a number. The caveats say which. This is not a "
        "pass."
    ),
    "unsupported": message("{claims} not judged: no rule covers a part of the declared algorithm."),
    "alarm": message(
        "The evidence contradicts itself: the attack showed more leakage than the accounting "
        "allows. The program or the accounting is wrong; rely on neither."
    ),
}

_BROKEN = message(
    "The program does not do what it declares: a check of its runs failed. The proof is of another "
    "algorithm; do not rely on it."
)


def _is_broken(predicate: Json) -> bool:
    """Whether a check of the program's runs failed."""
    return any(row["status"] == "broken" for row in predicate["conformance"])


def banner(predicate: Json, mismatch: str) -> Banner:
    """The verdict in a word and a sentence, and how hard the program was attacked."""
    status = predicate["verdict"]["status"]
    word, colour = words.tone(words.VERDICTS, status)
    broken = status == "alarm" and _is_broken(predicate)
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
        sentence=say(_BROKEN if broken else _MEANING[status], claims=claims),
        attack=attack_text,
        attack_tone=attack_tone,
        warnings=_warnings(predicate, mismatch),
    )


def caveats(predicate: Json) -> list[str]:
    """The caveats of the first screen, which says elsewhere that a stand-in was attacked."""
    texts = (
        # The section "What is protected" lists the lines.
        text.partition(": ")[0] if words.NEVER_RAN in text else text
        for text in predicate["caveats"]
        if not text.startswith(words.STAND_IN)
    )
    return [words.sentence(words.fixed(text)) for text in texts]


def attacked(predicate: Json) -> tuple[str, str]:
    """How hard the program was attacked: a sentence and the name of its colour.

    The sentence distinguishes no audit, an audit that was too small to contradict any claim, and an
    audit that could have contradicted one.
    """
    audits = predicate["audits"]
    if any(audit["verdict"] == "refuted" for audit in audits):
        return say("An attack on the program contradicted what is claimed of it."), "bad"
    why = words.unexamined(predicate)
    if why:
        return say("Not examined: {why}", why=words.embedded(words.fixed(why[0]))), "caution"
    if not audits and _is_broken(predicate):
        return say("The program was at fault on generated records, before any attack."), "bad"
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
    """Whether the best possible result of some audit exceeds what some claim allows.

    Claims of a measure that no audit speaks of are refuted by the audits' rates: whether these ones
    could have been, the certificate does not say.
    """
    compared = [
        (best[name], claim["stated"][name])
        for claim in predicate["claims"]
        for best in (audit["strongest"] for audit in predicate["audits"])
        if (name := words.comparable(claim["stated"], best))
    ]
    return not compared or any(
        numbers.parse(possible) > numbers.parse(two) for possible, two in compared
    )


def guess_upper(predicate: Json) -> str:
    """An upper bound on the success rate of a guess about one unit; empty if there is none.

    The two cases are equally likely a priori.  The certificate states the bound, or it follows from
    the accounted (epsilon, delta): the error rates of any test satisfy a + e^eps b >= 1 - delta, so
    a guess is right with probability at most (e^eps + delta) / (e^eps + 1).  Source: Kairouz, Oh
    and Viswanath 2015, Theorem 2.1.
    """
    plain_words = predicate.get("in_plain_words")
    if plain_words:
        return str(plain_words["membership_guess_upper"])
    guesses = [
        _even_guess(claim["upper"]["epsilon"], claim["upper"].get("delta", "0"))
        for claim in predicate["claims"]
        if claim["upper"] and claim["upper"]["measure"] in ("approx_dp", "pure_dp")
    ]
    return str(min(guesses)) if guesses else ""


def _even_guess(epsilon: str, delta: str) -> Decimal:
    exact_epsilon, exact_delta = numbers.parse(epsilon), numbers.parse(delta)
    if not exact_epsilon.is_finite() or exact_epsilon > 100:
        return Decimal(1)
    growth = exact_epsilon.exp() * (1 + Decimal("1e-20"))
    share = (growth + exact_delta) / (growth + 1)
    return min(Decimal(1), share + Decimal("1e-20"))


def risk_scale(guess: str) -> str:
    """The bound on the success rate of a guess as a bar from 50% to 100%, as SVG."""
    if not guess:
        return ""
    share = min(max(float(numbers.parse(guess)), 0.5), 1.0)
    end = 10 + (share - 0.5) * 2 * 380
    shown = numbers.percent_upper(guess)
    label = say("The best guess is right at most {share} of the time", share=shown)
    return (
        f'<svg class="scale" viewBox="0 0 400 46" role="img" aria-label="{label}">'
        '<rect x="10" y="6" width="380" height="10" rx="5" class="scale-all" fill="var(--grid)"/>'
        f'<rect x="10" y="6" width="{max(end - 10, 3):.1f}" height="10" rx="5" class="scale-part" '
        'fill="var(--qualified)"/>'
        f'<circle cx="{end:.1f}" cy="11" r="6" class="scale-mark" fill="var(--page)" '
        'stroke="var(--qualified)" stroke-width="3"/>'
        f'<text x="10" y="36">{percentage("50")} {say("coin toss")}</text>'
        f'<text x="390" y="36" text-anchor="end">{say("certainty")} {percentage("100")}</text>'
        "</svg>"
    )


def unchecked(predicate: Json) -> tuple[str, ...]:
    """The assumptions and facts that nobody checked, one line each."""
    open_points = [
        words.fixed(item["statement"])
        for item in predicate["assumptions"]
        if item["status"] in ("declared", "unknown")
    ]
    open_points += [
        say("Broken: {statement}", statement=words.fixed(item["statement"]))
        for item in predicate["assumptions"]
        if item["status"] == "violated"
    ]
    accesses = predicate["scope"]["data_accesses"]["uncovered"]
    open_points += [
        say("Access to the data outside the guarantee: {text}", text=words.fixed(t))
        for t in accesses
    ]
    if not predicate["audits"]:
        open_points.append(say("Whether the program does what is declared: it was not attacked."))
    absent = not_stated(predicate)
    if absent:
        open_points.append(
            counted(
                "{count} fact that a report needs is not stated.",
                "{count} facts that a report needs are not stated.",
                len(absent),
            )
        )
    return tuple(open_points) or (say("Nothing is left open by the certificate itself."),)


def not_stated(predicate: Json) -> list[str]:
    """The fields that a report needs and the certificate does not state."""
    absent = missing(predicate.get("fields", {}))
    return [name for name in absent if name != "controller" or not predicate["scope"][name]]


def signers(signed: Sequence[Signed]) -> tuple[str, ...]:
    """The signatures in words: the signer's name where a given key verifies the signature."""
    texts = {
        "valid": message("{name}, whose signature is valid (key {id})"),
        "unknown": message("a key that was not given to check it with ({id})"),
        "wrong": message("a signature in the name of {name} that is not over this certificate"),
        "unstamped": message("{name}, without the time stamp that was asked for (key {id})"),
    }
    sentences = tuple(
        say(texts[signature.state], name=words.embedded(signature.name), id=signature.key_id[:16])
        + _stamp(signature)
        for signature in signed
    )
    return sentences or (say("Nobody: it is unsigned."),)


def _stamp(signature: Signed) -> str:
    if signature.timestamp in ("", "unchecked", "wrong"):
        return ""
    return say(", no later than {time} by a time stamp", time=signature.timestamp)


def effort(predicate: Json) -> tuple[str, ...]:
    """The attacks on the program, those on a stand-in, and how many conformance checks held."""
    text, _ = attacked(predicate)
    of_program = [
        audit_row for audit_row in predicate["audits"] if audit_row.get("about") != "stand_in"
    ]
    of_stand_ins = [
        audit_row for audit_row in predicate["audits"] if audit_row.get("about") == "stand_in"
    ]
    lines = [text]
    if of_program:
        lines.append(
            say(
                "{trials} runs of the program on each of two neighbouring data sets: {found}.",
                **_hardest(of_program),
            )
        )
    if of_stand_ins:
        lines.append(
            say(
                "{trials} runs of a stand-in, another program with the same declaration: {found}.",
                **_hardest(of_stand_ins),
            )
        )
    return (*lines, *(_conformance(predicate) if lines[1:] else ()))


def _hardest(audits: Sequence[Json]) -> dict[str, object]:
    """For the audit with the most trials: their number, and the attacker's success in words."""
    largest = max(audits, key=lambda audit: audit["trials"])
    share = _share_right(largest)
    success = (
        say(
            "an attacker distinguishes them at least {share} of the time (95\u00a0% "
            "confidence; a coin toss: 50\u00a0%)",
            share=numbers.percent(str(math.floor(share * 1000) / 1000)),
        )
        if share > 0.5
        else say("an attacker distinguishes them no more often than a coin toss would")
    )
    return {"trials": largest["trials"], "found": success}


def _share_right(audit: Json) -> float:
    """A lower bound, at 95% confidence, on the attack's success rate: (2 - fpr - fnr)/2.

    ``roc`` bounds the rates of all its thresholds at once, so the best threshold counts.  Without
    it the threshold of the audit's lower bound counts.
    """
    witness = audit["witness"]
    error_rates = [(row[2], row[3]) for row in audit["roc"]] or [
        (witness["false_positive_rate_upper"], witness["false_negative_rate_upper"])
    ]
    return max(1 - (float(rate) + float(other)) / 2 for rate, other in error_rates)


def _conformance(predicate: Json) -> tuple[str, ...]:
    checks = predicate["conformance"]
    broken = sum(check["status"] == "broken" for check in checks)
    if broken:
        text = message(
            "{broken} of {count} checks found that the program differs from its declaration."
        )
        return (say(text, broken=broken, count=len(checks)),)
    held_checks = sum(check["status"] == "held" for check in checks)
    left_out = len(checks) - held_checks
    text = message("Checks that compared it with its declaration and held: {count}.")
    not_run = (say("Checks that were not run: {count}.", count=left_out),) if left_out else ()
    return (say(text, count=held_checks), *not_run) if checks else ()


def _warnings(predicate: Json, mismatch: str) -> tuple[str, ...]:
    """Contradictions inside the certificate, and its expiry; the page must not hide either side."""
    warnings = [mismatch] if mismatch else []
    expires = "".join(predicate.get("fields", {}).get("expires", ()))
    if expires and expires < datetime.now(UTC).date().isoformat():
        warnings.append(say("It expired on {date}.", date=day(expires)))
    if predicate["verdict"]["status"].startswith("certified"):
        warnings += [
            say(
                "Claim {claim} is not proved, yet the verdict is certified.",
                claim=words.quoted(words.stated(claim)),
            )
            for claim in predicate["claims"]
            if claim["check"] != "proved"
        ]
        warnings += [
            say(
                "An assumption is violated, yet the verdict is certified: {statement}",
                statement=words.fixed(item["statement"]),
            )
            for item in predicate["assumptions"]
            if item["status"] == "violated"
        ]
    return tuple(warnings)
