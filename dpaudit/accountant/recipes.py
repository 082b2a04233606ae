"""Training runs in one line: declarations from what a training script knows.

``sigma`` is what libraries that clip call the noise multiplier: the noise's standard deviation
over the clipping norm C.  A record that is added or removed moves a clipped sum by C, one that is
replaced by 2 C, which a declaration's own ``noise_multiplier`` (over the sensitivity) accounts for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.accountant.account import Bound, account
from dpaudit.accountant.calibrate import calibrate
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact, is_symbolic
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Repeat
from dpaudit.families.correlated import CorrelatedGaussian, Participation
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
)
from dpaudit.nodes import Node
from dpaudit.scope import Scope, central

SETTINGS = ("n", "batch", "epochs", "sigma", "sampling")


@dataclass(frozen=True)
class Batches:
    """Records, records a batch, passes over the records, noise over the clipping norm."""

    n: int
    batch: int
    epochs: Fraction
    sigma: Number

    @property
    def steps(self) -> int:
        """Batches of all passes, the last one counted whole."""
        return math.ceil(self.epochs * self.n / self.batch)

    @property
    def slots(self) -> int:
        """Batches of one pass."""
        return math.ceil(Fraction(self.n, self.batch))

    def whole(self, sampling: str) -> int:
        """The number of passes, which must be whole."""
        if self.epochs.denominator != 1:
            raise InvalidParameter(
                f"epochs = {self.epochs}: {sampling} batches take whole passes over the records"
            )
        return int(self.epochs)


def _poisson(run: Batches) -> Node:
    step = PoissonSampled(Gaussian("gradient", run.sigma), Fraction(run.batch, run.n))
    return Repeat(step, run.steps)


def _fixed(run: Batches) -> Node:
    step = Gaussian("gradient", run.sigma / 2)
    return Repeat(SampledWithoutReplacement(step, run.batch, run.n), run.steps)


def _allocated(run: Batches) -> Node:
    step = RandomAllocation(Gaussian("gradient", run.sigma), run.slots)
    return Repeat(step, run.whole("allocated"))


def _shuffled(run: Batches) -> Node:
    return Repeat(Gaussian("gradient", run.sigma), run.whole("shuffled"))


_SAMPLINGS: Mapping[str, tuple[Callable[[Batches], Node], str]] = {
    "poisson": (_poisson, "add_remove"),
    "fixed": (_fixed, "replace_one"),
    "allocation": (_allocated, "add_remove"),
    "shuffled": (_shuffled, "add_remove"),
}


def dp_sgd(*, n: int, batch: int, epochs: object, sigma: object, sampling: str = "poisson") -> Node:
    """DP-SGD (DP-Adam alike) on ``n`` records: a declaration.

    ``sampling``: ``poisson`` takes each record into each batch by a coin of its own, batch / n;
    ``fixed`` draws batches of one size without replacement, anew each step (account for it under
    replace_one); ``allocation`` puts each record into one of n / batch batches, uniformly, anew
    each pass (balls and bins); ``shuffled`` goes through the records in any order, once a pass: one
    Gaussian release a pass, since no amplification is proved for it here.
    Errors: InvalidParameter for a sampling that is none of these, a batch larger than the data,
    passes that are not whole where they must be.
    Source: Abadi and others 2016 (the algorithm); the rules of the nodes.

    >>> import dpaudit as dp
    >>> run = dp.dp_sgd(n=60_000, batch=600, epochs=100, sigma=1)
    >>> run
    Repeat(times=10000)
      PoissonSampled(rate=0.01)
        Gaussian('gradient', noise_multiplier=1)
    """
    make, _ = _sampling(sampling)
    return make(_batches(n, batch, epochs, sigma))


def dp_ftrl(
    *, steps: int, sigma: object, epochs: int = 1, strategy: Any = "tree"
) -> CorrelatedGaussian:
    """DP-FTRL: noisy prefix sums of ``steps`` clipped sums, passes in one order: a declaration.

    One record takes part in at most ``epochs`` steps, steps / epochs apart.
    ``strategy``: as of :class:`CorrelatedGaussian`.
    Errors: InvalidParameter for steps that are no whole multiple of the passes.
    Source: Kairouz and others 2021; Choquette-Choo and others 2023 (several passes).

    >>> import dpaudit as dp
    >>> dp.dp_ftrl(steps=1024, sigma=10).rounds
    Fraction(1024, 1)
    """
    rounds, passes = _count(steps, "steps"), _count(epochs, "epochs")
    if rounds % passes:
        raise InvalidParameter(f"steps = {rounds}: expected a multiple of epochs = {passes}")
    apart = Participation(passes, rounds // passes)
    return CorrelatedGaussian("prefix sums", exact(sigma, "sigma"), rounds, strategy, apart)


def noise_for(
    *,
    epsilon: object,
    delta: object,
    n: int,
    batch: int,
    epochs: object,
    sampling: str = "poisson",
) -> Fraction:
    """The least sigma, to six digits and rounded up, for :func:`dp_sgd` to be (epsilon, delta)-DP.

    Errors: as :func:`dp_sgd`, and as ``dpaudit.calibrate``.

    >>> import dpaudit as dp
    >>> round(float(dp.noise_for(epsilon=1, delta="1e-5", n=10_000, batch=100, epochs=2)), 3)
    0.967
    """
    import sympy

    make, adjacency = _sampling(sampling)
    free = sympy.Symbol("sigma", positive=True)
    declaration = make(_batches(n, batch, epochs, free))
    found = calibrate(declaration, central(adjacency), ApproxDP(epsilon, delta))
    return Fraction(found.value)


def scope_of(sampling: str) -> Scope:
    """The scope under which :func:`dp_sgd` with this sampling has its rules.

    Errors: InvalidParameter for a sampling of another name.
    """
    return central(_sampling(sampling)[1])


def from_settings(text: str) -> tuple[Node, Scope]:
    """The declaration of ``"n=60000 batch=256 epochs=10 sigma=1.1"`` and its scope.

    Errors: InvalidParameter for a word that is no setting of :func:`dp_sgd`, or a missing one.
    """
    found: dict[str, str] = {}
    for word in text.replace(",", " ").split():
        name, _, value = word.partition("=")
        if name not in SETTINGS or not value or name in found:
            raise InvalidParameter(
                f"--dp-sgd: {word!r}: expected each of {', '.join(SETTINGS)} once, as NAME=VALUE"
            )
        found[name] = value
    missing = [name for name in SETTINGS[:-1] if name not in found]
    if missing:
        raise InvalidParameter(f"--dp-sgd: {', '.join(missing)} missing")
    sampling = found.pop("sampling", "poisson")
    make, adjacency = _sampling(sampling)
    return make(_batches(**found)), central(adjacency)


def sampling_warning(
    *,
    used: str,
    accounted: str,
    delta: object,
    n: int,
    batch: int,
    epochs: object,
    sigma: object,
) -> str | None:
    """What to tell where a pipeline draws its batches in another way than its accounting assumes.

    None where both are the same; otherwise both numbers.
    Source: Chua and others 2024, How Private are DP-SGD Implementations?
    """
    if used == accounted:
        return None
    bounds: dict[str, Bound] = {}
    for name in (used, accounted):
        make, adjacency = _sampling(name)
        declaration = make(_batches(n, batch, epochs, sigma))
        bounds[name] = account(declaration, central(adjacency)).epsilon(delta)
    return (
        f"batches are drawn by {used!r} sampling and accounted for as {accounted!r}: epsilon at "
        f"delta = {delta} is {bounds[used]!r} under {_sampling(used)[1]} for what is run, "
        f"{bounds[accounted]!r} under {_sampling(accounted)[1]} for what is assumed"
    )


def _sampling(name: str) -> tuple[Callable[[Batches], Node], str]:
    if name not in _SAMPLINGS:
        raise InvalidParameter(f"sampling = {name!r}: expected one of {', '.join(_SAMPLINGS)}")
    return _SAMPLINGS[name]


def _batches(n: object, batch: object, epochs: object, sigma: object) -> Batches:
    records, size = _count(n, "n"), _count(batch, "batch")
    if size > records:
        raise InvalidParameter(f"batch = {size}: larger than n = {records} records")
    passes = exact(epochs, "epochs")
    if is_symbolic(passes) or passes <= 0:
        raise InvalidParameter(f"epochs = {epochs}: expected a positive number")
    return Batches(records, size, Fraction(passes), exact(sigma, "sigma"))


def _count(value: object, place: str) -> int:
    found = exact(value, place)
    if is_symbolic(found) or found.denominator != 1 or found < 1:
        raise InvalidParameter(f"{place} = {value}: expected a whole number of at least 1")
    return int(found)
