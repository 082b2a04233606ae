"""A comparison of a paper's algorithms on somebody's rows, and how it is made.

The rows are split once: methods train on the first part; settings are judged on the second while
they are searched, and the chosen one on the third, which the search never reads, under other seeds.
Noise is made anew for every setting, so that each run has the same guarantee.  The *choice* has
none: it reads exact losses.  It is made on a public file where one is given; else whoever reads the
results learns of the rows what no guarantee covers, and every certificate says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from dpaudit.compare.search import Axis, Search, search
from dpaudit.compare.search import Protocol as Searched
from dpaudit.curator.curator import Request, Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.parameters import Cost, Parameter, parameters, read_values, shown
from dpaudit.curator.rehearsal import rehearse, released
from dpaudit.errors import Dependent, InvalidParameter, Unsupported
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency, Scope

NOTHING, OPTIMUM = "doing nothing", "non-private optimum"
PROTOCOL = Searched(budget=12, choosing=2, judging=6)
# Noisy releases of one run in a comparison, so that a table takes minutes.  A setting at this
# limit counts as the end of a grid.
MOST_RELEASES = 3_000
MOST_READS = 10**7  # Records that they read together, likewise.
ORDER = (Cost.NOTHING, Cost.SCALE, Cost.NOISE, Cost.CLAIM)  # of a search
FEWEST_ROWS = 10  # Rows of a table; fewer leave less than two to judge on.
Value = int | float | Fraction


class Objective(Protocol):
    """The loss that judges models; models are (trials, d)."""

    def start(self, records: Records) -> Array:
        """The model that has seen no data, (1, d)."""

    def losses(self, models: Array, records: Records) -> Array:
        """The mean loss of each model over the records, (trials,)."""

    def optimum(self, records: Records) -> Array:
        """The model of the least mean loss over the records, not private, (1, d)."""

    def warnings(self, records: Records) -> Sequence[str]:
        """Sentences about records that the programs scale, clip or cut."""


@dataclass(frozen=True)
class Method:
    """One row of a comparison: a mechanism of a ``for_shape``, and the model in its output.

    ``model``: its ``output``, or the output itself, by default.  ``fixed(count, features)``: values
    of parameters that are not searched, such as a public guess of the number of records.
    """

    name: str
    mechanism: Mechanism
    model: Callable[[Any], Array] = released
    fixed: Callable[[int, int], Mapping[str, Value]] = lambda _count, _features: {}

    @property
    def free(self) -> tuple[Parameter, ...]:
        """The free parameters of the mechanism."""
        return parameters(self.mechanism.for_shape)


@dataclass(frozen=True)
class Comparison:
    """The methods of a paper, the objective, and the two rows that every table must have.

    ``objective(features, values)`` is made for records of so many features, at the values that
    were set.  ``shared``: parameters that belong to the problem, such as a radius, and are not
    searched.  ``one_pass`` and ``full_batch`` name methods: one-pass DP-SGD and full-batch DP-GD.
    ``left_out``: names of the paper's mechanisms, and why these are not compared.
    Errors: InvalidParameter where a name is missing or given twice, or a method has no for_shape.
    """

    name: str
    title: str
    methods: tuple[Method, ...]
    objective: Callable[[int, Mapping[str, Any]], Objective]
    one_pass: str
    full_batch: str
    shared: frozenset[str] = frozenset()
    left_out: tuple[tuple[tuple[str, ...], str], ...] = ()

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        for name in (self.one_pass, self.full_batch):
            if name not in names:
                raise InvalidParameter(f"Comparison {self.name!r}: no method {name!r}; give it one")
        if len(set(names)) < len(names):
            raise InvalidParameter(f"Comparison {self.name!r}: two methods of one name")
        for method in self.methods:
            if method.mechanism.for_shape is None:
                raise InvalidParameter(
                    f"Comparison {self.name!r}: {method.name} has no for_shape, so that it runs on "
                    "its own records alone"
                )

    def values(self, given: Sequence[str]) -> dict[str, dict[str, Value]]:
        """``KEY=VALUE`` texts as values, by method: each for every method that has the parameter.

        Errors: InvalidParameter for a key that no method has, and a value outside its domain.
        """
        names = sorted({parameter.name for method in self.methods for parameter in method.free})
        for text in given:
            key = text.partition("=")[0]
            if key not in names:
                raise InvalidParameter(
                    f"--set {key[:40]}: no method of {self.name} has it; they have "
                    f"{', '.join(names)}"
                )
        return {method.name: self._own(method, given) for method in self.methods}

    def _own(self, method: Method, given: Sequence[str]) -> dict[str, Value]:
        own = {parameter.name for parameter in method.free}
        texts = [text for text in given if text.partition("=")[0] in own]
        return read_values(method.mechanism.name, method.mechanism.for_shape, texts)


@dataclass(frozen=True)
class Row:
    """The result of one method in a comparison.

    ``judged``: its mean loss on the judging rows, one number a seed.  ``chosen``: the values of
    its searched parameters, and of those that were set.  ``ends``: parameters at the end of their
    grids.  ``refused``: why it did not run.  ``counted``: parameters that were set from the number
    of records where that is private.  ``warnings``: of its noise at the chosen setting.
    """

    name: str
    judged: tuple[float, ...] = ()
    tried: int = 0
    chosen: Mapping[str, Value] = ()  # type: ignore[assignment]
    ends: tuple[str, ...] = ()
    refused: str = ""
    scope: Scope | None = None
    method: Method | None = None
    counted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """The mean over judging seeds; NaN for a method that did not run."""
        return float(np.mean(self.judged)) if self.judged else math.nan

    @property
    def error(self) -> float:
        """The standard error of :attr:`mean`."""
        if len(self.judged) < 2:
            return 0.0
        return float(np.std(self.judged, ddof=1) / math.sqrt(len(self.judged)))


@dataclass(frozen=True)
class Outcome:
    """A finished comparison: its rows, the shape that was trained on, and where choices were made.

    ``public``: the name of the public file that settings were chosen on; empty where it was the
    data themselves.
    """

    comparison: Comparison
    protocol: Searched
    rows: tuple[Row, ...]
    shape: tuple[int, ...]
    public: str
    warnings: tuple[str, ...]

    def row(self, name: str) -> Row:
        """The row of a name."""
        return next(row for row in self.rows if row.name == name)

    @property
    def choice(self) -> str:
        """How the settings were chosen, and whether that is private, in a sentence."""
        budget, choosing = self.protocol.budget, self.protocol.choosing
        search = (
            f"settings were chosen by a search: at most {budget} settings, {choosing} runs each"
        )
        if self.public:
            return f"{search}, on {self.public}, which whoever ran it declares public"
        return (
            f"{search}, judged by exact losses on the data themselves. That choice is not private "
            "and no guarantee covers it: count it as a release of the data, or choose on public "
            "rows (public=)"
        )

    def said(self, row: Row) -> str:
        """The choice of a method's settings, and those that give a private number away."""
        if not row.counted:
            return self.choice
        return (
            f"{self.choice}. {row.name}: {', '.join(row.counted)} is the exact number of records, "
            "which add_remove keeps private and no guarantee covers; give a public guess by --set"
        )

    def counts(self, row: Row, other: Row) -> str:
        """Why a comparison of two methods does not count; empty where it does."""
        why = [f"{side.name} did not run" for side in (row, other) if side.refused]
        why += [
            f"{side.name}: {p} at the end of its grid" for side in (row, other) for p in side.ends
        ]
        if row.scope is not None and other.scope is not None and _differ(row.scope, other.scope):
            why.append(f"{row.name} is for {row.scope.adjacency}, not {other.scope.adjacency}")
        return "; ".join(why)

    def verdict(self, row: Row, other: Row) -> str:
        """Better or worse than another by two standard errors, or neither, or why it is open."""
        if why := self.counts(row, other):
            return f"does not count ({why})"
        apart = row.mean - other.mean
        if abs(apart) <= 2 * math.hypot(row.error, other.error):
            return "no difference"
        return "better" if apart < 0 else "worse"


def _differ(one: Scope, other: Scope) -> bool:
    """Whether one record moves sums differently: by one clip when it goes, by two if replaced."""
    return (one.adjacency is Adjacency.REPLACE_ONE) != (other.adjacency is Adjacency.REPLACE_ONE)


def compare(
    comparison: Comparison,
    records: Records,
    given: Sequence[str] = (),
    *,
    public: tuple[str, Records] | None = None,
    protocol: Searched | None = None,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Outcome:
    """All methods of a comparison on these records, at one budget and one protocol.

    ``given``: ``KEY=VALUE`` texts, each for every method with that parameter.  ``public``: a name
    and records on which settings are chosen, in the place of the data.  ``protocol``:
    :data:`PROTOCOL` by default.
    Errors: InvalidParameter for too few records, values outside their domains, and public records
    of another shape; a method that refuses the records has a row that says why.
    """
    protocol = protocol or PROTOCOL
    values = comparison.values(given)
    parts = _parts(comparison, records, public, np.random.default_rng([seed, 1]))
    count, features = len(parts.train), records.values.shape[-1] - 1
    set_to = {key: value for own in values.values() for key, value in own.items()}
    objective = comparison.objective(features, set_to)
    start, optimum = objective.start(parts.train), objective.optimum(parts.train)
    rows = [
        Row(name, (float(objective.losses(model, parts.judge)[0]),))
        for name, model in ((NOTHING, start), (OPTIMUM, optimum))
    ]
    for index, method in enumerate(comparison.methods):
        if progress is not None:
            progress(method.name, index, len(comparison.methods))
        fixed, own = method.fixed(count, features), values[method.name]
        row = _row(method, {**fixed, **own}, parts, objective, protocol, comparison.shared, seed)
        private = method.mechanism.scope.adjacency is Adjacency.ADD_REMOVE
        rows.append(replace(row, counted=tuple(sorted(fixed.keys() - own)) if private else ()))
    return Outcome(
        comparison,
        protocol,
        tuple(rows),
        (count, *records.values.shape[1:]),
        public[0] if public else "",
        (*objective.warnings(records), *(text for row in rows for text in row.warnings)),
    )


@dataclass(frozen=True)
class _Parts:
    """Rows to train on, twice; rows that a search is judged on, and rows that judge."""

    train: Records
    judge: Records
    choose_train: Records
    choose: Records


def _parts(
    comparison: Comparison,
    records: Records,
    public: tuple[str, Records] | None,
    rng: np.random.Generator,
) -> _Parts:
    """Split the records: to search, to choose by, to train finally, and to judge by.

    Public records, if given, take the place of the data in the search.
    """
    shape = records.values.shape
    if len(records) < FEWEST_ROWS or shape[-1] < 2:
        raise InvalidParameter(
            f"{comparison.name}: records of shape {shape}; expected at least {FEWEST_ROWS}, each "
            "of features and a label"
        )
    rows = records.values[rng.permutation(len(records))]
    if public is None:
        fifth = len(rows) // 5
        train, choose, judge = np.split(rows, [len(rows) - 2 * fifth, len(rows) - fifth])
        return _Parts(Records(train), Records(judge), Records(train), Records(choose))
    name, others = public
    if others.values.shape[1:] != shape[1:] or len(others) < FEWEST_ROWS:
        raise InvalidParameter(
            f"{name}: records of shape {others.values.shape}; expected at least {FEWEST_ROWS} like "
            f"those of the data, {shape[1:]}"
        )
    quarter = len(rows) // 4
    train, judge = np.split(rows, [len(rows) - quarter])
    other = others.values[rng.permutation(len(others))]
    size = min(len(train), len(other) - len(other) // 4)
    return _Parts(*map(Records, (train, judge, other[:size], other[size:])))


def _row(
    method: Method,
    setting: Mapping[str, Value],
    parts: _Parts,
    objective: Objective,
    protocol: Searched,
    shared: frozenset[str],
    seed: int,
) -> Row:
    """A method's search and what it is judged at; a row that says why, if it does not run."""

    def losses(values: Mapping[str, Value], *, judging: bool) -> list[float]:
        train, held = (parts.train, parts.judge) if judging else (parts.choose_train, parts.choose)
        made = _made(method, train, values)
        runs = protocol.judging if judging else protocol.choosing
        models = _models(method, made, train, runs, [seed, 2 + judging])
        return [float(loss) for loss in objective.losses(models, held)]

    beyond: set[tuple[float, ...]] = set()
    try:
        free = list(_axes(method, setting, parts.train, shared))
        named = [parameter for parameter, _ in free]

        def read(point: Sequence[float]) -> dict[str, Value]:
            own = {p.name: _value(p, x) for p, x in zip(named, point, strict=True)}
            return {**setting, **own}

        def loss(point: tuple[float, ...]) -> float:
            try:
                return float(np.mean(losses(read(point), judging=False)))
            except (InvalidParameter, Unsupported) as error:
                if point == start:
                    raise
                if isinstance(error, _TooLong):
                    beyond.add(point)
                return math.inf

        axes = [axis for _, axis in free]
        start = tuple(axis.at(axis.start) for axis in axes)
        result = search(axes, loss, protocol.budget)
        chosen = read(result.best)
        judged = losses(chosen, judging=True)
        said = rehearse(_made(method, parts.train, chosen), parts.train, method.model)
    except (InvalidParameter, Unsupported) as error:
        return Row(method.name, refused=str(error), method=method)
    within = Search(
        result.free, {at: mean for at, mean in result.tried.items() if at not in beyond}
    )
    ends = tuple(axis.name for index, axis in enumerate(axes) if within.at_end(index))
    return Row(
        method.name,
        tuple(judged),
        len(result.tried),
        chosen,
        ends,
        scope=method.mechanism.scope,
        method=method,
        warnings=tuple(f"{method.name}: {sentence}" for sentence in said),
    )


def _made(method: Method, records: Records, values: Mapping[str, Value]) -> Mechanism:
    """The mechanism for these records; their number is private under add_remove."""
    hook: Any = method.mechanism.for_shape
    private = method.mechanism.scope.adjacency is Adjacency.ADD_REMOVE
    count = None if private else len(records)
    made: Mechanism = hook(count, tuple(records.values.shape[1:]), **values)
    return made


class _TooLong(InvalidParameter):
    """A run with more releases, or that reads more records, than a comparison makes."""


class _Limited(Sampler):
    """Stops a run that takes too long, by counts alone: whatever the machine, it is the same.

    A run that declares too many releases does not begin.  ``lengths``: of the releases, by label,
    found by the first run of a program: later ones rehearse nothing.
    """

    independent = True  # a coin that its runs would share is refused
    releases = 0
    reads = 0

    def __init__(self, *arguments: Any, lengths: dict[str, int], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._dimensions = lengths
        self._require_short(sum(label.declared_uses or 0 for label in self.entitlements))

    def _require_short(self, releases: int) -> None:
        if releases > MOST_RELEASES or self.reads > MOST_READS:
            raise _TooLong(
                f"a run of more than {MOST_RELEASES:,} releases or {MOST_READS:,} reads of a record"
            )

    def _answer(self, request: Request) -> Array:
        chosen = request.first_draw
        self.releases += 1
        self.reads += len(request.records) if chosen is None else int(chosen[0].sum())
        self._require_short(self.releases)
        return super()._answer(request)


def _models(
    method: Method, made: Mechanism, records: Records, runs: int, seed: Sequence[int]
) -> Array:
    """The models of independent runs, (runs, d): all at once where no public coin is shared."""
    lengths: dict[str, int] = {}

    def drawn(trials: int, own: Sequence[int]) -> Array:
        rng = np.random.default_rng(list(own))
        given = (made.declaration, made.scope, records)
        sampler = _Limited(*given, rng=rng, trials=trials, lengths=lengths)
        return np.asarray(method.model(made.program.run(sampler)))

    try:
        return drawn(runs, seed)
    except Dependent:
        return np.concatenate([drawn(1, [*seed, index]) for index in range(runs)])


def _axes(
    method: Method, setting: Mapping[str, Value], records: Records, shared: frozenset[str]
) -> Iterator[tuple[Parameter, Axis]]:
    """The free parameters that are searched, and where each search starts: cheap ones first.

    Step sizes come before rounds, which cost time and noise.  Epsilon, delta and whatever else the
    claim is made of are no part of a search.
    Errors: InvalidParameter for a parameter whose default is no number and says no start.
    """
    features = records.values.shape[-1] - 1
    of: dict[str, Any] = {param.name: param.default for param in method.free}
    of |= {**setting, "count": len(records), "features": features}
    for param in sorted(method.free, key=lambda param: ORDER.index(param.free.cost)):
        if param.name in setting or param.name in shared or param.free.cost is Cost.CLAIM:
            continue
        start = param.default
        if start is None:
            if param.free.start is None:
                raise InvalidParameter(
                    f"{method.name}: {param.name} is None by default; its Free needs a start for a "
                    "search, or give it a value by --set"
                )
            start = param.free.start(of)
        is_whole = param.kind is int
        yield param, Axis(param.name, float(start), 1 if is_whole else 0, whole=is_whole)


def _value(parameter: Parameter, number: float) -> Value:
    """A number as a value of six digits, which a command line can give again."""
    text = str(int(number)) if parameter.kind is int else shown(float(f"{number:.6g}"))
    return parameter.read(text, parameter.name)
