"""Run histories of other libraries, read as declarations: no code of theirs is imported.

    opacus               (noise_multiplier, sample_rate, steps), or an accountant's ``state_dict``
    tensorflow_privacy   (population_size, selection_probability, ((l2_norm_bound, noise_stddev),
                         ...)), the entries of a formatted privacy ledger, kept by versions to 0.6;
                         later ones give events of dp-accounting
    jax_privacy          the fields of DpParams and num_updates
    opendp               the JSON of a measurement, or several (:mod:`.opendp`)
    dp_accounting        events as :func:`.events.from_dp_event` reads them, one or a list
    tumult               the budgets spent: PureDPBudget, ApproxDPBudget, RhoZCDPBudget, or by name

Checked against Opacus 1.6, TensorFlow Privacy's last version with ledgers, jax-privacy 2.0, OpenDP
0.16 and Tumult Analytics 0.21.  The caller states what a file leaves open: whose a contribution is,
and which data sets are neighbours.
Rows are sequences, mappings or objects with these attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from dpaudit.accountant.account import account
from dpaudit.accountant.recipes import ABSENT
from dpaudit.crosscheck.interchange.events import from_dp_event
from dpaudit.crosscheck.interchange.kinds import NO_NOISE, NOTHING, together
from dpaudit.crosscheck.interchange.numbers import foreign, foreign_count, foreign_rate
from dpaudit.crosscheck.interchange.opacus import from_opacus_history
from dpaudit.crosscheck.interchange.opendp import read_opendp
from dpaudit.crosscheck.interchange.rows import MODULE
from dpaudit.crosscheck.interchange.stated import (
    Reading,
    Stated,
    field_of,
    fields_of,
    listed,
    read_json,
)
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian
from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.events import Group
from dpaudit.families.opaque import ZCDP, ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node, stated_under
from dpaudit.scope import LONGEST as SHOWN
from dpaudit.scope import Adjacency, Scope, Unit, central, shown

# Fields of an entry of tensorflow-privacy.
LEDGER = ("population_size", "selection_probability", "queries")
QUERY = ("l2_norm_bound", "noise_stddev")  # fields of its queries
# Fields of a run of jax-privacy.
JAX = ("noise_multipliers", "batch_size", "num_samples", "num_updates")
# Fields that a run may have besides.
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
SPENT = ("epsilon", "delta", "rho")  # fields of a spent budget
LARGEST_FILE = 64 * 2**20  # bytes of a history


def from_tensorflow_privacy(ledger: Sequence[Any]) -> Node:
    """Every entry of a ledger: one Poisson sample, and the Gaussian sums that it was asked.

    Errors: InvalidParameter naming the entry for what is no number in its range.
    """
    node = together([_entry(entry, f"ledger[{i}]") for i, entry in enumerate(listed(ledger))])
    return stated_under(node, *ABSENT)


def _entry(entry: Any, place: str) -> Node:
    _, chance, queries = fields_of(entry, LEDGER, place)
    rate = foreign_rate(chance, f"{place}.selection_probability")
    sums = []
    for j, query in enumerate(listed(queries, f"{place}.queries")):
        inside = f"{place}.queries[{j}]"
        bound, noise = (
            foreign(value, f"{inside}.{name}")
            for name, value in zip(QUERY, fields_of(query, QUERY, inside), strict=True)
        )
        if bound != 0:
            sums.append(NO_NOISE if noise == 0 else Gaussian("gaussian", noise / bound))
    if rate == 0 or not sums:
        return NOTHING
    released = sums[0] if len(sums) == 1 else Compose(*sums)
    return released if rate == 1 else PoissonSampled(released, rate)


def from_jax_privacy(run: Any) -> Node:
    """``num_updates`` Poisson samples of batch_size / num_samples, with one noise multiplier.

    ``examples_per_user`` k: of any k examples together.  ``truncated_batch_size``: of what batches
    that are larger are cut to.
    Errors: InvalidParameter for a batch that is larger than the data or what is no number;
    Unsupported for schedules, for batches of one size (replace_one: declare them by dp_sgd), and
    for a cycle (noise in bands: declare a CorrelatedGaussian).
    """
    noise, batch, examples, updates = fields_of(run, JAX, "run", set(MORE_OF_JAX))
    more = {name: field_of(run, name) for name in MORE_OF_JAX}
    planned = more["batch_size_scale_schedule"] is not None or more["batch_sizes"] not in (
        None,
        batch,
    )
    if planned or isinstance(noise, (list, tuple)) or isinstance(batch, (list, tuple)):
        raise Unsupported("run: schedules of noise or batches; declare each part of them by dp_sgd")
    method = more["sampling_method"]
    sampling = "POISSON" if method is None else str(getattr(method, "name", method))
    if sampling.rpartition(".")[2] != "POISSON":
        raise Unsupported(
            f"run.sampling_method = {sampling[:SHOWN]}: no Poisson batches; declare them by "
            "dp_sgd(sampling='fixed') and account for them under replace_one"
        )
    cycle = more["cycle_length"]
    if cycle is not None and foreign_count(cycle, "run.cycle_length") != 1:
        raise Unsupported("run.cycle_length: noise in bands; declare a CorrelatedGaussian")
    if not _is_finite(more["is_finite_guarantee"]):
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
    step = stated_under(Gaussian("gaussian", sigma), *ABSENT)
    rate = Fraction(size, count)
    largest = more["truncated_batch_size"]
    sampled: Node = step if rate == 1 else PoissonSampled(step, rate)
    if largest is not None:
        cut = foreign_count(largest, "run.truncated_batch_size")
        sampled = TruncatedPoisson(step, rate, count, cut)
    training = Repeat(sampled, steps)
    owned = _owned(more["examples_per_user"])
    return training if owned == 1 else Group(training, owned)


def _is_finite(value: object) -> bool:
    """Errors: InvalidParameter for anything but a truth value, a text that says one among them."""
    if value is not None and not isinstance(value, bool):
        raise InvalidParameter(
            f"run.is_finite_guarantee = {shown(value)}: expected true or false, and no text"
        )
    return value is not False


def _owned(value: object) -> Fraction:
    """Records of a user. Errors: InvalidParameter for none."""
    owned = Fraction(1) if value is None else foreign_count(value, "run.examples_per_user")
    if owned == 0:
        raise InvalidParameter("run.examples_per_user = 0: expected at least 1 record of a user")
    return owned


def from_tumult(budgets: Sequence[Any]) -> Node:
    """The budgets that a session spent: PureDPBudget, ApproxDPBudget, RhoZCDPBudget.

    Their own exact numbers (``value``) are read, whose floats may lie below them; an infinite
    budget promises nothing.
    Errors: InvalidParameter for a budget of none of these, or what is no number.
    """
    return together([_spent(b, f"budgets[{i}]") for i, b in enumerate(listed(budgets))])


def _spent(budget: Any, place: str) -> Node:
    if isinstance(budget, Mapping) and (other := sorted(map(str, set(budget) - set(SPENT)))):
        raise InvalidParameter(
            f"{place}: {other[0][:80]!r} is none of its fields, {', '.join(SPENT)}"
        )
    spent = _exactly(budget)
    if math.inf in spent.values() or spent.get("delta") == 1:
        return NO_NOISE
    numbers = {
        name: foreign(value, f"{place}.{name}")
        for name, value in spent.items()
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
    spent = {name: field_of(budget, name) for name in SPENT}
    given = [name for name in SPENT if spent[name] is not None]
    value = field_of(budget, "value")
    parts = value if isinstance(value, tuple) else (value,)
    if len(parts) == len(given):
        for name, part in zip(given, parts, strict=True):
            expression = getattr(part, "expr", None)
            if expression is not None and spent[name] != math.inf:
                rational = bool(expression.is_Rational)
                spent[name] = expression if rational else math.nextafter(spent[name], math.inf)
    return spent


# --- files, and what a loader really did ---------------------------------------------------------


def _opacus(content: Any, stated: Stated) -> Reading:
    rows = _rows_of_state(content) if isinstance(content, Mapping) else content
    adjacency = stated.adjacency or Adjacency.ADD_REMOVE
    return Reading(from_opacus_history(listed(rows), adjacency), adjacency, Unit.RECORD)


def _rows_of_state(state: Mapping[str, Any]) -> Any:
    """The rows of an accountant's ``state_dict``.

    Errors: InvalidParameter for another table than one of ``history`` and ``mechanism``.
    """
    if other := sorted(map(str, set(state) - {"history", "mechanism"})):
        raise InvalidParameter(
            f"state: {other[0][:SHOWN]!r} is none of its fields, history and mechanism"
        )
    if "history" not in state or not isinstance(state.get("mechanism", ""), str):
        raise InvalidParameter("state: expected history, and mechanism, a name")
    return state["history"]


def _tensorflow_privacy(content: Any, stated: Stated) -> Reading:
    return Reading(from_tensorflow_privacy(content), Adjacency.ADD_REMOVE, None)


def _jax_privacy(content: Any, stated: Stated) -> Reading:
    owned = field_of(content, "examples_per_user") not in (None, 1)
    unit = Unit.USER if owned else Unit.RECORD
    return Reading(from_jax_privacy(content), Adjacency.ADD_REMOVE, unit)


def _tumult(content: Any, stated: Stated) -> Reading:
    return Reading(from_tumult(content), stated.adjacency, None)


def _dp_accounting(content: Any, stated: Stated) -> Reading:
    """An event, or a list of events of one run."""
    adjacency = stated.needed("adjacency", "add_remove, replace_one or zero_out")
    several = isinstance(content, list) and content[:1] != [MODULE]
    events = content if several else [content]
    return Reading(together([from_dp_event(e, adjacency) for e in events]), adjacency, None)


Reader: TypeAlias = Callable[[Any, Stated], Reading]
READERS: Mapping[str, Reader] = {
    "opacus": _opacus,
    "tensorflow_privacy": _tensorflow_privacy,
    "jax_privacy": _jax_privacy,
    "opendp": read_opendp,
    "tumult": _tumult,
    "dp_accounting": _dp_accounting,
}


def read_history(
    path: Path | str, library: str, stated: Stated | None = None
) -> tuple[Node, Scope]:
    """The declaration in a JSON file that holds a library's history, and its scope.

    ``stated``: what the file does not say.  A library's own convention counts as said by the file:
    Opacus and jax-privacy account for one record that is added or removed.
    Errors: InvalidParameter for another library, a file that cannot be read, what is neither in the
    file nor stated, or as its reader.
    """
    if library not in READERS:
        raise InvalidParameter(f"library = {library!r}: expected one of {', '.join(READERS)}")
    statement = stated or Stated()
    if statement.sensitivity is not None and library != "opendp":
        raise InvalidParameter(f"sensitivity: noise of {library} is over the sensitivity already")
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise InvalidParameter(f"{path}: larger than {LARGEST_FILE} bytes")
        content = read_json(file.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path}: cannot be read ({type(error).__name__})") from None
    return READERS[library](content, statement).scoped(statement)


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

    slots = [max(round(1 / step.rate), 1) for step, _ in rows]
    records = math.lcm(*slots)  # of one data set, that each row's batches part evenly

    def passes(rounded: Callable[[Fraction], int]) -> Node:
        runs = []
        for (step, times), number in zip(rows, slots, strict=True):
            times_each = rounded(Fraction(times, number))
            if times_each:
                batch = kinds[batches](step.child, records, records // number)
                runs.append(Repeat(batch, times_each))
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
