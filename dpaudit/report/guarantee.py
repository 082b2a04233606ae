"""The guarantee in numbers: claim, accounted upper bound and attacked lower bound side by side."""

from __future__ import annotations

from dpaudit.report import figures, numbers, words
from dpaudit.report.model import Block, Bullets, Cell, Heading, Paragraph, Section, Table, formula
from dpaudit.report.say import say
from dpaudit.report.words import Json

_CURVES = ("profile", "tradeoff")  # bounds that are drawn, and not listed


def section(predicate: Json) -> Section:
    """The section with the table of claims, the other accounted bounds and both figures."""
    blocks: list[Block] = [
        Paragraph(
            say(
                "Read each row from left to right. The accounted bound is an upper limit on what "
                "the declared algorithm can leak; the attacked bound is a lower limit on what the "
                "program was seen to leak. If the program follows its declaration and both bounds "
                "hold, the truth lies between the two."
            )
        ),
        claims_table(predicate),
        *_notes(predicate),
        *_other_bounds(predicate),
        *figures.blocks(predicate),
    ]
    return Section("guarantee", say("The guarantee, in numbers"), tuple(blocks))


def claims_table(predicate: Json) -> Table:
    """One row for each claim and reading: claimed, accounted, attacked, margin, result."""
    columns = (
        say("Claim"),
        say("Accounted (at most)"),
        say("Attacked (at least)"),
        say("Margin"),
        say("Result"),
    )
    rows = tuple(
        (
            _claimed(claim),
            _accounted(claim, predicate),
            _attacked(claim, predicate),
            _margin(claim),
            _result(claim),
        )
        for claim in predicate["claims"]
    )
    return Table(say("Claims, accounted upper bounds and attacked lower bounds"), columns, rows)


def _claimed(claim: Json) -> Cell:
    notes = [f"“{claim['stated_text']}”"] if claim["stated"] else []
    notes += [say("Reading: {text}", text=claim["reading"])] if claim["reading"] else []
    notes += [say("Stated by: {text}", text=words.fixed(claim["by"]))] if claim["by"] else []
    notes += [say("Source: {text}", text=claim["source"])] if claim["source"] else []
    return formula(words.stated(claim), notes)


def _accounted(claim: Json, predicate: Json) -> Cell:
    if not claim["upper"]:
        return Cell(say("None"), (say("no upper bound was derived"),), "none")
    steps = {step["id"]: step for step in predicate["derivation"]["steps"]}
    alone = {"attained": claim["attained"], "witness": {}, "conclusion": claim["upper"]}
    return formula(words.accounted(claim), [words.attained(steps.get(claim["step"], alone))])


def _attacked(claim: Json, predicate: Json) -> Cell:
    bound, conditional = claim["lower"], words.attacked_conditionally(claim)
    notes = [conditional] if conditional else []
    if likely := words.likely(predicate, claim):
        notes.append(say("{bound}, if its noise is the declared one", bound=likely))
    if not bound:
        none = say("no audit bounds this claim unconditionally")
        return Cell(say("None"), (*notes, none), "none")
    level = say("{level} confidence", level=numbers.percent(bound["confidence"]))
    return formula(words.guarantee(bound, "lower"), [level, *notes])


def _margin(claim: Json) -> Cell:
    lines = [line for line in (_room(claim), _reach(claim)) if line]
    if not lines:
        return Cell(say("Not comparable"), (), "none")
    return Cell(lines[0], tuple(lines[1:]))


def _room(claim: Json) -> str:
    parameter = words.comparable(claim["stated"], claim["upper"])
    if not parameter:
        return ""
    claimed, accounted = claim["stated"][parameter], claim["upper"][parameter]
    if "inf" in (claimed, accounted):
        return ""
    margin = numbers.difference(claimed, accounted)
    if margin == 0:
        return say("None: both are equal")
    if margin < 0:
        excess = numbers.written_upper(-margin)
        return say("The accounted bound is {excess} above the claim", excess=excess)
    share = numbers.share_lower(margin, claimed)
    text = say("{room} below the claim", room=numbers.written_lower(margin))
    return f"{text} ({share})" if share else text


def _reach(claim: Json) -> str:
    share = words.reached(claim["upper"], claim["lower"])
    return say("The attack reaches {share} of the accounted bound", share=share) if share else ""


def _result(claim: Json) -> Cell:
    word, colour = words.tone(words.CHECKS, claim["check"])
    verdict = words.tone(words.VERDICTS, claim["verdict"])[0]
    reason = (claim["reason"],) if claim["reason"] and claim["check"] != "proved" else ()
    return Cell(word, (*reason, say("Verdict: {verdict}", verdict=verdict)), colour)


def _notes(predicate: Json) -> list[Block]:
    claims = predicate["claims"]
    notes = []
    if any(claim["check"] == "unproved" for claim in claims):
        notes.append(
            say(
                "Unproved is neither a pass nor a failure: an upper bound above a claim refutes "
                "nothing, because the truth may lie below both."
            )
        )
    if any(claim["lower_conditional"] for claim in claims):
        notes.append(
            say(
                "A bound marked conditional is valid only if the algorithm's leakage has the named "
                "form; by itself it is no unconditional statement about ε."
            )
        )
    if any(not claim["stated"] for claim in claims):
        notes.append(say("A claim without numbers is compared symbolically; its result says how."))
    return [Paragraph(note, "note") for note in notes]


def _other_bounds(predicate: Json) -> list[Block]:
    bounds = [
        f"{words.measure_words(bound['measure'])}: {words.guarantee(bound, 'upper')}"
        for bound in predicate["derivation"]["upper_bounds"]
        if bound["measure"] not in _CURVES
    ]
    if not bounds:
        return []
    heading = Heading(say("All accounted bounds of the declared algorithm"))
    return [heading, Bullets(tuple(bounds))]
