"""`dpaudit budget` of two releases, of which one claims to lose -3.9"""

from datetime import date
from pathlib import Path

import sympy


def probe() -> str:
    import dpaudit as dp
    from dpaudit.certificate.budget import Entry, totals

    i = sympy.Symbol("i", integer=True, positive=True)
    try:
        gift = dp.Repeat(dp.Laplace("gift", i - sympy.Rational(49, 39)), 1, i)
        common = "people", "person", "add_remove", date(2026, 1, 1)
        entries = [
            Entry(Path(f"{name}.json"), name, *common, node, "certified", name)
            for name, node in (("honest", dp.PureDP(4)), ("gift", gift))
        ]
        (total,) = totals(entries, delta="0")
    except dp.DpauditError as error:
        return f"refused: {str(error)[:90]}"
    if total.refused:
        return f"refused: {total.refused[:90]}"
    return f"together epsilon {total.epsilon_upper}"
