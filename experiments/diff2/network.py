"""The softplus network of Section 6, its data sets, prepared in two ways, and a run on them.

*public*: features and target are mapped by ranges that are known without the rows.  *paper*: by
the data's own mean, deviation and largest target, as Section 6 says; one record then moves every
row, so that a run with this preparation has no finite guarantee, which its declaration says.  The
epsilon of such a run is that of its releases from prepared rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
from experiments.diff2 import problem
from experiments.diff2.data import TRAINED, Layout, Prepared, load, prepared
from experiments.diff2.runs import SCOPE
from mechanisms.papers.common import randhie
from mechanisms.papers.common.losses import SoftplusNetwork
from mechanisms.papers.diff2.framework import Diff2, schedule
from mechanisms.papers.diff2.theory import Budget
from mechanisms.papers.diff2.tuning import path_of

CLIENTS, SHARE, HIDDEN = 10, 1.25, 10
LOSS = SoftplusNetwork(HIDDEN)
NAMES = {"dp_gd": "DP-GD", "diff2": "DIFF2-GD"}
PUBLIC, PAPER = "public", "paper"
LOST = 1e100  # of a coordinate: a difference so long has no square, and its noise no scale
FRIEDMAN_ROWS, FRIEDMAN_SEED = 20_640, 1
FRIEDMAN_MOST = 30.0  # 10 + 20/4 + 10 + 5 without noise
# The RAND study's numbers, then its indicators, which the paper leaves as they are.
RAND_NUMERIC = ("lncoins", "lpi", "fmde", "disea")
RAND_INDICATORS = ("physlm", "idp", "hlthg", "hlthf", "hlthp")


@dataclass(frozen=True)
class Setting:
    """The free parameters of a run besides its step size and its rounds; T = 1 is DP-GD's."""

    gradient_radius: float
    difference_radius: float
    restart_every: int


@lru_cache(maxsize=2)
def rows(name: str) -> tuple[Array, Layout]:
    """A data set as it comes, features then target, and how it is laid out.

    Errors: DataUnavailable where the library that brings the data is missing.
    """
    if name == "friedman1":
        return _friedman(), Layout(FRIEDMAN_ROWS, 8, 8)
    try:
        if name == "randhie":
            from statsmodels.datasets import randhie as source

            frame = source.load_pandas().data
            columns = (*RAND_NUMERIC, *RAND_INDICATORS, randhie.VISITS.name)
            table = np.column_stack([frame[column] for column in columns]).astype(np.float64)
            return table, Layout(len(table), 9, 9, numeric=len(RAND_NUMERIC))
        from sklearn.datasets import load_diabetes
    except ImportError:
        raise _missing(name) from None
    x, y = load_diabetes(return_X_y=True, scaled=False)  # shipped with scikit-learn, no network
    return np.column_stack([x, y]), Layout(len(x), 10, 10)


def _friedman() -> Array:
    try:
        from sklearn.datasets import make_friedman1
    except ImportError:
        raise _missing("friedman1") from None
    x, y = make_friedman1(FRIEDMAN_ROWS, 8, noise=1.0, random_state=FRIEDMAN_SEED)
    return np.column_stack([x, y])


def _missing(name: str) -> randhie.DataUnavailable:
    return randhie.DataUnavailable(
        f"{name}: needs statsmodels and scikit-learn; pip install 'dpaudit[ml]'"
    )


@lru_cache(maxsize=2)
def _mapped(name: str) -> Array:
    """The rows of a data set mapped by public ranges."""
    if name == "randhie":
        rand = randhie.load(target="visits", preprocessing="public", intercept="none")
        return np.concatenate([rand.train, rand.holdout])
    table = _friedman()
    return np.column_stack([2 * table[:, :-1] - 1, np.clip(table[:, -1] / FRIEDMAN_MOST, 0, 1)])


@lru_cache(maxsize=4)
def split(name: str, seed: int, preparation: str = PAPER, file: str = "") -> Prepared:
    """The rows, of a user's file where one is named, split by a seed and prepared.

    Four fifths train, in equal blocks of ``CLIENTS`` clients.
    Errors: as :func:`rows` and :func:`experiments.diff2.data.load`.
    """
    if preparation == PAPER:
        return load(Path(file), name, seed) if file else prepared(*rows(name), seed)
    table = _mapped(name)
    table = table[np.random.default_rng(seed).permutation(len(table))]
    trained = int(TRAINED * len(table))
    return Prepared(table[: trained // CLIENTS * CLIENTS], table[trained:], 0, ())


def program(
    data: Prepared,
    setting: Setting,
    step_size: float,
    *,
    rounds: int,
    epsilon: int,
    seed: int = 0,
    calibration: str = "paper",
) -> Diff2:
    """DIFF2-GD, or DP-GD at T = 1, on the training rows; ``seed`` of the start.

    ``calibration``: the printed noise, or the least ("tight").
    """
    size = len(data.train)
    restarts, differences = schedule(rounds, setting.restart_every)
    budget = Budget(epsilon, problem.DELTA, size, calibration)
    return Diff2(
        loss=LOSS,
        features=data.test.shape[1] - 1,
        client_sizes=(size // CLIENTS,) * CLIENTS,
        rounds=rounds,
        restart_every=setting.restart_every,
        gradient_radius=setting.gradient_radius,
        difference_radius=setting.difference_radius,
        step_size=step_size,
        noise=budget.noise(restarts, differences, SHARE if differences else 1.0),
        start_seed=seed,
        non_private=data.non_private,
    )


def iterates(made: Diff2, records: Records, rng: np.random.Generator) -> Iterator[Array]:
    """x_0, x_1, ..., x_R of a run; NaN from the first that is beyond ``LOST`` on."""
    path = path_of(made, Sampler(made.declaration(SCOPE), SCOPE, records, rng=rng))
    return _until_lost(path, made.rounds)


def _until_lost(path: Iterator[Array], rounds: int) -> Iterator[Array]:
    for count, x in enumerate(path, start=1):
        if not (np.abs(x) < LOST).all():
            yield from [np.full_like(x, np.nan)] * (rounds + 2 - count)
            return
        yield x
