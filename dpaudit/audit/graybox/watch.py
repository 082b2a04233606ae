"""A sampler that notes what a program asked of it, and from which line."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.audit.graybox.frequencies import Frequencies
from dpaudit.curator.curator import Batch, Request, Sampler
from dpaudit.curator.entitlement import Mask
from dpaudit.curator.locations import private_read, program_line
from dpaudit.kernels.base import Session
from dpaudit.kernels.batches import batches_of
from dpaudit.kernels.query import Array, Query, Records


@dataclass(frozen=True, eq=False)
class Asked:
    """One release as the program asked for it; for audits' eyes alone: it holds records.

    ``batched``: whether it was made on a secret batch; ``members``: how many rows such a batch
    can hold, 0 for all.  ``searched``: whether inside a run of a search.
    """

    label: str
    place: str
    query: Query
    records: Records
    batched: bool
    sensitivity: Array
    on: Mask
    session: Session
    members: int = 0
    searched: bool = False


class Watched(Sampler):
    """The sampler of an audit: same answers, same draws, and a list of what was asked.

    ``touched`` names private attributes of the curator that code outside dpaudit read, with the
    line: such a program has found a way to the records around the queries.
    ``residuals``: the noise of every release, per label (trials, d) a use, standardised as
    declared and NaN where off; on a secret batch too, which no replay knows.
    ``runs``: how many runs each search made, mapped alike, and the coins inside a release.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.asked: list[Asked] = []
        self.touched: dict[str, None] = {}
        self.residuals: dict[str, list[Array]] = {}
        self.frequencies = Frequencies()
        self._place = ""
        self._counted: Batch | None = None
        self._declared: dict[str, Any] = {}
        self.runs: dict[str, list[Array]] = {}
        self._inside_search: dict[str, Any] = {}
        self._latest = np.empty((0, 0))
        super().__init__(*arguments, **options)
        # Independent of the noise, whose stream it leaves as it is.
        (self._spreading,) = self._rng.spawn(1)

    def __getattribute__(self, name: str) -> Any:
        if (line := private_read(name, sys._getframe(1))) is not None:
            self.touched[f"the program reads the curator's private {name!r}{line}"] = None
        return super().__getattribute__(name)

    def release(self, label: str, query: Query, **options: Any) -> Array:
        self._place = program_line()
        return super().release(label, query, **options)

    def _value(
        self, request: Request, chosen: Mask | None = None, records: Records | None = None
    ) -> Array:
        self._latest = super()._value(request, chosen, records)
        return self._latest

    def _answer(self, request: Request) -> Array:
        """Answer a release, and note what was asked, its batch, and the residual of its noise."""
        batch = request.first_draw
        self.asked.append(
            Asked(
                label=request.label,
                place=self._place,
                query=request.query,
                records=request.records,
                batched=batch is not None,
                sensitivity=np.array(request.sensitivity),
                on=request.mask,
                session=self._session_of(request.label),
                members=self._members(),
                searched=self._searching,
            )
        )
        if batch is not None and self._open is not None and self._open is not self._counted:
            self._counted = self._open
            self.frequencies.add(self._open.sampling, batch, self._open.index, self._open.part)
        released = super()._answer(request)
        self._residual(request, self._latest, released)
        return released

    def _drawn_runs(self, label: str, session: Any, numbers: Array) -> None:
        declared = self._session_of(label)
        noise = declared.number_residual(numbers)[:, None]
        self.runs.setdefault(f"runs of {label}", []).append(noise)

    def _members(self) -> int:
        return 0 if self._open is None else batches_of(self._open.sampling).size

    def _residual(self, request: Request, value: Array, released: Array) -> None:
        on = request.mask[:, None]
        declared = self._session_of(request.label)
        shown = np.where(on, released, declared.centre(value))
        with np.errstate(all="ignore"):
            noise = declared.residual(shown, value, request.scale)
            # A kernel with memory keeps what was released from one use to the next.
            declared.log_density(shown, value, request.scale)
        tape = getattr(request.query, "tape", None)
        if declared.hides and tape is not None:
            noise = np.hstack([tape.reshape(len(noise), -1), noise])
            if (coins := declared.coins(request.query)) is not None:
                coins_of = self.runs.setdefault(f"coins of {request.label}", [])
                coins_of.append(np.where(on, coins, np.nan))
        self.residuals.setdefault(request.label, []).append(np.where(on, noise, np.nan))

    def _entitled(self, label: str) -> Any:
        """The rights of a label; for one inside a finished search, the rights that it had."""
        own = {e.label: e for e in self.entitlements}
        if self._searching:
            self._inside_search.update(own)
        return own.get(label) or self._inside_search[label]

    def _session_of(self, label: str) -> Any:
        """The declared kernel's session, whatever kernel draws; a new one for every use of it."""
        entitlement = self._entitled(label)
        kernel, leaf = entitlement.kernel, entitlement.runs[0].leaf
        releases_made = len(self.residuals.get(label, ()))
        if label not in self._declared or releases_made % kernel.releases(leaf) == 0:
            self._declared[label] = kernel(leaf, self.trials)
            self._declared[label].spread = self._spreading
        return self._declared[label]
