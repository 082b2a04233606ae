"""A filter of epsilon 3, asked for 2.9, for a declaration that costs -9.9, and for 12"""

import sympy
from shared import CENTRAL, INDEX, answer, dp


def probe() -> str:
    return answer(spent)


def spent() -> str:
    from dpaudit.accountant.filters import open_filter

    kept = open_filter(dp.PureDP(3), CENTRAL).spend(dp.PureDP("2.9"))
    gift = dp.Laplace("warm up", INDEX - sympy.Rational(109, 99))
    kept = kept.spend(dp.Repeat(gift, 1, INDEX)).spend(dp.PureDP("9.9"))
    return f"12.8 taken under 3, its sum {kept.spent[0]}"
