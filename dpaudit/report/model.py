"""The blocks of a report: frozen records that a template renders in order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

_FORMULA_LENGTH = 24  # characters of a line that fits a narrow column; longer formulas wrap


@dataclass(frozen=True)
class Cell:
    """One table cell: a main text, smaller notes under it, and a style or a verdict's tone."""

    text: str
    notes: tuple[str, ...] = ()
    style: str = ""


def formula(text: str, notes: Iterable[str] = ()) -> Cell:
    """A cell for a formula: a short one breaks only before its ``at δ``, never inside a number."""
    broken = re.sub(r" (\w+ δ\u00a0=)", r"\n\1", text)
    if max(map(len, broken.split("\n"))) > _FORMULA_LENGTH:
        return Cell(text, tuple(notes), "strong")
    return Cell(broken, tuple(notes), "formula" if set(text) & set("=≤≥") else "none")


@dataclass(frozen=True)
class Paragraph:
    """One paragraph; ``tone`` is empty, ``note`` or ``caution``."""

    text: str
    tone: str = ""
    kind: ClassVar[str] = "paragraph"


@dataclass(frozen=True)
class Heading:
    """A heading below the section's own."""

    text: str
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Bullets:
    """A list of sentences; ``style`` is empty or ``code``."""

    items: tuple[str, ...]
    style: str = ""
    kind: ClassVar[str] = "bullets"


@dataclass(frozen=True)
class Fact:
    """A label and its values, one line a value.

    ``style`` is empty (a main value, then notes), ``list`` (equal lines) or ``code``.
    """

    label: str
    values: tuple[str, ...]
    style: str = ""


@dataclass(frozen=True)
class Facts:
    """Labelled values; the page leaves out a fact that has no values."""

    rows: tuple[Fact, ...]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Code:
    """Text shown verbatim, such as a declaration."""

    text: str
    label: str
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Table:
    """A table whose first column heads its rows."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Figure:
    """An SVG drawing, already escaped, with its caption."""

    anchor: str
    svg: str
    caption: str
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class TreeLine:
    """One step of a derivation; ``depth`` counts the steps between it and the conclusion."""

    depth: int
    label: str
    conclusion: str
    rule: str
    cite: str
    details: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Tree:
    """A derivation: conclusions first, premises indented below them."""

    lines: tuple[TreeLine, ...]
    kind: ClassVar[str] = "tree"


Block = Paragraph | Heading | Bullets | Facts | Code | Table | Figure | Tree


@dataclass(frozen=True)
class Section:
    """A numbered part of the page."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Banner:
    """The verdict (a word, its colour and a sentence), and how hard the program was attacked.

    ``warnings``: contradictions inside the certificate; the page shows them first.
    """

    word: str
    tone: str
    sentence: str
    attack: str
    attack_tone: str
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A question of the first screen, its answer, and the section that holds the evidence."""

    label: str
    texts: tuple[str, ...]
    anchor: str
    table: Table | None = None


@dataclass(frozen=True)
class Glance:
    """The first screen; ``scale`` is an SVG drawing, already escaped, or empty.

    ``headline``: the guarantee in one line; empty where there is none.
    """

    lines: tuple[Line, ...]
    scale: str
    headline: str = ""


@dataclass(frozen=True)
class Page:
    """The page of one certificate, in reading order.

    ``print_mark``: the first 16 digits of the certificate's digest, printed on every sheet.
    """

    title: str
    subtitle: str
    language: str
    banner: Banner
    glance: Glance
    sections: tuple[Section, ...]
    print_mark: str
