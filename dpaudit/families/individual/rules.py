"""Sums in which every record has its own budget: as private as one Gaussian release of mu.

Let x be the record that one data set has and the other has not.  The addition of every other record
in a round, and the rest of its budget, depend on its own values and on earlier releases alone:
given the past they are the same on both data sets.  So round t is normal with covariance s^2 I, and
its mean is
moved by a vector v_t that the past decides, the vector of x cut by what x has left: the sum of
|v_t|^2 / s^2 is at most mu^2 whatever happens.  Such adaptive Gaussian releases are mu-GDP:
continue each run, after the last round, by one release of noise s that x moves by what is left in
one direction.  Then the squares of the moves add up to mu^2 s^2 along every path, so that under
either data set S = sum <v_t, Z_t> / s^2, Z the noise, has E exp(l S) = exp(l^2 mu^2 / 2) for every
l, round by round from the last: S is N(0, mu^2), and the log-likelihood ratio, S + mu^2 / 2 or
S - mu^2 / 2, is that of N(mu, 1) and N(0, 1).  The output of a run is post-processing of it.
Either direction; a record that fills the radius spends it all and reaches it.  Under replace_one
two records' vectors, v_t of one and w_t of the other, are moved at once, and s is z times twice the
radius, so that each pays for mu^2 s^2 / 4 at most along every path, and the root of the sum of
|v_t - w_t|^2 is at most that of |v_t|^2 and that of |w_t|^2 together, mu s; opposite vectors that
fill the radius reach it.
Source: Feldman, Zrnic 2021, Theorem 4.5 (individual filters, Renyi); Koskela, Tobaben, Honkela
2023, Theorem 13 (GDP); Smith, Thakurta 2022 (the filter).
"""

from __future__ import annotations

from dpaudit.families.individual import IndividualGaussian
from dpaudit.measures.calculus import Source, always
from dpaudit.measures.implied import gaussian, unbounded
from dpaudit.measures.profile import PROFILE
from dpaudit.pairs import Losses, Normal, one

OWN = Source("Feldman, Zrnic", 2021, "Theorem 4.5; for GDP, proof in families.individual.rules")

unbounded(IndividualGaussian)
gaussian(
    IndividualGaussian,
    ("own_budget", "own_budget_concentrated", "own_budget_curve"),
    lambda node: node.mu,
    OWN,
    attained=always,
)


@PROFILE.rule(IndividualGaussian, "own_budget_pair", cite=OWN)
def own_budget_pair(node: IndividualGaussian) -> Losses:
    """Normal(mu)."""
    return one(Normal(node.mu))
