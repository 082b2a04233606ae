"""A certificate whose schedule turns a loss negative, so that 10 is accounted as .1"""

import sympy


def probe() -> str:
    import dpaudit as dp

    i = sympy.Symbol("i", integer=True, positive=True)
    refund = i - sympy.Rational(109, 99)
    try:
        parts = dp.Compose(dp.Laplace("answers", "0.1"), dp.Laplace("warm up", refund))
        claim = dp.Claim(dp.PureDP("0.1"), by="a forger")
        return str(claim.check(dp.Repeat(parts, 1, i), dp.central("add_remove")).outcome)
    except dp.DpauditError as error:
        return f"refused: {str(error)[:90]}"
