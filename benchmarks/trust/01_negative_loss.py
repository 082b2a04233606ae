"""A certificate whose schedule turns a loss negative, so that 10 is accounted as .1"""

import sympy
from shared import CENTRAL, INDEX, answer, dp


def probe() -> str:
    return answer(lambda: dp.Claim(dp.PureDP("0.1"), by="a forger").check(parts(), CENTRAL).outcome)


def parts() -> dp.Node:
    warm_up = dp.Laplace("warm up", INDEX - sympy.Rational(109, 99))
    return dp.Repeat(dp.Compose(dp.Laplace("answers", "0.1"), warm_up), 1, INDEX)
