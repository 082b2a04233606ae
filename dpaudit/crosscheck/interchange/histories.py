"""What other libraries keep of a run, read as declarations: nothing of theirs is imported.

    opacus               (noise_multiplier, sample_rate, steps), or an accountant's ``state_dict``
    tensorflow_privacy   (population_size, selection_probability, ((l2_norm_bound, noise_stddev),
                         ...)), the entries of a formatted privacy ledger, kept by versions to 0.6;
                         later ones give DpEvents, which ``from_dp_event`` reads
    jax_privacy          the fields of DpParams and num_updates
    opendp               the JSON of a measurement (``opendp.prelude.serialize``; ``to_json`` in
                         versions to 0.11), or several, and ``sensitivity``
    tumult               the budgets spent: PureDPBudget, ApproxDPBudget, RhoZCDPBudget, or by name

Checked against Opacus 1.6, TensorFlow Privacy's last version with ledgers, jax-privacy 2.0, OpenDP
0.16 and Tumult Analytics 0.21.
Rows are sequences, mappings or objects with these attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpaudit.accountant.account import account
from dpaudit.crosscheck.interchange.kinds import NO_NOISE, NOTHING, together
from dpaudit.crosscheck.interchange.numbers import foreign, foreign_count, foreign_rate
from dpaudit.crosscheck.interchange.opacus import from_opacus_history
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian
from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.events import Group
from dpaudit.families.opaque import ZCDP, ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node
from dpaudit.scope import LONGEST as SHOWN
from dpaudit.scope import Adjacency, Scope, central, shown
from dpaudit.storage.evidence import strict_json

LEDGER = ("population_size", "selection_probability", "queries")
QUERY = ("l2_norm_bound", "noise_stddev")
JAX = ("noise_multipliers", "batch_size", "num_samples", "num_updates")
MORE_OF_JAX = (
    "delta",
    "is_finite_guarantee",
    "cycle_length",
    "examples_per_user",
    "batch_sizes",
    "batch_size_scale_schedule",
    "sampling_method",
    "truncated_batch_size",
)
# OpenDP's combinators that change neither noise nor metric, and where they hold the measurement.
WITHIN = {
    "chain_mt": "measurement1",
    "chain_pm": "measurement0",
    "pureDP_to_zCDP": "measurement",
    "zCDP_to_approxDP": "measurement",
    "approximate": "measurement",
}
COMPOSED = ("composition", "basic_composition")
SPENT = ("epsilon", "delta", "rho")
LARGEST_GRID = 2000  # binary places of a grid, beyond those of any float
LARGEST_FILE = 64 * 2**20


def from_tensorflow_privacy(ledger: Sequence[Any]) -> Node:
    """Every entry of a ledger: one Poisson sample, and the Gaussian sums that it was asked.

    Errors: InvalidParameter naming the entry for what is no number in its range.
    """
    return together([_entry(entry, f"ledger[{i}]") for i, entry in enumerate(_listed(ledger))])


def _entry(entry: Any, place: str) -> Node:
    _, chance, queries = _fields(entry, LEDGER, place)
    rate = foreign_rate(chance, f"{place}.selection_probability")
    sums = []
    for j, query in enumerate(_listed(queries, f"{place}.queries")):
        inside = f"{place}.queries[{j}]"
        bound, noise = (
            foreign(value, f"{inside}.{name}")
            for name, value in zip(QUERY, _fields(query, QUERY, inside), strict=True)
        )
        if bound != 0:
            sums.append(NO_NOISE if noise == 0 else Gaussian("gaussian", noise / bound))
    if rate == 0 or not sums:
        return NOTHING
    asked = sums[0] if len(sums) == 1 else Compose(*sums)
    return asked if rate == 1 else PoissonSampled(asked, rate)


def from_jax_privacy(run: Any) -> Node:
    """``num_updates`` Poisson samples of batch_size / num_samples, with one noise multiplier.

    ``examples_per_user`` k: of any k examples together.  ``truncated_batch_size``: of what batches
    that are larger are cut to.
    Errors: InvalidParameter for a batch that is larger than the data or what is no number;
    Unsupported for schedules, for batches of one size (replace_one: declare them by dp_sgd), and
    for a cycle (noise in bands: declare a CorrelatedGaussian).
    """
    noise, batch, examples, updates = _fields(run, JAX, "run", set(MORE_OF_JAX))
    more = {name: _get(run, name) for name in MORE_OF_JAX}
    planned = more["batch_size_scale_schedule"] or more["batch_sizes"] not in (None, batch)
    if planned or isinstance(noise, (list, tuple)) or isinstance(batch, (list, tuple)):
        raise Unsupported("run: schedules of noise or batches; declare each part of them by dp_sgd")
    sampling = str(getattr(more["sampling_method"], "name", more["sampling_method"] or "POISSON"))
    if sampling.rpartition(".")[2] != "POISSON":
        raise Unsupported(
            f"run.sampling_method = {sampling[:SHOWN]}: no Poisson batches; declare them by "
            "dp_sgd(sampling='fixed') and account for them under replace_one"
        )
    if more["cycle_length"] not in (None, 1):
        raise Unsupported("run.cycle_length: noise in bands; declare a CorrelatedGaussian")
    if more["is_finite_guarantee"] is False:
        return NO_NOISE
    sigma = foreign(noise, "run.noise_multipliers")
    size, count = (
        foreign_count(value, f"run.{name}")
        for name, value in (("batch_size", batch), ("num_samples", examples))
    )
    steps = foreign_count(updates, "run.num_updates")
    if size > count:
        raise InvalidParameter(f"run.batch_size = {size}: larger than num_samples = {count}")
    if steps == 0 or size == 0:
        return NOTHING
    if sigma == 0:
        return NO_NOISE
    step = Gaussian("gaussian", sigma)
    rate = Fraction(size, count)
    largest = more["truncated_batch_size"]
    sampled: Node = step if rate == 1 else PoissonSampled(step, rate)
    if largest is not None:
        cut = foreign_count(largest, "run.truncated_batch_size")
        sampled = TruncatedPoisson(step, rate, count, cut)
    training = Repeat(sampled, steps)
    together_ = more["examples_per_user"]
    owned = 1 if together_ is None else foreign_count(together_, "run.examples_per_user")
    return training if owned <= 1 else Group(training, owned)


def from_opendp(measurements: Any, sensitivity: object = 1) -> Node:
    """Laplace, geometric and Gaussian noise by OpenDP's maps: d / scale, (d / scale)^2 / 2.

    ``sensitivity`` d: of the query that they are chained to, in the measurement's own metric.
    Where the noise is on a grid of 2^k (``k``), rounding to it moves a number by another 2^k.
    Chains, compositions and casts between measures are read through.
    Errors: InvalidParameter for other JSON; Unsupported naming any other measurement.
    """
    listed = measurements if isinstance(measurements, (list, tuple)) else [measurements]
    moved = foreign(sensitivity, "sensitivity")
    return together([_measured(m, moved, f"measurements[{i}]") for i, m in enumerate(listed)])


def _measured(measurement: Any, moved: Fraction, place: str) -> Node:
    table = _read_json(measurement, place) if isinstance(measurement, str) else measurement
    if not isinstance(table, Mapping):
        raise InvalidParameter(f"{place}: expected the JSON of a measurement")
    table = table.get("ast", table)
    while isinstance(table, Mapping) and table.get("_type") == "partial_chain":
        table = table.get("rhs")
    module, name, given = _called(table, place)
    if module == "combinators" and name in COMPOSED:
        parts = _listed(given.get("measurements"), f"{place}.measurements")
        return together([_measured(m, moved, f"{place}[{i}]") for i, m in enumerate(parts)])
    if module == "combinators" and name in WITHIN:
        return _measured(given.get(WITHIN[name]), moved, f"{place}.{WITHIN[name]}")
    if module != "measurements" or name not in ("laplace", "geometric", "gaussian"):
        raise Unsupported(
            f"{place}: {name[:SHOWN] or 'no measurement'}; make_laplace, make_geometric and "
            "make_gaussian are read, and chains and compositions of them"
        )
    scale = foreign(given.get("scale"), f"{place}.scale")
    shift = moved + _grid(given, place)
    if shift == 0:
        return NOTHING
    if scale == 0:
        return NO_NOISE
    if name == "gaussian":
        return ZCDP((shift / scale) ** 2 / 2, name, "OpenDP's map")
    return PureDP(shift / scale, name, "OpenDP's map")


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
    given = {**({"scale": args[-1]} if args else {}), **given}
    return module, str(name or "").removeprefix("then_").removeprefix("make_"), given


def _grid(given: Mapping[str, Any], place: str) -> Fraction:
    """By how much more rounding to the grid of 2^k moves one number."""
    k = given.get("k")
    if k is None:
        return Fraction(0)
    domain = given.get("input_domain")
    if not isinstance(domain, Mapping) or domain.get("__function__") != "atom_domain":
        raise Unsupported(f"{place}.k = {k}: noise on a coarser grid is read for one number alone")
    if isinstance(k, bool) or not isinstance(k, int) or abs(k) > LARGEST_GRID:
        raise InvalidParameter(f"{place}.k = {shown(k)}: expected a whole number")
    return Fraction(2) ** k


def from_tumult(budgets: Sequence[Any]) -> Node:
    """The budgets that a session spent: PureDPBudget, ApproxDPBudget, RhoZCDPBudget.

    Their own exact numbers (``value``) are read, whose floats may lie below them; an infinite
    budget promises nothing.
    Errors: InvalidParameter for a budget of none of these, or what is no number.
    """
    return together([_spent(b, f"budgets[{i}]") for i, b in enumerate(_listed(budgets))])


def _spent(budget: Any, place: str) -> Node:
    found = _exactly(budget)
    if math.inf in found.values() or found.get("delta") == 1:
        return NO_NOISE
    numbers = {
        name: foreign(value, f"{place}.{name}")
        for name, value in found.items()
        if value is not None
    }
    if set(numbers) == {"rho"}:
        return ZCDP(numbers["rho"], "tumult", "Tumult Analytics' session")
    if "epsilon" not in numbers or "rho" in numbers:
        raise InvalidParameter(f"{place}: expected epsilon, epsilon and delta, or rho")
    if numbers.get("delta", 0) == 0:
        return PureDP(numbers["epsilon"], "tumult", "Tumult Analytics' session")
    return ApproxDP(numbers["epsilon"], numbers["delta"], "tumult", "Tumult Analytics' session")


def _exactly(budget: Any) -> dict[str, Any]:
    """Epsilon, delta and rho, exact where the budget holds Tumult's ExactNumbers."""
    found = {name: _get(budget, name) for name in SPENT}
    told = [name for name in SPENT if found[name] is not None]
    value = _get(budget, "value")
    parts = value if isinstance(value, tuple) else (value,)
    if len(parts) == len(told):
        for name, part in zip(told, parts, strict=True):
            expression = getattr(part, "expr", None)
            if expression is not None and found[name] != math.inf:
                rational = bool(expression.is_Rational)
                found[name] = expression if rational else math.nextafter(found[name], math.inf)
    return found


# --- files, and what a loader really did ---------------------------------------------------------


def _opacus(content: Any) -> Node:
    rows = content.get("history") if isinstance(content, Mapping) else content
    return from_opacus_history(_listed(rows))


READERS: Mapping[str, Callable[[Any], Node]] = {
    "opacus": _opacus,
    "tensorflow_privacy": from_tensorflow_privacy,
    "jax_privacy": from_jax_privacy,
    "opendp": from_opendp,
    "tumult": from_tumult,
}


def read_history(path: Path | str, library: str) -> tuple[Node, Scope]:
    """The declaration in a JSON file that holds a library's history, and its scope.

    Errors: InvalidParameter for another library, a file that cannot be read, or as its reader.
    """
    if library not in READERS:
        raise InvalidParameter(f"library = {library!r}: expected one of {', '.join(READERS)}")
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise InvalidParameter(f"{path}: larger than {LARGEST_FILE} bytes")
        content = _read_json(file.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path}: cannot be read ({type(error).__name__})") from None
    return READERS[library](content), central(Adjacency.ADD_REMOVE)


def loader_warning(declaration: Node, batches: object, delta: object) -> str | None:
    """Both numbers, where the loader's batches are ``shuffled`` or ``cyclic`` and not Poisson.

    Runs of Poisson samples are taken for passes of 1 / rate batches: a pass that was begun counts
    above, and does not below.
    Errors: InvalidParameter for other batches; Unsupported where nothing is Poisson sampled.
    Source: Chua and others 2024, How Private are DP-SGD Implementations?
    """
    if batches == "poisson":
        return None
    kinds = {"shuffled": ShuffledBatches, "cyclic": CyclicBatches}
    if not isinstance(batches, str) or batches not in kinds:
        raise InvalidParameter(f"batches = {shown(batches)}: expected poisson, shuffled or cyclic")
    rows = _rows(declaration, Fraction(1))

    def passes(rounded: Callable[[Fraction], int]) -> Node:
        runs = []
        for step, times in rows:
            slots = max(round(1 / step.rate), 1)
            whole = rounded(Fraction(times, slots))
            if whole:
                runs.append(Repeat(kinds[batches](step.child, slots, 1), whole))
        return together(runs)

    scope = central(Adjacency.ZERO_OUT)
    least = account(passes(math.floor), scope).epsilon(delta)
    most = account(passes(math.ceil), scope).epsilon(delta)
    assumed = account(declaration, scope).epsilon(delta)
    return (
        f"batches are {batches} and accounted for as Poisson ones: at delta = {delta} epsilon is "
        f"{_text(least.lower)} at least and {_text(most.upper)} at most for what ran, "
        f"{_text(assumed.upper)} for what is assumed"
    )


def _text(value: Any) -> str:
    return f"{float(value):.6g}"


def _rows(node: Node, times: Fraction) -> list[tuple[Any, Fraction]]:
    if isinstance(node, Compose):
        return [row for child in node.nodes for row in _rows(child, times)]
    if isinstance(node, Repeat) and node.index is None:
        return _rows(node.child, times * node.times)
    if isinstance(node, PoissonSampled):
        return [(node, times)]
    raise Unsupported(f"{node.name}: not Poisson sampled, so that no loader is assumed")


# --- fields of rows ------------------------------------------------------------------------------


def _listed(rows: Any, place: str = "history") -> Sequence[Any]:
    if not isinstance(rows, (list, tuple)):
        raise InvalidParameter(f"{place}: expected a list")
    return rows


def _get(row: Any, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)


def _fields(row: Any, names: Sequence[str], place: str, more: set[str] | None = None) -> list[Any]:
    if isinstance(row, (list, tuple)) and not hasattr(row, "_fields"):
        found = list(row)
    else:
        found = [_get(row, name) for name in names]
    if len(found) != len(names) or any(value is None for value in found):
        raise InvalidParameter(f"{place}: expected {', '.join(names)}")
    if isinstance(row, Mapping) and (other := set(row) - set(names) - (more or set())):
        raise InvalidParameter(f"{place}: {sorted(map(str, other))[0]!r} is none of its fields")
    return found


def _read_json(text: str, place: str) -> Any:
    try:
        return strict_json(text)
    except ValueError as error:
        raise InvalidParameter(f"{place}: not JSON ({str(error)[:80]})") from None
