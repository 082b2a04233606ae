"""Rounds inside rounds whose number turns negative: epsilon at delta 1e-5, 7.108 in truth"""

import sympy


def probe() -> str:
    import dpaudit as dp

    i = sympy.Symbol("i", integer=True, positive=True)
    try:
        rounds = dp.Repeat(dp.Repeat(dp.Gaussian("x", 5), 20 - 3 * i), 10, i)
        return repr(dp.account(rounds, dp.central("add_remove")).epsilon("1e-5"))
    except dp.DpauditError as error:
        return f"refused: {str(error)[:90]}"
