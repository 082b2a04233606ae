"""``python -m tests.support.forgeries_page``: docs/forgeries.md, what a standing forger tried.

A test makes the first part again and compares it.  ``--long`` makes the second anew (half an hour).
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from pathlib import Path

from dpaudit.check.unchecked import SIGNERS_WORD, UNCHECKED
from tests.library.cli.bench import pure, refuted
from tests.support.forger import AS_GOOD, Tried, all_of, kind_of

PAGE = Path(__file__).parents[2] / "docs" / "forgeries.md"
MOST = 500
LONG = "## More of them\n"
ANOTHER = "any order will do, or the claims hold of the other declaration as well"
COLUMNS = ("refused", "the signer's word", "true")
HEAD = """# Forgeries: tried, refused, accepted and why

Made by `python -m tests.support.forgeries_page`; the tests make it again. A forger with the source
at hand
takes certificates apart: every field of the schema, changed in every way that would help a liar
(smaller and larger numbers, at their last digit, at the ends of their range and beyond, alone and
wherever they stand; other words, rules, measures and nodes; extremes of what a prover chooses; rows
left out, twice there, exchanged; fields left out and of another kind), and every digest made again.

An accepted forgery is *the signer's word*, where nobody could derive the field from the file, or
*true*: of any other, the tests fail.

"""


def table(found: list[tuple[str, str, Tried]]) -> str:
    """One row a part of a certificate: how many were tried, and how they came out."""
    counted: dict[str, Counter[str]] = {}
    for part, _, tried in found:
        counted.setdefault(part, Counter())[kind_of(tried)] += 1
    lines = ["| field | tried | " + " | ".join(COLUMNS) + " |", "|---|---|---|---|---|"]
    for part in sorted(counted):
        row = counted[part]
        cells = [str(row[kind]) for kind in COLUMNS]
        lines.append(f"| `{part}` | {row.total()} | {' | '.join(cells)} |")
    whole = sum(counted.values(), Counter())
    cells = [str(whole[kind]) for kind in COLUMNS]
    lines.append(f"| all | {whole.total()} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def why(found: list[tuple[str, str, Tried]]) -> str:
    """What the checker says, by how often."""
    said = Counter(one.reason.partition(": ")[2][:70] or one.reason[:70] for _, _, one in found
                   if not one.accepted)  # fmt: skip
    rows = [f"| {text.replace('|', '/')} | {count} |" for text, count in said.most_common(25)]
    return (
        "\n".join(["| why they were refused, the commonest | how often |", "|---|---|", *rows])
        + "\n"
    )


def words() -> str:
    """Which fields are accepted, and why."""
    rows = [
        ("the signer's word" if fields is SIGNERS_WORD else "true", because, fields)
        for because, fields in (*UNCHECKED, (ANOTHER, AS_GOOD))
    ]
    lines = ["| accepted as | because | fields |", "|---|---|---|"]
    for kind, because, fields in rows:
        lines.append(f"| {kind} | {because} | {', '.join(f'`{name}`' for name in fields)} |")
    return "\n".join(lines) + "\n"


def tried(shares: int = 1) -> list[tuple[str, str, Tried]]:
    """The forgeries of the page; or as many over ``shares``, of the first share of all changes."""
    certificates = {"refuted": copy.deepcopy(refuted()), "pure": copy.deepcopy(pure())}
    for certificate in certificates.values():
        # Which lines ran is not known where another tracer is at work.
        certificate["predicate"]["examination"]["code"] = None
    return list(all_of(certificates, MOST // shares, of=shares))


def page(found: list[tuple[str, str, Tried]], long: str = "") -> str:
    """The page's text; without ``long``, its second part as it is."""
    kept = PAGE.read_text("utf-8").partition(LONG)[2] if PAGE.exists() else ""
    text = HEAD + table(found) + "\n" + words() + "\n" + why(found)
    return text + "\n" + LONG + (long or kept) if long or kept else text


def long() -> str:
    """The second part: every change of every field, and changes at random."""
    from tests.library.property.test_forger import at_random, every_field

    several = [("", "", one) for one in at_random()]
    drawn = table([(first(one), "", one) for _, _, one in several])
    return (
        "\nMade by `python -m tests.support.forgeries_page --long`; `make quality` "
        "tries them again.\n"
        "Every change of every field, of seven certificates:\n\n"
        + table(every_field())
        + f"\n{len(several):,} of one to three changes, drawn, by the first field that differs:\n\n"
        + drawn
    )


def first(tried: Tried) -> str:
    """The part of a certificate that differs first."""
    part = tried.fields[0].split(" ") if tried.fields else [""]
    return " ".join(part[:2] if part[0] in ("derivation", "mechanism") else part[:1])


if __name__ == "__main__":
    PAGE.write_text(page(tried(), long() if "--long" in sys.argv else ""))
