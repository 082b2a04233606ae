"""Five releases of 2.9 under a cap of 3, after each a charge of -2.9"""

from shared import charge, dp, ledger


def probe() -> str:
    opened, taken = ledger(3), 0
    try:
        for number in range(5):
            for sign in (1, -1):
                charge(opened, sign * 29, f"release {number} {sign}")
                taken += sign > 0
    except dp.DpauditError as error:
        return f"{taken} taken, then refused: {str(error)[:70]}"
    return f"{taken} releases of 2.9 under a cap of 3"
