"""Losses that are not smooth, in d dimensions, with the gradients that Appendix C asks for.

At a kink a loss has many subgradients; a certificate needs those that show the minimiser to be one.
Distances between items' values and a point of d numbers have them in closed form, the hinge loss
has them from its dual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize.elementwise import find_root

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from mechanisms.papers.stable_erm.domains import ULPS, Ball, Box, Domain, Everywhere, Lens
from mechanisms.papers.stable_erm.solver import Pull
from mechanisms.papers.stable_erm.stable import Flags, kept_means

DOUBLINGS = 28  # twice, of a pull that holds a point in a ball
STEPS = 60  # of an interior point method: it takes about 20, whatever the data
FLOOR = 2.0**-46  # what floats may leave of a duality gap, in units of the loss
TO_THE_LAST: Any = {"xatol": 0.0, "xrtol": ULPS, "fatol": 0.0, "frtol": 0.0}

Solve = Callable[[Array, Array], Array]


def within(domain: Domain, solve: Solve, weight: Array, centre: Array) -> Array:
    """The minimisers (rows, d) over a domain, of ``solve(weight, centre)``, those over all points.

    A ball that is left costs nu/2 ||theta - its centre||^2, which is one more pull; nu is found
    as a root (Chandrupatla 1997, to the last bits), since the distance falls as nu grows.
    Errors: InvalidParameter for a domain that is no ball, pair of balls or all of R^d.
    """
    return _within(_balls(domain), solve, weight, centre)


def _balls(domain: Domain) -> Sequence[Ball]:
    if isinstance(domain, Everywhere):
        return ()
    if isinstance(domain, Ball):
        return (domain,)
    if isinstance(domain, Lens):
        return (domain.first, domain.second)
    raise InvalidParameter(f"{type(domain).__name__}: expected a Ball, a Lens or Everywhere")


def _within(balls: Sequence[Ball], solve: Solve, weight: Array, centre: Array) -> Array:
    if not balls:
        return solve(weight, centre)
    points = _within(balls[1:], solve, weight, centre)
    middle = np.broadcast_to(np.asarray(balls[0].centre), centre.shape)
    radius = np.broadcast_to(np.asarray(balls[0].radius), (len(centre),))
    far = np.linalg.norm(points - middle, axis=1) > radius
    if not far.any():
        return points
    inner = [ball.of(far) for ball in balls[1:]]
    w, c, z, r = weight[far], centre[far], middle[far], radius[far]

    def pulled(nu: Array, at: Any) -> Array:
        whole, rest = (w[at] + nu)[:, None], [ball.of(at) for ball in inner]
        middles = (w[at, None] * c[at] + nu[:, None] * z[at]) / whole
        return _within(rest, solve, w[at] + nu, middles)

    def beyond(nu: Array, at: Any) -> Array:
        return np.asarray(np.linalg.norm(pulled(nu, at) - z[at], axis=1) - r[at])

    each = np.arange(len(w))
    low, high = np.zeros_like(w), w.copy()
    for _ in range(DOUBLINGS):
        outside = beyond(high, each) > 0
        low, high = np.where(outside, high, low), np.where(outside, 4 * high, high)
        if not outside.any():
            break
    # Both ends as they are: arrays, where the stubs expect one number or a nest of them.
    bracket: Any = (low, high)
    found = find_root(beyond, bracket, args=(each,), tolerances=TO_THE_LAST)
    # The root, or the end next to it that is inside.
    ends = np.where(found.f_bracket[1] <= 0, found.bracket[1], found.bracket[0])
    high = np.where(found.f_x <= 0, found.x, ends)
    points = np.array(points)
    points[far] = pulled(high, each)
    return points


@dataclass(frozen=True)
class Shares:
    """sum_j |theta_j - x_j| / sqrt(d) + modulus/2 ||theta||^2, items' x_j = +-``level``: exact.

    A user's record is one row, (1, d): the shares of its items whose x_j is +``level``, so that m
    may be as large as a theorem asks for; shares are cut to [0, 1], what is no number counts 1/2.
    Convex, 1-Lipschitz without the ridge, not smooth.  Per coordinate the minimiser over the line
    is the median of both levels and of the three points at which a level's sign balances the pull.
    Errors: InvalidParameter without a pull or a modulus.
    """

    level: float = 0.5
    modulus: float = 0.0
    lipschitz: float = field(default=1.0, init=False)
    smoothness: float = field(default=math.inf, init=False)
    error: float = field(default=0.0, init=False)

    def dimension(self, features: int) -> int:
        return features

    def lost(self, users: int, size: float, weight: Array) -> Array:
        """Rounding: a share's, scaled by the pull, and of the point itself."""
        return np.asarray(ULPS * (users * self.lipschitz / weight + size))

    def shares(self, users: Array) -> Array:
        """(users, d)."""
        shares = np.array(users[:, 0])
        with np.errstate(all="ignore"):
            np.copyto(shares, 0.5, where=np.isnan(shares))
            return np.clip(shares, 0.0, 1.0, out=shares)

    def solved(self, users: Array, pull: Pull, domain: Domain) -> tuple[Array, Array]:
        """The minimisers of all users, (trials, d), and :meth:`gradients` there: one pass less."""
        shares = self.shares(users)
        mean = _mean_of_all(shares)
        points = self._minimised(mean, pull, domain)[:, 0]
        return points, self._slopes(points, shares, mean, pull)

    def minimise(self, users: Array, kept: Flags, pull: Pull, domain: Domain) -> Array:
        return self._minimised(kept_means(self.shares(users)[None], kept)[0], pull, domain)

    def _minimised(self, share: Array, pull: Pull, domain: Domain) -> Array:
        """(trials, subsets, d), of the mean shares of each subset, (subsets, d)."""
        trials, (subsets, d) = len(pull.centre), share.shape
        weight = np.broadcast_to(np.asarray(pull.weight, dtype=np.float64), (trials,))
        rows = np.tile(share, (trials, 1))
        each = np.repeat(weight, subsets), np.repeat(pull.centre, subsets, axis=0)

        def solve(w: Array, c: Array, s: Array) -> Array:
            whole = (w + self.modulus)[:, None]
            if not (whole > 0).all():
                raise InvalidParameter("Shares: expected a pull of positive weight, or a modulus")
            middle, reach = w[:, None] * c, 1 / math.sqrt(d)
            free = [(middle + reach * slope) / whole for slope in (1.0, 2 * s - 1, -1.0)]
            ends = [np.full_like(c, sign * self.level) for sign in (-1.0, 1.0)]
            return np.asarray(np.sort(np.stack([*free, *ends]), axis=0)[2])

        if isinstance(domain, Box):
            found = domain.project(solve(*each, rows))
        else:
            found = np.concatenate(
                [
                    within(domain.of(_one(trials, int(k))), _bound(solve, rows[t]), *_row(each, t))
                    for t, k in enumerate(np.repeat(np.arange(trials), subsets))
                ]
            )
        return np.asarray(found.reshape(trials, subsets, d))

    def gradients(self, points: Array, users: Array, pull: Pull, domain: Domain) -> Array:
        """At a kink the subgradient is that of a minimiser inside the domain."""
        shares = self.shares(users)
        return self._slopes(points, shares, _mean_of_all(shares), pull)

    def _slopes(self, points: Array, shares: Array, mean: Array, pull: Pull) -> Array:
        """(trials, users, d), coordinate by coordinate in memory: d is short for an inner loop."""
        root, columns = math.sqrt(points.shape[1]), np.array(shares.T, order="C").T
        drag = pull.column(points) * (points - pull.centre) + self.common(points)
        with np.errstate(all="ignore"):
            low = np.clip((mean - root * drag) / (1 - mean), -1.0, 1.0)
            high = np.clip((mean - 1 - root * drag) / mean, -1.0, 1.0)
        low = np.where(points == -self.level, np.nan_to_num(low), np.sign(points + self.level))
        high = np.where(points == self.level, np.nan_to_num(high), np.sign(points - self.level))
        found = columns[None] * (high - low)[:, None]
        found += low[:, None]
        found /= root
        return np.asarray(found)

    def common(self, points: Array) -> Array:
        return self.modulus * points


def _mean_of_all(shares: Array) -> Array:
    """(1, d)."""
    return np.asarray(kept_means(shares[None], np.ones((1, len(shares)), dtype=bool))[0])


def _bound(solve: Callable[[Array, Array, Array], Array], row: Array) -> Solve:
    return lambda w, c: solve(w, c, np.broadcast_to(row, c.shape))


def _one(trials: int, k: int) -> Flags:
    return np.asarray(np.arange(trials) == k)


def _each(trials: int) -> Iterator[Flags]:
    return (_one(trials, k) for k in range(trials))


def _row(each: tuple[Array, Array], t: int) -> tuple[Array, Array]:
    return each[0][t : t + 1], each[1][t : t + 1]


@dataclass(frozen=True)
class Hinge:
    """max(0, 1 - y theta.x) + modulus/2 ||theta||^2; items are (x, y), y in {0, 1} or {-1, 1}.

    Features are scaled down to norm at most ``feature_norm`` = G; an item that is not finite counts
    as x = 0.  Convex, G-Lipschitz without the ridge, not smooth.  Solved in the dual, one number in
    [0, 1] an item, by an interior point method and, where that does not end, by gradient steps,
    until the duality gap says that the point is within ``lost`` of the minimiser; items' duals are
    the weights of their subgradients.
    Errors: InvalidParameter without a pull or a modulus.
    Source: the dual is Cortes and Vapnik 1995; the solver is ours.
    """

    modulus: float = 0.0
    feature_norm: float = 1.0
    precision: float = 1e-6  # of a distance, in units of G over the strong convexity
    smoothness: float = field(default=math.inf, init=False)
    error: float = field(default=0.0, init=False)

    @property
    def lipschitz(self) -> float:
        return self.feature_norm

    def dimension(self, features: int) -> int:
        return features - 1

    def gap(self, weight: Array | float, size: float) -> Array:
        """The duality gap that a solve ends at: precision^2 G^2 / (2 weight), or what floats allow.

        ``size``: of points.
        """
        whole = np.asarray(weight, dtype=np.float64)
        wanted = (self.precision * self.lipschitz) ** 2 / (2 * whole)
        return np.maximum(wanted, FLOOR * (1 + self.lipschitz * size))

    def lost(self, users: int, size: float, weight: Array) -> Array:
        """sqrt(2 gap / weight), and rounding."""
        rounding = ULPS * (users * self.lipschitz / weight + size)
        return np.asarray(np.sqrt(2 * self.gap(weight, size) / weight) + rounding)

    def items(self, users: Array) -> Array:
        """y x for every item, (n, items, d), scaled to the feature norm."""
        with np.errstate(all="ignore"):
            known = np.where(np.isfinite(users).all(axis=-1, keepdims=True), users, 0.0)
            x, sign = known[..., :-1], np.where(known[..., -1:] > 0, 1.0, -1.0)
            largest = np.abs(x).max(axis=-1, keepdims=True, initial=0.0)
            unit = x / np.where(largest > 0, largest, 1.0)
            norm = np.linalg.norm(unit, axis=-1, keepdims=True)
            inside = largest * norm <= self.feature_norm
            shrunk = unit * (self.feature_norm / np.where(norm > 0, norm, 1.0))
            return np.asarray(sign * np.where(inside, x, shrunk))

    def minimise(self, users: Array, kept: Flags, pull: Pull, domain: Domain) -> Array:
        rows = [
            self._solved(users, kept[k], pull.of(one), domain.of(one))[0]
            for one in _each(len(pull.centre))
            for k in range(len(kept))
        ]
        return np.reshape(rows, (len(pull.centre), len(kept), -1))

    def gradients(self, points: Array, users: Array, pull: Pull, domain: Domain) -> Array:
        """At the minimiser over all users, the only point that it is asked for at."""
        items, everyone = self.items(users), np.ones(len(users), dtype=bool)
        found = []
        for one in _each(len(points)):
            dual = self._solved(users, everyone, pull.of(one), domain.of(one))[1]
            dual = dual.reshape(items.shape[:2])
            found.append(-np.einsum("ni,nid->nd", dual, items) / items.shape[1])
        return np.stack(found)

    def common(self, points: Array) -> Array:
        return self.modulus * points

    def _solved(self, users: Array, kept: Flags, pull: Pull, own: Domain) -> tuple[Array, Array]:
        """The point, (d,), and the items' duals, in [0, 1]."""
        rows = self.items(users).reshape(-1, users.shape[-1] - 1)
        share = np.repeat(kept, users.shape[1]) / (kept.sum() * users.shape[1])
        weight = float(np.max(pull.weight)) + self.modulus
        if not weight > 0:
            raise InvalidParameter("Hinge: expected a pull of positive weight, or a modulus")
        centre = float(np.max(pull.weight)) * pull.centre[0] / weight
        dual = np.zeros(len(rows))
        last = [dual]

        def solve(w: Array, c: Array) -> Array:
            last[0] = interior_dual(rows, share, float(w[0]), c[0])
            return np.asarray(c + (share * last[0]) @ rows / w[:, None])

        within(own, solve, np.array([weight]), centre[None])
        dual, most = last[0], float(self.gap(weight, float(np.abs(centre).max())))
        while True:
            point = own.project((centre + (share * dual) @ rows / weight)[None])[0]
            margins = 1 - rows @ point
            gap = float(share @ (np.maximum(margins, 0.0) - dual * margins))
            if gap <= most:
                return point, dual
            dual = np.clip(dual + weight / self.lipschitz**2 * margins, 0.0, 1.0)


def interior_dual(rows: Array, share: Array, weight: float, centre: Array) -> Array:
    """Duals in [0, 1] of sum_j share_j max(0, 1 - row_j.theta) + weight/2 ||theta - centre||^2.

    Mehrotra's predictor and corrector on the slacks of both halves of a hinge; every step solves d
    equations.  It need not end at the minimiser: the caller measures the duality gap.
    Source: Mehrotra 1992; Ferris and Munson 2002 for support vectors.
    """
    used = share > 0
    a, p = rows[used], share[used]
    count, d = a.shape
    theta = np.array(centre)
    beta = p / 2
    loss = np.maximum(1 - a @ theta, 0.0) + 1.0
    slack = loss - 1 + a @ theta
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            drag = weight * (theta - centre) - beta @ a
            centrality = float(beta @ slack + (p - beta) @ loss) / (2 * count)
            if centrality <= 1e-17 / count and np.abs(drag).max() <= 1e-15:
                break
            diagonal = 1 / (slack / beta + loss / (p - beta))
            matrix = weight * np.eye(d) + (a * diagonal[:, None]).T @ a
            first = second = np.zeros(count)
            aim = 0.0
            for corrected in (False, True):
                one = aim - beta * slack - first
                two = aim - (p - beta) * loss - second
                right = diagonal * (one / beta - two / (p - beta))
                moved = _solution(matrix, a.T @ right - drag)
                shifts = a @ moved
                up = right - diagonal * shifts
                more = (two + loss * up) / (p - beta)
                apart = more + shifts
                length = 0.99 * min(
                    _room(beta, up), _room(p - beta, -up), _room(loss, more), _room(slack, apart)
                )
                if corrected or not math.isfinite(length):
                    break
                length = min(1.0, length / 0.99)
                after = float(
                    (beta + length * up) @ (slack + length * apart)
                    + (p - beta - length * up) @ (loss + length * more)
                ) / (2 * count)
                aim = centrality * (after / centrality) ** 3
                first, second = up * apart, -up * more
            length = min(1.0, length)
            step = (length * up, length * moved, length * more)
            if not all(np.isfinite(part).all() for part in step):
                break
            beta, theta, loss = beta + step[0], theta + step[1], loss + step[2]
            slack = slack + length * apart
    dual = np.zeros(len(rows))
    dual[used] = np.clip(beta / p, 0.0, 1.0)
    return dual


def _solution(matrix: Array, right: Array) -> Array:
    """Of one linear system; not a number where floats have left its matrix no inverse."""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:  # rows of real data came to it: a query must not fail on any
        return np.full(len(right), np.nan)


def _room(values: Array, change: Array) -> float:
    """How far values may go along a change before one is 0."""
    shrinking = change < 0
    if not shrinking.any():
        return math.inf
    return float((-values[shrinking] / change[shrinking]).min())
