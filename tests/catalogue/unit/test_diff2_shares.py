"""Noise in shares: their mean has the law of one noise, and colluders leave what is declared."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.scope import central
from mechanisms.papers.diff2.catalogue import diff2_gd
from mechanisms.papers.diff2.noise import Noise, client_share, noise_against

SCOPE = central("replace_one")


def number(value: object) -> float:
    return float(enclose(value).mid())


def test_the_mean_of_all_shares_is_the_noise() -> None:
    """False alarms: 4 standard errors of a standard deviation of 40,000 draws, 1 in 16,000."""
    noise, clients = Noise(Fraction(1, 5), Fraction(3)), 10
    share = client_share(noise, clients)
    rng = np.random.default_rng(5)
    for each, whole in ((share.sigma_1, noise.sigma_1), (share.sigma_2, noise.sigma_2)):
        drawn = number(each) * rng.standard_normal((40_000, clients))
        spread = drawn.mean(axis=1).std() / number(whole)
        assert abs(spread - 1) < 4 / math.sqrt(2 * 40_000)


def test_colluders_cost_the_share_that_they_tell() -> None:
    program = diff2_gd.program
    mu = []
    for colluding in (0, 6, 9):
        against = replace(program, noise=noise_against(program.noise, 10, colluding))
        mu.append(number(Account(against.declaration(SCOPE), SCOPE).step("gdp").value))
    assert mu[1] / mu[0] == pytest.approx(math.sqrt(10 / 4))
    assert mu[2] / mu[0] == pytest.approx(math.sqrt(10))
    for clients, colluding in ((10, 10), (10, -1), (0, 0)):
        with pytest.raises(InvalidParameter, match="clients collude"):
            noise_against(program.noise, clients, colluding)
