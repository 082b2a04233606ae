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
from dpaudit.crosscheck.corpus.declarations import Question, questions
from dpaudit.errors import InvalidParameter
from dpaudit.exact import decimal_lower, decimal_upper
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.scope import central
from dpaudit.storage.files import write_atomically

FILE = "corpus.jsonl"
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
    return read(resources.files("dpaudit.crosscheck.corpus").joinpath(FILE).read_text("utf-8"))


def read(text: str) -> list[Row]:
    """Rows from JSON lines.

    Errors: InvalidParameter naming the first line that is no row.
    """
    return [_parsed(number, line) for number, line in enumerate(text.splitlines(), start=1)]


def _parsed(number: int, line: str) -> Row:
    try:
        row: Row = json.loads(line)
        missing = {"declaration", "adjacency", "delta"} - row.keys()
    except (ValueError, AttributeError):
        raise InvalidParameter(f"corpus line {number}: not a JSON object") from None
    if missing:
        raise InvalidParameter(f"corpus line {number}: no {', '.join(sorted(missing))}")
    return row


def node_of(row: Mapping[str, Any]) -> Node:
    """The declaration of a row, through the allow-list of node types."""
    return from_table(row["declaration"])


def write(rows: list[Row], path: Path) -> None:
    """Rows as JSON lines, all or nothing.

    Errors: OutputNotWritable naming the file.
    """
    lines = (json.dumps(row, sort_keys=True, separators=(",", ":")) for row in rows)
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
