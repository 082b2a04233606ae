"""Tables for reviewers: the risks of Opinion 05/2014 (WP216) and a reporting checklist."""

from __future__ import annotations

from dpaudit.report import numbers, words
from dpaudit.report.model import Cell, Table
from dpaudit.report.words import Json


def criteria(predicate: Json) -> Table:
    """One row a risk of Opinion 05/2014: what the accounted bound limits, and what it does not."""
    values, scope = predicate["in_plain_words"], predicate["scope"]
    task = words.observer_task(scope)
    guess = rate = posterior = none = Cell("No number", ("no accounted bound",), "none")
    if values:
        guess_upper = numbers.percent_upper(values["membership_guess_upper"])
        guess = Cell(f"right at most {guess_upper}", ("50\u00a0% is a coin toss",), "strong")
        rate_upper = numbers.percent_upper(values["true_positive_rate_at_0.001_upper"])
        notes = ("of true cases recognised, at 0.1\u00a0% false alarms",)
        rate = Cell(f"at most {rate_upper}", notes, "strong")
        posterior = _inference(values, none)
    rows = (
        (
            Cell("Singling out"),
            Cell(f"Telling {task}, by the best guess from all outputs"),
            guess,
            Cell("Singling out in the raw data, or by an invariant that is released exactly"),
        ),
        (
            Cell("Linkability"),
            Cell(f"Linking an outside record to these data: recognising {task}"),
            rate,
            Cell("Linking through other releases from the same data"),
        ),
        (
            Cell("Inference"),
            Cell(f"Becoming surer about one unit: {task}"),
            posterior,
            Cell("Inferences that hold for a whole group, whoever takes part"),
        ),
    )
    columns = ("Criterion", "What is bounded", "Bound", "Not addressed")
    return Table("WP216 criteria and the bounds that follow", columns, rows)


def _inference(values: Json, none: Cell) -> Cell:
    if not values["posterior"]:
        return none
    rows = values["posterior"]
    prior, posterior = rows[len(rows) // 2]
    text = f"from {numbers.percent(prior)} to at most {numbers.percent_upper(posterior)}"
    return Cell(text, ("averaged over what may be released",), "strong")


def checklist(predicate: Json) -> Table:
    """The items of Ponomareva et al. (2023), section 5.3, answered from the certificate."""
    scope, body = predicate["scope"], predicate["derivation"]
    open_assumptions = [
        f"{item['status']}: {item['statement']}"
        for item in predicate["assumptions"]
        if item["status"] in ("declared", "violated")
    ]
    measures = [
        words.guarantee(bound, "upper")
        for bound in body["upper_bounds"]
        if bound["measure"] not in ("profile", "tradeoff")
    ]
    calculi = ", ".join(sorted({step["calculus"] for step in body["steps"]}))
    rows = (
        _answer("Setting", words.MODELS[scope["model"]], words.adjacency(scope)),
        _answer("Final output", *scope["outputs"]),
        _answer("Data accesses covered", *scope["data_accesses"]["covered"]),
        _answer("Data accesses not covered, tuning included", *scope["data_accesses"]["uncovered"]),
        _answer("Accounting", *filter(None, (body["accountant"], calculi))),
        _answer("Assumptions that were not verified or do not hold", *open_assumptions),
        _answer("Formal statement", *measures),
        _answer("Code", *_code(predicate)),
    )
    return Table("After Ponomareva et al. (2023), section 5.3", ("Item", "Answer"), rows)


def _code(predicate: Json) -> list[str]:
    git = predicate["environment"]["git"]
    files = [item["name"] for item in predicate["mechanism"]["implementation"]]
    return files + ([f"git {git['commit']}"] if git else [])


def _answer(item: str, *lines: str) -> tuple[Cell, Cell]:
    return Cell(item), Cell(lines[0] if lines else "none listed", tuple(lines[1:]), "lines")
