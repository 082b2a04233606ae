"""The evidence: derivation, assumptions, audits and conformance checks."""

from __future__ import annotations

from dpaudit.report import numbers, words
from dpaudit.report.derivation import tree
from dpaudit.report.model import (
    Block,
    Cell,
    Code,
    Fact,
    Facts,
    Heading,
    Paragraph,
    Section,
    Table,
)
from dpaudit.report.words import Json


def derivation(predicate: Json) -> Section:
    """The declared algorithm and every step from it to the accounted bounds."""
    body = predicate["derivation"]
    blocks: list[Block] = []
    if predicate["mechanism"]["declaration_text"]:
        blocks.append(Code(predicate["mechanism"]["declaration_text"], "The declared algorithm"))
    if not body["steps"]:
        blocks.append(Paragraph("No derivation is part of this certificate."))
        return Section("derivation", "Derivation", tuple(blocks))
    blocks.append(
        Paragraph(
            f"Made by {body['accountant']} with {body['arithmetic']} arithmetic: every printed "
            "bound is rounded so that it stays a bound. Conclusions come first; the steps they "
            "rest on are indented below them. Each rule names the theorem it applies."
        )
    )
    return Section("derivation", "Derivation", (*blocks, tree(body["steps"], predicate["claims"])))


def assumptions(predicate: Json) -> Section:
    """What has to hold for the guarantee, and who saw to it."""
    rows = tuple(_assumption(item, predicate) for item in predicate["assumptions"])
    if not rows:
        text = "The certificate lists no assumptions."
        return Section("assumptions", "Assumptions", (Paragraph(text),))
    meaning = (
        "Enforced: the software sees to it. Tested: a check in this certificate could have found "
        "it broken and did not. Declared: somebody says so; nothing here verifies it. "
        "Violated: it is known not to hold."
    )
    columns = ("Assumption", "Status", "Evidence", "Used in")
    table = Table("Assumptions and their status", columns, rows)
    return Section("assumptions", "Assumptions", (Paragraph(meaning), table))


def audits(predicate: Json) -> Section:
    """The attacks that were run and what they can and cannot show."""
    found = predicate["audits"]
    if not found:
        text = "No attack was run. Nothing here was measured on the program itself."
        return Section("audits", "Audits", (Paragraph(text, "caution"),))
    blocks: list[Block] = [
        Paragraph(
            "An audit attacks the program and proves a lower bound on its leakage at the stated "
            "confidence. It can refute a claim; it cannot prove one. ‘Not refuted’ means only "
            "that this attack found no contradiction."
        ),
        _audit_table(predicate),
    ]
    for index, audit in enumerate(found, start=1):
        blocks += [Heading(f"Audit {index}: {audit['id']}"), _audit_facts(audit)]
    return Section("audits", "Audits", tuple(blocks))


def conformance(predicate: Json) -> Section:
    """Whether the program that ran is the one that was declared."""
    checks = predicate["conformance"]
    if not checks:
        text = "No check compared the program that ran with its declaration."
        return Section("conformance", "Conformance checks", (Paragraph(text, "caution"),))
    columns = ("Check", "Result", "Statistic", "False alarm rate", "Detail")
    table = Table(
        "Does the program do what is declared?", columns, tuple(map(_conformance_row, checks))
    )
    text = (
        "These checks compare the program that ran with its declaration. ‘Held’ means that no "
        "deviation was found; a deviation too small for the check can remain."
    )
    return Section("conformance", "Conformance checks", (Paragraph(text), table))


def _assumption(item: Json, predicate: Json) -> tuple[Cell, ...]:
    word, tone = words.ASSUMPTION_STATUSES[item["status"]]
    steps = [
        str(step["id"])
        for step in predicate["derivation"]["steps"]
        if item["id"] in step["assumes"]
    ]
    used = f"step{'s' if len(steps) > 1 else ''} {', '.join(steps)}" if steps else "—"
    return (
        Cell(item["statement"], (item["id"],)),
        Cell(word, (), tone),
        Cell(item["evidence"] or "none given"),
        Cell(used),
    )


def _audit_table(predicate: Json) -> Table:
    columns = ("Audit", "Trials", "Attacked bound", "Most it could have shown", "Result")
    rows = tuple(_audit_row(audit, predicate) for audit in predicate["audits"])
    return Table("Audits at a glance", columns, rows)


def _audit_row(audit: Json, predicate: Json) -> tuple[Cell, ...]:
    word, tone = words.AUDIT_VERDICTS[audit["verdict"]]
    return (
        Cell(audit["id"], (audit["threat_model"],)),
        Cell(numbers.grouped(audit["trials"]), ("on each data set",), "number"),
        _attacked(audit),
        _strongest(audit, predicate),
        Cell(
            word, (f"at error rate {numbers.upper(audit['confidence']['decision_error'])}",), tone
        ),
    )


def _attacked(audit: Json) -> Cell:
    bounds = [words.guarantee(bound, "lower") for bound in audit["lower_bounds"]]
    if not bounds:
        return Cell("None", ("no lower bound was found",), "none")
    level = f"{numbers.percent(audit['confidence']['level'])} confidence"
    family = audit["conditional_on"]
    conditional = (f"Conditional: holds only for {family}",) if family else ()
    return Cell(bounds[0], (*bounds[1:], level, *conditional), "strong")


def _strongest(audit: Json, predicate: Json) -> Cell:
    best = audit["strongest"]
    if not best:
        return Cell("Unknown", (), "none")
    powerless = [
        f"could not have refuted the claim {words.stated(claim)}"
        for claim in predicate["claims"]
        if _out_of_reach(claim["stated"], best)
    ]
    return Cell(words.guarantee(best, "lower"), tuple(powerless))


def _out_of_reach(stated: Json | None, best: Json) -> bool:
    parameter = words.comparable(stated, best)
    if not stated or not parameter:
        return False
    return numbers.parse(best[parameter]) <= numbers.parse(stated[parameter])


def _audit_facts(audit: Json) -> Facts:
    counts, confidence = audit["counts"], audit["confidence"]
    attack = audit["attack"]
    witness = tuple(f"{key} = {value}" for key, value in audit["witness"].items())
    return Facts(
        (
            Fact("Attacker sees", (audit["threat_model"],)),
            Fact("Attack", (attack["text"], words.ATTACKS[attack["type"]])),
            Fact("Neighbouring data sets", (audit["neighbours_text"],)),
            Fact("Their digests", tuple(audit["neighbours"]), "code list"),
            Fact("Trials", (_trials(audit),)),
            Fact("Estimator", (audit["estimator"], f"threshold {audit['threshold'] or 'none'}")),
            Fact("Errors counted", _errors(counts), "list"),
            Fact("Confidence", _confidence(confidence), "list"),
            Fact("Witness", witness, "list"),
            Fact("Seed", (audit["seed"],), "code"),
        )
    )


def _trials(audit: Json) -> str:
    training = audit["training_trials"]
    chosen = (
        f"; {numbers.grouped(training)} others were used to choose the test" if training else ""
    )
    return f"{numbers.grouped(audit['trials'])} on each data set count towards the bound{chosen}"


def _errors(counts: Json) -> tuple[str, ...]:
    return tuple(
        f"{numbers.grouped(counts[errors])} {label} in {numbers.grouped(counts[trials])}"
        for errors, label, trials in (
            ("false_positives", "false positives", "trials_null"),
            ("false_negatives", "false negatives", "trials_alternative"),
        )
    )


def _confidence(confidence: Json) -> tuple[str, ...]:
    shared = confidence["adjusted_for"]
    return (
        f"{numbers.percent(confidence['level'])} for the printed bounds"
        + (f", shared by {shared} audits" if shared > 1 else ", one audit"),
        f"‘refuted’ needs an error rate of {numbers.upper(confidence['decision_error'])} over the "
        "whole run",
    )


def _conformance_row(item: Json) -> tuple[Cell, ...]:
    word, tone = words.CONFORMANCE_STATUSES[item["status"]]
    rate = item["error_rate"]
    return (
        Cell(item["check"], (item["id"],)),
        Cell(word, (), tone),
        Cell(numbers.statistic(item["statistic"] or "—"), (), "number"),
        Cell(
            (numbers.upper(rate) if numbers.parse(rate) else "none") if rate else "—", (), "number"
        ),
        Cell(item["detail"] or "—"),
    )
