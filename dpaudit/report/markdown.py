"""Certificates as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dpaudit.report import view
from dpaudit.report.say import say, speaking
from dpaudit.report.summary import summary_rows
from dpaudit.sign import Signed
from dpaudit.storage.files import MADE

_MAX_CELL = 600  # Characters of a table's cell.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~@])")


def render_markdown(
    certificates: Mapping[str, Mapping[str, Any]],
    signed: Mapping[str, Sequence[Signed]] | None = None,
    *,
    spoken: str = "en",
) -> str:
    """A table of all claims, then each certificate's first screen in a collapsed block.

    ``certificates`` and ``signed`` (the signatures of each certificate) have the displayed names as
    keys.  ``spoken``: the language: en, de or fr.
    Errors: CertificateRejected if a certificate lacks a field that the page shows.
    """
    with speaking(spoken):
        head = (
            say("Algorithm"),
            say("Claim"),
            say("Accounted (at most)"),
            say("Attacked (at least)"),
            say("Verdict"),
        )
        title = f"## {say('Differential privacy report')}"
        lines = [MADE, title, "", _row(head), _row(["---"] * 5)]
        for row in summary_rows(certificates.values()):
            cells = list(map(_plain, (row.title, row.claim, row.accounted, row.attacked)))
            lines.append(_row([*cells, f"**{_plain(row.verdict)}**"]))
        for name, certificate in certificates.items():
            lines += ["", *_folded(name, certificate, (signed or {}).get(name, ()))]
        return "\n".join(lines) + "\n"


def _folded(name: str, certificate: Mapping[str, Any], signed: Sequence[Signed]) -> list[str]:
    page = view.build(certificate, signed)
    lines = ["<details>", f"<summary>{_escaped(name)}: {_escaped(page.banner.word)}</summary>", ""]
    lines += [_plain(page.banner.sentence), "", _plain(page.banner.attack), ""]
    lines += [
        f"- {say('Do not rely on this certificate as it stands:')} {_plain(text)}"
        for text in page.banner.warnings
    ]
    for line in page.glance.lines:
        lines.append(f"- **{_plain(line.label)}**: {_plain('; '.join(line.texts))}")
    return [*lines, "", "</details>"]


def _row(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    """The text on one line, escaped for Markdown and HTML."""
    return _SPECIAL.sub(r"\\\1", _escaped(text))


def _escaped(text: str) -> str:
    flat = " ".join(text.split())
    return html.escape(flat if len(flat) <= _MAX_CELL else f"{flat[:_MAX_CELL]}…", quote=False)
