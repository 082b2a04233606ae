"""Ten rounds of Laplace noise whose scale falls below 0: the interval at delta 1e-5"""

import sympy


def probe() -> str:
    import dpaudit as dp

    i = sympy.Symbol("i", integer=True, positive=True)
    try:
        rounds = dp.Repeat(dp.Laplace("x", 4 - 3 * i / 4), 10, i)
        return repr(dp.account(rounds, dp.central("add_remove")).epsilon("1e-5"))
    except dp.DpauditError as error:
        return f"refused: {str(error)[:90]}"
