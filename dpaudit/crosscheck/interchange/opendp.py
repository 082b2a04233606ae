"""Measurements of OpenDP, read from their JSON: nothing of theirs is imported.

How far one unit moves a chain's number follows from the chain: the input metric says who are
neighbours, and each transformation has a stability map, restated here.  A chain that begins at a
number, or holds a transformation without a map here, needs a sensitivity that is stated.
Formats: ``opendp.prelude.serialize`` (0.14 to 0.16), ``to_json`` before (noise alone).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

from dpaudit.crosscheck.interchange.kinds import NO_NOISE, NOTHING, together
from dpaudit.crosscheck.interchange.numbers import foreign, foreign_count
from dpaudit.crosscheck.interchange.stated import Reading, Stated, listed, read_json
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.opaque import ZCDP, PureDP
from dpaudit.nodes import Node
from dpaudit.scope import LONGEST as SHOWN
from dpaudit.scope import Adjacency, Unit, shown

# Combinators that change neither noise nor metric, and where they hold the measurement.
WITHIN = {
    "chain_pm": "measurement0",
    "pureDP_to_zCDP": "measurement",
    "zCDP_to_approxDP": "measurement",
    "approximate": "measurement",
}
COMPOSED = ("composition", "basic_composition")  # OpenDP's combinators of composition
# How many additions and removals, or replacements, one unit is in each metric of data sets.
STEPS = {
    Adjacency.ADD_REMOVE: {"symmetric_distance": 1, "insert_delete_distance": 1},
    Adjacency.REPLACE_ONE: {
        "symmetric_distance": 2,
        "insert_delete_distance": 2,
        "change_one_distance": 1,
        "hamming_distance": 1,
    },
}
ROWS = STEPS[Adjacency.REPLACE_ONE].keys()
ORDERED = {
    "ordered_random": {
        "symmetric_distance": "insert_delete_distance",
        "change_one_distance": "hamming_distance",
    },
    "unordered": {
        "insert_delete_distance": "symmetric_distance",
        "hamming_distance": "change_one_distance",
    },
    "metric_bounded": {
        "symmetric_distance": "change_one_distance",
        "insert_delete_distance": "hamming_distance",
    },
    "metric_unbounded": {
        "change_one_distance": "symmetric_distance",
        "hamming_distance": "insert_delete_distance",
    },
}
RESIZED = {
    "SymmetricDistance": "symmetric_distance",
    "InsertDeleteDistance": "insert_delete_distance",
}
NOISE = {
    "laplace": ("absolute_distance", "l1_distance"),
    "geometric": ("absolute_distance", "l1_distance"),
    "gaussian": ("absolute_distance", "l2_distance"),
}
# Arguments in order, by which files of versions before 0.14 have them.
SIGNATURES = {
    "laplace": ("input_domain", "input_metric", "scale", "k"),
    "geometric": ("input_domain", "input_metric", "scale", "bounds"),
    "gaussian": ("input_domain", "input_metric", "scale", "k"),
}
LARGEST_GRID = 2000  # binary places of a grid, beyond those of any float
MANTISSA = {"f32": 23, "f64": 52}
MOST_SUMMED = 2**20  # rows; a sum of floats whose number is not public takes so many of them

Distance: TypeAlias = Fraction


@dataclass(frozen=True)
class Space:
    """A domain with its metric: rows or one number, of a type, in bounds, of a public size."""

    metric: str
    kind: str
    type: str | None = None
    bounds: tuple[Fraction, Fraction] | None = None
    size: Fraction | None = None


@dataclass(frozen=True)
class Chain:
    """Transformations in turn: from a space, to a space, and by how much a distance grows."""

    start: Space
    end: Space
    map: Callable[[Distance], Distance]


@dataclass(frozen=True)
class Noise:
    """One noisy number: its noise, and the chain before it or why there is none that is read."""

    place: str
    name: str
    scale: Fraction
    grid: Fraction
    before: Chain | str

    def node(self, moved: Fraction) -> Node:
        """The loss by OpenDP's maps: d / scale, or (d / scale)^2 / 2 of zCDP."""
        shift = moved + self.grid
        if shift == 0:
            return NOTHING
        if self.scale == 0:
            return NO_NOISE
        if self.name == "gaussian":
            return ZCDP((shift / self.scale) ** 2 / 2, self.name, "OpenDP's map")
        return PureDP(shift / self.scale, self.name, "OpenDP's map")


def from_opendp(
    measurements: Any,
    sensitivity: object = None,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
) -> Node:
    """The declaration of a measurement, or of several on the same records: their JSON.

    Laplace, geometric and Gaussian noise, chained to sums, means and counts; compositions and casts
    between measures are read through.  ``sensitivity``: of every number before noise that the JSON
    does not derive it for, in the noise's own metric and under ``adjacency``.
    Where the noise is on a grid of 2^k (``k``), rounding to it moves a number by another 2^k.
    Errors: InvalidParameter for other JSON, and for a sensitivity that is missing or not needed;
    Unsupported naming any other measurement, or a metric that says nothing about ``adjacency``.
    """
    return read_opendp(measurements, Stated.of(adjacency=adjacency, sensitivity=sensitivity)).node


def read_opendp(content: Any, stated: Stated) -> Reading:
    """As :func:`from_opendp`; the adjacency is the metric's own where none is stated."""
    rows = content if isinstance(content, (list, tuple)) else [content]
    try:
        noises = [n for i, m in enumerate(rows) for n in _noises(m, f"measurements[{i}]", None)]
    except RecursionError:
        raise InvalidParameter("measurements: nested too deeply") from None
    derived = [n.before for n in noises if isinstance(n.before, Chain)]
    if len(derived) == len(noises) and stated.sensitivity is not None and noises:
        raise InvalidParameter(
            "sensitivity: leave it out; it follows from the transformations in the file"
        )
    adjacency = stated.adjacency or _own(derived)
    nodes = [noise.node(_moved(noise, adjacency, stated)) for noise in noises]
    return Reading(together(nodes), adjacency, Unit.RECORD if derived else None)


def _own(chains: list[Chain]) -> Adjacency | None:
    """The adjacency of which one step in the metric is one unit, where all chains have the same."""
    steps = {
        next(a for a, metrics in STEPS.items() if metrics.get(chain.start.metric) == 1)
        for chain in chains
    }
    # A data set of public size never gains or loses a record: one unit is a replacement.
    if any(chain.start.size is not None for chain in chains):
        steps = {Adjacency.REPLACE_ONE}
    return steps.pop() if len(steps) == 1 else None


def _moved(noise: Noise, adjacency: Adjacency | None, stated: Stated) -> Fraction:
    """How far one unit moves the number before noise."""
    if isinstance(noise.before, str):
        why = f"{noise.place}: {noise.before}: the largest change of what gets the noise, in its "
        return Fraction(stated.needed("sensitivity", f"{why}norm and under the stated adjacency"))
    start = noise.before.start
    if adjacency is None:
        adjacency = Adjacency(stated.needed("adjacency", f"{noise.place}: of several metrics"))
    steps = STEPS.get(adjacency, {}).get(start.metric)
    if steps is None:
        raise Unsupported(
            f"{noise.place}: its {start.metric} says nothing about {adjacency}; state "
            f"{_own([noise.before])}"
        )
    if adjacency is Adjacency.ADD_REMOVE and start.size is not None:
        raise Unsupported(
            f"{noise.place}: the number of rows is public ({start.size}), so that none is added or "
            "removed; state replace_one"
        )
    return noise.before.map(Fraction(steps))


# --- measurements --------------------------------------------------------------------------------


def _noises(measurement: Any, place: str, before: Chain | str | None) -> list[Noise]:
    """Every noise in a measurement, each after the transformations before it."""
    table = read_json(measurement, place) if isinstance(measurement, str) else measurement
    if not isinstance(table, Mapping):
        raise InvalidParameter(f"{place}: expected the JSON of a measurement")
    table = table.get("ast", table)
    while isinstance(table, Mapping) and table.get("_type") == "partial_chain":
        table, before = table.get("rhs"), "a chain in the format of versions to 0.13"
    module, name, given = _called(table, place)
    if module == "combinators" and name in COMPOSED:
        parts = listed(given.get("measurements"), f"{place}.measurements")
        return [n for i, m in enumerate(parts) for n in _noises(m, f"{place}[{i}]", before)]
    if module == "combinators" and name in WITHIN:
        return _noises(given.get(WITHIN[name]), f"{place}.{WITHIN[name]}", before)
    if module == "combinators" and name == "chain_mt":
        first = _readable(given.get("transformation0"), f"{place}.transformation0", before)
        return _noises(given.get("measurement1"), f"{place}.measurement1", first)
    if module != "measurements" or name not in NOISE:
        raise Unsupported(
            f"{place}: {name[:SHOWN] or 'no measurement'}; make_laplace, make_geometric and "
            "make_gaussian are read, and chains and compositions of them"
        )
    return [_noise(name, given, place, before)]


def _noise(name: str, given: Mapping[str, Any], place: str, before: Chain | str | None) -> Noise:
    scale = exact_float(given.get("scale"), f"{place}.scale")
    read = "input_metric" in given and not isinstance(before, str)
    space = _space(given, place) if read else None
    if space is not None and space.metric not in NOISE[name]:
        raise Unsupported(f"{place}: {name} noise in the {space.metric}")
    if isinstance(before, Chain):
        _follows(before.end, space, place)
    start = before or "it begins at a number"
    return Noise(place, name, scale, _grid(given, space, place), start)


def _readable(transformation: Any, place: str, before: Chain | str | None) -> Chain | str:
    """The chain up to here, or why it is not read."""
    if isinstance(before, str):
        return before
    try:
        chain = _transformed(transformation, place)
    except Unsupported as error:
        return str(error)
    if before is not None:
        return _joined(before, chain, place)
    return chain if chain.start.metric in ROWS else "it begins at a number"


def _called(table: Any, place: str) -> tuple[Any, str, Mapping[str, Any]]:
    """(module, function without make_ or then_, arguments by name), in any version's format."""
    if not isinstance(table, Mapping):
        raise InvalidParameter(f"{place}: expected the JSON of a measurement")
    new = "__function__" in table
    keys = ("__module__", "__function__", "__kwargs__") if new else ("module", "func", "kwargs")
    module, name, given = (table.get(key) for key in keys)
    given = {} if given is None else given
    args = None if new else table.get("args")
    args = args.get("_items") if isinstance(args, Mapping) else args
    if not isinstance(given, Mapping) or not isinstance(args, (list, tuple, type(None))):
        raise InvalidParameter(f"{place}: expected a list of arguments, or a table of named ones")
    function = str(name or "").removeprefix("then_").removeprefix("make_")
    if args:
        # `then_` takes domain and metric from what stands before it.
        names = SIGNATURES.get(function, ())[2 if str(name).startswith("then_") else 0 :]
        if len(args) > len(names) or set(given) & set(names[: len(args)]):
            raise Unsupported(
                f"{place}: {len(args)} arguments of {function[:SHOWN]!r} without names; write it "
                "again by opendp.prelude.serialize, which names them"
            )
        given = {**dict(zip(names, args, strict=False)), **given}
    return module, function, given


def _grid(given: Mapping[str, Any], taken: Space | None, place: str) -> Fraction:
    """By how much more rounding to the grid of 2^k moves one number."""
    k = given.get("k")
    if k is None:
        return Fraction(0)
    if isinstance(k, bool) or not isinstance(k, int) or abs(k) > LARGEST_GRID:
        raise InvalidParameter(f"{place}.k = {shown(k)}: expected a whole number")
    if taken is None or taken.kind != "atom_domain":
        raise Unsupported(
            f"{place}.k = {shown(k)}: noise on a coarser grid is read for one number alone"
        )
    return Fraction(2) ** k


def exact_float(value: object, place: str) -> Fraction:
    """A number that OpenDP computes with: of a float its binary value, which its sampler uses."""
    decimal = foreign(value, place)
    return Fraction(value) if isinstance(value, float) else decimal


# --- spaces --------------------------------------------------------------------------------------


def _space(given: Mapping[str, Any], place: str) -> Space:
    """The domain and metric that a function was given."""
    metric = _metric(given.get("input_metric", given.get("metric")), f"{place}.input_metric")
    domain = given.get("input_domain", given.get("domain"))
    return replace(_domain(domain, f"{place}.input_domain"), metric=metric)


def _metric(table: Any, place: str) -> str:
    module, name, given = _called(table, place)
    if name == "transformation_output_metric":
        return _transformed(given.get("this"), f"{place}.this").end.metric
    if module != "metrics":
        raise Unsupported(f"{place}: {name[:SHOWN] or 'no metric'} is not read")
    return name


def _domain(table: Any, place: str) -> Space:
    module, name, given = _called(table, place)
    if name == "transformation_output_domain":
        return _transformed(given.get("this"), f"{place}.this").end
    if module == "domains" and name == "option_domain":
        return _domain(given.get("element_domain"), f"{place}.element_domain")
    if module == "domains" and name == "vector_domain":
        inner = _domain(given.get("atom_domain"), f"{place}.atom_domain")
        size = given.get("size")
        rows = None if size is None else foreign_count(size, f"{place}.size")
        return replace(inner, kind=name, size=rows)
    if module == "domains" and name == "atom_domain":
        bounds = given.get("bounds")
        limits = None if bounds is None else _limits(bounds, f"{place}.bounds")
        return Space("", name, _type(given.get("T")), limits)
    raise Unsupported(f"{place}: {name[:SHOWN] or 'no domain'} is not read")


def _type(name: Any) -> str | None:
    return name if isinstance(name, str) else None


def _limits(bounds: Any, place: str) -> tuple[Fraction, Fraction]:
    pair = bounds.get("__tuple__") if isinstance(bounds, Mapping) else bounds
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise Unsupported(f"{place}: expected two numbers")
    ends = []
    for end in pair:
        magnitude = exact_float(abs(end) if isinstance(end, (int, float)) else end, place)
        ends.append(-magnitude if end < 0 else magnitude)
    if ends[0] > ends[1]:
        raise InvalidParameter(f"{place}: the lower bound is above the upper one")
    return ends[0], ends[1]


# --- transformations, each with its stability map ------------------------------------------------


def _transformed(table: Any, place: str) -> Chain:
    """A transformation as a chain. Errors: Unsupported for one without a map here."""
    module, name, given = _called(table, place)
    if module == "combinators" and name == "chain_tt":
        first = _transformed(given.get("transformation0"), f"{place}.transformation0")
        then = _transformed(given.get("transformation1"), f"{place}.transformation1")
        return _joined(first, then, place)
    if module != "transformations" or name not in MAPS:
        raise Unsupported(f"{place}: {name[:SHOWN] or 'no transformation'} has no map here")
    space = _space(given, place)
    if space.metric not in ROWS or space.kind != "vector_domain":
        raise Unsupported(f"{place}: {name} of a {space.kind} in the {space.metric} is not read")
    end, grows = MAPS[name](space, given, f"{place}: {name}")
    return Chain(space, end, grows)


def _joined(first: Chain, then: Chain, place: str) -> Chain:
    _follows(first.end, then.start, place)
    return Chain(first.start, then.end, lambda d: then.map(first.map(d)))


def _follows(given: Space, taken: Space | None, place: str) -> None:
    if given != taken:
        raise InvalidParameter(f"{place}: does not take what the transformation before it gives")


Map: TypeAlias = Callable[
    [Space, Mapping[str, Any], str], tuple[Space, Callable[[Distance], Distance]]
]


def _same(distance: Distance) -> Distance:
    return distance


def _twice(distance: Distance) -> Distance:
    return 2 * distance


def _half(distance: Distance) -> Distance:
    """Half the distance of data sets of one size: a replacement is an addition and a removal."""
    return Fraction(distance // 2)


def _row_by_row(space: Space, given: Mapping[str, Any], place: str) -> Any:
    """One row out for each row in, of the type that is named."""
    return replace(space, type=_type(given.get("TOA")), bounds=None), _same


def _imputed(space: Space, given: Mapping[str, Any], place: str) -> Any:
    return replace(space, bounds=None), _same


def _clamped(space: Space, given: Mapping[str, Any], place: str) -> Any:
    return replace(space, bounds=_limits(given.get("bounds"), f"{place}.bounds")), _same


def _resized(space: Space, given: Mapping[str, Any], place: str) -> Any:
    metric = RESIZED.get(str(given.get("MO")))
    if metric is None:
        raise Unsupported(f"{place}.MO = {shown(given.get('MO'))}: is not read")
    size = foreign_count(given.get("size"), f"{place}.size")
    return replace(space, metric=metric, size=size), _twice


def _recast(grows: Callable[[Distance], Distance], name: str) -> Map:
    def cast(space: Space, given: Mapping[str, Any], place: str) -> Any:
        metric = ORDERED[name].get(space.metric)
        if metric is None or (name == "metric_bounded" and space.size is None):
            raise Unsupported(f"{place} of the {space.metric} is not read")
        return replace(space, metric=metric), grows

    return cast


def _counted(space: Space, given: Mapping[str, Any], place: str) -> Any:
    _additions(space, place)
    return Space("absolute_distance", "atom_domain", _type(given.get("TO"))), _same


def _summed(space: Space, given: Mapping[str, Any], place: str) -> Any:
    """By the bounds; a sum of floats errs, and twice that is added."""
    _additions(space, place)
    if space.bounds is None:
        raise Unsupported(f"{place} of rows without bounds")
    low, high = space.bounds
    largest, error = max(abs(low), abs(high)), Fraction(0)
    if space.type in MANTISSA:
        rows = MOST_SUMMED if space.size is None else int(space.size)
        error = 2 * largest * rows * _relative(rows.bit_length(), space.type)
        # A sum over more rows than it takes draws some of them: one may stand for another.
        largest = max(largest, high - low)
    elif not str(space.type).startswith(("i", "u")):
        raise Unsupported(f"{place} of type {shown(space.type)}")
    if space.size is None:
        grows = lambda d: d * largest + error  # noqa: E731
    else:
        grows = lambda d: _half(d) * (high - low) + error  # noqa: E731
    return Space("absolute_distance", "atom_domain", space.type), grows


def _averaged(space: Space, given: Mapping[str, Any], place: str) -> Any:
    """A sum over the public number of rows; a float's product errs too."""
    if not space.size or space.type not in MANTISSA:
        raise Unsupported(f"{place} of rows that are no floats, or whose number is not public")
    end, grows = _summed(space, given, place)
    rows, ends = space.size, space.bounds or (Fraction(0),)
    error = 4 * max(map(abs, ends)) * _relative(1, space.type)
    return end, lambda d: grows(d) / rows + error


def _relative(operations: int, kind: str) -> Fraction:
    """Relative error of so many operations in floats, one after another: n u / (1 - n u)."""
    share = Fraction(operations, 2 ** MANTISSA[kind])
    if share >= 1:
        raise Unsupported(f"{operations} operations in {kind}")
    return share / (1 - share)


def _additions(space: Space, place: str) -> None:
    """Sums and counts have maps over additions and removals alone."""
    if space.metric not in STEPS[Adjacency.ADD_REMOVE]:
        raise Unsupported(f"{place} of the {space.metric} is not read")


MAPS: Mapping[str, Map] = {
    **dict.fromkeys(
        ("cast", "cast_default", "cast_inherent", "is_equal", "is_null", "find", "find_bin",
         "index"),
        _row_by_row,
    ),
    "impute_constant": _imputed,
    "clamp": _clamped,
    "resize": _resized,
    "ordered_random": _recast(_same, "ordered_random"),
    "unordered": _recast(_same, "unordered"),
    "metric_bounded": _recast(_half, "metric_bounded"),
    "metric_unbounded": _recast(_twice, "metric_unbounded"),
    "count": _counted,
    "count_distinct": _counted,
    "sum": _summed,
    "mean": _averaged,
}  # fmt: skip
