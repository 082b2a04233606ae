"""Bugs in what a program asks for, when it stops, what it declares, and which batches it draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpaudit.curator.coins import draw_batch
from dpaudit.curator.entitlement import Mask
from dpaudit.errors import DpauditError
from dpaudit.families.composition import Repeat
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Array, Query
from dpaudit.mutate.mutant import Mutant, Planted, Site, Survey, ready, signature
from dpaudit.mutate.tamper import Handed, Instead, Stop, Tampered, is_sampler, relabelled
from dpaudit.nodes import Node


class _Repeated(Handed):
    """The first release of a label is made twice, and the answers averaged."""

    def __init__(self, label: str, curator: Any) -> None:
        super().__init__(curator)
        self.left: str | None = label

    def release(self, label: str, query: Query, **options: Any) -> Array:
        released = super().release(label, query, **options)
        if label != self.left:
            return released
        self.left = None
        return (released + super().release(label, query, **options)) / 2


class _Undeclared(Handed):
    """One more release, under a label that nobody declared."""

    def __init__(self, label: str, curator: Any) -> None:
        super().__init__(curator)
        self.label = label

    def release(self, label: str, query: Query, **options: Any) -> Array:
        released = super().release(label, query, **options)
        if label == self.label:
            super().release(f"{label} again", query, **options)
        return released


class _Last(Handed):
    """One use of a label is left out, and zeros taken for it."""

    def __init__(self, label: str, uses: int, curator: Any) -> None:
        super().__init__(curator)
        self.label = label
        self.left = uses

    def release(self, label: str, query: Query, **options: Any) -> Array:
        self.left -= label == self.label
        if label == self.label and self.left == 0:
            records = self.curator._rows(options.get("rows"))[0].placeholder()
            return np.zeros((self.curator.trials, query.value(records).shape[1]))
        return super().release(label, query, **options)


class _Seen(Handed):
    """Looks at the noise-free value of the first query."""

    def __init__(self, curator: Any) -> None:
        super().__init__(curator)
        self.seen: float | None = None

    def release(self, label: str, query: Query, **options: Any) -> Array:
        released = super().release(label, query, **options)
        if self.seen is None:
            self.seen = signature(_peek(self.curator, query)[0])
        return released


def _peek(curator: Any, query: Any) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(query.value(curator._records, None))


class _Leaking(_Seen):
    """Gives it away beside the output."""

    def finish(self, output: Any) -> Any:
        return output, self.seen


class _Halting(_Seen):
    """Stops where it is large."""

    def __init__(self, threshold: float, curator: Any) -> None:
        super().__init__(curator)
        self.threshold = threshold

    def release(self, label: str, query: Query, **options: Any) -> Array:
        if self.seen is not None and self.seen > self.threshold:
            raise Stop
        return super().release(label, query, **options)


def program_mutants(found: Survey) -> Iterator[Mutant]:
    """Releases made twice, not declared, left out; looks at the data; wrong declarations."""
    for site in found.sites:
        yield from _composition(found, site)
        yield from _declarations(found, site)
    if found.sites:
        yield from _looks(found)
    yield from _counts(found)


def _composition(found: Survey, site: Site) -> Iterator[Mutant]:
    rows: list[tuple[str, str, str, Callable[[Any], Handed]]] = [
        (
            "release_repeated",
            "composition",
            "a release made twice and averaged",
            partial(_Repeated, site.label),
        ),
        (
            "release_undeclared",
            "composition",
            "a release made that was not declared",
            partial(_Undeclared, site.label),
        ),
        (
            "release_left_out",
            "off_by_one",
            "one release less than declared",
            partial(_Last, site.label, site.uses),
        ),
    ]
    for name, family, what, handed in rows:
        if name == "release_left_out" and site.asked.batched:
            continue
        yield _mutant(
            found, f"{site.label}.{name}", family, f"{what}: {site.label!r}", site, handed
        )


def _mutant(
    found: Survey,
    name: str,
    family: str,
    what: str,
    site: Site,
    handed: Callable[[Any], Handed],
) -> Mutant:
    program = Tampered(found.suite.program, handed)
    return Mutant(name, family, what, site.place, lambda: ready(found.planted(program=program)))


def _looks(found: Survey) -> Iterator[Mutant]:
    first = found.sites[0]
    if first.asked.batched or len(first.asked.records) != len(found.suite.neighbours.first):
        return
    yield _mutant(
        found,
        "output_leaks",
        "composition",
        "a noise-free value beside the output",
        first,
        _Leaking,
    )
    if sum(site.uses for site in found.sites) < 2:
        return
    query = first.asked.query
    pair = found.suite.neighbours.pair
    low, high = sorted(signature(np.asarray(query.value(r, None))[0]) for r in pair)
    if low < high:
        what = "stops early where a noise-free value is large"
        halting = partial(_Halting, (low + high) / 2)
        yield _mutant(found, "halts_on_data", "composition", what, first, halting)


# --- declarations --------------------------------------------------------------------------------


def _declarations(found: Survey, site: Site) -> Iterator[Mutant]:
    changes: dict[str, tuple[str, str, Callable[[Node], Node | None]]] = {}
    if "noise_multiplier" in site.leaf.parameters:
        changes["budget_halved"] = ("scale", "half the noise declared and added", _half)
    for name, (family, what, change) in changes.items():
        declare = partial(relabelled, label=site.label, change=change)
        yield _declared(found, site, name, family, what, declare)
    for step, word in ((1, "more"), (-1, "less")):
        declare = partial(_counted, label=site.label, step=step)
        if _declarable(found, declare):
            name, what = f"declared_one_{word}", f"one use {word} declared than made"
            yield _declared(found, site, name, "off_by_one", what, declare)


def _half(leaf: Node) -> Node:
    parameters = dict(leaf.parameters)
    parameters["noise_multiplier"] = parameters["noise_multiplier"] / 2
    return leaf.rebuild(parameters, [])


def _counted(node: Node, label: str, step: int) -> Node:
    """The declaration with one use more, or less, in the first Repeat of a label."""
    left = [step]

    def walk(inner: Node) -> Node:
        if left and isinstance(inner, Repeat) and _alone(inner, label):
            parameters = {**inner.parameters, "times": inner.times + left.pop()}
            return inner.rebuild(parameters, list(inner.children))
        if not inner.children:
            return inner
        return inner.rebuild(inner.parameters, [walk(child) for child in inner.children])

    return walk(node)


def _alone(node: Repeat, label: str) -> bool:
    child = node.child
    return not child.children and child.parameters.get("label") == label


def _declarable(found: Survey, declare: Callable[[Node], Node]) -> bool:
    node = found.mechanism.declaration
    try:
        return declare(node) != node
    except (DpauditError, ValueError, TypeError):
        return False


def _declared(
    found: Survey, site: Site, name: str, family: str, what: str, declare: Callable[[Node], Node]
) -> Mutant:
    def plant() -> Any:
        mechanism, suite = found.mechanism, found.suite
        wrong = replace(mechanism, program=Tampered(mechanism.program, declare=declare))
        audited = replace(suite, program=Tampered(suite.program, declare=declare))
        return ready(Planted(wrong, audited))

    text = f"{what}: {site.label!r}"
    return Mutant(f"{site.label}.{name}", family, text, site.place, plant)


# --- counts a program keeps, and secret batches ---------------------------------------------------


def _counts(found: Survey) -> Iterator[Mutant]:
    """Whole numbers among the program's fields, one more or one less than it declares with."""
    program: Any = found.suite.program
    for field in fields(program) if is_dataclass(program) else ():
        value = getattr(program, field.name)
        if not field.init or not hasattr(value, "__index__") or isinstance(value, bool):
            continue
        for step, word in ((1, "more"), (-1, "less")):
            try:
                other = replace(program, **{field.name: value + step})
            except (DpauditError, ValueError, TypeError):
                continue
            yield Mutant(
                f"{field.name}_one_{word}",
                "off_by_one",
                f"{field.name} is {value + step} in the run, {value} in the declaration",
                found.first_place,
                partial(_instead, found, other),
                private=False,
            )


def _instead(found: Survey, other: Any) -> Any:
    return ready(found.planted(program=Instead(found.suite.program, other)))


class _Batches(Handed):
    """The sampler draws its secret batches in a wrong way; a replay keeps its own coins."""

    def __init__(self, rule: Callable[..., Mask], curator: Any) -> None:
        super().__init__(curator)
        if is_sampler(curator):
            right, state = curator._draw, {"step": 0}
            curator._draw = lambda *asked: [rule(curator, state, right, *asked)]


def _reused(curator: Any, state: dict[str, Any], right: Any, *asked: Any) -> Mask:
    if "kept" not in state:
        state["kept"] = right(*asked)[0]
    kept: Mask = state["kept"]
    return kept


def _wrong_rate(curator: Any, state: dict[str, Any], right: Any, *asked: Any) -> Mask:
    sampling, *rest = asked
    if isinstance(sampling, PoissonSampled):
        other: Any = replace(sampling, rate=min(1, sampling.rate * 3 / 2))
        chosen: Mask = right(other, *rest)[0]
        return chosen
    return _one_more(curator, state, right, *asked)


def _one_more(curator: Any, state: dict[str, Any], right: Any, *asked: Any) -> Mask:
    chosen = np.array(right(*asked)[0])
    chosen[np.arange(len(chosen)), np.argmin(chosen, axis=1)] = True
    return np.asarray(chosen, dtype=bool)


def _public(curator: Any, state: dict[str, Any], right: Any, *asked: Any) -> Mask:
    """Drawn by a generator that everybody knows, the same in every run."""
    state["step"] += 1
    chosen = right(*asked)[0]
    known = draw_batch(asked[0], 1, chosen.shape[1], np.random.default_rng(state["step"]))
    return np.asarray(np.repeat(known, len(chosen), axis=0), dtype=bool)


def _in_order(curator: Any, state: dict[str, Any], right: Any, *asked: Any) -> Mask:
    """One block of records after the other, in place of random ones."""
    chosen = right(*asked)[0]
    size = chosen.shape[1]
    count = max(1, round(float(chosen.mean()) * size))
    block = (np.arange(count) + count * state["step"]) % size
    state["step"] += 1
    ordered = np.zeros_like(chosen)
    ordered[:, block] = True
    return np.asarray(ordered, dtype=bool)


BATCHES: dict[str, tuple[str, str, Callable[..., Mask]]] = {
    "batch_reused": ("sampling", "the batch of the first step used in all", _reused),
    "batch_wrong_rate": ("sampling", "batches of 1.5 times the declared rate", _wrong_rate),
    "batch_one_more": ("off_by_one", "one record more in every batch", _one_more),
    "batch_not_secret": ("sampling", "batches drawn from a generator with a known seed", _public),
    "batch_in_order": ("sampling", "records taken in order, not at random", _in_order),
}


def batch_mutants(found: Survey) -> Iterator[Mutant]:
    """Bugs in secret batches, where the declaration has any."""
    sampled = [site for site in found.sites if site.asked.batched]
    for name, (family, what, rule) in BATCHES.items() if sampled else ():
        yield _mutant(found, name, family, what, sampled[0], partial(_Batches, rule))
