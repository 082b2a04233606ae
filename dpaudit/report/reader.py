"""The first screen, for readers: a regulator's questions, each answered in a sentence or two.

Every answer is made from the certificate.  A fact that it lacks is "not stated", with the name of
whoever can be asked.  Answers are cut to a length, so that the whole stays readable; the evidence
below has all of them in full.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from dpaudit.report import front, numbers, words
from dpaudit.report.compared import changes
from dpaudit.report.model import Cell, Glance, Line, Table
from dpaudit.report.say import counted, day, message, percentage, say
from dpaudit.report.words import Json
from dpaudit.sign import Signed

# Words of an answer, by its subject: together they keep the first screen below 900 words.
LONG_WORDS = 90
SENTENCE_WORDS = 55  # Words of an answer in one sentence.
MIDDLE_WORDS = 40  # Words of an answer of medium length.
SHORT_WORDS = 20  # Words of an answer, unless another length is given.
_CELL_WORDS = 5  # Words of a cell in the table of published numbers.
MOST_NUMBERS = 6  # rows of the table of published numbers
_LARGEST_FACTOR = Decimal(1_000_000)  # a larger factor limits nothing that a person could notice
_SMALLEST_SHARE = 10**12  # a smaller delta is said to be at most one in this many

# By adjacency: how likely anything may become for one unit, beside the other of two data sets.
_EPSILON = {
    "add_remove": message(
        "At most {epsilon}: whatever may happen because of what was published is at most {factor} "
        "times as likely with one {entity} in the data as without."
    ),
    "replace_one": message(
        "At most {epsilon}: whatever may happen because of what was published is at most {factor} "
        "times as likely as if one {entity} had been another."
    ),
    "zero_out": message(
        "At most {epsilon}: whatever may happen because of what was published is at most {factor} "
        "times as likely as if one {entity} had been blank."
    ),
}


# How a reader calls the parts that two certificates are compared by.
_PARTS = {
    "claim": message("claims and bounds"),
    "noise": message("noise"),
    "data": message("data and published numbers"),
    "program": message("program"),
    "attack": message("tests"),
    "fields": message("stated facts"),
    "checker": message("software"),
}


def glance(
    predicate: Json, signed: Sequence[Signed], previous: Mapping[str, Any] | None = None
) -> Glance:
    """The questions of a reader, the gravest first."""
    scope, fields = predicate["scope"], predicate.get("fields", {})
    lines = (
        _line(
            say("What was published"),
            _published(predicate),
            "run",
            MIDDLE_WORDS,
            numbers_table(predicate, MOST_NUMBERS),
        ),
        _line(say("Who is protected"), _protected(scope, fields), "protected", MIDDLE_WORDS),
        _line(say("Epsilon"), _epsilon(predicate), "guarantee", MIDDLE_WORDS),
        _line(say("Delta"), _delta(predicate), "guarantee", MIDDLE_WORDS),
        _line(say("How well a guess can do"), _guess(predicate), "plain-words", SENTENCE_WORDS),
        _line(say("What it took on trust"), _trust(predicate), "assumptions", LONG_WORDS),
        _line(
            say("What was tested, and how strongly"), front.effort(predicate), "audits", LONG_WORDS
        ),
        _line(say("Who answers for it"), _by(predicate), "stated"),
        _line(say("Purpose"), _stated(predicate, "purpose"), "stated"),
        _line(
            say("What changed since the last release"),
            _changed(predicate, previous),
            "stated",
            MIDDLE_WORDS,
        ),
        _line(say("Budget spent, and left"), _budget(predicate), "run", MIDDLE_WORDS),
        _line(say("Contact"), _stated(predicate, "contact"), "stated"),
        _line(say("Legal basis"), _stated(predicate, "legal_basis"), "stated"),
        _line(say("Licence"), _stated(predicate, "licence"), "stated"),
        _line(say("Retention"), _stated(predicate, "retention"), "stated"),
        _line(say("Who signed"), front.signers(signed), "trust", MIDDLE_WORDS),
    )
    scale = front.risk_scale(front.guess_upper(predicate))
    return Glance(lines, scale, headline(predicate))


def headline(predicate: Json) -> str:
    """Epsilon and delta in one line; empty where no epsilon was derived."""
    bound = epsilon_of(predicate)
    if bound is None:
        return ""
    return say(
        "Epsilon at most {epsilon} at delta {delta}, for one {entity}",
        epsilon=numbers.upper(bound[0]),
        delta=numbers.exact(bound[1]),
        entity=_cut(words.entity(predicate["scope"]), 2 * _CELL_WORDS),
    )


def epsilon_of(predicate: Json) -> tuple[str, str] | None:
    """The accounted (epsilon, delta) of the page's first screen, as decimal strings.

    It is that of the first claim that has one; else that of the declared algorithm, at the largest
    delta of its profile that is at most 1e-5.
    """
    bounds = [claim["upper"] for claim in predicate["claims"] if claim["upper"]]
    bounds += predicate["derivation"]["upper_bounds"]
    pairs = [
        (bound["epsilon"], bound.get("delta", "0"))
        for bound in bounds
        if bound["measure"] in ("approx_dp", "pure_dp")
    ]
    curve = [
        (epsilon, delta)
        for bound in bounds
        if bound["measure"] == "profile"
        for epsilon, delta in bound["curve"]
    ]
    low = [pair for pair in curve if numbers.parse(pair[1]) <= Decimal("1e-5")]
    low.sort(key=lambda pair: numbers.parse(pair[0]))
    return next(
        (pair for pair in [*pairs, *low] if numbers.parse(pair[0]).is_finite()),
        None,
    )


def numbers_table(predicate: Json, most: int) -> Table | None:
    """The published numbers, each with the error that it exceeds in one release of twenty."""
    published = (predicate["run"] or {}).get("published")
    if not published:
        return None
    rows = tuple(
        (
            Cell(_cut(", ".join(filter(None, _place(row))), _CELL_WORDS)),
            Cell(_cut(numbers.published(row["value"]), _CELL_WORDS), (), "number"),
            Cell(
                f"± {numbers.published(row['error_95'])}" if row["error_95"] else "—",
                (_cut(words.fixed(row["error_covers"]), _CELL_WORDS),)
                if row["error_covers"]
                else (),
                "number",
            ),
        )
        for row in published["rows"][:most]
    )
    caption = say("Published numbers, each with its error in 19 of 20 releases")
    return Table(caption, (say("Number of"), say("Published"), say("Error")), rows)


def _place(row: Json) -> tuple[str, str, str]:
    return row["item"], row["keys"], words.fixed(row["statistic"])


def _cut(text: str, most: int) -> str:
    """At most so many words; those end at plain blanks, which "61.4 %" has none of."""
    parts = re.split(r"[ \t\n]+", text)
    return " ".join(parts[:most]) + " …" * (len(parts) > most)


def _line(
    label: str,
    texts: Iterable[str],
    anchor: str,
    most: int = SHORT_WORDS,
    table: Table | None = None,
) -> Line:
    """An answer of at most so many words; of texts that find no place, the number is said."""
    given, shown = list(texts), []
    for text in given:
        if most <= 0:
            break
        shown.append(_cut(text, most))
        most -= len(text.split())
    more = len(given) - len(shown)
    if more:
        shown.append(counted("and {count} more", "and {count} more", more))
    return Line(label, tuple(shown), anchor, table)


def _asked(predicate: Json) -> str:
    """The sentence that a fact is not stated, and whom to ask for it."""
    fields, scope = predicate.get("fields", {}), predicate["scope"]
    name = "; ".join(fields.get("contact", ())) or scope["controller"]
    name = name or "; ".join(fields.get("controller", ()))
    if not name:
        return say("Not stated, and nobody to ask is named.")
    return say("Not stated; ask {name}.", name=words.embedded(name))


def _stated(predicate: Json, name: str) -> tuple[str, ...]:
    lines = predicate.get("fields", {}).get(name)
    return tuple(map(day, lines)) if lines else (_asked(predicate),)


def _changed(predicate: Json, previous: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The parts in which two certificates differ, and both bounds; then what is stated of it."""
    stated = _stated(predicate, "changes")
    if previous is None:
        return stated
    before = words.tidy(previous)["predicate"]
    parts = dict.fromkeys(
        change.part for change in changes({"predicate": before}, {"predicate": predicate})
    )
    named = ", ".join(say(_PARTS[part]) for part in parts if part in _PARTS)
    date = day(before["issued"])
    lines = [
        say(
            "Compared with the certificate of {date}, these differ: {parts}.",
            date=date,
            parts=named,
        )
        if named
        else say("Nothing but the date differs from the certificate of {date}.", date=date)
    ]
    then, now = epsilon_of(before), epsilon_of(predicate)
    if then and now:
        bounds = (numbers.upper(then[0]), numbers.upper(now[0]))
        lines.append(
            say(
                "Epsilon: at most {before} then, at most {now} now.",
                before=bounds[0],
                now=bounds[1],
            )
        )
    return (*lines, *(stated if predicate.get("fields", {}).get("changes") else ()))


def _published(predicate: Json) -> list[str]:
    scope, body = predicate["scope"], predicate["run"]
    lines = [scope["title"], words.sentence(", ".join(words.outputs(scope)))]
    if body is None:
        lines.append(say("Nothing so far: no run on data is part of this certificate."))
        return lines
    if body["entropy"] != "operating system":
        lines.append(
            say("This run's noise came from a stored seed; its outputs must not be published.")
        )
    numbers = body.get("published")
    if numbers:
        shown = min(MOST_NUMBERS, len(numbers["rows"]))
        lines.append(
            counted("{count} number, with noise", "{count} numbers, with noise", numbers["count"])
            + (
                say(": the first {shown} are below", shown=shown)
                if shown < numbers["count"]
                else ""
            )
        )
    return lines


def _protected(scope: Json, fields: Json) -> list[str]:
    unit = scope["unit"]
    source = [*fields.get("data_source", ()), *fields.get("data_period", ())]
    lines = [
        say("The unit that is protected: one {entity}", entity=words.embedded(words.unit(scope)))
    ]
    lines += [", ".join(source)] if source else []
    lines += [words.sentence(words.embedded(words.fixed(unit["bound"])))] if unit["bound"] else []
    return lines


def _epsilon(predicate: Json) -> list[str]:
    bound, scope = epsilon_of(predicate), predicate["scope"]
    if bound is None:
        return [say("No epsilon was derived, so that nothing can be promised to anybody.")]
    return [
        say(
            _EPSILON[scope["adjacency"]],
            epsilon=numbers.upper(bound[0]),
            factor=_factor(bound[0]),
            entity=words.entity(scope),
        ),
        *_shaken(predicate),
    ]


def _factor(epsilon: str) -> str:
    exact = min(numbers.parse(epsilon), Decimal(100))
    # The exponential function is rounded to the nearest decimal, so the next one is not below it.
    factor = exact.exp().next_plus() if exact else Decimal(1)
    if factor > _LARGEST_FACTOR:
        return say("more than a million")
    return numbers.upper(f"{factor:f}", 3)


def _delta(predicate: Json) -> list[str]:
    bound = epsilon_of(predicate)
    if bound is None:
        return [say("No delta was derived.")]
    delta = numbers.parse(bound[1])
    if not delta:
        return [say("Zero: the factor above holds without exception.")]
    if delta >= Decimal("0.5"):
        return [say("{delta}: so large that the factor above means little.", delta=_exact(delta))]
    return [
        say(
            "At most 1 in {times} ({delta}): by this probability anything may become more likely "
            "on top of the factor above.",
            times=min(math.floor(1 / delta), _SMALLEST_SHARE),
            delta=_exact(delta),
        )
    ]


def _exact(value: Decimal) -> str:
    return numbers.exact(str(value))


def _guess(predicate: Json) -> list[str]:
    guess = front.guess_upper(predicate)
    if not guess:
        return [say("No bound was derived, so that nothing can be promised to anybody.")]
    text = say(
        "Someone who sees everything that is released, and knows all other data, guesses {task} "
        "right at most {share} of the time; a coin toss is right {half} of the time.",
        task=words.observer_task(predicate["scope"]),
        share=numbers.percent_upper(guess),
        half=percentage("50"),
    )
    return [text]


def _shaken(predicate: Json) -> list[str]:
    if predicate["verdict"]["status"] not in front.SHAKEN:
        return []
    return [say("This follows from the declaration and is not established.")]


def _trust(predicate: Json) -> list[str]:
    """The assumptions that nothing verified, then the caveats."""
    statuses = [item["status"] for item in predicate["assumptions"]]
    confirmed = sum(status in ("proved", "enforced", "tested") for status in statuses)
    lines = [*front.unchecked(predicate), *front.caveats(predicate)]
    if statuses:
        text = message("{held} of {count} assumptions are enforced or tested. On trust:")
        lines.insert(0, say(text, held=confirmed, count=len(statuses)))
    return lines


def _by(predicate: Json) -> list[str]:
    fields, controller = predicate.get("fields", {}), predicate["scope"]["controller"]
    named = controller or "; ".join(fields.get("controller", ()))
    processor = "; ".join(fields.get("processor", ()))
    lines = [named or _asked(predicate)]
    return lines + ([say("processor: {names}", names=processor)] if processor else [])


def _budget(predicate: Json) -> list[str]:
    ledger = (predicate["run"] or {}).get("ledger")
    if not ledger:
        return [_asked(predicate)]
    text = message(
        "This release cost {cost}. After it {spent} of {cap} was spent, and {left} was left."
    )
    other = message(
        "‘{account}’ was charged {cost} for it. After it {spent} of {cap} was spent, and {left} "
        "was left."
    )
    others = [
        say(other, account=row["account"], **_amounts(row)) for row in ledger.get("others", [])
    ]
    return [say(text, **_amounts(ledger)), *others]


def _amounts(account: Json) -> dict[str, str]:
    """Cost, spent, cap and left of an account, in words."""
    sides = {"cost": numbers.upper, "spent": numbers.upper, "cap": numbers.lower}
    return {
        name: ", ".join(
            f"{measure} {sides.get(name, numbers.lower)(amount)}"
            for measure, amount in zip(account["measures"], account[name], strict=True)
        )
        for name in ("cost", "spent", "cap", "left")
    }
