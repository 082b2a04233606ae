"""Rounds inside rounds whose number turns negative: epsilon at delta 1e-5, 7.108 in truth"""

from shared import CENTRAL, INDEX, answer, dp


def probe() -> str:
    return answer(lambda: repr(dp.account(rounds(), CENTRAL).epsilon("1e-5")))


def rounds() -> dp.Node:
    return dp.Repeat(dp.Repeat(dp.Gaussian("x", 5), 20 - 3 * INDEX), 10, INDEX)
