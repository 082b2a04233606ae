"""A search for what no run here needs: it never passes."""

from __future__ import annotations

from dpaudit.kernels.query import Array
from mechanisms.papers.stable_erm.certificate import Void
from mechanisms.papers.stable_erm.stable import Found, Statistic


class Never(Void):
    """Bottom where no certificate passes, to show that it does not happen; no guarantee."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        """A score that never passes."""
        found = super().find(statistic, users, unit, kappa)
        return Found(found.scores + 2 * kappa + 1, found.vectors)
