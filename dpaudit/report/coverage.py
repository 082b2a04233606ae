"""What the guarantee speaks about, what it means for a person, and what it leaves open."""

from __future__ import annotations

from dpaudit.report import numbers, regulation, words
from dpaudit.report.model import (
    Block,
    Bullets,
    Cell,
    Fact,
    Facts,
    Heading,
    Paragraph,
    Section,
    Table,
)
from dpaudit.report.words import Json

_SHAKEN = frozenset({"refuted", "alarm", "inconclusive", "unsupported"})
_NONE = ("none listed",)
_ALWAYS_OPEN = (
    "Facts about a whole group or population that the outputs reveal whether or not any one "
    "unit takes part.",
    "Several units together, such as a household or one person with several records: the bound "
    "is for one unit and grows with their number.",
    "Other releases from the same data: their losses add up and are not part of this certificate.",
    "Timing, memory, floating-point rounding and other side channels, unless an assumption above "
    "says otherwise.",
    "The security of the raw data, and the grounds on which they were collected and are processed.",
)


def protected(predicate: Json) -> Section:
    """What one unit is, who is trusted, what goes out, and which data accesses count."""
    scope = predicate["scope"]
    accesses = scope["data_accesses"]
    rows = (
        Fact("Unit of privacy", (scope["unit"]["entity"], *_unit_notes(scope["unit"]))),
        Fact("Neighbouring data sets", (words.adjacency(scope),)),
        Fact("Trust model", (words.MODELS[scope["model"]],)),
        Fact("Released", tuple(scope["outputs"]), "list"),
        Fact("Data accesses covered", tuple(accesses["covered"]) or _NONE, "list"),
        Fact("Data accesses not covered", tuple(accesses["uncovered"]) or _NONE, "list"),
        Fact("Released exactly (invariants)", tuple(scope["invariants"]) or _NONE, "list"),
    )
    return Section("protected", "What is protected", (Facts(rows),))


def plain_words(predicate: Json) -> Section:
    """What the accounted bound means for one unit, as chances."""
    values = predicate["in_plain_words"]
    if not values:
        text = "No accounted bound is part of this certificate, so nothing can be said here."
        return Section("plain-words", "In plain words", (Paragraph(text),))
    task = words.observer_task(predicate["scope"])
    blocks: list[Block] = [
        Paragraph(
            "Suppose someone sees everything that is released, knows all other data, has "
            f"unlimited computing power and wants to find out {task}. "
            "By the accounting of the declared algorithm, and under the assumptions below:"
        ),
        _chances(values),
        *_caution(predicate),
    ]
    return Section("plain-words", "In plain words", tuple(blocks))


def run(predicate: Json) -> Section:
    """The run on data, and which of its numbers the guarantee does not cover."""
    body = predicate["run"]
    if body is None:
        text = "No run on data is part of this certificate."
        return Section("run", "The run on data", (Paragraph(text),))
    facts = Facts(
        (
            Fact("Records", (_records(body["records"]),)),
            Fact("Source of randomness", (body["entropy"],)),
            Fact("Notes", tuple(body["notes"]), "list"),
            Fact("Output", _output(body["output"]), "code"),
        )
    )
    blocks: list[Block] = [facts]
    if body["entropy"] != "operating system":
        text = (
            "The noise of this run came from a stored seed and can be computed again by whoever "
            "knows the seed. Outputs of this run are not protected and must not be published."
        )
        blocks.append(Paragraph(text, "caution"))
    return Section("run", "The run on data", (*blocks, *_metrics(body["metrics"])))


def not_covered(predicate: Json) -> Section:
    """What stays open, and what the profile bounds of the criteria that regulators name."""
    blocks: list[Block] = [
        Bullets(_open_items(predicate)),
        Heading("Criteria of Opinion 05/2014 (WP216)"),
        Paragraph(
            "The three risks named by the Article 29 Working Party, with the number that the "
            "accounted bound gives for each. Whether data are personal data is a legal question "
            "that this page does not answer."
        ),
        regulation.criteria(predicate),
        *_caution(predicate),
        Heading("Checklist for stating a differential privacy guarantee"),
        regulation.checklist(predicate),
    ]
    return Section("not-covered", "What is not covered", tuple(blocks))


def _unit_notes(unit: Json) -> tuple[str, ...]:
    period = (f"period: {unit['period']}",) if unit["period"] else ()
    return (*period, f"contribution: {unit['bound']}") if unit["bound"] else period


def _chances(values: Json) -> Table:
    rows = [
        _chance(
            "Their best guess is right at most this often, if both cases are equally likely",
            values["membership_guess_upper"],
            "0.5",
        ),
        _chance(
            "They recognise at most this share of true cases, if they accept a false alarm in "
            "1 of 1,000",
            values["true_positive_rate_at_0.001_upper"],
            "0.001",
        ),
    ]
    rows += [
        _chance(
            f"They believed {numbers.percent(prior)} in what is true; their belief afterwards, "
            "averaged over what may be released",
            posterior,
            prior,
        )
        for prior, posterior in values["posterior"]
    ]
    columns = ("What an observer can achieve", "At most", "Without the release")
    return Table("Bounds on what anybody can find out about one unit", columns, tuple(rows))


def _chance(text: str, bound_upper: str, before: str) -> tuple[Cell, ...]:
    shown = numbers.percent_upper(bound_upper)
    return Cell(text), Cell(shown, (), "strong number"), Cell(numbers.percent(before), (), "number")


def _metrics(metrics: list[Json]) -> list[Block]:
    if not metrics:
        return []
    rows = tuple(
        (
            Cell(item["name"]),
            Cell(numbers.exact(item["value"]), (), "number"),
            Cell("Covered", (), "good") if item["covered"] else Cell("Not covered", (), "caution"),
            Cell(item["note"] or "—"),
        )
        for item in metrics
    )
    table = Table("Metrics of the run", ("Metric", "Value", "By the guarantee", "Note"), rows)
    if all(item["covered"] for item in metrics):
        return [table]
    text = (
        "A metric that is not covered was computed from raw data; publishing it reveals more than "
        "this certificate accounts for."
    )
    return [table, Paragraph(text, "note")]


def _open_items(predicate: Json) -> tuple[str, ...]:
    scope, body = predicate["scope"], predicate["run"]
    items = [f"Data access: {text}." for text in scope["data_accesses"]["uncovered"]]
    items += [f"Released exactly: {text}." for text in scope["invariants"]]
    if body:
        items += [f"Metric: {item['name']}." for item in body["metrics"] if not item["covered"]]
    return (*items, *_ALWAYS_OPEN)


def _caution(predicate: Json) -> list[Block]:
    status = predicate["verdict"]["status"]
    if status not in _SHAKEN:
        return []
    word = words.VERDICTS[status][0].lower()
    text = (
        f"The verdict above is ‘{word}’: these numbers follow from the declaration and are not "
        "established for the program."
    )
    return [Paragraph(text, "caution")]


def _output(kept: Json | None) -> tuple[str, ...]:
    return (kept["name"], f"SHA-256 {kept['digest']['sha256']}") if kept else ()


def _records(count: int | None) -> str:
    return "private under this adjacency" if count is None else numbers.grouped(count)
