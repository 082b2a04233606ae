"""`dpaudit budget` of two releases, of which one claims to lose -3.9"""

from datetime import date
from pathlib import Path

import sympy
from shared import INDEX, answer, dp


def probe() -> str:
    return answer(together)


def together() -> str:
    from dpaudit.certificate.budget import Entry, totals

    gift = dp.Repeat(dp.Laplace("gift", INDEX - sympy.Rational(49, 39)), 1, INDEX)
    common = "people", "person", "add_remove", date(2026, 1, 1)
    entries = [
        Entry(Path(f"{name}.json"), name, *common, node, "certified", name)
        for name, node in (("honest", dp.PureDP(4)), ("gift", gift))
    ]
    (total,) = totals(entries, delta="0")
    if total.refused:
        return f"refused: {total.refused[:90]}"
    return f"together epsilon {total.epsilon_upper}"
