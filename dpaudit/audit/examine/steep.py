"""A program on another loss, one that can be as steep as its clips allow.

Where the library clips every row before it is summed, a guarantee is of the clipped sums: it holds
whatever function of a row is clipped.  A loss whose own gradients cannot reach the clip (a
logistic one, four times as short as its clip) then says little of how tight the account is.  So a
second search for a pair of data sets also chooses the loss, among quadratics of the records' own
shape.  The pair that it finds is audited as a stand-in; it bounds nothing of the named program.
Source: ours; of linear losses Nasr et al. 2023 (gradient canaries), of quadratic ones Murata and
Suzuki 2023, Lemma C.1, which bounds differences of gradients.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from dpaudit.audit.examine.examination import WORK_OF_A_SEARCH, Examination
from dpaudit.audit.examine.losses import Loss, search_pair
from dpaudit.audit.examine.made import rows_of, worlds_of
from dpaudit.audit.examine.meter import Meter
from dpaudit.audit.examine.running import TooLong, ending_after
from dpaudit.audit.examine.said import heard
from dpaudit.audit.examine.search import Point
from dpaudit.audit.likelihood import MU_DELTA, Wanted
from dpaudit.audit.neighbours import Neighbours
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism
from dpaudit.families.composition import Assuming
from dpaudit.kernels.query import Array
from dpaudit.nodes import postorder

LOSS = ("dimension", "initial", "values", "gradients")  # what a loss answers
STREAM = 0x7374656570  # key of the rows that are made for it ("steep")
SECONDS = 12.0  # of a processor, the last resort


@dataclass(frozen=True)
class Quadratic:
    """The loss ``a.x + c/2 ||x||^2`` of a record ``(a, c)``: its gradient is ``a + c x``.

    Records are (n, features + 1), or (trials, n, features + 1); there are as many parameters as
    features.  ``a`` makes a gradient as long as any clip, and ``c`` the difference of two.
    """

    def dimension(self, features: int) -> int:
        """The number of features."""
        return features

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Zeros, (trials, features)."""
        return np.zeros((trials, features))

    def values(self, parameters: Array, records: Array) -> Array:
        """The loss of each record, (trials, n); infinite where it overflows."""
        at, rows = np.asarray(parameters), np.asarray(records)
        with np.errstate(all="ignore"):
            linear = np.matmul(rows[..., :-1], at[:, :, None])[..., 0]
            return np.asarray(linear + rows[..., -1] / 2 * np.square(at).sum(axis=1)[:, None])

    def gradients(self, parameters: Array, records: Array) -> Array:
        """The gradient of each record, (trials, n, features)."""
        at, rows = np.asarray(parameters), np.asarray(records)
        with np.errstate(all="ignore"):
            return np.asarray(rows[..., :-1] + rows[..., -1:] * at[:, None, :])


@dataclass(frozen=True, eq=False)
class Steeper:
    """A program on another loss, and the pair of data sets that a search found for it.

    ``reach``: how far the pair moves all releases together, as a share of what is declared.
    """

    program: Program
    neighbours: Neighbours
    reach: float


def on_quadratics(value: Any) -> Any:
    """A copy of a program with every loss that its fields hold replaced; itself if there is none.

    Looks into dataclasses and tuples.  Errors: as the program's own checks of its fields.
    """
    if not isinstance(value, type) and all(callable(getattr(value, n, None)) for n in LOSS):
        return Quadratic()
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        items = tuple(map(on_quadratics, value))
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if not is_dataclass(value) or isinstance(value, type):
        return value
    held = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    made = {name: on_quadratics(item) for name, item in held.items()}
    changed = {name: item for name, item in made.items() if item is not held[name]}
    return replace(value, **changed) if changed else value


def holds_loss(program: Any) -> bool:
    """Whether a program can be put on another loss."""
    # Its own checks of its fields may refuse that loss.
    with contextlib.suppress(Exception):
        return on_quadratics(program) is not program
    return False


def steeper(mechanism: Mechanism, examination: Examination, seed: int) -> Steeper | None:
    """A mechanism's program on a loss as steep as its clips, and the pair that shows most of it.

    None where the examination found no pair, or one that moves every release by all that is
    declared; where the program holds no loss; and where the library does not clip every row, or
    the declaration assumes something of the data: the guarantee may then be of some losses alone.
    """
    declaration, scope, shape = mechanism.declaration, mechanism.scope, examination.shape
    if shape is None or examination.full or examination.broken:
        return None
    if any(isinstance(node, Assuming) for node in postorder(declaration)):
        return None
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM,)))
    rows, worlds = rows_of(shape, rng, (), None), worlds_of(shape, rng)
    one, two = list(rows.values())[:2]
    # A loss may be refused by the program that is to have it.
    with contextlib.suppress(Exception, TooLong), heard(), ending_after(SECONDS):
        program = on_quadratics(mechanism.program)
        if program is mechanism.program or program.declaration(scope) != declaration:
            return None
        wanted = Wanted.of(mechanism.claims)
        loss = Loss(
            program, declaration, scope, seed, wanted[0].aim.at if wanted else MU_DELTA,
            [row for row in rows.values() if np.isfinite(row).all() and row.any()],
            Meter(SECONDS, limit=WORK_OF_A_SEARCH / 2), settled=True,
        )  # fmt: skip
        starts = [
            Point(world.values, one, two, 0, f"one row, {world.name}") for world in worlds[:2]
        ]
        search_pair(loss, starts, rows, worlds)
        if loss.best is not None and loss.best[2].clipped:
            return Steeper(program, loss.pair(), loss.best[2].reach)
    return None
