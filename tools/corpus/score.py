"""Scores of accountants on the corpus: how many rows answered, how many wrongly, how loosely."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.crosscheck.oracle import pld_epsilon_upper, rdp_epsilon_upper
from dpaudit.exact.domains import rational
from dpaudit.nodes import Node
from dpaudit.scope import Scope, central
from tools.corpus import Row, node_of
from tools.corpus.patience import GaveUp, patient

Accountant = Callable[[Node, Scope, Fraction], float]
BELOW = 1e-9
Ask = tuple[str, Node, Scope, Fraction]


def _own(node: Node, scope: Scope, delta: Fraction) -> float:
    return float(Account(node, scope).epsilon(delta).upper)


def _as_is(backend: str) -> Accountant:
    """dp-accounting asked as a user would: the event with its own norms, nothing checked."""

    def answer(node: Node, scope: Scope, delta: Fraction) -> float:
        from dpaudit.crosscheck.interchange import to_dp_event
        from dpaudit.crosscheck.oracle import Backend, as_is, relation_of

        event = to_dp_event(node, scope.adjacency)
        return as_is([event], relation_of(scope.adjacency), float(delta), Backend(backend))

    return answer


ACCOUNTANTS: Mapping[str, Accountant] = {
    "dpaudit": _own,
    "dp-accounting rdp, delegated soundly": rdp_epsilon_upper,
    "dp-accounting pld, delegated soundly": pld_epsilon_upper,
    "dp-accounting rdp, as it is": _as_is("rdp"),
    "dp-accounting pld, as it is": _as_is("pld"),
}


def ask(question: Ask) -> float:
    """One of the :data:`ACCOUNTANTS`, by name, on one declaration."""
    name, node, scope, delta = question
    return ACCOUNTANTS[name](node, scope, delta)


@contextmanager
def within_limits(name: str) -> Iterator[Accountant]:
    """One of the :data:`ACCOUNTANTS` in a child process; some would take hours on some rows."""
    with patient(ask) as asked:
        yield lambda node, scope, delta: asked((name, node, scope, delta))


@dataclass(frozen=True)
class Score:
    """One accountant on the corpus.

    ``gave_up``: rows that took more time or memory than it was given; they count as refused.
    ``wrong``: rows whose upper bound is below the certified lower one; ``infinite``: rows with a
    finite truth answered by infinity; ``excess``: median of upper bound over certified upper bound.
    """

    accountant: str
    rows: int
    answered: int
    refused: int
    gave_up: int
    wrong: int
    infinite: int
    excess: float
    seconds: float

    def table(self) -> dict[str, Any]:
        """The score as JSON."""
        shown = {k: v for k, v in vars(self).items() if not isinstance(v, float)}
        return {
            **shown,
            "excess": round(self.excess, 6) if math.isfinite(self.excess) else None,
            "seconds": round(self.seconds, 3),
        }


def score(name: str, accountant: Accountant, rows: Iterable[Row]) -> Score:
    """Ask one accountant every row; what it raises counts as a refusal."""
    answers: list[tuple[float, float, float]] = []
    asked, gave_up, start = 0, 0, time.perf_counter()
    for row in rows:
        asked += 1
        try:
            found = _asked(accountant, row)
        except GaveUp:
            found, gave_up = None, gave_up + 1
        if found is not None:
            answers.append((found, float(row["epsilon_lower"]), float(row["epsilon_upper"])))
    finite = [(a, high) for a, _, high in answers if math.isfinite(a) and 0 < high < math.inf]
    return Score(
        accountant=name,
        rows=asked,
        answered=len(answers),
        refused=asked - len(answers),
        gave_up=gave_up,
        wrong=sum(answer < low * (1 - BELOW) for answer, low, _ in answers),
        infinite=sum(math.isinf(answer) and math.isfinite(high) for answer, _, high in answers),
        excess=statistics.median(a / high for a, high in finite) if finite else math.nan,
        seconds=time.perf_counter() - start,
    )


def _asked(accountant: Accountant, row: Row) -> float | None:
    node, scope = node_of(row), central(row["adjacency"])
    try:
        answer = accountant(node, scope, rational(row["delta"], "delta"))
    except GaveUp:
        raise
    except Exception:  # noqa: BLE001  (other people's accountants refuse with errors of their own)
        return None
    return None if math.isnan(answer) else answer
