"""What the papers print and what its certificates say of it: two README pages of the catalogue.

Made from the claims of the catalogue and the outcomes that certificates must have: `dpaudit certify
--all` fails where a certificate says otherwise.  No row is written by hand.

    python -m mechanisms.papers.claims_page ROOT
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path

from dpaudit.accountant.claim import Claim
from dpaudit.curator.mechanism import Mechanism
from mechanisms.papers.regions import REGIONS, drawn, section

PAPERS = {
    "diff2": ("catalogue",),
    "srgd": ("catalogue", "printed", "baselines_catalogue", "batches_catalogue"),
    "kl": ("catalogue", "adaptive_catalogue", "adaptive_readings", "baselines_catalogue"),
    "stable_erm": ("catalogue", "rows_catalogue", "baselines_catalogue"),
    "user_level": ("catalogue", "options_catalogue", "baselines_catalogue"),
}
NAMES = {
    "diff2": "Murata and Suzuki 2023",
    "srgd": "Choquette-Choo, Ganesh and Thakurta 2024",
    "kl": "Menart, Ullah, Arora, Bassily, Guzman 2023",
    "stable_erm": "Ghazi, Kamath, Kumar, Manurangsi, Meka, Zhang 2023",
    "user_level": "Lowy, Liu and Asi 2024",
}
BEGIN = "<!-- papers: made by python -m mechanisms.papers.claims_page -->"
END = "<!-- end of papers -->"
COLUMNS = ("statement", "certificate", "claim", "reading", "released", "outcome")
ORDER = ("proved", "unproved", "unsupported", "refuted")


@dataclass(frozen=True)
class Printed:
    """One claim of a paper at one instance: the statement, its entry, and the outcome."""

    paper: str
    statement: str
    mechanism: Mechanism
    claim: Claim
    outcome: str


def printed() -> Iterator[Printed]:
    """Every claim of the catalogue that a paper itself states, by paper and statement."""
    for paper, modules in PAPERS.items():
        found = []
        for name in modules:
            module = import_module(f"mechanisms.papers.{paper}.{name}")
            own = [m for m in vars(module).values() if isinstance(m, Mechanism)]
            for mechanism in {one.name: one for one in own}.values():
                for claim, outcome in zip(mechanism.claims, mechanism.expectations, strict=True):
                    statement = claim.by.removeprefix(f"{NAMES[paper]}, ")
                    if statement != claim.by:
                        found.append(Printed(paper, statement, mechanism, claim, str(outcome)))
        unique = {(p.mechanism.name, p.claim.text, p.claim.reading, p.statement): p for p in found}
        yield from sorted(unique.values(), key=lambda p: (p.statement, p.mechanism.name))


def page() -> str:
    """mechanisms/papers/README.md."""
    return "\n".join([*instances(), *over_ranges()]) + "\n"


def instances() -> list[str]:
    """Every claim of a paper at the numbers of the catalogue's entries."""
    lines = [
        "# What the papers print",
        "",
        "Made by `python -m mechanisms.papers.claims_page .` from the catalogue's claims and the",
        "outcomes that their certificates must have (`make certify-all` fails where one differs).",
        "One row is one instance of a statement, at numbers chosen here unless it says otherwise,",
        "in one reading: *proved* and *refuted* speak of that instance, *unproved* of what no",
        "bound decides. *Released* is all of a run that the outcome speaks of, as the certificate",
        "states it: whoever sees less of it may learn less.",
    ]
    paper = ""
    for row in printed():
        if row.paper != paper:
            paper = row.paper
            lines += ["", f"## {NAMES[paper]}", "", "| " + " | ".join(COLUMNS) + " |"]
            lines.append("|" + "---|" * len(COLUMNS))
        cells = (row.statement, f"`{row.mechanism.name}`", row.claim.text, row.claim.reading or "")
        released = "; ".join(row.mechanism.setting.covered)
        lines.append("| " + " | ".join((*cells, released, row.outcome)) + " |")
    return lines


def over_ranges() -> list[str]:
    """Every region: proved, refuted, open."""
    return ["", "# Over ranges", *chain(*map(section, REGIONS))]


def table() -> str:
    """README's rows: each statement of a paper, and how many instances came out how."""
    lines = [BEGIN, "| package | paper | statements, and how their instances come out |"]
    lines.append("|---|---|---|")
    for paper, name in NAMES.items():
        counts: dict[str, Counter[str]] = {}
        for row in printed():
            if row.paper == paper:
                counts.setdefault(row.statement, Counter())[row.outcome] += 1
        said = "; ".join(f"{statement}: {_counted(n)}" for statement, n in counts.items())
        lines.append(f"| `{paper}` | {name} | {said} |")
    return "\n".join([*lines, END])


def _counted(outcomes: Counter[str]) -> str:
    return ", ".join(f"{outcomes[word]} {word}" for word in ORDER if outcomes[word])


def inserted(readme: str) -> str:
    """The catalogue's README with its table made anew.

    Errors: ValueError where its markers are missing.
    """
    if BEGIN not in readme or END not in readme:
        raise ValueError(f"mechanisms/README.md: expected {BEGIN} and {END}")
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: table(), readme, flags=re.S)


def main(root: Path) -> None:
    """Write both files."""
    folder = root / "mechanisms"
    (folder / "papers" / "README.md").write_text(page(), "utf-8")
    for region in REGIONS:
        (folder / "papers" / f"{region.name}.svg").write_text(drawn(region), "utf-8")
    readme = folder / "README.md"
    readme.write_text(inserted(readme.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
