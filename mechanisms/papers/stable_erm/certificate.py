"""Certificates that a minimiser is stable, made of users' gradients at one point.

theta = f(x), g_i user i's mean gradient there, gamma the largest ||g_i - mean||.  Strong convexity
(modulus mu) bounds how far deletions move f, so that one solve instead of an enumeration shows a
score of 0; where it does not show it, the enumeration is run: the outcome has one law either way.
Privacy rests on mu, on the smoothness where a rule uses it, and on the solver's error.
Source: Ghazi et al. 2023, Appendix C and Lemma C.1, with centred gradients; see each rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.families.stability import Distance
from dpaudit.kernels.query import Array
from dpaudit.nodes import Assumption, Status
from mechanisms.papers.stable_erm.domains import ULPS
from mechanisms.papers.stable_erm.sharp import Hinge, Shares
from mechanisms.papers.stable_erm.solver import Absolute, Loss, Minimiser, Quadratic, RidgeLogistic
from mechanisms.papers.stable_erm.stable import Enumeration, Flags, Found, Search, Statistic

ROUNDING = 2.0**-48  # of a mean of n numbers, n times their size: far above what floats lose
CONVEX = Assumption(
    "strong_convexity",
    "the loss has its stated modulus and smoothness, and every solve is within its stated error",
    Status.ENFORCED,
    "a modulus by construction; solves in closed form, or by a public number of steps that "
    "reaches the error for any data; rounding is allowed for",
)
ENFORCED = (Quadratic, Absolute, RidgeLogistic, Shares, Hinge)
RULES = ("c1", "c1_sum", "c2", "c2c", "quadratic", "diameter")


@dataclass(frozen=True, eq=False)
class Measured:
    """What a certificate looks at, at f(x); arrays are (trials,) or (trials, users).

    ``norms``: ||g_i - mean||; ``residual``: distance of the mean gradient from optimality;
    ``error``: how far any solve may be from its minimiser, rounding included; ``gap``: by how much
    the mean of the users' subgradients may miss their inequality (0 for gradients).
    """

    minimiser: Minimiser
    points: Array
    norms: Array
    residual: Array
    error: Array
    gap: Array
    users: int


def measured(minimiser: Minimiser, users: Array) -> Measured:
    """One solve and one pass of gradients."""
    pull, loss = minimiser.pulled(users.shape[-1]), minimiser.loss
    if isinstance(loss, Shares):
        points, gradients = loss.solved(users, pull, minimiser.domain)
    else:
        points = minimiser.at(users, np.ones((1, len(users)), dtype=bool))[:, 0]
        gradients = loss.gradients(points, users, pull, minimiser.domain)
    mean = gradients.mean(axis=1)
    size = float(np.abs(points).max() + np.abs(pull.centre).max())
    drag = pull.column(points) * (points - pull.centre) + minimiser.loss.common(points)
    return Measured(
        minimiser,
        points,
        _distances(gradients, mean),
        minimiser.domain.residual(points, mean + drag),
        _error(minimiser, users, points, size),
        subgradient_gap(minimiser.loss, minimiser.modulus, size),
        len(users),
    )


def _distances(gradients: Array, mean: Array) -> Array:
    """||g_i - mean||, (trials, users), by coordinates, in arrays that stay in the cache."""
    found = np.zeros(gradients.shape[:2])
    away = np.empty(gradients.shape[1])
    for rows, centre, total in zip(gradients, mean, found, strict=True):
        for column, middle in zip(rows.T, centre, strict=True):
            np.subtract(column, middle, out=away)
            np.square(away, out=away)
            total += away
    return np.sqrt(found, out=found)


def _error(minimiser: Minimiser, users: Array, points: Array, size: float) -> Array:
    loss, modulus = minimiser.loss, minimiser.modulus
    if isinstance(loss, (Shares, Hinge)):
        # A point that is inside an edge by so many roundings of it is taken to be on the edge.
        inside = ULPS * np.linalg.norm(points, axis=-1)
        return np.asarray(loss.lost(len(users), size, modulus) + inside)
    whole = size + float(np.abs(users).max())
    return np.full(len(modulus), loss.error + ROUNDING * len(users) * whole)


def subgradient_gap(loss: Loss, modulus: Array, size: float) -> Array:
    """By how much subgradients may miss their inequality, shaped like the modulus."""
    return loss.gap(modulus, size) if isinstance(loss, Hinge) else np.zeros_like(modulus)


def solver_slack(loss: Loss, modulus: Array, users: int, kappa: int, size: float) -> Array:
    """What a public unit needs for the solves of a loss that is not smooth; 0 for others.

    Twice the error, as much for the residual, which is rounding, and what the gap adds.  ``size``:
    the largest norm of a point.
    """
    if not isinstance(loss, (Shares, Hinge)):
        return np.zeros_like(modulus)
    error = loss.lost(users, 2 * size, modulus)
    return 4 * error + _loosened(subgradient_gap(loss, modulus, 2 * size), modulus, users, kappa)


def _loosened(gap: Array, modulus: Array, users: int, kappa: int) -> Array:
    """2 sqrt(gap n / ((n - r - 1) mu)): both ends of a step, with subgradients that hold to a gap.

    At x the mean over all users of l_i(y) >= l_i(x) + <g_i, y - x> fails by at most the gap, every
    user's own part is at least 0, so that over the kept users it fails by n / (n - |S|) times the
    gap; strong convexity then gives mu D^2 <= ||step of the mean|| D + that, and D is at most the
    step over mu plus sqrt(that / mu).
    """
    return np.asarray(2 * np.sqrt(gap * users / ((users - 4 * kappa - 1) * modulus)))


@dataclass(frozen=True)
class GradientCertificate:
    """An upper bound on Delta_r f(x), r = 4 kappa, or on the diameter, by one of the rules.

    c1: (2r+1) gamma / (mu (n-r-1)).  c1_sum: with the sum of the r largest norms in place of r
    gamma.  c2: gamma (1 + H r / (mu (n-r))) / (mu (n-r-1)), where every minimiser is interior.
    c2c: gamma (n/(n-r) + 2 H r / (mu (n-r))) / (mu (n-r-1)).  quadratic: gamma n / (mu (n-r)
    (n-r-1)).  diameter: 2 (r+1) gamma / (mu (n-r-1)), times sqrt(d) for the box it is held against.
    Each is raised for the residual and the solver's error, and norms for what these move a smooth
    loss's gradients by.
    Errors: InvalidParameter for an unknown rule.
    Source: Ghazi et al. 2023, Lemma C.1 (c1); the other rules are ours (dpaudit 2026).
    """

    rule: str = "c1"

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise InvalidParameter(f"rule = {self.rule!r}: expected one of {', '.join(RULES)}")

    def upper(self, seen: Measured, kappa: int) -> Array:
        """The bound, (trials,); infinite where the rule does not apply."""
        minimiser, loss = seen.minimiser, seen.minimiser.loss
        modulus, smoothness = minimiser.modulus, loss.smoothness
        off = seen.residual / modulus
        smooth = math.isfinite(smoothness)
        if (self.rule in ("c2", "c2c") and not smooth) or (
            self.rule == "quadratic" and not isinstance(loss, Quadratic)
        ):
            return np.full(len(off), np.inf)
        moved = 2 * smoothness * (off + seen.error) if smooth else np.zeros_like(off)
        norms = seen.norms + moved[:, None]
        gamma = norms.max(axis=1)
        bound = unit_of_radius(self.rule, gamma, modulus, smoothness, seen.users, kappa)
        if self.rule == "c1_sum":
            bound = self._summed(seen, norms, kappa)
        if self.rule == "c2":
            bound = np.where(self._interior(seen, gamma, kappa), bound, np.inf)
        if self.rule == "diameter":
            bound = bound * math.sqrt(seen.points.shape[1])
        loosened = _loosened(seen.gap, modulus, seen.users, kappa)
        return np.asarray(bound + 2 * off + 2 * seen.error + loosened)

    def _summed(self, seen: Measured, norms: Array, kappa: int) -> Array:
        deleted = 4 * kappa
        ranked = -np.sort(-norms, axis=1)
        first = ranked[:, :deleted].sum(axis=1) / (seen.users - deleted)
        second = ranked[:, : deleted + 1].sum(axis=1) / (seen.users - deleted - 1)
        return np.asarray((first + second) / seen.minimiser.modulus)

    def _interior(self, seen: Measured, gamma: Array, kappa: int) -> Flags:
        deleted, modulus = 4 * kappa, seen.minimiser.modulus
        reach = deleted * gamma / (modulus * (seen.users - deleted)) + seen.residual / modulus
        return np.asarray(seen.minimiser.domain.margin(seen.points) > reach)


def unit_of_radius(
    rule: str, gamma: Array | float, modulus: Array | float, smoothness: float, n: int, kappa: int
) -> Array:
    """A rule's bound at gradient radius gamma, without residual and solver error, d = 1.

    The public unit for which a certificate passes where all centred gradients are within gamma.
    """
    deleted = 4 * kappa
    left = n - deleted - 1
    if left < 1:
        raise InvalidParameter(f"{n} users: kappa = {kappa} needs at least {deleted + 2}")
    step = np.asarray(gamma) / (modulus * np.asarray(left, dtype=np.float64))
    if rule not in RULES:
        raise InvalidParameter(f"rule = {rule!r}: expected one of {', '.join(RULES)}")
    if rule in ("c1", "c1_sum"):
        return np.asarray((2 * deleted + 1) * step)
    if rule == "diameter":
        return np.asarray(2 * (deleted + 1) * step)
    if rule == "quadratic":
        return np.asarray(step * n / (n - deleted))
    bent = smoothness * deleted / (np.asarray(modulus) * (n - deleted))
    return np.asarray(step * (1 + bent if rule == "c2" else n / (n - deleted) + 2 * bent))


@dataclass(frozen=True)
class Void:
    """Takes every data set for stable: no privacy, and its declaration says so.

    With it a phased program is the ideal one, M' of the proofs: noise and no test.
    """

    stability: str = Distance.PATH
    not_private: str = "a data set that no certificate shows to be stable is released all the same"

    @property
    def distance(self) -> Distance:
        return Distance(self.stability)

    def check(self, users: int, kappa: int) -> None:
        """Nothing is enumerated."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        vectors = statistic.at(users, np.ones((1, len(users)), dtype=bool))[:, 0]
        return Found(np.zeros(len(vectors)), vectors)


@dataclass(frozen=True)
class Certified:
    """A certificate where it passes, and the exact search where it does not.

    Never bottom, an error or another unit where it fails: that would tell the data.  How long a
    run takes does tell whether it failed.  The fallback must be able to end, which is decided from
    public numbers; with :class:`Void` for a fallback nothing is guaranteed.
    Errors: InvalidParameter for a rule and a fallback of different stability; in a run, for another
    loss than those whose modulus and solves are by construction.
    """

    certificate: GradientCertificate = GradientCertificate()
    fallback: Search = Enumeration()

    def __post_init__(self) -> None:
        own = Distance.DIAMETER if self.certificate.rule == "diameter" else Distance.PATH
        if self.fallback.distance is not own:
            raise InvalidParameter(
                f"rule {self.certificate.rule!r} certifies {own} stability, its fallback measures "
                f"{self.fallback.distance}"
            )

    @property
    def distance(self) -> Distance:
        return self.fallback.distance

    @property
    def assumption(self) -> Assumption:
        """What privacy rests on beside the noise."""
        return CONVEX

    @property
    def not_private(self) -> str:
        """Why nothing is guaranteed; empty where the fallback is exact."""
        return str(getattr(self.fallback, "not_private", ""))

    def check(self, users: int, kappa: int) -> None:
        """Errors: as the fallback's."""
        self.fallback.check(users, kappa)

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        if not isinstance(statistic, Minimiser):
            raise InvalidParameter("a gradient certificate needs the minimiser of a convex loss")
        if not isinstance(statistic.loss, ENFORCED):
            raise InvalidParameter(
                f"a gradient certificate rests on a modulus and on solves that "
                f"{type(statistic.loss).__name__} does not enforce: use "
                f"{', '.join(kind.__name__ for kind in ENFORCED)}"
            )
        with np.errstate(all="ignore"):
            seen = measured(statistic, users)
            # A bound that is not a number is no certificate.
            passed = self.certificate.upper(seen, kappa) <= unit
        scores, vectors = np.zeros(len(passed)), np.array(seen.points)
        if not passed.all():
            units = np.broadcast_to(unit, passed.shape)[~passed]
            rest = self.fallback.find(statistic.of(~passed), users, units, kappa)
            scores[~passed], vectors[~passed] = rest.scores, rest.vectors
        return Found(scores, vectors)
