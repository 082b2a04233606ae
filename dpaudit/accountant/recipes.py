"""Training runs in one line: declarations from what a training script knows.

``sigma`` is what libraries that clip call the noise multiplier: the noise's standard deviation
over the clipping norm C.  A record that is added or removed moves a clipped sum by C, one that is
replaced by 2 C.  A declaration's ``noise_multiplier`` is relative to that sensitivity, so the
declaration of a recipe states its adjacency, and is refused under every other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpaudit.accountant.account import Bound, account
from dpaudit.accountant.calibrate import LARGEST_POWER, UPWARD_EXPONENTS, NoValue, calibrate
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import Number, decimal_upper, enclose, exact, is_symbolic, readable, unknowns
from dpaudit.exact.domains import integer, non_negative, positive
from dpaudit.families.additive import Gaussian
from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.correlated import CorrelatedGaussian, Participation
from dpaudit.families.events import Group
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import (
    ZERO,
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
)
from dpaudit.nodes import Node, stated_under
from dpaudit.scope import Adjacency, Scope, Unit, central, choose, shown

SETTINGS = ("n", "batch", "epochs", "sigma")  # what every description of DP-SGD states
# Settings that it may state besides.
OPTIONS = (
    "sampling",
    "largest",
    "layers",
    "microbatch",
    "clipped_share",
    "unit",
    "contributions",
    "adjacency",
)
# Adjacencies under which one gradient is present or absent: a clipped sum moves by one norm.
ABSENT = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT)


@dataclass(frozen=True)
class Batches:
    """Records, records a batch, passes, and noise relative to a clipped sum's sensitivity.

    ``undrawn``: as of :class:`PoissonSampled`; clipped sums are so.
    """

    n: int
    batch: int
    epochs: Fraction
    sigma: Number
    undrawn: str | None = None

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
    step = Gaussian("gradient", run.sigma)
    return Repeat(PoissonSampled(step, Fraction(run.batch, run.n), run.undrawn), run.steps)


def _fixed(run: Batches) -> Node:
    step = Gaussian("gradient", run.sigma)
    return Repeat(SampledWithoutReplacement(step, run.batch, run.n), run.steps)


def _allocated(run: Batches) -> Node:
    step = RandomAllocation(Gaussian("gradient", run.sigma), run.slots)
    return Repeat(step, run.whole("allocated"))


def _shuffled(run: Batches) -> Node:
    passed = ShuffledBatches(Gaussian("gradient", run.sigma), run.n, run.batch)
    return Repeat(passed, run.whole("shuffled"))


def _kept(run: Batches) -> Node:
    passes = Repeat(Gaussian("gradient", run.sigma), run.whole("kept"))
    return ShuffledBatches(passes, run.n, run.batch)


def _cyclic(run: Batches) -> Node:
    passes = Repeat(Gaussian("gradient", run.sigma), run.whole("cyclic"))
    return CyclicBatches(passes, run.n, run.batch)


_SAMPLINGS: Mapping[str, tuple[Callable[[Batches], Node], str]] = {
    "poisson": (_poisson, "add_remove"),
    "users": (_poisson, "add_remove"),
    "fixed": (_fixed, "replace_one"),
    "allocation": (_allocated, "add_remove"),
    "shuffled": (_shuffled, "zero_out"),
    "kept": (_kept, "zero_out"),
    "cyclic": (_cyclic, "zero_out"),
}
IN_PLACE = ("shuffled", "kept", "cyclic")  # samplings that put each record in one batch a pass
DRAWN = ("poisson", "users", "fixed")  # samplings that draw every batch afresh


def dp_sgd(
    *,
    sigma: object,
    n: int | None = None,
    batch: int | None = None,
    epochs: object = None,
    rate: object = None,
    steps: int | None = None,
    sampling: str = "poisson",
    largest: int | None = None,
    layers: int = 1,
    microbatch: int = 1,
    clipped_share: object = None,
    unit: str = "record",
    contributions: int | None = None,
    adjacency: str | None = None,
) -> Node:
    """DP-SGD on ``n`` records (DP-Adam alike, which reads the same noisy sums): a declaration.

    ``sampling``: ``poisson`` takes each record into each batch by a coin of its own, batch / n;
    ``fixed`` draws batches of one size without replacement, anew each step (account for it under
    replace_one); ``allocation`` puts each record into one of n / batch batches, uniformly, anew
    each pass (balls and bins); ``shuffled`` goes through the records in a new secret order each
    pass, ``kept`` in one secret order, ``cyclic`` in a public one (account for these under
    zero_out): one Gaussian release a pass, and lower ends that say what Poisson accounting hides.
    ``largest``: Poisson batches are cut to so many records.  ``layers``: groups of parameters, each
    clipped to its own norm, with noise of sigma over it.  ``microbatch``: means of so many records
    are clipped instead of single gradients, in batches that are in place; a record moves such a
    mean by twice the norm.  ``clipped_share``: noise, of so many records, on how many gradients
    were clipped, which moves the norm (adaptive clipping).  Batches that are accumulated from
    several physical ones count as one batch.
    ``rate``, ``steps``: in the place of ``n``, ``batch`` and ``epochs``, where coins draw batches:
    each record is in each of ``steps`` batches with the chance ``rate``.
    ``adjacency``: under which the run is accounted for, by default the sampling's own.  Under
    replace_one a record moves a clipped sum by two norms, and the noise multiplier of the
    declaration is half of sigma; a record that is not in a Poisson batch adds zero, so that sums
    are divided by a public number, if at all, and not by how many records were drawn.

    ``unit``: what may come and go.  A ``user`` has at most ``contributions`` = k records.  Under
    ``users`` sampling ``n`` and ``batch`` count users: each is in each batch by one coin,
    batch / n, and brings all records along, so that a clipped sum moves by k C at most: Gaussian
    noise of sigma / k, Poisson sampled.  Under every other sampling records are drawn, and the
    guarantee is one of a group of k: of J clipped gradients, J binomial(k, batch / n), where the
    sampling is ``poisson``.
    Errors: InvalidParameter where neither or both of the two ways to say how batches are drawn are
    given, or a rate with a ``sampling`` that needs the numbers of records; for a sampling that is
    none of these, a batch larger than the data, passes that are not whole where they must be,
    microbatches that coins may shift, users whose contributions have no bound, or one above all n
    records.
    Source: Abadi and others 2016 (the algorithm); Andrew, Thakkar, McMahan, Ramaswamy 2021
    (adaptive clipping); McMahan, Ramage, Talwar, Zhang 2018 (users drawn); Charles and others
    2024, Fine-Tuning Large Language Models with User-Level Differential Privacy (records of users
    drawn); the rules of the nodes.

    >>> import dpaudit as dp
    >>> run = dp.dp_sgd(n=60_000, batch=600, epochs=100, sigma=1)
    >>> run
    Repeat(times=10000)
      PoissonSampled(rate=0.01)
        Gaussian('gradient', noise_multiplier=1, under='add_remove zero_out')
    >>> dp.dp_sgd(sigma=1, rate=0.01, steps=10_000) == run
    True
    """
    if rate is None and steps is None:
        run = _batches(n, batch, epochs, sigma)
    elif (n, batch, epochs) == (None, None, None):
        counted = any((largest, clipped_share is not None, microbatch != 1))
        run = _by_rate(rate, steps, sigma, sampling, counted=counted)
    else:
        raise InvalidParameter("dp_sgd: give n, batch and epochs, or rate and steps, not both")
    return _declared(
        run,
        sampling,
        largest=largest,
        layers=layers,
        microbatch=microbatch,
        clipped_share=clipped_share,
        unit=unit,
        contributions=contributions,
        adjacency=adjacency,
    )


def _declared(
    run: Batches,
    sampling: str,
    *,
    largest: object = None,
    layers: object = 1,
    microbatch: object = 1,
    clipped_share: object = None,
    unit: str = Unit.RECORD,
    contributions: object = None,
    adjacency: str | None = None,
) -> Node:
    """A training run's declaration: noise scaled for adjacency and unit, then what else moves."""
    make, _ = _sampling(sampling)
    replaced = _neighbours(sampling, adjacency) is Adjacency.REPLACE_ONE
    owned = _owned(run, sampling, unit, contributions)
    # Records of one user that are drawn together move every sum of a batch together.
    moved = owned if sampling == "users" else 1
    own = integer(microbatch, "microbatch")
    if own > 1 and sampling not in IN_PLACE:
        raise InvalidParameter(
            f"microbatch = {own}: under {sampling!r} sampling a record's coin shifts the others "
            f"from one microbatch to another; use {', '.join(IN_PLACE)}, or microbatches of 1"
        )
    if run.batch % own:
        raise InvalidParameter(f"microbatch = {own}: expected a divisor of batch = {run.batch}")
    # A replaced record moves a clipped sum by two norms.  A record that changes within a microbatch
    # moves that microbatch's clipped mean by two norms under every adjacency.
    norms = 2 if replaced or own > 1 else 1
    undrawn = ZERO if replaced else None
    scaled = replace(run, sigma=run.sigma / (norms * moved), undrawn=undrawn)
    node = make(scaled)
    if largest is not None:
        node = _cut(scaled, integer(largest, "largest"), sampling)
    share = None
    if clipped_share is not None:
        share = exact(clipped_share, "clipped_share")
        positive(share, "clipped_share")
        share /= norms * moved
    node = _with_releases(node, integer(layers, "layers"), share)
    among = {Adjacency.REPLACE_ONE} if norms == 2 else set(ABSENT)
    if own > 1:
        among.add(Adjacency.ZERO_OUT)
    node = stated_under(node, *among)
    return node if owned == moved else Group(node, owned)


def _neighbours(sampling: str, adjacency: str | None) -> Adjacency:
    """The adjacency under which a run is accounted for."""
    named = _sampling(sampling)[1] if adjacency is None else adjacency
    return choose(Adjacency, named, "adjacency")


def _owned(run: Batches, sampling: str, unit: str, contributions: object) -> int:
    """How many records a unit of privacy has at most."""
    if choose(Unit, unit, "unit") is Unit.RECORD:
        if contributions is not None or sampling == "users":
            problem = (
                "sampling = 'users'"
                if contributions is None
                else f"contributions = {contributions}"
            )
            raise InvalidParameter(
                f"{problem}: of users, where the unit is a record; use unit='user'"
            )
        return 1
    if unit != Unit.USER:
        raise InvalidParameter(f"unit = {unit!r}: expected record or user")
    if contributions is None:
        raise InvalidParameter(
            "unit = 'user': nothing bounds how many records one user has, and so how far a user "
            "moves a batch; give contributions=k, and cut every user to k records"
        )
    owned = integer(contributions, "contributions")
    if sampling != "users" and owned > run.n:
        raise InvalidParameter(
            f"contributions = {owned}: more than all n = {run.n} records; expected at most "
            f"{run.n}, or sampling='users', where n counts users"
        )
    return owned


def _cut(run: Batches, largest: int, sampling: str) -> Node:
    if sampling != "poisson":
        raise InvalidParameter(f"largest = {largest}: only Poisson batches are cut, not {sampling}")
    if largest > run.n:
        raise InvalidParameter(
            f"largest = {readable(Fraction(largest))[:80]}: more than all n = {run.n} records; "
            f"expected at most {run.n}, or none, where no batch is cut"
        )
    step = TruncatedPoisson(
        Gaussian("gradient", run.sigma), Fraction(run.batch, run.n), run.n, largest
    )
    return Repeat(step, run.steps)


def _with_releases(node: Node, layers: int, clipped_share: Number | None) -> Node:
    """The run with a release for each layer, and one of the share of clipped gradients.

    A count of bits, each less a half, moves by a half where a record comes or goes; where it flips
    a bit, by twice as much, which halves ``clipped_share`` before.
    """
    if layers == 1 and clipped_share is None:
        return node
    if isinstance(node, Gaussian):
        z = node.noise_multiplier
        sums: Node = node if layers == 1 else Repeat(Gaussian("gradient of a layer", z), layers)
        if clipped_share is None:
            return sums
        return Compose(sums, Gaussian("clipped share", 2 * clipped_share))
    children = [_with_releases(child, layers, clipped_share) for child in node.children]
    return node.rebuild(node.parameters, children)


def dp_ftrl(
    *,
    steps: int,
    sigma: object,
    epochs: int = 1,
    strategy: Any = "tree",
    adjacency: str = Adjacency.ZERO_OUT,
) -> CorrelatedGaussian:
    """DP-FTRL: noisy prefix sums of ``steps`` clipped sums, passes in one order: a declaration.

    One record takes part in at most ``epochs`` steps, steps / epochs apart.  Account for it under
    zero_out: a record without its gradient leaves the others where they are, and moves clipped sums
    by C.  ``adjacency``: under replace_one a record moves them by 2 C, and the noise multiplier of
    the declaration is half of sigma.  ``strategy``: as of :class:`CorrelatedGaussian`.
    Errors: InvalidParameter for steps that are no whole multiple of the passes.
    Source: Kairouz and others 2021; Choquette-Choo and others 2023 (several passes).

    >>> import dpaudit as dp
    >>> dp.dp_ftrl(steps=1024, sigma=10).rounds
    Fraction(1024, 1)
    """
    rounds, passes = integer(steps, "steps"), integer(epochs, "epochs")
    if rounds % passes:
        raise InvalidParameter(f"steps = {rounds}: expected a multiple of epochs = {passes}")
    apart = Participation(passes, rounds // passes)
    replaced = choose(Adjacency, adjacency, "adjacency") is Adjacency.REPLACE_ONE
    noise = exact(sigma, "sigma") / (2 if replaced else 1)
    under = " ".join([Adjacency.REPLACE_ONE] if replaced else ABSENT)
    return CorrelatedGaussian("prefix sums", noise, rounds, strategy, apart, under)


def ftrl_noise_for(
    *,
    epsilon: object,
    delta: object,
    steps: int,
    epochs: int = 1,
    strategy: Any = "tree",
    adjacency: str = Adjacency.ZERO_OUT,
) -> Fraction:
    """The least sigma, to six digits and rounded up, for :func:`dp_ftrl` to be (epsilon, delta)-DP.

    The other parameters are those of :func:`dp_ftrl`.
    Errors: as :func:`dp_ftrl` and :func:`noise_for`.

    >>> import dpaudit as dp
    >>> float(dp.ftrl_noise_for(epsilon=1, delta="1e-5", steps=1024))
    12.3732
    """
    import sympy

    level, chance = _value(epsilon, "epsilon"), _value(delta, "delta")
    non_negative(level, "epsilon")
    _between(chance)
    sigma = sympy.Symbol("sigma", positive=True)
    declaration = dp_ftrl(
        steps=steps, sigma=sigma, epochs=epochs, strategy=strategy, adjacency=adjacency
    )
    return _least_sigma(declaration, central(adjacency), level, chance, "ftrl_noise_for")


def noise_for(
    *,
    epsilon: object,
    delta: object,
    n: int,
    batch: int,
    epochs: object,
    sampling: str = "poisson",
    largest: int | None = None,
    layers: int = 1,
    microbatch: int = 1,
    clipped_share: object = None,
    unit: str = "record",
    contributions: int | None = None,
    adjacency: str | None = None,
) -> Fraction:
    """The least sigma, to six digits and rounded up, for :func:`dp_sgd` to be (epsilon, delta)-DP.

    The other parameters are those of :func:`dp_sgd`.  The account of the answer shows (epsilon,
    delta), and of the sigma before it in six digits does not; where bounds jump, as a grid's do
    next to epsilon 0 or at a million rounds, one that is smaller yet may be shown to do.
    Errors: as :func:`dp_sgd`, and as ``dpaudit.calibrate``; InvalidParameter for an epsilon that is
    negative, a symbol, or above 100 where batches are drawn, for delta = 0, of which no Gaussian
    noise is, and for a delta at which every sigma will do, since a record is in no batch often
    enough; Unsupported where nothing is shown of any sigma up to 2^128, or everything of all down
    to 2^-39.

    >>> import dpaudit as dp
    >>> round(float(dp.noise_for(epsilon=1, delta="1e-5", n=10_000, batch=100, epochs=2)), 3)
    0.967
    """
    import sympy

    run = _batches(n, batch, epochs, sympy.Symbol("sigma", positive=True))
    declaration = _declared(
        run,
        sampling,
        largest=largest,
        layers=layers,
        microbatch=microbatch,
        clipped_share=clipped_share,
        unit=unit,
        contributions=contributions,
        adjacency=adjacency,
    )
    level, chance = _value(epsilon, "epsilon"), _value(delta, "delta")
    non_negative(level, "epsilon")
    _reachable(level, chance, run, sampling, contributions)
    scope = scope_of(sampling, unit, adjacency)
    return _least_sigma(declaration, scope, level, chance, "noise_for")


def _least_sigma(node: Node, scope: Scope, level: Number, chance: Number, called: str) -> Fraction:
    try:
        calibrated = calibrate(node, scope, ApproxDP(level, chance))
    except NoValue as error:
        tried = f"that was tried, from 2^{1 - LARGEST_POWER} to 2^{UPWARD_EXPONENTS[-1]}"
        tried_texts = {True: f"every sigma {tried}", False: f"no sigma {tried}", None: "no sigma"}
        way = "smaller" if error.holds else "larger"
        raise Unsupported(
            f"{called}: epsilon = {_brief(level)} at delta = {_brief(chance)} is shown of "
            f"{tried_texts[error.holds]}: ask for a {way} epsilon or delta"
        ) from error
    return Fraction(calibrated.value)


def _brief(value: Number) -> str:
    text = readable(value)
    return text if len(text) <= 12 else f"about {decimal_upper(value, 6)}"


def _value(value: object, place: str) -> Number:
    """Errors: InvalidParameter for what is no number, or depends on symbols."""
    number = exact(value, place)
    if unknowns(number):
        raise InvalidParameter(
            f"{place} = {readable(number)[:80]}: expected a number, not a symbol: sigma alone is "
            "searched for"
        )
    return number


# The largest epsilon for which the noise of drawn batches is searched for: with so little noise the
# account of one sigma takes seconds.
MOST_EPSILON = 100


def _reachable(
    epsilon: Number, delta: Number, run: Batches, sampling: str, contributions: object
) -> None:
    """Errors: InvalidParameter for a delta that no sigma has, or that every one has.

    The same for an epsilon above ``MOST_EPSILON``.
    Outputs differ only where one of the k records of a unit is in a batch: under these samplings
    with probability at most 1 - (1 - k batch / n)^steps, which bounds delta whatever sigma is.
    """
    _between(delta)
    if sampling not in DRAWN:
        return
    if epsilon > MOST_EPSILON:
        raise InvalidParameter(
            f"epsilon = {_brief(epsilon)}: at most {MOST_EPSILON} is expected of drawn batches: "
            f"e^{MOST_EPSILON} bounds nothing, and its sigma takes minutes to find; account for a "
            "sigma of your own (dp_sgd)"
        )
    owned = integer(contributions, "contributions") if contributions and sampling != "users" else 1
    absent = max(1 - Fraction(owned * run.batch, run.n), Fraction(0))
    if not enclose(delta) < 1 - enclose(absent) ** run.steps:
        raise InvalidParameter(
            f"delta = {readable(delta)}: of {run.steps} batches at rate {run.batch}/{run.n} a "
            f"{'user' if contributions else 'record'} is in any at all with a smaller probability, "
            "so that every sigma will do, and none is the least: expected a smaller delta"
        )


def _between(delta: Number) -> None:
    if not 0 < enclose(delta) < 1:
        raise InvalidParameter(
            f"delta = {readable(delta)}: expected a number in (0, 1): at 0 no Gaussian noise "
            "satisfies any epsilon, and at 1 everything does"
        )


def scope_of(sampling: str, unit: str = "record", adjacency: str | None = None) -> Scope:
    """The scope under which :func:`dp_sgd` with this sampling is accounted for.

    Errors: InvalidParameter for a sampling or a unit of another name.
    """
    return replace(central(_neighbours(sampling, adjacency)), unit=choose(Unit, unit, "unit"))


def from_settings(text: str) -> tuple[Node, Scope]:
    """The declaration of ``"n=60000 batch=240 epochs=10 sigma=1.1"`` and its scope.

    Errors: InvalidParameter for a word that is no setting of :func:`dp_sgd`, or a missing one.
    """
    settings = settings_in(text)
    sampling = settings.pop("sampling", "poisson")
    run = _batches(**{name: settings.pop(name) for name in SETTINGS})
    unit = settings.setdefault("unit", "record")
    return _declared(run, sampling, **settings), scope_of(sampling, unit, settings.get("adjacency"))


def settings_in(text: str, needed: Sequence[str] = SETTINGS) -> dict[str, Any]:
    """The settings by their names; all that are ``needed``.

    Errors: as :func:`from_settings`.
    """
    names = (*SETTINGS, *OPTIONS)
    settings: dict[str, Any] = {}
    for word in text.replace(",", " ").split():
        name, _, value = word.partition("=")
        if name not in names or not value or name in settings:
            raise InvalidParameter(
                f"--dp-sgd: {word!r}: expected each of {', '.join(names)} once, as NAME=VALUE"
            )
        settings[name] = value
    missing = [name for name in needed if name not in settings]
    if missing:
        raise InvalidParameter(f"--dp-sgd: {', '.join(missing)} missing")
    return settings


def epsilon_over_steps(
    node: Node, scope: Scope, delta: object, points: int = 8
) -> list[tuple[int, Bound]]:
    """Epsilon after so many repetitions of a run, evenly up to all of them.

    For batches in a fixed or shuffled order one repetition is a pass over all of them.
    Errors: InvalidParameter for a declaration that repeats nothing a number of times.
    """
    inside = isinstance(node, CyclicBatches | ShuffledBatches)
    run = node.children[0] if inside else node
    if not isinstance(run, Repeat) or run.index is not None or is_symbolic(run.times):
        raise InvalidParameter(f"{node.head}: expected a run that is repeated a number of times")
    repetitions, wanted = int(run.times), integer(points, "points")
    steps = (
        sorted({max(repetitions * k // wanted, 1) for k in range(1, wanted + 1)})
        if repetitions
        else []
    )

    def shorter(times: int) -> Node:
        part = Repeat(run.child, times)
        return node.rebuild(node.parameters, [part]) if inside else part

    return [(s, account(shorter(s), scope).epsilon(delta)) for s in steps]


def sigma_over_epsilon(
    epsilons: Sequence[object], *, delta: object, **run: Any
) -> list[tuple[Fraction, Fraction]]:
    """(epsilon, the least sigma) by :func:`noise_for`, which takes the other parameters."""
    return [
        (Fraction(exact(e, "epsilon")), noise_for(epsilon=e, delta=delta, **run)) for e in epsilons
    ]


def sampling_warning(
    *,
    used: str,
    accounted: str,
    delta: object,
    n: int,
    batch: int,
    epochs: object,
    sigma: object,
    unit: str = "record",
    contributions: int | None = None,
) -> str | None:
    """The warning for a pipeline that draws batches in another way than its accounting assumes.

    None where both are the same; otherwise both numbers.  ``unit`` and ``contributions``: as of
    :func:`dp_sgd`; ``n`` and ``batch`` count users under ``users`` sampling and records under
    others, of which the rate, batch / n, is the same here.
    Errors: InvalidParameter for a sampling that is none, and as :func:`dp_sgd`.
    Source: Chua and others 2024, How Private are DP-SGD Implementations?

    >>> import dpaudit as dp
    >>> run = {"delta": "1e-5", "n": 1_000, "batch": 100, "epochs": 1, "sigma": 1}
    >>> dp.sampling_warning(used="poisson", accounted="poisson", **run) is None
    True
    >>> print(dp.sampling_warning(used="cyclic", accounted="poisson", **run)[:61])
    batches are drawn by 'cyclic' sampling and accounted for as '
    """
    for place, name in (("used", used), ("accounted", accounted)):
        _sampling(name, place)
    if used == accounted:
        return None
    bounds: dict[str, Bound] = {}
    for name in (used, accounted):
        run = _batches(n, batch, epochs, sigma)
        declaration = _declared(run, name, unit=unit, contributions=contributions)
        bounds[name] = account(declaration, scope_of(name, unit)).epsilon(delta)
    return (
        f"batches are drawn by {used!r} sampling and accounted for as {accounted!r}: epsilon at "
        f"delta = {delta} is {bounds[used]!r} under {_sampling(used)[1]} for what is run, "
        f"{bounds[accounted]!r} under {_sampling(accounted)[1]} for what is assumed"
    )


def _sampling(name: object, place: str = "sampling") -> tuple[Callable[[Batches], Node], str]:
    if not isinstance(name, str) or name not in _SAMPLINGS:
        raise InvalidParameter(f"{place} = {shown(name)}: expected one of {', '.join(_SAMPLINGS)}")
    return _SAMPLINGS[name]


def _by_rate(
    rate: object, steps: object, sigma: object, sampling: str, *, counted: bool
) -> Batches:
    """Batches of coins: as many records as the rate's denominator give the same declaration.

    ``counted``: whether another argument speaks of numbers of records, which a rate leaves open.
    """
    if rate is None or steps is None:
        raise InvalidParameter(f"{'rate' if rate is None else 'steps'}: missing; give both")
    if sampling != "poisson" or counted:
        raise InvalidParameter(
            "rate and steps: this run also needs the number of records; give n, batch and epochs"
        )
    chance, rounds = exact(rate, "rate"), integer(steps, "steps")
    if is_symbolic(chance) or not 0 < chance <= 1:
        raise InvalidParameter(f"rate = {rate}: expected a number above 0 and at most 1")
    chance = Fraction(chance)
    return _batches(chance.denominator, chance.numerator, chance * rounds, sigma)


def _batches(n: object, batch: object, epochs: object, sigma: object) -> Batches:
    given = {"n": n, "batch": batch, "epochs": epochs}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise InvalidParameter(
            f"{', '.join(missing)}: missing; give n, batch and epochs, or rate and steps"
        )
    records, size = integer(n, "n"), integer(batch, "batch")
    if size > records:
        raise InvalidParameter(f"batch = {size}: larger than n = {records} records")
    passes = exact(epochs, "epochs")
    if is_symbolic(passes) or passes <= 0:
        raise InvalidParameter(f"epochs = {epochs}: expected a positive number")
    return Batches(records, size, Fraction(passes), exact(sigma, "sigma"))
