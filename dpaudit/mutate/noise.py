"""Bugs in the noise: its scale, and the random numbers it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpaudit.kernels.base import Generator, kernel_of
from dpaudit.kernels.query import Array
from dpaudit.mutate.mutant import Mutant, Site, Survey, ready

Draw = Callable[[Array, Array, Generator], Array]
Rule = Callable[[Any, Draw, Array, Array, Generator], Array]


def _half(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    return draw(values, scale * 0.5, rng)


def _nine_tenths(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    return draw(values, scale * 0.9, rng)


def _variance(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    """Whichever of the variance and the root is less noise."""
    return draw(values, np.minimum(scale**2, np.sqrt(scale)), rng)


def _unit(draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    return draw(np.zeros_like(values), np.ones_like(scale), rng)


def _added(values: Array, scale: Array, unit: Array) -> Array:
    return np.asarray(values + scale[:, None] * unit)


def _reused(session: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    kept = session.__dict__.setdefault("kept", _unit(draw, values, scale, rng))
    return _added(values, scale, kept)


def _negated(session: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    """Every second draw is the one before with another sign."""
    kept = session.__dict__.pop("kept", None)
    if kept is None:
        session.kept = _unit(draw, values, scale, rng)
        return _added(values, scale, session.kept)
    return _added(values, scale, -kept)


def _carried(session: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    """Half fresh, half the noise of the release before: the right variance, no independence."""
    fresh = _unit(draw, values, scale, rng)
    kept = session.__dict__.get("kept", fresh)
    session.kept = fresh if kept is fresh else (fresh + kept) / 2**0.5
    return _added(values, scale, session.kept)


def _same(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    unit = _unit(draw, values, scale, rng)
    return _added(values, scale, np.broadcast_to(unit[:, :1], unit.shape))


def _seeded(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    return draw(values, scale, np.random.default_rng(0))


def _one_sided(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    return _added(values, scale, np.abs(_unit(draw, values, scale, rng)))


def _absent(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    return np.array(values)


def _partial(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    released = draw(values, scale, rng)
    released[:, -1] = values[:, -1]
    return released


def _uniform(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    """Bounded noise of about the same variance."""
    return _added(values, scale, rng.uniform(-(3**0.5), 3**0.5, values.shape))


def _averaged(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    return np.asarray((draw(values, scale, rng) + draw(values, scale, rng)) / 2)


def _shared(_: Any, draw: Draw, values: Array, scale: Array, rng: Generator) -> Array:
    """One draw for all trials: every run of the program has the noise of the first."""
    unit = _unit(draw, values, scale, rng)
    return _added(values, scale, np.broadcast_to(unit[:1], unit.shape))


RULES: dict[str, tuple[str, str, Rule]] = {
    "scale_half": ("scale", "noise of half the declared scale", _half),
    "scale_nine_tenths": ("scale", "noise of 0.9 of the declared scale", _nine_tenths),
    "scale_variance": ("scale", "the variance passed as standard deviation", _variance),
    "noise_partial": ("scale", "the last coordinate released without noise", _partial),
    "answered_twice": (
        "composition",
        "two answers averaged for the charge of one",
        _averaged,
    ),
    "noise_reused": ("random_number", "the noise of the first release used again", _reused),
    "noise_negated": (
        "random_number",
        "every second noise is the one before, negated",
        _negated,
    ),
    "noise_carried": (
        "random_number",
        "noise averaged with that of the release before",
        _carried,
    ),
    "noise_same": ("random_number", "one draw for all coordinates", _same),
    "noise_shared": ("random_number", "one draw for all runs", _shared),
    "seed_fixed": ("random_number", "the generator seeded anew at every release", _seeded),
    "noise_one_sided": ("random_number", "the absolute value of the noise", _one_sided),
    "noise_absent": ("random_number", "no noise", _absent),
    "noise_uniform": ("random_number", "uniform noise of the same variance", _uniform),
}

# The others take noise for something that is added to the value.
ANY_KERNEL = ("scale_half", "scale_nine_tenths", "scale_variance", "seed_fixed", "noise_absent")


def noise_mutants(found: Survey) -> Iterator[Mutant]:
    """Bugs in the sampler's kernels: the replay keeps to the declaration."""
    for site in found.sites:
        additive = _additive(site)
        for name, (family, what, rule) in RULES.items():
            if not additive and name not in ANY_KERNEL:
                continue
            yield Mutant(
                name=f"{site.label}.{name}",
                family=family,
                what=f"{what}, in the releases of {site.label!r}",
                where=site.place,
                plant=partial(_planted, found, site, rule),
            )


def _planted(found: Survey, site: Site, rule: Rule) -> Any:
    kind = type(site.leaf)
    base = found.suite.kernels.get(kind, kernel_of(site.leaf))
    kernels = {**found.suite.kernels, kind: _wrong_kernel(base, site.label, rule)}
    return ready(found.planted(kernels=kernels))


def _wrong_kernel(base: type[Any], label: str, rule: Rule) -> type[Any]:
    def sample(self: Any, values: Array, scale: Array, rng: Generator) -> Array:
        draw = partial(base.sample, self)
        if self.leaf.parameters.get("label") != label:
            return np.asarray(draw(values, scale, rng))
        return rule(self, draw, values, scale, rng)

    return type(f"Wrong{base.__name__}", (base,), {"sample": sample})


def _additive(site: Site) -> bool:
    """Whether the kernel adds noise, of a scale, to the value; drawn on zeros with equal seeds."""
    session: list[Any] = [kernel_of(site.leaf)(site.leaf, 3) for _ in range(2)]
    values, scale = np.full((3, 2), 0.25), np.ones(3)
    try:
        moved = session[0].sample(values, scale, np.random.default_rng(5))
        alone = session[1].sample(np.zeros((3, 2)), scale, np.random.default_rng(5))
    except Exception:  # noqa: BLE001  (a kernel with another idea of values)
        return False
    return bool(np.allclose(moved - alone, 0.25))
