"""What a report is made of: small frozen blocks that a template only has to loop over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

_FORMULA_LENGTH = 24


@dataclass(frozen=True)
class Cell:
    """One table cell: a main text, smaller notes under it, and a style or a verdict's tone."""

    text: str
    notes: tuple[str, ...] = ()
    style: str = ""


def formula(text: str, notes: Iterable[str] = ()) -> Cell:
    """A cell whose short formula breaks before its ``at δ`` only, never inside a number."""
    broken = text.replace(" at ", "\nat ")
    if max(map(len, broken.split("\n"))) > _FORMULA_LENGTH:
        return Cell(text, tuple(notes), "strong")
    return Cell(broken, tuple(notes), "none" if text == "none" else "formula")


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
    """A list of sentences."""

    items: tuple[str, ...]
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
    """Labelled values; one without values is not shown."""

    rows: tuple[Fact, ...]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Code:
    """Text shown letter for letter."""

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
    """One step of a derivation at its depth below the conclusion it serves."""

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
    """The verdict: a word, the tone of its colour, one sentence, and what it rests on."""

    word: str
    tone: str
    sentence: str
    reasons: tuple[str, ...]
    conditions: tuple[str, ...]
    caveats: tuple[str, ...]
    margin: str
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """Everything one certificate's page says, in reading order."""

    title: str
    subtitle: str
    banner: Banner
    front: Facts
    claims: Table | None
    sections: tuple[Section, ...]
    print_mark: str
