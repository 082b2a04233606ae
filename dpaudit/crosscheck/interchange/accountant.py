"""An accountant that dp-accounting's own functions take, answering with certified upper bounds."""

from __future__ import annotations

from typing import Any

from dp_accounting.dp_event import DpEvent
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from dpaudit.accountant.account import Account
from dpaudit.crosscheck.interchange.events import from_dp_event
from dpaudit.crosscheck.interchange.kinds import NOTHING, together
from dpaudit.crosscheck.interchange.numbers import float_above
from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.exact import exact
from dpaudit.families.composition import Repeat
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit

ADJACENCY_OF: dict[NeighboringRelation, Adjacency] = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: Adjacency.ADD_REMOVE,
    NeighboringRelation.REPLACE_ONE: Adjacency.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL: Adjacency.ZERO_OUT,
}
Details = PrivacyAccountant.CompositionErrorDetails


class DpauditAccountant(PrivacyAccountant):  # type: ignore[misc]
    """dp-accounting's interface to :class:`dpaudit.accountant.account.Account`.

    Noise of an event is over the clipping norm: under REPLACE_ONE the sensitivity is twice that.
    Errors: UnsupportedEventError (dp-accounting's own) from ``compose``, before anything is
    recorded, for an event that is malformed or has no bound together with those before it.
    """

    def __init__(
        self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    ) -> None:
        if neighboring_relation not in ADJACENCY_OF:
            raise InvalidParameter("neighboring_relation: expected a NeighboringRelation")
        super().__init__(neighboring_relation)
        adjacency = ADJACENCY_OF[neighboring_relation]
        self._scope = Scope(adjacency, Unit.RECORD, Trust.CENTRAL, Released.TRANSCRIPT)
        self._runs: list[tuple[Node, int]] = []
        self._routes: set[str] | None = None

    def _maybe_compose(self, event: DpEvent, count: int, do_compose: bool) -> Any:  # noqa: FBT001
        try:
            node = from_dp_event(event, self._scope.adjacency)
            routes = set(Account(node, self._scope).routes())
        except DpauditError as error:
            return Details(event, str(error))
        if self._routes is not None:
            routes &= self._routes
        if not routes:
            return Details(event, f"no one calculus covers it under {self._scope.adjacency}")
        if do_compose and node != NOTHING:
            self._routes = routes
            if self._runs and self._runs[-1][0] == node:
                count += self._runs.pop()[1]
            self._runs.append((node, count))
        return None

    @property
    def declaration(self) -> Node:
        """The composition so far."""
        return together([Repeat(node, n) if n > 1 else node for node, n in self._runs])

    def get_epsilon(self, target_delta: float) -> float:
        """An upper bound of epsilon; errors: InvalidParameter for a delta outside [0, 1]."""
        if exact(target_delta, "target_delta") == 1:
            return 0.0
        return float_above(self._account().approximate(target_delta).value[0])

    def get_delta(self, target_epsilon: float) -> float:
        """An upper bound of delta; errors: InvalidParameter for a negative epsilon."""
        return min(1.0, float_above(self._account().delta(target_epsilon).upper))

    def _account(self) -> Account:
        return Account(self.declaration, self._scope)
