"""Which earlier conclusions turned, and why: a page made of earlier outcomes and present results.

``earlier.json`` holds what every statement read before methods were compared under one protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.lab.model import Check
from experiments.lab.pages import escaped, shown, verdict
from experiments.lab.papers import Agreement, Paper, Read, Statement, agreement
from experiments.lab.protocol import PREDATES

FILE = "earlier.json"
GONE = "no statement asks this any more"


def page(papers: Mapping[str, Paper], reads: Mapping[str, Read], earlier: Path) -> str:
    """Every earlier statement whose outcome is another now, paper by paper, with the reason."""
    before: dict[str, list[dict[str, Any]]] = json.loads(earlier.read_text("utf-8"))
    lines = ["# Which earlier conclusions turned, and why", ""]
    body: list[str] = []
    turned = total = 0
    for name, paper in papers.items():
        rows = [_row(one, paper, reads) for one in before.get(name, [])]
        changed = [row for row in rows if row]
        turned, total = turned + len(changed), total + len(rows)
        if changed:
            body += [
                f"## {paper.title}",
                "",
                "| place | the statement | read earlier | reads now |",
            ]
            body += ["|---|---|---|---|", *changed, ""]
    lines += [
        f"{turned} of {total} earlier statements read otherwise now. Earlier values are kept as "
        "they were printed; those that came from unequal searches were our error, and none of the "
        "papers'.",
        "",
    ]
    return "\n".join([*lines, *body]).rstrip() + "\n"


def _row(one: Mapping[str, Any], paper: Paper, reads: Mapping[str, Read]) -> str:
    """The row of an earlier statement; empty where its outcome is the same."""
    now = [s for s in paper.statements if s.place == one["place"] and s.says == one["says"]]
    if not now:
        asked = [s for s in paper.statements if s.before and one["says"].startswith(s.before)]
        now = [s for s in asked if s.place == one["place"]] or asked
    judged = [(s, *agreement(s, reads.get(s.experiment))) for s in now]
    if judged and all(kind == one["found"] for _, kind, _ in judged):
        return ""
    then = one["found"]
    if one["worst"]:
        then += f"<br>{escaped(one['worst'])}: {shown(float(one['value']))}"
    reads_now = "<br>".join(_now(*each) for each in judged) or GONE
    return f"| {escaped(one['place'])} | {escaped(one['says'])} | {then} | {reads_now} |"


def _now(statement: Statement, kind: Agreement, checks: Sequence[Check]) -> str:
    """The present outcome with its reason: withheld, vacuous, ours, or the values themselves."""
    if kind is Agreement.UNFAIR and any(check.withheld == PREDATES for check in checks):
        return f"{kind}: {PREDATES}"
    if kind is Agreement.NOT_ABOUT:
        return f"{kind}: {escaped(statement.ours)}"
    if statement.why:
        return f"{kind}: {escaped(statement.why)}"
    values = (f"{c.name}: {shown(float(c.value))}, {verdict(c)}" for c in checks)
    return "<br>".join([str(kind), *map(escaped, values)])
