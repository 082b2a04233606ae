"""A release as a plan: items, a budget, and the noise that spends it; no data are touched here."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.accountant.filters.charges import refuse_refunds
from dpaudit.errors import BudgetExceeded, InvalidParameter, Unsupported
from dpaudit.exact import enclose, is_infinite, is_symbolic
from dpaudit.exact.domains import rational
from dpaudit.exact.wire import digest
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.discrete import DiscreteLaplace
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.families.selection import IntegerExponentialMechanism, Scores
from dpaudit.families.tabular import (
    DiscreteGaussianVector,
    ThresholdedDiscreteGaussian,
    ThresholdedDiscreteLaplace,
)
from dpaudit.kernels.base import exact_kernels
from dpaudit.kernels.samplers import gaussian_log_mass, gaussian_tail, laplace_tail
from dpaudit.nodes import Node
from dpaudit.profiles import WIDTH
from dpaudit.releases.estimate import (
    GAIN,
    Excess,
    Excesses,
    climbed,
    gaussian_rho,
    largest_amount,
)
from dpaudit.releases.items.by_name import check_counts, item_of, with_counts
from dpaudit.releases.items.chosen import ChosenSum as ChosenSum  # which item_of then knows
from dpaudit.releases.items.item import (
    GAUSSIAN,
    LAPLACE,
    Choice,
    Declared,
    Floats,
    Item,
    Margins,
    Part,
    Thresholded,
    Vector,
)
from dpaudit.releases.items.keys import Groups
from dpaudit.releases.post import (
    Step,
    halves_of,
    steps_by_default,
    steps_of,
    weights_for,
)
from dpaudit.releases.programs import Program, labels_in
from dpaudit.releases.sql import stated
from dpaudit.releases.synthetic import Synthetic, synthetic_of
from dpaudit.releases.targets import asks_least, check_targets, least_budget, weighted
from dpaudit.scope import LONGEST as SHOWN
from dpaudit.scope import NOT_STATED, Adjacency, Released, Scope, Trust, Unit, choose
from dpaudit.storage.fields import fields_of, merged, stated_above
from dpaudit.storage.toml import read_toml
from dpaudit.tabular import MOST_CELLS, Schema, refuse_groups, schema_of
from dpaudit.tabular.schema import refuse_unknown

DIGITS = 6  # significant digits of a noise's scale
CORRECTED = " (corrected)"  # added to a title, where the correction's is that of the corrected one
LONGEST_NAME = 80  # characters of a certificate's name that are taken from a title
ROUNDS = 12  # of the search for an amount of noise
# Parts of the budget: how far apart the ends of an epsilon are; what may be left; what is aimed at.
FINE, CLOSE, SLACK = 4e-4, 1e-3, 2e-4
MORE = 1.02  # budgets, between whose amounts the slope of the guarantee is told
SMALLEST_DELTA = 1e-300  # keeps a logarithm finite
# Parts of delta that are tried, for all thresholds without one of their own.
DELTA_SHARES = tuple(Fraction(part, 100) for part in range(2, 99, 2))
LARGEST_VARIANCE = 2**100  # of noise that is drawn exactly
# 5% of Laplace noise of scale 1, and of normal noise of deviation 1, lie further away.
LAPLACE_95, GAUSSIAN_95 = math.log(20), 1.959964
LAPLACE_90, NORMAL_90 = math.log(10), 1.644854  # as much as 10% of both
MOST_CHOSEN = 20  # parts whose kind of noise is chosen; of more, Gaussian noise adds up better
LISTED_DEVIATION = 50  # above it a rounded normal has the discrete law to 1e-4
MOST_DRAWS = 500  # each is drawn, attacked and accounted one after the other
Leaf: TypeAlias = (
    DiscreteGaussianVector
    | DiscreteLaplace
    | IntegerExponentialMechanism
    | ThresholdedDiscreteGaussian
    | ThresholdedDiscreteLaplace
)
GAUSSIANS = DiscreteGaussianVector, ThresholdedDiscreteGaussian  # leaves of Gaussian noise
Noise: TypeAlias = Leaf | Node  # a program's whole declaration
_Shares: TypeAlias = Mapping[str, tuple[Part, Fraction]]


@dataclass(frozen=True)
class Release:
    """A planned release: the items to publish, the table, the budget.

    ``title`` and ``schema`` and the rest together are the release: it is charged and drawn once.
    ``budget``: PureDP, ApproxDP, ZCDP or GDP.  ``post``: steps that use released numbers only.
    ``ledger``: where it is charged, a path from ``folder``; ``controller``: who answers for it.
    ``corrects``: the title, or the digest, of a published release that this one takes the place of.
    ``synthetic``: records that are made of its counts and published beside them.
    ``fields``: statements for its certificate, by the names of dpaudit.toml; no part of the digest.
    Errors: InvalidParameter for two items of one name, or anything that does not fit.
    """

    title: str
    schema: Schema
    adjacency: Adjacency
    budget: Node
    items: tuple[Item, ...]
    post: tuple[Step, ...] = ()
    ledger: str | None = None
    controller: str = NOT_STATED
    folder: Path = Path()
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)
    corrects: str = ""
    synthetic: Synthetic | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", choose(Adjacency, self.adjacency, "adjacency"))
        object.__setattr__(self, "items", tuple(self.items))
        if not self.title.strip():
            raise InvalidParameter("Release.title: expected a text")
        if self.corrects == self.title:
            raise InvalidParameter(
                f"Release.corrects: {self.title!r} cannot correct itself; give the correction a "
                f"title of its own, such as {self.title + CORRECTED!r}"
            )
        if not isinstance(self.budget, PureDP | ApproxDP | ZCDP | GDP):
            raise InvalidParameter("Release.budget: expected PureDP, ApproxDP, ZCDP or GDP")
        if any(is_symbolic(v) for v in self.budget.parameters.values() if not isinstance(v, str)):
            raise InvalidParameter("Release.budget: expected rational numbers")
        if not self.items:
            raise InvalidParameter("Release.items: expected at least one item")
        names = [item.name for item in self.items]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidParameter(f"Release.items: {', '.join(twice)}: two items of one name")
        by_name = {item.name: item for item in self.items}
        for place, step in enumerate(self.post):
            step.check(self.schema, by_name, self.post[:place])
        check_counts(self.schema, by_name)
        if self.synthetic is not None:
            self.synthetic.check(self.schema, self.items)

    @property
    def scope(self) -> Scope:
        """One unit's rows, in the hands of a trusted curator who publishes all that is drawn."""
        unit = Unit.RECORD if self.schema.unit is None else Unit.USER
        return Scope(self.adjacency, unit, Trust.CENTRAL, Released.TRANSCRIPT)

    @property
    def accounts(self) -> str:
        """The accounts of private tables that it joins, charged or not, in words; "" for none."""
        joins, said = self.schema.joins.items(), []
        if self.schema.charged:
            names = ", ".join(map(repr, self.schema.charged))
            once = self.adjacency is Adjacency.REPLACE_ONE
            steps = "" if once else ", as two steps: rows that come or go there change rows here"
            said.append(f"a ledger is charged for joined private tables too ({names}){steps}")
        if names := ", ".join(repr(n) for n, join in joins if join.unit and not join.dataset):
            said.append(
                f"a ledger is charged for {self.schema.name!r} alone, and for its populations; "
                f"joined private tables ({names}) hold rows of the same {self.schema.entity}: name "
                "the dataset of each, or open one population for all of these data sets, where "
                "their own releases add up with this"
            )
        return "; ".join(said)

    def row(self) -> dict[str, Any]:
        """Everything but where it is charged and what is stated of it, as JSON."""
        return {
            "title": self.title,
            "schema": self.schema.row(),
            "adjacency": str(self.adjacency),
            "budget": repr(self.budget),
            "items": [item.row() for item in self.items],
            "post": [step.row() for step in self.post],
            **({"corrects": self.corrects} if self.corrects else {}),
            **({"synthetic": self.synthetic.row()} if self.synthetic else {}),
        }

    @cached_property
    def name(self) -> str:
        """The name of its certificate, from the title."""
        return name_of(self.title)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical content: the name under which it is charged."""
        return digest(self.row())

    @cached_property
    def delta(self) -> Fraction:
        """The budget's delta; 0 where it has none."""
        return Fraction(getattr(self.budget, "delta", 0))

    def plan(self) -> Plan:
        """The noise that spends the budget: nearly the largest common multiple of items' shares.

        Shares are of rho, to which Gaussian noise adds exactly and other noise at most; of epsilon
        where the budget is pure.  The chosen noise was proved, like any claim.
        Errors: Unsupported where the budget's measure has no rule for an item; InvalidParameter
        where thresholds ask for more delta than there is, for more than a release can hold, and for
        noise that no exact sampler draws; for targets that the budget misses, with the least budget
        that meets them.
        """
        plan = self.searched()
        check_targets(plan)
        checked = plan.claim.check_account(plan.account)
        if checked.outcome is not Outcome.PROVED:
            raise Unsupported(f"plan: {plan.claim.text} is not shown: {checked.reason}")
        for label, leaf in plan.leaves.items():
            _check_sampler(label, leaf)
        return plan

    def _weighted(self) -> Release:
        """The release with the weights that its targets, or its consistent counts, ask for."""
        release = weighted(self)
        items = {item.name: item for item in release.items}
        weights = weights_for(self.schema, self.adjacency, items, self.post)
        changed = (replace(i, weight=weights.get(i.name, i.weight)) for i in release.items)
        return replace(release, items=tuple(changed))

    def searched(self, *, estimated: bool = False) -> Plan:
        """The plan before its claim and targets are checked; errors: as :meth:`plan`.

        ``estimated``: under a budget with delta, near to it, and without a composition.
        """
        shares = _shares(self._weighted())
        threshold_delta = sum(
            part.delta for part, _ in shares.values() if isinstance(part, Thresholded)
        )
        if threshold_delta and threshold_delta >= self.delta:
            raise InvalidParameter(
                f"thresholds take a delta of {float(threshold_delta):g} of the budget's "
                f"{float(self.delta):g}; give them less"
            )
        try:
            return _chosen(self, shares, float(threshold_delta), estimated=estimated)
        except ArithmeticError:  # of floats that overflow, or are 0
            raise InvalidParameter(
                f"Release.budget = {self.budget.head[:SHOWN]}: no noise between the smallest and "
                "the largest float was found that spends it: expected a budget that floats can "
                "search, with an epsilon, rho or delta further from the ends of its range"
            ) from None


def name_of(title: str) -> str:
    """The name of a release's certificate: lower-case letters, digits and ``_``.

    A title that cannot be spelt so is told from others by eight digits of its SHA-256.
    """
    decomposed = unicodedata.normalize("NFKD", title)
    plain = "".join(c for c in decomposed if not unicodedata.combining(c)).lower()
    name = re.sub("[^a-z0-9]+", "_", plain).strip("_")
    if not plain.isascii() or not name or len(name) > LONGEST_NAME:
        digits = sha256(title.encode()).hexdigest()[:8]
        name = f"{name[:LONGEST_NAME]}_{digits}".strip("_")
    return name if name[0].isalpha() else f"release_{name}"


def correction_of(release: Release, corrects: str) -> Release:
    """The release as a correction of a published one, under a title of its own."""
    title = release.title + CORRECTED * (release.title == corrects)
    return replace(release, title=title, corrects=corrects)


@dataclass(frozen=True)
class Plan:
    """A release with its noise: ``leaves`` by label, and what they compose to."""

    release: Release
    parts: Mapping[str, Part]
    leaves: Mapping[str, Noise]
    declaration: Node
    account: Account = field(repr=False, compare=False)

    @property
    def claim(self) -> Claim:
        """The budget, as a claim of the plan."""
        return Claim(self.release.budget, by=f"plan of {self.release.title!r}")

    @cached_property
    def margins(self) -> Margins:
        """Public facts about the noise."""
        return PlannedMargins(self.leaves, self.parts, self.release.adjacency)

    @cached_property
    def halves(self) -> dict[str, int]:
        """The 95% margins of counts that post-processing makes consistent, by item."""
        release = self.release
        items, seed = {item.name: item for item in release.items}, int(release.digest[:16], 16)
        return halves_of(release.schema, items, release.post, self.margins, seed)

    @property
    def delta(self) -> Fraction:
        """The delta at which the release is charged where deltas add up."""
        return self.release.delta

    @cached_property
    def thresholds(self) -> dict[str, tuple[int, int]]:
        """The threshold of each part that has one, and the size of a group shown in 95 of 100."""
        by_label = {}
        for label, part in self.parts.items():
            if isinstance(part, Thresholded):
                least = int(self.leaves[label].threshold)  # type: ignore[union-attr]
                by_label[label] = (least, least + self.margins.half(label, Fraction(1, 10)))
        return by_label

    @property
    def rules(self) -> list[str]:
        """The rules of suppression, rounding and consistency, in words; of all numbers alike."""
        shown = (
            f"{label}: a group is shown if its noisy count is at least {least}; all others are "
            f"suppressed, and one of {survives} is shown 95 times in 100"
            for label, (least, survives) in self.thresholds.items()
        )
        return [*shown, *(step.text for step in self.release.post)]


@dataclass(frozen=True)
class PlannedMargins(Margins):
    """Margins of the noise of each leaf."""

    leaves: Mapping[str, Any]
    parts: Mapping[str, Part]
    adjacency: Adjacency
    _kept: dict[tuple[str, Fraction], int] = field(default_factory=dict, repr=False, compare=False)

    def half(self, label: str, share: Fraction = Fraction(1, 20)) -> int:
        if (label, share) not in self._kept:
            self._kept[label, share] = self._half(label, share)
        return self._kept[label, share]

    def _half(self, label: str, share: Fraction) -> int:
        leaf, most = self.leaves[label], float(share)

        def enough(k: int) -> bool:
            if isinstance(leaf, GAUSSIANS):
                tail = gaussian_tail(k + 1, float(leaf.variance))
            else:
                tail = laplace_tail(k + 1, float(leaf.scale))
            return bool(2 * float(tail) <= most)

        low, high = -1, max(1, math.ceil(self.deviation(label)))
        while not enough(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def deviation(self, label: str) -> float:
        leaf = self.leaves[label]
        if isinstance(leaf, GAUSSIANS):
            return math.sqrt(float(leaf.variance))
        near = math.exp(-1 / float(leaf.scale))
        return math.sqrt(2 * near) / (1 - near)

    def draws(self, label: str, count: int, rng: np.random.Generator) -> Floats:
        leaf, deviation = self.leaves[label], self.deviation(label)
        if not isinstance(leaf, GAUSSIANS):
            # Two geometric numbers differ by discrete Laplace noise.
            away = -math.expm1(-1 / float(leaf.scale))
            drawn = rng.geometric(away, count) - rng.geometric(away, count)
            return drawn.astype(np.float64)
        if deviation > LISTED_DEVIATION:
            return np.rint(rng.normal(0.0, deviation, count))
        most = math.ceil(12 * deviation) + 1
        places = np.arange(-most, most + 1)
        below = np.cumsum(np.exp(gaussian_log_mass(places, float(leaf.variance))))
        return places[np.searchsorted(below[:-1], rng.random(count))].astype(np.float64)

    def epsilon(self, label: str) -> float:
        leaf, part = self.leaves[label], self.parts[label]
        assert isinstance(leaf, IntegerExponentialMechanism)  # noqa: S101  (only choices have one)
        assert isinstance(part, Choice)  # noqa: S101
        return float(leaf.epsilon) / part.by(self.adjacency)


def load_plan(path: Path, stated: Mapping[str, Sequence[str]] | None = None) -> Release:
    """The release that a TOML file states; ``docs/releases.md`` lists its keys.

    Its fields are those of the nearest dpaudit.toml above it, then its own, then ``stated``; a
    later source replaces a field of an earlier one.
    Errors: InvalidParameter for a file that cannot be read, and for every key that does not fit.
    """
    try:
        release = release_of(_continued(read_toml(path), path.parent), path.parent)
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: {error}") from None
    fields = merged(stated_above(path.parent).of(""), release.fields, stated or {})
    return replace(release, fields=fields)


def _continued(table: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """A plan that continues another one of its folder, ``like``: what it states, and the rest.

    Tables are merged key by key, [[items]] replaced by their name, and so is a budget by one of
    another measure; a title and what it corrects are never inherited.
    Errors: InvalidParameter for a file elsewhere, and for a plan that continues itself.
    """
    chain, names_seen = [dict(table)], set[str]()
    while "like" in chain[-1]:
        name = chain[-1].pop("like")
        if not isinstance(name, str) or Path(name).name != name:
            raise InvalidParameter(f"plan.like = {name!r}: expected a file beside this plan")
        if name in names_seen:
            raise InvalidParameter(f"plan.like = {name!r}: the plan continues itself")
        names_seen.add(name)
        chain.append(dict(read_toml(folder / name)))
    combined: Mapping[str, Any] = {}
    for table_of in reversed(chain):
        left_out = {"title", "corrects"}
        before, budget = (table.get("budget") for table in (combined, table_of))
        if (
            isinstance(before, Mapping)
            and isinstance(budget, Mapping)
            and set(budget) - set(before)
        ):
            left_out.add("budget")
        kept = {key: value for key, value in combined.items() if key not in left_out}
        combined = _over(kept, table_of)
    return combined


def _over(base: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """A table over another: tables key by key, items by their name."""
    merged = dict(base)
    for key, value in table.items():
        below = base.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _over(below, value)
        elif key == "items" and isinstance(below, list) and isinstance(value, list):
            merged[key] = _items_over(below, value)
        else:
            merged[key] = value
    return merged


def _items_over(base: list[Any], items: list[Any]) -> list[Any]:
    """Items in the place of those of their name, then the others; none is lost, also of no name."""

    def name_of_item(item: Any) -> str | None:
        name = item.get("name") if isinstance(item, Mapping) else None
        return name if isinstance(name, str) else None

    names = [name_of_item(item) for item in base]
    over = {n: item for item in items if (n := name_of_item(item)) and n in names}
    items_kept = [
        item if n is None else over.get(n, item) for n, item in zip(names, base, strict=True)
    ]
    return items_kept + [item for item in items if not any(item is used for used in over.values())]


def release_of(table: Mapping[str, Any], folder: Path = Path()) -> Release:
    """The release that a parsed TOML table states; errors: InvalidParameter.

    ``folder``: where programs and the ledger are looked up from.
    """
    keys = {"title", "controller", "ledger", "adjacency", "budget", "table", "items", "post"}
    refuse_unknown(table, keys | {"fields", "corrects", "synthetic"}, "plan")
    if not isinstance(table.get("corrects", ""), str):
        raise InvalidParameter("plan.corrects: expected the title of a published release")
    fields = fields_of(table.get("fields", {}), "plan: [fields]", folder)
    if "controller" in table:
        if "controller" in fields:
            raise InvalidParameter("plan.controller: [fields] states it too; leave one of them out")
        fields |= fields_of({"controller": str(table["controller"])}, "plan", folder)
    for name in ("title", "adjacency", "budget", "table", "items"):
        if name not in table and not (name == "items" and "synthetic" in table):
            raise InvalidParameter(f"plan.{name}: missing")
    named = table.get("ledger", "none")
    if not isinstance(named, str) or not named.strip():
        raise InvalidParameter("plan.ledger: expected a file, or a URL, as text")
    schema = schema_of(_mapping(table["table"], "table"), folder=folder)
    rows = table.get("items", [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise InvalidParameter("plan.items: expected [[items]]")
    places = ((f"items[{i}]", row) for i, row in enumerate(rows))
    items = [
        item_of(settings, place) for place, row in places for settings in stated(row, schema, place)
    ]
    items = [replace(i, folder=folder) if isinstance(i, Program) else i for i in items]
    post = steps_of(table["post"]) if "post" in table else steps_by_default(schema, items)
    synthetic = synthetic_of(table["synthetic"]) if "synthetic" in table else None
    items += synthetic.items(schema, items) if synthetic else ()
    items = with_counts(schema, items)
    given, least = asks_least(_mapping(table["budget"], "budget"))
    budget = budget_of(given)
    completed = _with_deltas(schema, items, budget)
    release = Release(
        title=str(table["title"]),
        schema=schema,
        adjacency=choose(Adjacency, table["adjacency"], "plan.adjacency"),
        budget=budget,
        items=completed,
        post=post,
        ledger=table.get("ledger"),
        controller=str(table.get("controller", NOT_STATED)),
        folder=folder,
        fields=fields,
        corrects=table.get("corrects", ""),
        synthetic=synthetic,
    )
    return least_budget(release) if least else release


def _with_deltas(schema: Schema, items: Sequence[Item], budget: Node) -> tuple[Item, ...]:
    """A part of delta, in equal parts, for the thresholds that name none.

    A larger part shows smaller groups, and leaves less for the noise of the items.  Each of these
    errors is compared with its least value over all parts; the chosen part has the smallest of the
    largest ratios.
    """
    open_ones = [i for i in items if isinstance(i, Groups) and i.delta is None]
    if not open_ones:
        return tuple(items)
    if not isinstance(budget, ApproxDP):
        raise InvalidParameter(f"item {open_ones[0].name!r}: unknown keys need a budget with delta")
    delta = Fraction(budget.delta) / len(open_ones)
    groups = [item.limits(schema, 2 * schema.rows)[0] for item in open_ones]
    try:
        part = _delta_part(budget, float(delta), groups, others=len(items) > len(open_ones))
    except ArithmeticError:  # such a budget is refused when noise for it is searched
        part = DELTA_SHARES[0]
    return tuple(replace(i, delta=part * delta) if i in open_ones else i for i in items)


def _delta_part(budget: Any, each: float, groups: Sequence[int], *, others: bool) -> Fraction:
    """The part of delta for thresholds, each of which counts a unit in so many ``groups``.

    ``each``: what one gets of all; ``others``: whether other items have noise.
    """
    noise = [
        gaussian_rho(float(budget.epsilon), float((1 - part) * budget.delta)) ** -0.5
        for part in DELTA_SHARES
    ]
    errors = [
        [
            deviation * (NORMAL_90 - float(ndtri(float(part) * each / own)))
            for part, deviation in zip(DELTA_SHARES, noise, strict=True)
        ]
        for own in groups
    ]
    errors += [noise] * others
    regrets = [max(row[k] / min(row) for row in errors) for k in range(len(DELTA_SHARES))]
    return DELTA_SHARES[regrets.index(min(regrets))]


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidParameter(f"plan.{place}: expected a table, [{place}]")
    return value


def budget_of(table: Mapping[str, Any]) -> Node:
    """The guarantee that {epsilon}, {epsilon, delta}, {rho} or {mu} states.

    Errors: InvalidParameter for anything else.
    """
    refuse_unknown(table, {"epsilon", "delta", "rho", "mu"}, "budget")
    given = {key: rational(value, f"budget.{key}") for key, value in table.items()}
    kinds: dict[frozenset[str], Callable[..., Node]] = {
        frozenset({"epsilon"}): PureDP,
        frozenset({"epsilon", "delta"}): ApproxDP,
        frozenset({"rho"}): ZCDP,
        frozenset({"mu"}): GDP,
    }
    kind = kinds.get(frozenset(given))
    if kind is None:
        raise InvalidParameter("budget: expected epsilon, epsilon and delta, rho, or mu")
    if any(value <= 0 for value in given.values()):
        raise InvalidParameter("budget: expected positive numbers")
    return kind(**given)


# --- noise for a budget ---------------------------------------------------------------------------


def _shares(release: Release) -> dict[str, tuple[Part, Fraction]]:
    """Every part with its share of the whole."""
    noisy = [item for item in release.items if not isinstance(item, Program)]
    weights = sum((item.weight for item in noisy), Fraction(0)) or Fraction(1)
    shares: dict[str, tuple[Part, Fraction]] = {}
    for item in release.items:
        # Conditions on columns that are not there are refused here, and what is too large.
        refuse_groups(release.schema, item.totals(release.schema))
        for part in item.parts(release.schema):
            if part.label in shares:
                raise InvalidParameter(f"two parts of the release are called {part.label!r}")
            shares[part.label] = part, item.weight * part.share / weights
    parts = [part for part, _ in shares.values()]
    numbers, draws = numbers_of(parts), sum(getattr(part, "times", 1) for part in parts)
    for count, most, noun in (
        (numbers, MOST_CELLS, "numbers with noise"),
        (draws, MOST_DRAWS, "draws of noise, one after the other"),
    ):
        if count > most:
            raise InvalidParameter(
                f"{release.title!r}: {count} {noun}; at most {most} in one release, make several"
            )
    _check_programs(release, parts)
    return shares


def _check_sampler(label: str, leaf: Noise) -> None:
    """Errors: InvalidParameter where the release's sampler would refuse the noise."""
    kernel = exact_kernels().get(type(leaf))
    if kernel is None:  # a program's own noise
        return
    try:
        kernel(leaf, 1)
    except InvalidParameter as error:
        raise InvalidParameter(
            f"{label}: {error}; choose a larger step for its column, or another budget"
        ) from None


def numbers_of(parts: Iterable[Part]) -> int:
    """How many numbers a run of all parts holds at most, of a choice those of its runs."""
    return sum(part.cells if isinstance(part, Vector) else 1 for part in parts)


def _check_programs(release: Release, parts: Sequence[Part]) -> None:
    """Errors: InvalidParameter for labels that occur twice, BudgetExceeded for what they cost."""
    programs = [part for part in parts if isinstance(part, Declared)]
    names = [part.label for part in parts if not isinstance(part, Declared)]
    nodes = [part.program.declared(release.schema, release.scope) for part in programs]
    for node in nodes:
        names += sorted(labels_in(node))
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidParameter(f"two releases are called {', '.join(twice)}; rename an item")
    if not nodes:
        return
    fixed = nodes[0] if len(nodes) == 1 else Compose(*nodes)
    checked = Claim(release.budget, by="plan").check_account(Account(fixed, release.scope))
    if checked.outcome is not Outcome.PROVED:
        raise BudgetExceeded(
            f"{', '.join(part.label for part in programs)}: its own noise is fixed, and does not "
            f"keep the budget ({checked.reason}); give the program more noise"
        )


def _chosen(release: Release, shares: _Shares, threshold_delta: float, *, estimated: bool) -> Plan:
    """The plan with the smallest largest relative error, over the kinds of noise of its parts.

    Under a budget with delta or rho, a part has the same margin of Gaussian and of Laplace noise at
    the same amount.  So the choice that keeps the budget at the largest amount has the smallest
    margins, in the proportions that the items' weights ask for.  Gaussian noise of all parts and
    Laplace noise of all are compared, and then single parts are changed as long as one gains.
    """
    claimed = float(Claim(release.budget, by="plan").value)
    start = _start(release.budget, claimed, threshold_delta)
    if isinstance(release.budget, PureDP):
        return _searched(release, shares, frozenset(), start)
    free = frozenset(
        label
        for label, (part, _) in shares.items()
        if isinstance(part, Vector | Thresholded) and not part.noise
    )
    excess = _excess(release, shares, threshold_delta)
    amount, laplace = start, frozenset[str]()
    if 0 < len(free) <= MOST_CHOSEN:
        amount = largest_amount(excess, laplace, start)
        for tried in (frozenset[str](), free):
            larger, choice = climbed(excess, tried, free, amount)
            if larger > amount * GAIN:
                amount, laplace = larger, choice
    if not isinstance(release.budget, ApproxDP):
        return _searched(release, shares, laplace, amount)
    if estimated:
        return _plan(release, shares, largest_amount(excess, laplace, amount), laplace)
    amount, more = (
        largest_amount(_excess(release, shares, threshold_delta, part), laplace, amount)
        for part in (1 - SLACK, MORE)
    )
    slope = math.log(MORE / (1 - SLACK)) / math.log(more / amount)
    return _searched(release, shares, laplace, amount, slope)


def _excess(
    release: Release, shares: _Shares, threshold_delta: float, part: float = 1.0
) -> Excesses:
    """How far choices exceed ``part`` of the budget at an amount, as a logarithm.

    Under a budget with delta that is of delta, and estimated.
    """
    claimed = part * float(Claim(release.budget, by="plan").value)
    if isinstance(release.budget, ApproxDP):
        delta = max(float(release.budget.delta) - threshold_delta, SMALLEST_DELTA)
        labels = [label for label, (part, _) in shares.items() if not isinstance(part, Declared)]
        leaf = _leaf_of(release, shares)
        return Excess(claimed, delta, labels, leaf, _fixed_rho(release, shares))

    def known(amount: float, choices: Sequence[frozenset[str]]) -> list[float]:
        excesses = []
        for choice in choices:
            try:
                cost = _cost(_plan(release, shares, amount, choice))
            except Unsupported:  # no rule of the budget's measure for Laplace noise
                cost = math.inf
            excesses.append(math.log(cost / claimed) if cost else -math.inf)
        return excesses

    return known


def _leaf_of(release: Release, shares: _Shares) -> Callable[[str, int, float], tuple[Leaf, float]]:
    """A part's leaf of its own kind (0) or with Laplace noise (1) at an amount, with its rho."""

    def leaf(label: str, kind: int, amount: float) -> tuple[Leaf, float]:
        part, share = shares[label]
        assert not isinstance(part, Declared)  # noqa: S101  (no amount changes its noise)
        rho = amount * float(share)
        if kind and not isinstance(part, Choice):
            part = replace(part, noise=LAPLACE)
        return _leaf(part, rho, release.adjacency, pure=False), rho

    return leaf


def _fixed_rho(release: Release, shares: _Shares) -> float:
    """About the rho of programs, whose noise no amount changes."""
    programs = [part for part, _ in shares.values() if isinstance(part, Declared)]
    total = 0.0
    for part in programs:
        node = part.program.declared(release.schema, release.scope)
        cost = Account(node, release.scope).approximate(release.delta).value[0]
        total += gaussian_rho(_float(cost), float(release.delta))
    return total


def _searched(
    release: Release,
    shares: _Shares,
    laplace: frozenset[str],
    amount: float,
    slope: float = 0.6,
) -> Plan:
    """The plan of the largest amount that keeps the budget, by secants of the exact guarantee.

    ``slope``: of the guarantee's logarithm, by the amount's.
    """
    claimed = float(Claim(release.budget, by="plan").value)
    best: tuple[float, Plan] | None = None
    tried: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        plan = _plan(release, shares, amount, laplace)
        cost = _cost(plan)
        if cost <= claimed and (best is None or cost > best[0]):
            best = cost, plan
            if claimed - cost <= CLOSE * claimed:
                break
        tried.append((amount, cost))
        amount = _next(tried, claimed, slope)
    for _ in range(ROUNDS):
        if best is not None:
            return best[1]
        amount *= 0.98
        plan = _plan(release, shares, amount, laplace)
        cost = _cost(plan)
        best = (cost, plan) if cost <= claimed else None
    raise Unsupported("plan: no noise was found that keeps the budget; ask for less of it")


def _start(budget: Node, claimed: float, threshold_delta: float) -> float:
    """The amount that Gaussian noise alone would allow."""
    if isinstance(budget, GDP):
        return claimed**2 / 2
    if not isinstance(budget, ApproxDP):
        return claimed
    return gaussian_rho(claimed, max(float(budget.delta) - threshold_delta, SMALLEST_DELTA))


def _next(tried: Sequence[tuple[float, float]], claimed: float, slope: float) -> float:
    """Where the guarantee meets a little less than the budget, by the slope of its logarithm."""
    amount, cost = tried[-1]
    if not math.isfinite(cost):
        return amount / 2
    if len(tried) > 2:
        (a, x), (b, y) = tried[-2:]
        if a != b and x != y and math.isfinite(x):
            slope = min(max(math.log(y / x) / math.log(b / a), 0.1), 2.0)
    return float(amount * (claimed * (1 - SLACK) / cost) ** (1 / slope))


def _cost(plan: Plan) -> float:
    """The composed guarantee in the budget's measure, from above.

    Errors: InvalidParameter for one that is below 0, or no number.
    """
    budget, account = plan.release.budget, plan.account
    value: Any = account.upper(budget).value
    if isinstance(budget, ApproxDP):
        value = value[0]
    cost = _float(value)
    refuse_refunds("plan", [] if cost == math.inf else [cost])
    return cost


def _float(value: Any) -> float:
    return math.inf if is_infinite(value) else float(enclose(value).upper())


def _plan(release: Release, parts: _Shares, amount: float, laplace: frozenset[str]) -> Plan:
    """The plan at an amount, with Laplace noise on some parts beside those that ask for it."""
    pure = isinstance(release.budget, PureDP)
    leaves: dict[str, Noise] = {}
    nodes: list[Node] = []
    for label, (part, share) in parts.items():
        if isinstance(part, Declared):
            leaves[label] = part.program.declared(release.schema, release.scope)
            nodes.append(leaves[label])
            continue
        chosen = part
        if isinstance(part, Vector | Thresholded) and label in laplace:
            chosen = replace(part, noise=LAPLACE)
        leaf = _leaf(chosen, amount * float(share), release.adjacency, pure=pure)
        leaves[label] = leaf
        times = part.times if isinstance(part, Choice) else 1
        nodes.append(leaf if times == 1 else Repeat(leaf, times))
    declaration = nodes[0] if len(nodes) == 1 else Compose(*nodes)
    account = Account(
        declaration, release.scope, max(WIDTH, FINE * float(Claim(release.budget, by="plan").value))
    )
    return Plan(release, {k: p for k, (p, _) in parts.items()}, leaves, declaration, account)


def _leaf(
    part: Vector | Choice | Thresholded, amount: float, adjacency: Adjacency, *, pure: bool
) -> Leaf:
    """The noise of a part that spends ``amount``: epsilon if ``pure``, rho otherwise."""
    if isinstance(part, Choice):
        width = amount / part.times if pure else math.sqrt(8 * amount / part.times)
        scores = part.scores(adjacency)
        epsilon = width * (2 if scores is Scores.MONOTONE else 1)
        return IntegerExponentialMechanism(part.label, rounded_down(epsilon), scores)
    moves = part.moves(adjacency)
    if moves.largest == 0:
        raise InvalidParameter(f"{part.label}: no unit can change it; publish it without noise")
    epsilon = amount if pure else math.sqrt(2 * amount)
    if isinstance(part, Thresholded):
        return _thresholded(part, amount, adjacency)
    if part.noise == LAPLACE or (pure and not part.noise):
        if not pure:
            # The margin is that of Gaussian noise at the same amount.
            epsilon *= LAPLACE_95 / GAUSSIAN_95 * moves.absolute / math.sqrt(moves.squared)
        return DiscreteLaplace(part.label, rounded_up(moves.absolute / epsilon), moves.absolute)
    if pure:
        raise Unsupported(
            f"{part.label}: {GAUSSIAN} noise has no pure epsilon; use noise = {LAPLACE!r}, or a "
            "budget with delta or rho"
        )
    variance = rounded_up(moves.squared / (2 * amount))
    if variance > LARGEST_VARIANCE:
        raise InvalidParameter(
            f"{part.label}: its noise has over 2^50 steps; choose a larger step for its column"
        )
    listed = tuple(
        tuple((Fraction(size), Fraction(count)) for size, count in sizes) for sizes in moves.worst
    )
    return DiscreteGaussianVector(part.label, variance, moves.squared, listed)


def _thresholded(
    part: Thresholded, rho: float, adjacency: Adjacency
) -> ThresholdedDiscreteGaussian | ThresholdedDiscreteLaplace:
    """Its noise, and the least threshold that keeps its delta.

    The smallest group that is shown 19 times in 20 is as large of both kinds of noise, at the same
    rho.
    """
    moves, own = part.moves(adjacency), part.contribution.groups
    largest, delta = part.contribution.high, float(part.delta)
    variance = rounded_up(moves.squared / (2 * rho))
    deviation, quantile = math.sqrt(float(variance)), -float(ndtri(delta / own))
    if part.noise != LAPLACE:
        away = math.ceil(quantile * deviation)
        while _log_gaussian_tail(away, float(variance)) > math.log(delta / own):
            away += 1
        threshold = largest + away + 1
        return ThresholdedDiscreteGaussian(
            part.label, variance, threshold, moves.squared, own, largest
        )
    together = (quantile + NORMAL_90) / (math.log(own / (2 * delta)) + LAPLACE_90)
    scale = rounded_up(together * deviation)
    near = math.exp(-1 / float(scale))
    steps = float(scale) * math.log(own / (delta * (1 + near)))
    # One step more than floating point asks for.
    threshold = largest + max(1, math.ceil(steps) + 1)
    return ThresholdedDiscreteLaplace(part.label, scale, threshold, moves.absolute, own, largest)


def _log_gaussian_tail(away: int, variance: float) -> float:
    """The logarithm of the bound on P(noise >= away) that the certificate proves."""
    falling = -math.expm1(-away / variance) * math.sqrt(6.28 * variance)
    return -(away**2) / (2 * variance) - math.log(falling)


def rounded_up(value: float) -> Fraction:
    """The next number of six significant digits at or above."""
    return _rounded(value, 1)


def rounded_down(value: float) -> Fraction:
    """The next number of six significant digits at or below."""
    return _rounded(value, -1)


def _rounded(value: float, direction: int) -> Fraction:
    if not (math.isfinite(value) and value > 0):
        raise InvalidParameter(
            f"noise of {value}: the budget is too small or too large for floats; change it"
        )
    exact_value = Fraction(value)
    unit = Fraction(10) ** (math.floor(math.log10(value)) - DIGITS + 1)
    steps = exact_value / unit
    return (math.ceil(steps) if direction > 0 else math.floor(steps)) * unit
