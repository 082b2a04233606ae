"""A corpus of declarations with certified intervals of epsilon, to score accountants on.

Each row: family, declaration (the wire table), adjacency, delta, and ``epsilon_lower <= truth <=
epsilon_upper`` with the methods that gave them.  An accountant whose upper bound is below
``epsilon_lower`` is wrong; one far above ``epsilon_upper`` is loose.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

from dpaudit.accountant.account import Account, Bound
from dpaudit.errors import InvalidParameter
from dpaudit.exact import decimal_lower, decimal_upper, exact
from dpaudit.exact.domains import probability
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.scope import Adjacency, central, choose
from dpaudit.storage.files import write_atomically
from dpaudit.tabular.columns import json_value
from tools.corpus.declarations import Question, questions

FILE = "corpus.jsonl"
FIELDS = {"declaration", "adjacency", "delta", "epsilon_lower", "epsilon_upper"}
Row = dict[str, Any]


def answer(question: Question) -> Row:
    """The certified interval of one question."""
    opened = Account(question.node, central(question.adjacency))
    return _row(question, opened.epsilon(Fraction(question.delta)))


def _row(question: Question, bound: Bound) -> Row:
    return {
        "family": question.family,
        "declaration": to_table(question.node),
        "adjacency": question.adjacency,
        "delta": question.delta,
        "epsilon_lower": decimal_lower(bound.lower),
        "epsilon_upper": decimal_upper(bound.upper),
        "lower_method": bound.lower_method,
        "upper_method": bound.upper_method,
    }


def generate(report: Callable[[int], None] = lambda done: None) -> Iterator[Row]:
    """Every row anew, in order; ``report`` is told how many are done."""
    for done, question in enumerate(questions(), start=1):
        yield answer(question)
        report(done)


def shipped() -> list[Row]:
    """The rows published with this version."""
    return read(resources.files("tools.corpus").joinpath(FILE).read_text("utf-8"))


def read(text: str) -> list[Row]:
    """Rows from JSON lines.

    Errors: InvalidParameter naming the first line that is no row.
    """
    return [_parsed(number, line) for number, line in enumerate(text.splitlines(), start=1)]


def _parsed(number: int, line: str) -> Row:
    place = f"corpus line {number}"
    row = json_value(line, place)
    if not isinstance(row, dict):
        raise InvalidParameter(f"{place}: not a JSON object")
    if missing := FIELDS - row.keys():
        raise InvalidParameter(f"{place}: no {', '.join(sorted(missing))}")
    probability(exact(row["delta"], f"{place}: delta"), f"{place}: delta")
    choose(Adjacency, row["adjacency"], f"{place}: adjacency")
    lower, upper = (_end(row, name, place) for name in ("epsilon_lower", "epsilon_upper"))
    if not 0 <= lower <= upper:
        raise InvalidParameter(f"{place}: expected 0 <= epsilon_lower <= epsilon_upper")
    return row


def _end(row: Row, name: str, place: str) -> float:
    try:
        return float(row[name])
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(f"{place}: {name}: expected a number") from None


def node_of(row: Mapping[str, Any]) -> Node:
    """The declaration of a row, through the allow-list of node types."""
    return from_table(row["declaration"])


def write(rows: list[Row], path: Path) -> None:
    """Rows as JSON lines, all or nothing.

    Errors: OutputNotWritable naming the file.
    """
    lines = (json.dumps(row, sort_keys=True, separators=(",", ":")) for row in rows)
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
