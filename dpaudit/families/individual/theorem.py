"""Sums in which every record has its own budget, stated a second time.

The squares of what one record moves add up to mu^2 s^2 at most, along every path of releases; where
two are moved, each pays a quarter of that, and their moves add up as vectors do.
"""

from __future__ import annotations

from dpaudit.check.theorem import Table, Theorem, always, of_mu, reached, register
from dpaudit.pairs import Normal

INDIVIDUAL: Table = {
    **of_mu(
        "IndividualGaussian",
        ("own_budget", "own_budget_concentrated", "own_budget_curve"),
        lambda n: n.mu,
        always,
    ),
    ("profile", "IndividualGaussian"): Theorem("own_budget_pair", lambda n: reached(Normal(n.mu))),
}

register(INDIVIDUAL)
