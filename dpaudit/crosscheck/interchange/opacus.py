"""Histories as Opacus keeps them: rows (noise_multiplier, sample_rate, steps) of Poisson DP-SGD."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from fractions import Fraction
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.crosscheck.interchange.kinds import (
    NO_NOISE,
    NOTHING,
    SENSITIVITY_IN_NORMS,
    stated_over,
    together,
)
from dpaudit.crosscheck.interchange.numbers import (
    Rounding,
    float_above,
    foreign,
    foreign_count,
    foreign_rate,
    to_float,
    to_int,
)
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.sampling import ZERO, PoissonSampled
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit, choose

SCOPE = Scope(Adjacency.ADD_REMOVE, Unit.RECORD, Trust.CENTRAL, Released.TRANSCRIPT)
HistoryRow = tuple[float, float, int]


def from_opacus_history(
    history: Sequence[tuple[Any, Any, Any]], adjacency: Adjacency | str = Adjacency.ADD_REMOVE
) -> Node:
    """The declaration of a history: ``steps`` Poisson samples at ``sample_rate`` a row.

    ``noise_multiplier`` is over the clipping norm, as in Opacus, whose accountants all speak of
    add_remove.  Zero noise is NonPrivate.  Under replace_one records that are not drawn add zero:
    Opacus clips gradients, and divides sums by the expected number of records.
    Errors: InvalidParameter naming the row for a number that is NaN, infinite, negative or of
    another type, a rate above 1, or a row that is not a triple.
    """
    norms = SENSITIVITY_IN_NORMS[choose(Adjacency, adjacency, "adjacency")]
    if not isinstance(history, (list, tuple)):
        raise InvalidParameter("history: expected a list of (noise_multiplier, sample_rate, steps)")
    node = together([_run(row, f"history[{i}]", norms) for i, row in enumerate(history)])
    return stated_over(node, norms)


def _run(row: Any, place: str, norms: int) -> Node:
    if not isinstance(row, (tuple, list)) or len(row) != 3:
        raise InvalidParameter(f"{place}: expected (noise_multiplier, sample_rate, steps)")
    noise = foreign(row[0], f"{place}.noise_multiplier")
    rate = foreign_rate(row[1], f"{place}.sample_rate")
    steps = foreign_count(row[2], f"{place}.steps")
    if rate == 0 or steps == 0:
        return NOTHING
    if noise == 0:
        return NO_NOISE
    step: Node = Gaussian("gaussian", noise / norms)
    undrawn = None if norms == 1 else ZERO
    return Repeat(step if rate == 1 else PoissonSampled(step, rate, undrawn), steps)


def to_opacus_history(
    node: Node, adjacency: Adjacency | str = Adjacency.ADD_REMOVE
) -> list[HistoryRow]:
    """The history that a declaration of (Poisson-sampled) Gaussians amounts to.

    Errors: Unsupported naming the first node that is none of them.
    """
    norms = SENSITIVITY_IN_NORMS[choose(Adjacency, adjacency, "adjacency")]
    rows: list[HistoryRow] = []
    stack: list[tuple[Node, Fraction]] = [(node, Fraction(1))]
    while stack:
        part, times = stack.pop()
        if isinstance(part, Compose):
            stack.extend((child, times) for child in reversed(part.nodes))
        elif isinstance(part, Repeat) and part.index is None:
            stack.append((part.child, times * part.times))
        elif times != 0:
            rows.append(_row(part, times, norms))
    return rows


def _row(node: Node, times: Fraction, norms: int) -> HistoryRow:
    inner, rate = (node.child, node.rate) if isinstance(node, PoissonSampled) else (node, 1)
    if not isinstance(inner, Gaussian):
        raise Unsupported(f"{node.name}: a history holds Gaussians and Poisson samples of them")
    noise = to_float(
        inner.noise_multiplier * norms, f"{inner.name}.noise_multiplier", Rounding.DOWN
    )
    return (
        noise,
        to_float(Fraction(1) * rate, f"{node.name}.rate", Rounding.UP),
        to_int(times, f"{node.name}: times"),
    )


class HistoryAccountant:
    """An accountant for Opacus that answers with certified upper bounds.

    ``history``: rows (noise_multiplier, sample_rate, steps), a list that may be assigned.  It fits
    where Opacus takes an accountant by its methods alone; it is not registered with Opacus.
    """

    def __init__(self) -> None:
        self.history: list[HistoryRow] = []

    @classmethod
    def mechanism(cls) -> str:
        """The name of the accounting mechanism."""
        return "dpaudit"

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step; errors as :func:`from_opacus_history`, before anything is recorded."""
        from_opacus_history([(noise_multiplier, sample_rate, 1)])
        last = self.history[-1] if self.history else None
        if last is not None and tuple(last[:2]) == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, last[2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def get_epsilon(self, delta: float) -> float:
        """An upper bound of epsilon at ``delta`` in [0, 1), add_remove of one record."""
        account = Account(from_opacus_history(self.history), SCOPE)
        return float_above(account.approximate(delta).value[0])

    def __len__(self) -> int:
        return len(self.history)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """A function that records a step of an optimizer with a ``noise_multiplier``."""

        def record(optimizer: Any) -> None:
            self.step(
                noise_multiplier=optimizer.noise_multiplier,
                sample_rate=sample_rate * optimizer.accumulated_iterations,
            )

        return record

    def state_dict(self, destination: MutableMapping[str, Any] | None = None) -> Any:
        """``history`` and ``mechanism``, put into ``destination`` where one is given."""
        state: MutableMapping[str, Any] = {} if destination is None else destination
        state.update(history=list(self.history), mechanism=self.mechanism())
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a state of this mechanism.

        Errors: InvalidParameter for one that is empty, of another mechanism, or malformed.
        """
        if not state_dict or "history" not in state_dict:
            raise InvalidParameter("state_dict: expected history and mechanism")
        if state_dict.get("mechanism") != self.mechanism():
            raise InvalidParameter(f"state_dict: of another mechanism than {self.mechanism()!r}")
        from_opacus_history(state_dict["history"])
        self.history = [(noise, rate, steps) for noise, rate, steps in state_dict["history"]]
