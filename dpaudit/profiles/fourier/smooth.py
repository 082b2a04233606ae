"""Products whose transforms are known without a grid, and fall fast.

L is the total loss, M(s) = E exp(s L) (product over factors), K = log M, t > 0 a tilt and
Phi_j = M(t - i w_j) / M(t) at w_j = 2 pi j / W, for a window [A, A + W] of losses.  With
Y = A + W - epsilon, and v a complex rate,
    delta(epsilon) = infinite + exp(K(t) - t epsilon) F + above
    F = (1/W) sum_j Re[Phi_j exp(i w_j epsilon) (D(t - i w_j) - D(t + 1 - i w_j))],
    D(v) = integral_0^Y exp(-v y) dy = (1 - exp(-v Y)) / v,
the Fourier series of the tilted density of L, folded with period W, against 1 - exp(epsilon - L).
A normal factor makes the series converge, |Phi_j| <= exp(-mu^2 w_j^2 / 2), or sampled ones do.

Smoothing, where neither does: with N the loss of Normal(sigma), delta_sigma that of the product
with it, and f_sigma the density under P of L + N,
    delta_sigma(epsilon) - sigma^2 exp(sigma^2 / 8) f_sigma(epsilon)
        <= delta(epsilon) <= delta_sigma(epsilon).
Proof: the product with another pair dominates.  At y = L - epsilon, what Normal(v) adds to the
payoff (1 - exp(-y))_+ grows with v by phi(y / v + v / 2) (the vega of a call), and
    phi(y / v + v / 2) <= exp(-y^2 / (2 v^2) - y / 2) / sqrt(2 pi)
                       <= exp(-y^2 / (2 sigma^2) - y / 2) / sqrt(2 pi)  for v <= sigma,
so that Normal(sigma) adds at most sigma times that, which is sigma^2 exp(sigma^2 / 8) times the
density of N at -y.  f_sigma folded is a series of the same Phi_j, and at least f_sigma.

    Normal(mu):       log M(s) = mu^2 s (s + 1) / 2
    LaplaceShift(e):  M(s) = exp(-e/2) (cosh z + (e/2) sinh(z) / z),  z = (s + 1/2) e
    Atoms:            M(s) = sum of p exp(s log(p / q)) over outcomes with p, q > 0
    sampled normal:   :mod:`dpaudit.profiles.fourier.sampled`, which also bounds its decay
    sampled discrete: :mod:`dpaudit.profiles.fourier.whole`, and atoms that are sampled are atoms

Errors, all outward: aliasing as in :mod:`dpaudit.profiles.fourier.compose` (Chernoff at shifted
tilts, the weight at most min(1, 1 / (1 + t))); truncation, the frequencies beyond J: 4 / w_J times
(2/W) sum_{j>J} exp(-c j^2) <= (2/W) exp(-c J^2) / (2 c J), c = mu^2 (2 pi / W)^2 / 2; round-off,
each factor's ratio within u (32 + 8 |s| l) for its largest loss l, u = 2^-53.  Sums of
|Phi_j| / j are bounded by intervals, sup |Phi| (log of the ends' ratio + 1 / j).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.exact import lower_fraction, upper_fraction, working_precision
from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import Reals
from dpaudit.grids.masses import as_float, as_rate
from dpaudit.grids.noise import atom_loss
from dpaudit.pairs import (
    Pair,
)
from dpaudit.pairs.core import Outcomes
from dpaudit.profiles.fourier.plan import Plan
from dpaudit.profiles.fourier.rare import Rare
from dpaudit.profiles.fourier.sampled import (
    DISTANCE_RATIO,
    RULE_NATS,
    OutOfReach,
    SampledNormal,
    decay_of,
    rule,
)
from dpaudit.profiles.fourier.search import Parts
from dpaudit.profiles.fourier.whole import MOST_OUTCOMES, SampledDiscrete

Complexes = NDArray[np.complexfloating[Any, Any]]
MANY_KINDS = 8  # This many kinds of Laplace factors make a smooth law, for which grids are slow.
BLOCK_FREQUENCIES = 64  # Frequencies that are evaluated at a time.
# The most kinds of sampled factors: each has an integration rule of its own.
MOST_KINDS = 10_000
MOST_FREQUENCIES = 60_000  # Frequencies of a sum, at most.
LEAST_FREQUENCIES = 400  # Frequencies of a sum that are always allowed.
MOST_FACTORS = 10**10  # rounds: floats hold their number with room
BLOCK_NUMBERS = 2**21  # Complex numbers of one block, 32 MB.
LARGEST_REACH = 1e5  # nats of a window
# A checker integrates at twice as many.
MOST_SAMPLED = 40_000
# The most points times frequencies of a smoothed sampled factor that a checker integrates.
MOST_CHECKED = 10**9
ROUNDED = 1e-14  # Roundings of an exponent, to each nat of it.
EDGE_RATIO = 1.05  # Ratio of the frequencies at which the decay is bounded.
MOST_EDGES = 900  # Frequencies at which the decay is bounded, at most.
MOST_SMOOTHING = 50.0  # standard deviation of added noise, in units of the loss
# Ratio of the distances at which decay is bounded, if there are many kinds of factors.
COARSE_DISTANCES = 1.4


@dataclass(frozen=True)
class Product:
    """Reals of a product: the normal factor's mu, Laplace factors and atoms with their counts."""

    mu: float
    epsilons: Reals
    epsilon_times: Reals
    atoms: tuple[tuple[Reals, Reals, float], ...]
    infinite: float
    parts: Parts
    sampled: tuple[SampledNormal, ...] = ()
    discrete: tuple[SampledDiscrete, ...] = ()

    @cached_property
    def listed(self) -> list[tuple[Reals, Reals, float]]:
        """Masses, losses and times of atoms and of sampled discrete factors."""
        return [*self.atoms, *((*factor.outcomes, factor.times) for factor in self.discrete)]

    @cached_property
    def largest(self) -> Reals:
        """Largest finite loss of every factor but the normal and the sampled normal ones."""
        ends = [float(np.max(np.abs(losses))) for _, losses, _ in self.listed]
        return np.concatenate((self.epsilons, ends))

    @property
    def roundings(self) -> tuple[Reals, Reals]:
        """The rounding of a sum of masses and of a loss, for each factor, in units of rounding."""
        plain = len(self.epsilons) + len(self.atoms)
        own = [factor.roundings for factor in self.discrete]
        # Each outcome above a few may cost a rounding of the whole sum.
        sums = [24.0 + max(8, len(masses)) for masses, _, _ in self.atoms]
        sums = [32.0] * len(self.epsilons) + sums + [32 + of_sum for of_sum, _ in own]
        return np.array(sums), np.array([8.0] * plain + [8 + of_loss for _, of_loss in own])

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """No loss but that of the normal factor is below the first or above the second, in sum."""
        most = float(self.times @ self.largest) * (1 + 1e-9)
        least = -most
        for factor in self.sampled:
            low, high = factor.bounds
            least, most = least + low, most + high
        return least, most

    @cached_property
    def rounds(self) -> float:
        """How many factors, repeats counted."""
        return 1 + float(self.times.sum()) + sum(factor.times for factor in self.sampled)

    @cached_property
    def times(self) -> Reals:
        return np.concatenate((self.epsilon_times, [times for _, _, times in self.listed]))

    def logs(self, s: Complexes) -> Complexes:
        """log M at complex arguments, without the normal and the sampled factors."""
        result = np.zeros(len(s), dtype=np.complex128)
        step = max(BLOCK_NUMBERS // max(len(s), 1), 1)
        for k in range(0, len(self.epsilons), step):
            inner, moved = _laplace(self.epsilons[k : k + step, None], s[None, :])
            result += self.epsilon_times[k : k + step] @ (np.log(inner) + moved)
        for p, losses, times in self.listed:
            step = max(BLOCK_NUMBERS // len(p), 1)
            for k in range(0, len(s), step):
                exponents = losses[:, None] * s[None, k : k + step]
                largest = np.max(exponents.real, axis=0)
                logs = largest + np.log(p @ np.exp(exponents - largest))
                result[k : k + step] += times * logs
        return result

    def ratios(self, tilt: float, w: Reals) -> tuple[Complexes, Reals]:
        """log M(tilt - i w) / M(tilt) of the same factors, and its absolute error.

        Laplace factors that occur once are multiplied before a logarithm is taken.
        """
        once = self.epsilon_times == 1
        others = replace(
            self, epsilons=self.epsilons[~once], epsilon_times=self.epsilon_times[~once]
        )
        s = np.append(tilt - 1j * w, tilt)
        logs = others.logs(s)
        result: Complexes = logs[:-1] - logs[-1]
        step = max(min(BLOCK_FREQUENCIES, BLOCK_NUMBERS // len(s)), 1)
        epsilons = self.epsilons[once]
        for k in range(0, len(epsilons), step):
            inner, moved = _laplace(epsilons[k : k + step, None], s[None, :])
            ratio = np.prod(inner[:, :-1] / inner[:, -1:], axis=0)
            with np.errstate(divide="ignore"):
                result += np.log(ratio) + (moved[:, :-1] - moved[:, -1:]).sum(axis=0)
        # Too small for a float is as good as 0.
        result = np.where(result.real > -700, result, -700.0)
        sums, losses = self.roundings
        constant, slope = float(self.times @ sums), float(self.times @ (losses * self.largest))
        return result, UNIT * (constant + slope * (tilt + 1 + w))

    def cumulant(self, t: float) -> float:
        """K at a real argument."""
        own = float(self.logs(np.array([t + 0j]))[0].real) if len(self.times) else 0.0
        own += sum(factor.cumulant(t) for factor in self.sampled)
        return own + self.mu * self.mu * t * (t + 1) / 2

    def outline(self, tilts: Reals) -> Reals:
        """About K at many tilts: sampled factors by a coarse rule."""
        with np.errstate(over="ignore", invalid="ignore"):
            own = self.logs(tilts + 0j).real if len(self.times) else np.zeros(len(tilts))
            own = own + self.mu * self.mu * tilts * (tilts + 1) / 2
            for factor in self.sampled:
                own = own + factor.outline(tilts)
        return own

    def kept(self, log_mass: float) -> Product:
        """Without the outcomes of sampled factors that come to exp(log_mass) in all, at most."""
        kinds = len(self.sampled) + len(self.discrete)
        if not kinds:
            return self
        share = log_mass - math.log(kinds)
        sampled = tuple(factor.kept(share) for factor in self.sampled)
        discrete = tuple(factor.kept(share) for factor in self.discrete)
        return replace(self, sampled=sampled, discrete=discrete)

    @property
    def beyond(self) -> float:
        """P mass of what :meth:`kept` took away, at most."""
        own = [factor.beyond for factor in self.sampled if math.isfinite(factor.cap)]
        return math.fsum([*own, *(factor.beyond for factor in self.discrete)])


def _laplace(e: Reals, s: Complexes) -> tuple[Complexes, Complexes]:
    """M(s) as inner exp(moved), its growth being in ``moved``."""
    z = (s + 0.5) * e
    # The sum is even in z.
    z = np.where(z.real < 0, -z, z)
    falling = np.exp(-2 * z)
    small = np.abs(z) < 1e-2
    safe = np.where(small, 1.0, 2 * z)
    series = 1 - z * (1 - z * (2 / 3 - z * (1 / 3 - z * (2 / 15 - z * (2 / 45 - z * 4 / 315)))))
    sinhc = np.where(small, series, (1 - falling) / safe)
    return (1 + falling) / 2 + e / 2 * sinhc, z - e / 2


def smooth_product(parts: Parts) -> Product | None:
    """The product's numbers; None without a normal factor, or with a factor of another type."""
    shifts = (pair.gaussian_shift for pair, times in parts if times == 1)
    normals = [mu for mu in shifts if mu is not None]
    scales = ((pair.laplace_epsilon, times) for pair, times in parts)
    laplaces = [(epsilon, times) for epsilon, times in scales if epsilon is not None]
    listed = ((pair.finite_outcomes, times) for pair, times in parts)
    atoms = [(outcomes, times) for outcomes, times in listed if outcomes is not None]
    sampled = [factor for pair, times in parts if (factor := _sampled(pair, times)) is not None]
    discrete = [
        discrete_part
        for pair, times in parts
        if (discrete_part := _discrete(pair, times)) is not None
    ]
    several = len(laplaces) + len(atoms) + len(discrete)
    recognised = len(normals) + len(sampled) + several == len(parts)
    # The transforms of many kinds of factors do not fall, or only slowly; smoothing makes them
    # fall.  Sampled factors of one kind have losses of many kinds.
    drawn = len(sampled) + len(discrete) + sum(pair.noise is not pair for pair, _ in parts)
    smooth = len(normals) or drawn or several >= MANY_KINDS
    if not recognised or not smooth or len(normals) > 1 or len(sampled) > MOST_KINDS:
        return None
    if sum(times for _, times in parts) > MOST_FACTORS:
        return None
    finite = [_finite(outcomes, times) for outcomes, times in atoms]
    if any(mass >= 1 or not len(finite_part[0]) for mass, finite_part in finite):
        return None
    lost = math.fsum(times * math.log1p(-mass) for mass, (_, _, times) in finite)
    return Product(
        as_float(normals[0], "mu") if normals else 0.0,
        np.array([as_float(epsilon, "epsilon") for epsilon, _ in laplaces]),
        np.array([float(times) for _, times in laplaces]),
        tuple(finite_part for _, finite_part in finite),
        -math.expm1(lost),
        parts,
        tuple(sampled),
        tuple(discrete),
    )


def _discrete(pair: Pair, times: int) -> SampledDiscrete | None:
    """Sampled discrete normal noise of moderate variance, in either direction."""
    sample = pair.unswapped.sample
    lattice = None if sample is None else sample.base.lattice
    if sample is None or lattice is None or not times > 0:
        return None
    shift, variance = lattice.shift, lattice.variance
    if shift == 0 or shift != int(shift) or sample.rate in (0, 1):
        return None
    rate = as_rate(sample.rate)
    factor = SampledDiscrete(
        as_float(variance, "variance"), abs(int(shift)), rate, pair.is_swapped, times
    )
    return factor if factor.kinds <= MOST_OUTCOMES else None


def _sampled(pair: Pair, times: int) -> SampledNormal | None:
    """A sampled normal pair in either direction; None for any other."""
    sample = pair.unswapped.sample
    shift = None if sample is None else sample.base.gaussian_shift
    if sample is None or shift is None or not times > 0:
        return None
    if shift == 0 or sample.rate in (0, 1):
        return None
    mu, rate = as_float(shift, "mu"), as_rate(sample.rate)
    return SampledNormal(mu, rate, pair.is_swapped, float(times))


def _finite(listed: Outcomes, times: int) -> tuple[float, tuple[Reals, Reals, float]]:
    """P mass at infinite loss; P masses and losses of the other outcomes."""
    outcomes = [(as_float(p, "P mass"), atom_loss(p, q)) for p, q in listed if p != 0]
    infinite = math.fsum(p for p, loss in outcomes if loss == math.inf)
    finite_losses = [(p, loss) for p, loss in outcomes if loss != math.inf]
    masses, losses = (np.array([row[k] for row in finite_losses]) for k in (0, 1))
    return infinite, (masses, losses, float(times))


@dataclass(frozen=True)
class Series:
    """The Fourier series at one tilt, of a product that holds the smoothing ``sigma`` (0: none).

    ``outside``: tilted mass outside the window; ``left_out``: what the frequencies beyond come to,
    in delta and in the density.  ``rare``: rounds beyond a cap that are summed, not left out.
    """

    product: Product
    plan: Plan
    sigma: float
    cumulant: float
    outside: float
    transform: Complexes
    rounding: Reals
    left_out: tuple[float, float]
    relative: float
    rare: Rare | None = None

    @property
    def tilt(self) -> float:
        return self.plan.tilt

    @property
    def first(self) -> float:
        return self.plan.first

    @property
    def period(self) -> float:
        return self.plan.period

    @cached_property
    def sums(self) -> Sums:
        """The part of the sum that does not depend on epsilon."""
        return _sums(self)

    def at(self, epsilon: float) -> Ends:
        """delta at an epsilon in the window, between its ends."""
        turn = np.exp(1j * self.sums.angles * epsilon)
        exponent, value, error, gap = self.parts(epsilon, lambda terms: terms @ turn, abs(epsilon))
        apart = self.rare.at(epsilon) if self.rare else (0.0, self.product.beyond)
        return Ends(exponent, float(value), float(error), self.product.infinite, float(gap), apart)

    def parts(self, at: Any, turned: Callable[[Complexes], Any], angles: Any) -> tuple[Any, ...]:
        """Exponent, value, error and gap of :class:`Ends` at one epsilon in the window, or many.

        ``turned``: the sums of terms_j exp(i w_j at); ``angles``: what w_j was multiplied by in it.
        """
        sums, reach = self.sums, self.first + self.period - at
        far = np.exp(-self.tilt * reach), np.exp(-(self.tilt + 1) * reach)
        value = turned(sums.terms).real - far[0] * sums.ends[0] + far[1] * sums.ends[1]
        error = sums.error + angles * sums.slope + far[0] * sums.end_error
        error = error + self.left_out[0] + self.outside
        exponent = self.cumulant - self.tilt * at
        relative = self.relative + ROUNDED * (abs(self.cumulant) + np.abs(exponent) + 8)
        error = error + relative * np.abs(value)
        gap = 0.0 * value
        if self.sigma:
            density = turned(sums.scaled).real + sums.density_error
            density = density + angles * sums.density_slope + self.left_out[1]
            gap = self.sigma**2 * math.exp(self.sigma**2 / 8) * np.maximum(density, 0.0)
            gap = gap * (1 + relative + 1e-12)
        return exponent, value, error, gap


@dataclass(frozen=True)
class Sums:
    """Parts of the sums at w_j = ``angles``.

    With s_j = 2 / W (1 / W at 0) and v, v' the rates t - i w_j, t + 1 - i w_j: ``scaled`` is
    s_j Phi_j, ``terms`` s_j Phi_j (1 / v - 1 / v'), ``ends`` the real sums of
    s_j Phi_j exp(i w_j (A + W)) over v and over v'.  Errors at epsilon 0 and per unit of epsilon,
    from phases and from the transform.
    """

    angles: Reals
    scaled: Complexes
    terms: Complexes
    ends: tuple[float, float]
    error: float
    slope: float
    end_error: float
    density_error: float
    density_slope: float


def _sums(made: Series) -> Sums:
    """Those parts of the Fourier sum that do not depend on epsilon."""
    j = np.arange(len(made.transform))
    w = 2 * math.pi * j / made.period
    scale = np.where(j == 0, 1.0, 2.0) / made.period
    scaled = scale * made.transform
    rates = made.tilt - 1j * w, made.tilt + 1 - 1j * w
    weights = 1 / (rates[0] * rates[1])
    top = made.first + made.period
    turned = scaled * np.exp(1j * w * top)
    size, own = np.abs(scaled), scale * made.rounding
    phase = 64 * UNIT + 16 * UNIT * w * abs(top)
    grown = size * phase + own
    return Sums(
        w,
        scaled,
        scaled * weights,
        (float((turned / rates[0]).real.sum()), float((turned / rates[1]).real.sum())),
        float((size * 128 * UNIT + own) @ np.abs(weights)),
        float(size * 8 * UNIT * w @ np.abs(weights)),
        float(grown @ (1 / np.abs(rates[0]) + 1 / np.abs(rates[1]))),
        float((size * 128 * UNIT + own).sum()),
        float((size * 8 * UNIT * w).sum()),
    )


@dataclass(frozen=True)
class Ends:
    """From exp(exponent) (value - error - gap) to exp(exponent) (value + error), both + infinite.

    Either end is moved by what is summed ``apart``.  No float need hold a delta that is tiny.
    """

    exponent: float
    value: float
    error: float
    infinite: float
    gap: float = 0.0
    apart: tuple[float, float] = (0.0, 0.0)

    def _added(self, sign: int) -> float:
        return self.infinite + self.apart[sign > 0]

    def _whole(self, sign: int, errors: float = 1.0) -> float:
        error = errors * self.error
        return self.value + error if sign > 0 else self.value - error - self.gap

    def log(self, sign: int, errors: float = 1.0) -> float:
        """log of the upper (1) or lower (-1) end, about; minus infinity at 0.

        ``errors``: that many times the stated one.
        """
        value = self._whole(sign, errors)
        finite = self.exponent + math.log(value) if value > 0 else -math.inf
        added = self._added(sign)
        return finite if added == 0 else float(np.logaddexp(finite, math.log(added)))

    def end(self, sign: int) -> Fraction:
        """The upper (1) or lower (-1) end, rounded outward, within [0, 1]."""
        import flint

        value = max(self._whole(sign), 0.0)
        with working_precision():
            finite = flint.arb(self.exponent).exp() * flint.arb(value)
            ball = finite + flint.arb(self._added(sign)) * (1 + sign * flint.arb(1e-13))
        end = upper_fraction(ball) if sign > 0 else lower_fraction(ball)
        return Fraction(1) if end is None else min(max(end, Fraction(0)), Fraction(1))


def series(product: Product, plan: Plan, *, plain: bool = False) -> Series | None:
    """The series of a plan; None where it would need too much.

    Where the product's own transform falls so fast that no more frequencies are needed than with
    smoothing, it is not smoothed; never if ``plain``.
    """
    try:
        plain_series = _own(product, plan)
        if plain_series is None and not plain:
            mu = math.hypot(product.mu, plan.sigma) * (1 + 4 * UNIT)
            # mu of the added normal pair: squares of mu add up.  Rounded up.
            sigma = math.sqrt((mu - product.mu) * (mu + product.mu)) * (1 + 8 * UNIT)
            smoothed = replace(product, mu=mu)
            # For a larger sigma the bound on the added delta would overflow a float.
            if sigma > MOST_SMOOTHING or not _is_checked(smoothed, plan):
                return None
            plain_series = _series(smoothed, plan, sigma, _by_normal(mu, plan))
        return plain_series
    except OutOfReach:
        return None


def _is_checked(product: Product, plan: Plan) -> bool:
    """Whether a checker can repeat the series of sampled factors, with panels of its own.

    It sums up to w = 8 / mu, as exp(-33) is left there, over about twice this window.
    """
    fastest = 8.2 / product.mu
    frequencies = 1.2 * fastest * plan.period / math.pi
    points = max(
        (len(rule(factor, plan.tilt, fastest, RULE_NATS).weights) for factor in product.sampled),
        default=0,
    )
    return 2 * frequencies * points <= MOST_CHECKED


def _own(product: Product, plan: Plan) -> Series | None:
    """Without smoothing, where that needs no more frequencies."""
    most = max(plan.frequencies, LEAST_FREQUENCIES)
    try:
        cut = _by_normal(product.mu, plan) if product.mu else None
    except OutOfReach:
        cut = None
    if cut is not None and cut[0] <= most:
        return _series(product, plan, 0.0, cut)
    if product.sampled:
        try:
            cut = _by_pairs(product, plan)
            return _series(product, plan, 0.0, cut) if cut[0] <= most else None
        except OutOfReach:
            return None
    return None


def _series(product: Product, plan: Plan, sigma: float, kept: Kept) -> Series:
    """The transform of the tilted, smoothed loss at each frequency, with its rounding error."""
    tilt = plan.tilt
    cumulant = product.cumulant(tilt)
    if not math.isfinite(cumulant):
        raise OutOfReach
    count, *left_out = kept
    reach = float(np.max(product.largest * (tilt + 2), initial=0.0))
    if count > MOST_FREQUENCIES or reach > LARGEST_REACH:
        raise OutOfReach
    w = 2 * math.pi * np.arange(count) / plan.period
    own: Complexes = np.zeros(count, dtype=np.complex128)
    error: Reals = np.full(count, 16 * UNIT)
    if len(product.times):
        own, grown = product.ratios(tilt, w)
        error += grown
    exponents = product.mu**2 * (-1j * w * (tilt + 0.5) - w * w / 2)
    error += UNIT * 16 * (np.abs(own) + np.abs(exponents))
    transform = np.exp(own + exponents)
    rounding = _errors(own, exponents, error, transform)
    relative = math.expm1(float(error[0]))
    for factor in product.sampled:
        quadrature = rule(factor, tilt, float(w[-1]), RULE_NATS)
        powers, off = quadrature.powers(w, factor.times)
        # |ab - a'b'| <= |a| |b - b'| + |b'| |a - a'|, where |a| is at most 1 but for its error.
        rounding = (np.abs(transform) + rounding) * off + rounding * np.abs(powers)
        transform = transform * powers
        relative += 1.01 * factor.times * quadrature.log_error
    outside = _outside(product, plan, cumulant)
    return Series(
        product,
        plan,
        sigma,
        cumulant,
        outside,
        transform,
        rounding,
        (left_out[0], left_out[1]),
        relative,
    )


def _outside(product: Product, plan: Plan, cumulant: float) -> float:
    """Tilted mass outside the window, at most.

    Chernoff's bound at the plan's shifts, roundings included; or, where all losses but the normal
    one are within the window by a distance x, that one's mass beyond it, exp(-x^2 / (2 mu^2)).
    """
    return 1.01 * sum(_beyond(product, plan, cumulant, side) for side in (-1, 1))


def _beyond(product: Product, plan: Plan, cumulant: float, side: int) -> float:
    end = plan.first + (plan.period if side > 0 else 0.0)
    distance = side * (end - product.bounds[(side + 1) // 2]) - 1e-12 * abs(end)
    distance -= max(side * product.mu**2 * (plan.tilt + 0.5), 0.0)
    if distance > 0:
        exponent = -distance * distance / (2 * product.mu**2) if product.mu else -math.inf
        if exponent <= -plan.dropped:
            return math.exp(exponent)
    shift = plan.shifts[(1 - side) // 2]
    moved = product.cumulant(plan.tilt + shift)
    exponent = moved - cumulant - shift * end
    exponent += 1e-9 * (1 + abs(moved) + abs(cumulant) + abs(shift * end))
    return math.exp(min(exponent, 0.0)) if math.isfinite(exponent) else 1.0


# Frequencies kept; what the others come to at most, in delta and in the density.
Kept = tuple[int, float, float]


def _by_normal(mu: float, plan: Plan) -> Kept:
    """As |Phi_j| <= exp(-c j^2), c = (mu 2 pi / W)^2 / 2."""
    needed = math.sqrt(2 * plan.dropped) / mu * plan.period / (2 * math.pi)
    if not needed < 1e9:
        raise OutOfReach
    count = math.ceil(needed) + 2
    decay = mu**2 * (2 * math.pi / plan.period) ** 2 / 2
    j = count - 1
    beyond = 2 / plan.period * math.exp(-decay * j * j) / (2 * decay * j)
    return count, beyond * 4 * plan.period / (2 * math.pi * j), beyond


def _by_pairs(product: Product, plan: Plan) -> Kept:
    """The others: (2 / W) sum of |Phi_j| 4 / w_j at most, that is (4 / pi) sum of |Phi_j| / j."""
    unit = 2 * math.pi / plan.period
    w = max(unit, 1 / plan.spread) * EDGE_RATIO ** np.arange(MOST_EDGES)
    bounds = -(product.mu**2) * w * w / 2
    ratio = DISTANCE_RATIO if len(product.sampled) < MANY_KINDS else COARSE_DISTANCES
    for factor in product.sampled:
        bounds = bounds + decay_of(factor, plan.tilt, ratio).bounds(w)
    start = _first_below(bounds, -plan.dropped)
    if start >= MOST_EDGES - 1 or not float(w[start]) < MOST_SAMPLED * unit:
        raise OutOfReach
    # Beyond the last edge |Phi| falls at least like 1 / w.
    spans = np.append(np.log(w[start + 1 :] / w[start:-1]), 1.0) + unit / w[start:]
    beyond = 4 / math.pi * float(np.exp(bounds[start:]) @ spans)
    return math.ceil(float(w[start]) / unit) + 1, beyond, math.inf


def _first_below(bounds: Reals, least: float) -> int:
    """The first place from which on all are below."""
    large = np.flatnonzero(bounds > least)
    return int(large[-1]) + 1 if len(large) else 0


def _errors(own: Complexes, exponents: Complexes, error: Reals, transform: Complexes) -> Reals:
    """Error of Phi: each ratio is off by its roundings in absolute terms, at most."""
    with np.errstate(over="ignore", invalid="ignore"):
        inner = np.expm1(error * np.exp(np.maximum(-own.real, 0.0)))
        grown = np.abs(transform) * inner
    bound = np.minimum(2.0, error * np.exp(np.minimum(exponents.real, 0.0)) * 3)
    return np.where(np.isfinite(grown), np.minimum(grown, np.maximum(bound, 0.0)), bound)
