"""Tables for reviewers: the risks of Opinion 05/2014 (WP216) and a reporting checklist."""

from __future__ import annotations

from dpaudit.report import coverage, front, numbers, words
from dpaudit.report.model import Cell, Paragraph, Section, Table
from dpaudit.report.say import say
from dpaudit.report.words import Json


def criteria(predicate: Json) -> Section:
    """The three risks of WP216, each with the bound that the accounting gives for it."""
    text = say(
        "The three risks named by the Article 29 Working Party, with the number that the "
        "accounted bound gives for each. Whether data are personal data is a legal question that "
        "this page does not answer."
    )
    blocks = (Paragraph(text), _criteria(predicate), *coverage.caution(predicate))
    return Section("criteria", say("Criteria of Opinion 05/2014 (WP216)"), blocks)


def checklist(predicate: Json) -> Section:
    """The items of Ponomareva et al. (2023), section 5.3, answered from the certificate."""
    scope, body = predicate["scope"], predicate["derivation"]
    fields = predicate.get("fields", {})
    open_assumptions = [
        f"{words.tone(words.STATUSES, item['status'])[0]}: {words.fixed(item['statement'])}"
        for item in predicate["assumptions"]
        if item["status"] in ("declared", "violated", "unknown")
    ]
    measures = [
        words.guarantee(bound, "upper")
        for bound in body["upper_bounds"]
        if bound["measure"] not in ("profile", "tradeoff")
    ]
    uncovered = [*map(words.fixed, scope["data_accesses"]["uncovered"]), *fields.get("tuning", ())]
    calculi = ", ".join(sorted({step["calculus"] for step in body["steps"]}))
    rows = (
        _answer(say("Setting"), say(words.MODELS[scope["model"]]), words.adjacency(scope)),
        _answer(say("Final output"), *words.outputs(scope)),
        _answer(say("Data accesses covered"), *scope["data_accesses"]["covered"]),
        _answer(say("Data accesses not covered, tuning included"), *uncovered),
        _answer(say("Accounting"), *filter(None, (body["accountant"], calculi))),
        _answer(say("Assumptions that were not verified or do not hold"), *open_assumptions),
        _answer(say("Formal statement"), *measures),
        _answer(say("Code"), *_code(predicate)),
    )
    caption = say("After Ponomareva et al. (2023), section 5.3")
    table = Table(caption, (say("Item"), say("Answer")), rows)
    return Section("checklist", say("Checklist for stating such a guarantee"), (table,))


def _criteria(predicate: Json) -> Table:
    values, scope = predicate["in_plain_words"], predicate["scope"]
    task, guess_upper = words.observer_task(scope), front.guess_upper(predicate)
    guess = rate = posterior = Cell(say("No number"), (say("no accounted bound"),), "none")
    if guess_upper:
        share = numbers.percent_upper(guess_upper)
        coin = say("50\u00a0% is a coin toss")
        guess = Cell(say("right at most {share}", share=share), (coin,), "strong")
    if values:
        share = numbers.percent_upper(values["true_positive_rate_at_0.001_upper"])
        notes = (say("of true cases recognised, at 0.1\u00a0% false alarms"),)
        rate = Cell(say("at most {share}", share=share), notes, "strong")
        posterior = _inference(values, posterior)
    rows = (
        (
            Cell(say("Singling out")),
            Cell(say("Telling {task}, by the best guess from all outputs", task=task)),
            guess,
            Cell(say("Singling out in the raw data, or by an invariant that is released exactly")),
        ),
        (
            Cell(say("Linkability")),
            Cell(say("Linking an outside record to these data: recognising {task}", task=task)),
            rate,
            Cell(say("Linking through other releases from the same data")),
        ),
        (
            Cell(say("Inference")),
            Cell(say("Becoming surer about one unit: {task}", task=task)),
            posterior,
            Cell(say("Inferences that hold for a whole group, whoever takes part")),
        ),
    )
    columns = (say("Criterion"), say("What is bounded"), say("Bound"), say("Not addressed"))
    return Table(say("WP216 criteria and the bounds that follow"), columns, rows)


def _inference(values: Json, none: Cell) -> Cell:
    if not values["posterior"]:
        return none
    rows = values["posterior"]
    prior, posterior = rows[len(rows) // 2]
    text = say(
        "from {prior} to at most {posterior}",
        prior=numbers.percent(prior),
        posterior=numbers.percent_upper(posterior),
    )
    return Cell(text, (say("averaged over what may be released"),), "strong")


def _code(predicate: Json) -> list[str]:
    git = predicate["environment"]["git"]
    files = [item["name"] for item in predicate["mechanism"]["implementation"]]
    counted = [say("{count} files, listed in the appendix", count=len(files))] if files else []
    return [*counted, *([f"git {git['commit']}"] if git else [])]


def _answer(item: str, *lines: str) -> tuple[Cell, Cell]:
    return Cell(item), Cell(lines[0] if lines else say("none listed"), tuple(lines[1:]), "lines")
