"""Five releases of 2.9 under a cap of 3, after each a charge of -2.9"""

from fractions import Fraction
from pathlib import Path


def probe() -> str:
    import dpaudit as dp
    from dpaudit.ledger import open_ledger, terms_of
    from dpaudit.scope import Scope

    scope = Scope("add_remove", "user", "central", "transcript")
    ledger = open_ledger(Path("ledger.sqlite"))
    ledger.create("people", terms_of("person", scope, dp.PureDP(3)))
    taken = 0
    try:
        for number in range(5):
            for sign in (1, -1):
                title = f"release {number} {sign}"
                cost = (Fraction(sign * 29, 10),)
                ledger.charge("people", "person", scope, cost, title, title)
                taken += sign > 0
    except dp.DpauditError as error:
        return f"{taken} taken, then refused: {str(error)[:70]}"
    return f"{taken} releases of 2.9 under a cap of 3"
