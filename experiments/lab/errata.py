"""A page of errata for a paper: what is printed, what fails, in numbers, and what holds instead.

An erratum is about a sentence or a proof, and says under which reading the authors are right.
Every number on the page is computed when the page is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Erratum:
    """One place of a paper.

    ``printed``, ``fails``, ``mended``, ``right``: the sentence, the fault, what holds instead, and
    the reading or the consequence in which the authors are right.  ``numbers``: computes the
    smallest counterexample, or the distance between both, in words.  ``shown``: the certificate,
    program or experiment that shows it.
    """

    place: str
    printed: str
    fails: str
    numbers: Callable[[], str]
    mended: str
    right: str
    shown: str


@dataclass(frozen=True)
class Errata:
    """A paper's errata; ``paper`` is the name of its page."""

    paper: str
    title: str
    errata: tuple[Erratum, ...]


def page(of: Errata) -> str:
    """The page; a paper without errata says so."""
    from experiments.lab.pages import escaped

    lines = [f"# Errata: {of.title}", ""]
    if not of.errata:
        lines += ["No statement of this paper that was examined here failed.", ""]
        return "\n".join(lines)
    lines += [
        "Found while the paper's statements were programmed and certified. An error in a proof "
        "refutes no theorem unless it says so; numbers are computed when this page is made.",
        "",
    ]
    for one in of.errata:
        lines += [f"## {one.place}", ""]
        lines += [
            f"- **Printed**: {escaped(one.printed)}",
            f"- **What fails**: {escaped(one.fails)}",
            f"- **In numbers**: {escaped(one.numbers())}",
            f"- **Mended**: {escaped(one.mended)}",
            f"- **Where the authors are right**: {escaped(one.right)}",
            f"- **Shown by**: {one.shown}",
            "",
        ]
    return "\n".join(lines)
