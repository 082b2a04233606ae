"""The evidence: assumptions, hazards, audits, conformance checks and the derivation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType

from dpaudit.report import assurance, numbers, words
from dpaudit.report.derivation import tree
from dpaudit.report.model import Block, Cell, Code, Heading, Paragraph, Section, Table
from dpaudit.report.say import grouped, message, say
from dpaudit.report.words import Json

NOTHING: Mapping[str, Sequence[str]] = MappingProxyType({})
THREAT_MODELS = {
    "white_box": message("sees everything inside the program but the noise itself"),
    "black_box_all": message("sees all released values"),
    "black_box_final": message("sees the final output only"),
    "gradient_canary": message("inserts gradients of its own making"),
    "worst_case_input": message("chooses the worst records"),
}


def assumptions(predicate: Json) -> Section:
    """The assumptions of the guarantee, block by block, with status and evidence."""
    meaning = say(
        "Proved: it follows from theorems that were checked again. Enforced: the software sees to "
        "it. Tested: a check could have found it broken and did not. Declared: somebody says so; "
        "nothing here verifies it. Unknown: nobody says. Violated: it is known not to hold."
    )
    columns = (say("Block"), say("What has to hold"), say("Status"), say("Evidence"))
    rows = tuple(
        (Cell(row.layer), Cell(row.statement), _status(row.status), Cell(row.evidence or "—"))
        for row in assurance.rows(predicate)
    )
    caption = say("Blocks of the guarantee after NIST SP 800-226, and how far each is secured")
    blocks = (Paragraph(meaning), Table(caption, columns, rows))
    return Section("assumptions", say("Assumptions"), blocks)


def hazards(predicate: Json) -> Section:
    """The known hazards, answered one by one."""
    columns = (say("Hazard"), say("Status of the safeguard"), say("Answer"))
    rows = tuple(
        (Cell(row.statement), _status(row.status), Cell(row.evidence or "—"))
        for row in assurance.hazards(predicate)
    )
    table = Table(say("Ways in which such a guarantee is known to fail"), columns, rows)
    return Section("hazards", say("Hazards, one by one"), (table,))


def audits(predicate: Json) -> Section:
    """The attacks that were run: bounds, power and verdicts; then examination and conformance."""
    audit_list, title = predicate["audits"], say("Audits")
    if not audit_list:
        text = say("No attack was run. Nothing here was measured on the program itself.")
        blocks = (Paragraph(text, "caution"), *_examined(predicate), *_conformance(predicate))
        return Section("audits", title, blocks)
    text = say(
        "An audit attacks the program and proves a lower bound on its leakage at the stated "
        "confidence. It can refute a claim; it cannot prove one. ‘Not refuted’ means only that "
        "this attack found no contradiction."
    )
    columns = (
        say("Attack"),
        say("Trials"),
        say("Attacked bound"),
        say("Most it could have shown"),
        say("Result"),
    )
    rows = tuple(_audit_row(i, audit, predicate) for i, audit in enumerate(audit_list, start=1))
    table = Table(say("Audits at a glance"), columns, rows)
    blocks = (
        Paragraph(text),
        table,
        *_likelihoods(predicate),
        *_examined(predicate),
        *_conformance(predicate),
    )
    return Section("audits", title, blocks)


def _likelihoods(predicate: Json) -> list[Block]:
    """Bounds from likelihoods, which rest on the declared noise, or why there are none."""
    audits = predicate.get("likelihoods", ())
    if not audits:
        return []
    text = say(
        "These bounds hold for the program with the declared noise: its runs were drawn where rare "
        "events are common, and weighted by the declared densities. Whether the program draws this "
        "noise is what the plain runs and the checks test."
    )
    columns = (say("Attack"), say("Runs"), say("Bound from likelihoods"))
    rows = tuple(
        (
            Cell(words.fixed(row["neighbours_text"]) or "—"),
            Cell(grouped(row["runs"]), (), "number"),
            _likely(row, predicate["claims"]),
        )
        for row in audits
    )
    heading = Heading(say("Bounds from likelihoods"))
    return [heading, Paragraph(text), Table(say("Likelihood audits at a glance"), columns, rows)]


def _likely(row: Json, claims: Sequence[Json]) -> Cell:
    bounds = [words.guarantee(bound["lower"], "lower") for bound in row["bounds"]]
    if row["why_not"] or not bounds:
        why = say("no likelihood: {why}", why=words.embedded(row["why_not"]))
        return Cell(say("None"), (why,), "none")
    level = say("{level} confidence", level=numbers.percent(row["confidence"]["level"]))
    shares = dict.fromkeys(
        say("the attack reaches {share} of the accounted bound on this pair", share=share)
        for bound in row["bounds"]
        for claim in claims
        if (share := words.share_of(claim, bound))
    )
    return Cell(bounds[0], (*bounds[1:], *shares, level), "strong")


def derivation(predicate: Json, proved: Mapping[str, Sequence[str]] = NOTHING) -> Section:
    """The declared algorithm and every step from it to the accounted bounds.

    ``proved``: the sources of the theorems from which a proof kernel accepted a claim, by its text.
    """
    body, title = predicate["derivation"], say("Derivation")
    blocks: list[Block] = []
    if predicate["mechanism"]["declaration_text"]:
        text = predicate["mechanism"]["declaration_text"]
        blocks.append(Code(text, say("The declared algorithm")))
    if not body["steps"]:
        blocks.append(Paragraph(say("No derivation is part of this certificate.")))
        return Section("derivation", title, tuple(blocks))
    blocks.append(
        Paragraph(
            say(
                "Made by {accountant} with {arithmetic} arithmetic: every printed bound is rounded "
                "so that it stays a bound. Conclusions come first; the steps they rest on are "
                "indented below them. Each rule names the theorem it applies.",
                accountant=body["accountant"],
                arithmetic=words.fixed(body["arithmetic"]),
            )
        )
    )
    blocks += [Paragraph(_accepted(text, sources)) for text, sources in proved.items()]
    return Section("derivation", title, (*blocks, tree(body["steps"], predicate["claims"])))


def _accepted(claim: str, sources: Sequence[str]) -> str:
    """The sentence on a claim that a proof kernel accepted."""
    return say(
        "The proof kernel of Coq read this derivation while this page was made, and accepts "
        "{claim} from {number} of the literature's theorems: {sources}",
        claim=words.embedded(claim),
        number=str(len(sources)),
        sources=" ".join(map(words.embedded, sources)) or say("none"),
    )


def _status(status: str) -> Cell:
    word, colour = words.tone(words.STATUSES, status)
    return Cell(word, (), colour)


def _audit_row(number: int, audit: Json, predicate: Json) -> tuple[Cell, ...]:
    word, colour = words.tone(words.AUDIT_VERDICTS, audit["verdict"])
    model = str(THREAT_MODELS.get(audit["threat_model"], audit["threat_model"]))
    error = numbers.upper(audit["confidence"]["decision_error"])
    return (
        Cell(
            say("Audit {number}", number=number),
            (
                say("The attacker {model}", model=say(model)),
                words.fixed(audit["neighbours_text"]),
                *_stand_in(audit),
                *_suite(audit),
            ),
        ),
        Cell(grouped(audit["trials"]), (say("on each data set"), *_fewer(audit)), "number"),
        _attacked(audit),
        _strongest(audit, predicate),
        Cell(word, (say("at error rate {rate}", rate=error),), colour),
    )


def _suite(audit: Json) -> tuple[str, ...]:
    """The suite that attacked, by its file and digest; certificates of before name none."""
    if "suite" not in audit:
        return ()
    suite = audit["suite"]
    if suite is None:
        return (say("by dpaudit's own search: no suite attacked"),)
    if not suite["file"]:
        return (say("by a suite that no file defines"),)
    return (say("by {file}, SHA-256 {digest}", file=suite["file"], digest=suite["sha256"][:16]),)


def _fewer(audit: Json) -> tuple[str, ...]:
    """The note that fewer trials were run than the suite asks for."""
    trials_asked = (audit.get("suite") or {"trials": 0})["trials"]
    text = message("fewer than the {trials} that the suite asks for")
    return (say(text, trials=trials_asked),) if trials_asked > audit["trials"] else ()


def _stand_in(audit: Json) -> tuple[str, ...]:
    if audit.get("about") != "stand_in":
        return ()
    parts = words.embedded(", ".join(audit.get("differs", ())))
    return (say("on a stand-in for the program, which differs in {parts}", parts=parts),)


def _attacked(audit: Json) -> Cell:
    bounds = [words.guarantee(bound, "lower") for bound in audit["lower_bounds"]]
    if not bounds:
        return Cell(say("None"), (say("no lower bound was found"),), "none")
    level = say("{level} confidence", level=numbers.percent(audit["confidence"]["level"]))
    family = audit["conditional_on"]
    conditional = (say("Conditional: holds only for {family}", family=family),) if family else ()
    return Cell(bounds[0], (*bounds[1:], level, *conditional), "strong")


def _strongest(audit: Json, predicate: Json) -> Cell:
    best = audit["strongest"]
    if not best:
        return Cell(say("Unknown"), (), "none")
    powerless = [
        say("could not have refuted the claim {claim}", claim=words.stated(claim))
        for claim in predicate["claims"]
        if _out_of_reach(claim["stated"], best)
    ]
    return Cell(words.guarantee(best, "lower"), tuple(powerless))


def _out_of_reach(stated: Json | None, best: Json) -> bool:
    parameter = words.comparable(stated, best)
    if not stated or not parameter:
        return False
    return numbers.parse(best[parameter]) <= numbers.parse(stated[parameter])


def _examined(predicate: Json) -> list[Block]:
    """How much of its clipping norm and sensitivity each query of the program reached.

    The examination runs the program on generated records.  A small share means that a bug in the
    clip would not have shown.
    """
    examination = predicate.get("examination")
    if not examination:
        return []
    heading = Heading(say("The program itself, on generated records"))
    if examination["not_examined"]:
        text = say("Not examined: {why}", why=words.embedded(examination["not_examined"]))
        return [heading, Paragraph(text, "caution")]
    columns = (
        say("Release"),
        say("Kind of query"),
        say("Share of its clip reached"),
        say("Share of its sensitivity reached"),
        say("Place"),
    )
    rows = tuple(
        (
            Cell(row["label"]),
            Cell(row["query"]),
            _share(row["clip_share"]),
            _share(row["displacement_share"]),
            Cell(row["place"] or "—"),
        )
        for row in examination["reached"]
    )
    if not rows:
        return [heading, Paragraph(say("No query was seen."), "caution")]
    table = Table(say("How far one generated record moved each query"), columns, rows)
    pairs = [_pair(row) for row in examination["reached"] if row.get("pair")]
    return [heading, *_tried(examination.get("tried")), table, *pairs]


def _pair(row: Json) -> Block:
    """Two generated data sets that move a query too far, record by record."""
    pair = row["pair"]
    title = say(
        "Two data sets that move release {label} by {times} times what is stated",
        label=row["label"],
        times=numbers.lower(pair["share"], 3),
    )
    columns = (say("Record"), say("In the first data set"), say("In the second data set"))
    none: list[str] = []
    both = zip_longest(pair["first"], pair["second"], fillvalue=none)
    rows = tuple(
        (Cell(str(place), (), "number"), *(Cell(", ".join(record) or "—") for record in records))
        for place, records in enumerate(both)
    )
    return Table(title, columns, rows)


def _tried(tried: Json | None) -> list[Block]:
    """How much the examination tried; nothing in a certificate of earlier."""
    if not tried:
        return []
    text = say(
        "Queries were asked on {sets} data sets with {rows} rows in all; a search made {changed} "
        "neighbouring pairs from earlier ones. It had {seconds} seconds of a processor.",
        sets=tried["data_sets"],
        rows=tried["rows"],
        changed=tried["mutations"],
        seconds=numbers.upper(tried["seconds"], 3),
    )
    return [Paragraph(text)]


def _share(text: str) -> Cell:
    """A share of a declared bound; above 1 the declaration is violated, and the cell is red."""
    if not text:
        return Cell("—", (), "number")
    broken = numbers.parse(text) > 1
    return Cell(numbers.upper(text, 3), (), "bad" if broken else "number")


def _conformance(predicate: Json) -> list[Block]:
    """How many conformance checks held, and a table of the others; the appendix lists all."""
    checks, heading = (
        predicate["conformance"],
        Heading(say("Does the program do what is declared?")),
    )
    if not checks:
        text = say("No check compared the program that ran with its declaration.")
        return [heading, Paragraph(text, "caution")]
    counts = Counter(check["status"] for check in checks)
    counts_text = ", ".join(
        f"{words.tone(words.CONFORMANCE_STATUSES, status)[0]}: {count}"
        for status, count in sorted(counts.items())
    )
    text = say(
        "These checks compare the program that ran with its declaration. ‘Held’ means that no "
        "deviation was found; a deviation too small for the check can remain."
    )
    blocks: list[Block] = [heading, Paragraph(f"{text} {counts_text}.")]
    rows = tuple(conformance_row(check) for check in checks if check["status"] != "held")
    if rows:
        blocks.append(Table(say("Checks that did not hold"), conformance_columns(), rows))
    return blocks


def conformance_columns() -> tuple[str, ...]:
    """The columns of a table of conformance checks."""
    return (
        say("Check"),
        say("Result"),
        say("Statistic"),
        say("False alarm rate"),
        say("Detail"),
    )


def conformance_row(item: Json) -> tuple[Cell, ...]:
    """The cells of one conformance check."""
    word, colour = words.tone(words.CONFORMANCE_STATUSES, item["status"])
    rate = item["error_rate"]
    shown = (numbers.upper(rate) if numbers.parse(rate) else say("none")) if rate else "—"
    about = (say("of a stand-in for the program"),) if item.get("about") == "stand_in" else ()
    return (
        Cell(words.fixed(item["check"]), about),
        Cell(word, (), colour),
        Cell(numbers.statistic(item["statistic"] or "—"), (), "number"),
        Cell(shown, (), "number"),
        Cell(words.fixed(item["detail"]) or "—"),
    )
