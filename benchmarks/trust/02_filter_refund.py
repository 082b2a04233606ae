"""A filter of epsilon 3, asked for 2.9, for a declaration that costs -9.9, and for 12"""

import sympy


def probe() -> str:
    import dpaudit as dp
    from dpaudit.accountant.filters import open_filter

    i = sympy.Symbol("i", integer=True, positive=True)
    kept = open_filter(dp.PureDP(3), dp.central("add_remove")).spend(dp.PureDP("2.9"))
    try:
        gift = dp.Laplace("warm up", i - sympy.Rational(109, 99))
        kept = kept.spend(dp.Repeat(gift, 1, i))
        kept = kept.spend(dp.PureDP("9.9"))
    except dp.DpauditError as error:
        return f"refused: {str(error)[:90]}"
    return f"12.8 taken under 3, its sum {kept.spent[0]}"
