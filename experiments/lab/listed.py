"""A page of all numbered statements of the papers: which have a row here, and why others have none.

A row is a certificate's claim, a statement that an experiment measures, or an erratum.  Rows are
found by their names when the page is made; a statement without one needs a reason, and one with
one may have none, so that no reason outlives its cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpaudit.errors import InvalidParameter

NUMBER = r"(?:[A-H]\.)?\d+(?:\.\d+)?"
KINDS = "Theorem|Lemma|Proposition|Corollary|Claim|Observation|Remark"
NAMES = re.compile(rf"\b({KINDS})(?:s|ta)? ({NUMBER}(?:(?:, and |, | and |/[A-Za-z ]*){NUMBER})*)")


@dataclass(frozen=True)
class Listed:
    """The numbered statements of a paper in its order, each with the reason why it has no row.

    ``paper``: the name of its page.  ``claimed``: where certificates speak of its statements, in
    its own words; called for the page alone.
    """

    paper: str
    title: str
    statements: Mapping[str, str]
    claimed: Callable[[], Sequence[str]]


def named(text: str) -> frozenset[str]:
    """The statements that a text names: "Theorems 5.8, 5.12 and C.3" names three.

    >>> sorted(named("proof of Lemma 5.2; Theorems 5.8 and 5.12"))
    ['Lemma 5.2', 'Theorem 5.12', 'Theorem 5.8']
    """
    return frozenset(
        f"{kind} {number}"
        for kind, all_ in NAMES.findall(text)
        for number in re.findall(NUMBER, all_)
    )


def rows(
    listed: Listed, measured: Sequence[tuple[str, str]], errata: Sequence[str]
) -> list[tuple[str, int, tuple[str, ...], bool, str]]:
    """Of each statement: certificates, experiments, whether it has an erratum, and the reason.

    ``measured``: places of statements with an experiment each; ``errata``: their places.
    Errors: InvalidParameter for a statement with neither a row nor a reason, or with both.
    """
    certificates = [named(text) for text in listed.claimed()]
    found = []
    for statement, reason in listed.statements.items():
        certified = sum(statement in names for names in certificates)
        runs = tuple(sorted({run for place, run in measured if statement in named(place)}))
        wrong = any(statement in named(place) for place in errata)
        if bool(certified or runs or wrong) == bool(reason):
            raise InvalidParameter(
                f"{listed.title}, {statement}: "
                + ("it has a row now: drop its reason" if reason else "no row, and no reason")
            )
        found.append((statement, certified, runs, wrong, reason))
    return found


def page(
    papers: Sequence[Listed],
    measured: Mapping[str, Sequence[tuple[str, str]]],
    errata: Mapping[str, Sequence[str]],
) -> str:
    """The page; ``measured`` and ``errata`` by the name of a paper.

    Errors: as :func:`rows`.
    """
    lines = ["# Which statements of the five papers have a row", ""]
    body: list[str] = []
    with_row = total = 0
    for listed in papers:
        body += [f"## {listed.title}", "", "| statement | certificates | measured by | errata |"]
        body[-1] += " why there is no row |"
        body.append("|---|---|---|---|---|")
        for statement, certified, runs, wrong, reason in rows(
            listed, measured.get(listed.paper, ()), errata.get(listed.paper, ())
        ):
            links = ", ".join(f"[{run}]({run}.md)" for run in runs)
            erratum = f"[yes](errata_{listed.paper}.md)" if wrong else ""
            body.append(f"| {statement} | {certified or ''} | {links} | {erratum} | {reason} |")
            total, with_row = total + 1, with_row + (not reason)
        body.append("")
    lines += [
        f"{with_row} of {total} numbered statements have a row: claims of certificates ([What the "
        "papers print](../../mechanisms/papers/README.md)), experiments that measure them, or an "
        "erratum. The others say why they have none. Assumptions, definitions and algorithms are "
        "no statements. Made by `python -m experiments pages`.",
        "",
    ]
    return "\n".join([*lines, *body]).rstrip() + "\n"
