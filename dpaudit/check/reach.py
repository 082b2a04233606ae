"""How far an examination reached, and whether that is enough for a certificate.

An examination asks how far one record moves each query of the program.  Where it moved a query by
only a small part of the stated sensitivity, a query that moves several times as far would have
looked the same: nothing was shown of it.
"""

from __future__ import annotations

from fractions import Fraction

from dpaudit.check.reading import Json, decimal
from dpaudit.nodes import Leaf, Node, postorder

# The share of the stated sensitivity that an examination must reach: a query that moves twice as
# far as stated was then seen moving by two fifths, or counts as not examined.
LEAST = Fraction(1, 5)
# Among fewer records than these little shows of what one of them does to the others.
FEWEST_RECORDS = 5
UNEXAMINED = "not examined: "


def gaps(examination: Json, root: Node) -> list[str]:
    """The parts of a program that its examination did not reach, and what would help; a line each.

    ``root``: what is declared.  A certificate whose examination has any is *unconfirmed*.
    """
    why = examination["not_examined"]
    if why:
        return [why]
    if not examination["reached"]:
        declares = any(isinstance(node, Leaf) for node in postorder(root))
        return ["the program asked no query on generated records"] if declares else []
    texts = []
    count = (*examination["records"], 0)[0]
    if count < FEWEST_RECORDS:
        texts.append(
            f"the program ran on {count} generated records, where {FEWEST_RECORDS} are the fewest; "
            "a records_like hook that makes more would help"
        )
    texts += [_gap(row) for row in examination["reached"] if falls_short(row)]
    return [*texts, *map(_unmet, examination.get("unmet", ()))]


def _unmet(row: Json) -> str:
    """A condition that no record met: what the program does where one does was not seen."""
    return (
        f"release {row['label']!r}: the condition {row['text']!r} ({row['place']}) was never true "
        "for any record that was tried; a records_like hook that makes records of which it is "
        "would help, and so would Mechanism(reaches=...) that says why it is true of none"
    )


def falls_short(row: Json) -> bool:
    """Whether a query moved by too little, and its author does not say why it moves no further."""
    share = decimal(row["displacement_share"])
    return share < LEAST and not (share > 0 and row.get("reaches"))


def _gap(row: Json) -> str:
    share = float(decimal(row["displacement_share"]))
    place = f" ({row['query']}, {row['place']})" if row["place"] else f" ({row['query']})"
    query = f"release {row['label']!r}{place}"
    helps = "a records_like hook that makes records on which it answers would help"
    if row.get("tried") == 0:
        return f"{query} was too slow to try; fewer or shorter records by a records_like hook help"
    if not share:
        return f"{query}: no record moved its query; {helps}"
    return (
        f"{query}: one record moved its query by {100 * share:.3g}% of what is stated, where "
        f"{100 * LEAST}% is the least; {helps}, and so would Mechanism(reaches=...) that says why "
        "it moves no further"
    )
