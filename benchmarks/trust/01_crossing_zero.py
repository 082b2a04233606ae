"""Ten rounds of Laplace noise whose scale falls below 0: the interval at delta 1e-5"""

from shared import CENTRAL, INDEX, answer, dp


def probe() -> str:
    return answer(lambda: repr(dp.account(rounds(), CENTRAL).epsilon("1e-5")))


def rounds() -> dp.Node:
    return dp.Repeat(dp.Laplace("x", 4 - 3 * INDEX / 4), 10, INDEX)
