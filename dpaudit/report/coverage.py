"""The scope of the guarantee, the controller's statements, and the meaning of a bound."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpaudit.errors import CertificateRejected
from dpaudit.report import front, numbers, plots, words
from dpaudit.report.model import (
    Block,
    Bullets,
    Cell,
    Fact,
    Facts,
    Figure,
    Heading,
    Paragraph,
    Section,
    Table,
)
from dpaudit.report.reader import numbers_table
from dpaudit.report.say import day, grouped, message, say
from dpaudit.report.words import Json

_MOST_DRAWN = 4  # Items that are drawn.
_MOST_POINTS = 30  # Numbers of one item that are drawn.
# The name of each field of dpaudit.toml on a page.
LABELS = {
    "purpose": message("Purpose"),
    "legal_basis": message("Legal basis"),
    "data_source": message("Data source"),
    "data_period": message("Period of the data"),
    "changes": message("Changes since the last release"),
    "publication_date": message("Publication date"),
    "release_type": message("Type of release"),
    "controller": message("Controller"),
    "processor": message("Processor"),
    "contact": message("Contact"),
    "approver": message("Approved by"),
    "review_date": message("To be reviewed on"),
    "expires": message("Expires on"),
    "licence": message("Licence"),
    "retention": message("Retention of the raw data"),
    "tuning": message("How parameters were tuned"),
    "exploratory_accesses": message("Exploratory accesses to the data"),
    "post_processing": message("Post-processing"),
    "justification": message("Justification of the parameters"),
    "sbom": message("Software bill of materials"),
    "product_type": message("Type of product"),
    "region": message("Region"),
    "sector": message("Sector"),
}
# Questions that no certificate answers.
_ALWAYS_OPEN = (
    message(
        "Facts about a whole group or population that the outputs reveal whether or not any one "
        "unit takes part."
    ),
    message(
        "Several units together, such as a household or one person with several records: the bound "
        "is for one unit and grows with their number."
    ),
    message(
        "Other releases from the same data: their losses add up and are not part of this "
        "certificate."
    ),
    message("The security of the raw data, and the grounds on which they were collected."),
)


def protected(predicate: Json) -> Section:
    """The scope: unit, adjacency, trust model, outputs, and covered data accesses."""
    scope = predicate["scope"]
    accesses = scope["data_accesses"]
    none = (say("none listed"),)
    unit = scope["unit"]
    period = (say("period: {text}", text=unit["period"]),) if unit["period"] else ()
    bound = (say("contribution: {text}", text=words.fixed(unit["bound"])),) if unit["bound"] else ()
    rows = (
        Fact(say("Unit of privacy"), (words.unit(scope), *period, *bound)),
        Fact(say("Neighbouring data sets"), (words.adjacency(scope),)),
        Fact(say("Trust model"), (say(words.MODELS[scope["model"]]),)),
        Fact(say("Released"), words.outputs(scope), "list"),
        Fact(say("Data accesses covered"), tuple(accesses["covered"]) or none, "list"),
        Fact(
            say("Data accesses not covered"),
            tuple(map(words.fixed, accesses["uncovered"])) or none,
            "list",
        ),
        Fact(say("Released exactly (invariants)"), tuple(scope["invariants"]) or none, "list"),
        Fact(say("Caveats"), tuple(map(words.fixed, predicate["caveats"])) or none, "list"),
    )
    blocks: tuple[Block, ...] = (
        Facts(rows),
        Heading(say("What the guarantee is silent about")),
        Bullets(tuple(map(say, _ALWAYS_OPEN))),
    )
    return Section("protected", say("What is protected"), blocks)


def stated(predicate: Json) -> Section:
    """The controller's statements, and the names of those that are missing."""
    fields = predicate.get("fields", {})
    rows = [
        Fact(say(label), tuple(map(day, fields[name])), "list")
        for name, label in LABELS.items()
        if fields.get(name)
    ]
    blocks: list[Block] = []
    if rows:
        text = say("Nothing in this section is checked; the controller answers for it.")
        blocks += [Paragraph(text, "note"), Facts(tuple(rows))]
    absent = front.not_stated(predicate)
    if absent:
        names = ", ".join(say(LABELS[name]) for name in absent)
        text = say("Missing, to be stated in dpaudit.toml: {names}.", names=names)
        blocks.append(Paragraph(text, "caution"))
    return Section("stated", say("What the controller states"), tuple(blocks))


def plain_words(predicate: Json) -> Section:
    """The accounted bound in plain words: success rates of an observer against one unit."""
    values, guess = predicate["in_plain_words"], front.guess_upper(predicate)
    title = say("In plain words")
    if not guess:
        text = say("No bound was derived, so that nothing can be promised to anybody.")
        return Section("plain-words", title, (Paragraph(text),))
    task = words.observer_task(predicate["scope"])
    text = say(
        "Suppose someone sees everything that is released, knows all other data, has unlimited "
        "computing power and wants to find out {task}. By the accounting of the declared "
        "algorithm, and under the assumptions below:",
        task=task,
    )
    blocks = (Paragraph(text), _chances(values, guess), *caution(predicate))
    return Section("plain-words", title, blocks)


def run(predicate: Json) -> Section:
    """The run on data, and for each metric whether the guarantee covers it."""
    body, title = predicate["run"], say("The run on data")
    if body is None:
        return Section(
            "run", title, (Paragraph(say("No run on data is part of this certificate.")),)
        )
    records = body["records"]
    record_count = say("private under this adjacency") if records is None else grouped(records)
    output_file = body["output"]
    facts = Facts(
        (
            Fact(say("Records"), (record_count,)),
            Fact(say("Source of randomness"), (words.fixed(body["entropy"]),)),
            Fact(say("Notes"), tuple(map(words.fixed, body["notes"])), "list"),
            Fact(
                say("Output"),
                (output_file["name"], f"SHA-256 {output_file['digest']['sha256']}")
                if output_file
                else (),
                "code",
            ),
        )
    )
    blocks: list[Block] = [facts]
    if body["entropy"] != "operating system":
        text = say(
            "The noise of this run came from a stored seed; anybody who knows the "
            "seed can compute it again. Outputs of this run are not protected and "
            "must not be published."
        )
        blocks.append(Paragraph(text, "caution"))
    table = numbers_table(predicate, len(body.get("published", {}).get("rows", ())))
    blocks += [] if table is None else [table, *_drawn(body["published"]["rows"])]
    return Section("run", title, (*blocks, *_metrics(body["metrics"])))


def _drawn(rows: list[Json]) -> Iterator[Figure]:
    """The first items of which several numbers have margins, a figure each."""
    by_item: dict[str, list[tuple[str, float, float]]] = {}
    for row in rows:
        try:
            value, margin = (numbers.plotted(row[name]) for name in ("value", "error_95"))
        except CertificateRejected:  # no number, or one without a margin
            continue
        if math.isfinite(value) and math.isfinite(margin):
            by_item.setdefault(row["item"], []).append((row["keys"], value, margin))
    several = [
        (item, rows_of_item) for item, rows_of_item in by_item.items() if len(rows_of_item) > 1
    ]
    for place, (item, rows_of_item) in enumerate(several[:_MOST_DRAWN]):
        caption = say(
            "Published numbers of {item}, each with its error in 19 of 20 releases.", item=item
        )
        svg = plots.published_svg(rows_of_item[:_MOST_POINTS], place, item)
        yield Figure(f"published-{place}-figure", svg, caption)


def caution(predicate: Json) -> tuple[Block, ...]:
    """A warning beside accounted numbers if the verdict does not establish them for the program."""
    status = predicate["verdict"]["status"]
    if status not in front.SHAKEN:
        return ()
    text = say(
        "The verdict above is ‘{word}’: these numbers follow from the declaration and are not "
        "established for the program.",
        word=words.tone(words.VERDICTS, status)[0],
    )
    return (Paragraph(text, "caution"),)


def _chances(values: Json | None, guess: str) -> Table:
    rows = [
        _chance(
            say("Their best guess is right at most this often, if both cases are equally likely"),
            guess,
            "0.5",
        )
    ]
    if values:
        text = say(
            "They recognise at most this share of true cases, if they accept a false alarm in 1 of "
            "1,000"
        )
        rows.append(_chance(text, values["true_positive_rate_at_0.001_upper"], "0.001"))
        text = message(
            "They believed {prior} in what is true; their belief afterwards, averaged over what "
            "may be released"
        )
        rows += [
            _chance(say(text, prior=numbers.percent(prior)), posterior, prior)
            for prior, posterior in values["posterior"]
        ]
    columns = (say("What an observer can achieve"), say("At most"), say("Without the release"))
    caption = say("Bounds on what anybody can find out about one unit")
    return Table(caption, columns, tuple(rows))


def _chance(text: str, bound_upper: str, before: str) -> tuple[Cell, ...]:
    shown = numbers.percent_upper(bound_upper)
    return Cell(text), Cell(shown, (), "strong number"), Cell(numbers.percent(before), (), "number")


def _metrics(metrics: list[Json]) -> list[Block]:
    if not metrics:
        return []
    rows = tuple(
        (
            Cell(item["name"]),
            Cell(numbers.exact(item["value"]), (), "number exact"),
            Cell(say("Covered"), (), "good")
            if item["covered"]
            else Cell(say("Not covered"), (), "caution"),
            Cell(item["note"] or "—"),
        )
        for item in metrics
    )
    columns = (say("Metric"), say("Value"), say("By the guarantee"), say("Note"))
    table = Table(say("Metrics of the run"), columns, rows)
    if all(item["covered"] for item in metrics):
        return [table]
    text = say(
        "A metric that is not covered was computed from raw data; publishing it reveals more than "
        "this certificate accounts for."
    )
    return [table, Paragraph(text, "note")]
