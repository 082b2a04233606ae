"""Sums in which every record has its own budget, stated a second time.

The squares of what one record moves add up to mu^2 s^2 at most, along every path of releases; where
two are moved, each pays a quarter of that, and their moves add up as vectors do.
"""

from __future__ import annotations

from typing import Any

from dpaudit.check.theorem import Table, Theorem, reached, register
from dpaudit.pairs import Normal


def _always(node: Any, premises: Any) -> bool:
    """A record whose vectors fill the radius pays all it has."""
    return True


INDIVIDUAL: Table = {
    ("gdp", "IndividualGaussian"): Theorem("own_budget", lambda n: n.mu, attained=_always),
    ("zcdp", "IndividualGaussian"): Theorem(
        "own_budget_concentrated", lambda n: n.mu * n.mu / 2, attained=_always
    ),
    ("rdp", "IndividualGaussian"): Theorem(
        "own_budget_curve", lambda n: lambda a: a * n.mu * n.mu / 2, attained=_always
    ),
    ("profile", "IndividualGaussian"): Theorem("own_budget_pair", lambda n: reached(Normal(n.mu))),
}

register(INDIVIDUAL)
