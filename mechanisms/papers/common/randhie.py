"""The RAND Health Insurance Experiment (1974-1982) as private training data.

One row is one person in one study year: 20,190 person-years of 5,912 people, who have one to five
rows each (the experiment enrolled families for three or five years). The file names no person, so
a guarantee here is for one **row**. A person's whole record is a group of up to five rows
(``ROWS_PER_PERSON_AT_MOST``), spread over several clients and over training and hold-out rows.

Public preprocessing uses the table ``COLUMNS`` and nothing else: a value is clipped to its range
and mapped linearly onto [-1, 1]. Each range comes from a definition, from a rule of the experiment
or from plain reasoning, which the table states; none is a statistic of the data.

Source: Newhouse et al., RAND Health Insurance Experiment; Cameron and Trivedi (2005), Chapter 20;
the copy is statsmodels.datasets.randhie (public domain).
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import DpauditError, InvalidParameter

Array = NDArray[np.float64]
Target = Literal["any_visit", "two_visits", "visits"]
Preprocessing = Literal["public", "standardised"]
Intercept = Literal["ones", "none"]


class Column(NamedTuple):
    """A variable: its public range, its unit and where the range comes from."""

    name: str
    lower: float
    upper: float
    unit: str
    reason: str


COLUMNS = (
    Column("lncoins", 0, math.log(101), "ln(percent + 1)", "coinsurance is 0 to 100 percent"),
    Column("idp", 0, 1, "indicator", "individual deductible plan"),
    Column("lpi", 0, math.log(2000), "ln(dollars a year)", "twice the cap of $1,000 a family"),
    Column("fmde", 0, math.log(4000), "ln(dollars)", "the cap of $1,000 at 25 percent coinsurance"),
    Column("physlm", 0, 1, "indicator", "physical limitation, or its imputed chance"),
    Column("disea", 0, 50, "percent of a list", "chronic diseases; above half the list is clipped"),
    Column("hlthg", 0, 1, "indicator", "self-rated health is good"),
    Column("hlthf", 0, 1, "indicator", "self-rated health is fair"),
    Column("hlthp", 0, 1, "indicator", "self-rated health is poor"),
)
VISITS = Column("mdvis", 0, 52, "visits a year", "one visit to a doctor a week")

UNIT = "row (person-year)"
ROWS = 20_190
ROWS_PER_PERSON_AT_MOST = 5
HOLDOUT_ROWS = ROWS // 5
SPLIT_SEED = 20_190

STANDARDISED = "features standardised by the data's own mean and standard deviation"
CAVEATS = (
    "the unit is a row (person-year); one person has up to 5 rows, in training and hold-out alike",
    "hold-out rows count as public: what is evaluated on them carries no guarantee",
    "the file holds averages where disea or physlm was missing, made from other people's answers "
    "before its publication; the guarantee is for the rows as published",
)


# How an import, the file system and pandas' parser fail.
_BROKEN = (ImportError, OSError, AttributeError, LookupError, TypeError, ValueError)


class DataUnavailable(DpauditError):
    """The data set cannot be read, or is not the one this file describes."""


@dataclass(frozen=True, eq=False)
class RandHie:
    """Rows ready for a loss: features, the intercept if there is one, then the target.

    ``train`` is (clients * block, k + 1) in equal consecutive blocks, one a client; ``holdout`` is
    (4,038, k + 1), for evaluation only. Both are read-only. ``non_private`` holds a reason for each
    step that used the data without an account, to be recorded as NonPrivate nodes; ``caveats`` is
    what a certificate on this data must say; ``unit`` is the unit of privacy.
    """

    train: Array
    holdout: Array
    preprocessing: Preprocessing
    non_private: tuple[str, ...]
    target: Target
    columns: tuple[str, ...]
    clients: int
    unit: str = UNIT
    caveats: tuple[str, ...] = CAVEATS

    @property
    def features(self) -> int:
        """The number of features, an intercept included."""
        return len(self.columns)

    @property
    def feature_norm_upper(self) -> float:
        """An l2 bound on a record's features: sqrt(features), or infinity if standardised."""
        return math.sqrt(self.features) if self.preprocessing == "public" else math.inf

    def blocks(self) -> Array:
        """Return the clients' records, a view (clients, block, k + 1)."""
        return self.train.reshape(self.clients, -1, self.train.shape[1])


def load(
    target: Target = "any_visit",
    preprocessing: Preprocessing = "public",
    clients: int = 10,
    intercept: Intercept = "ones",
) -> RandHie:
    """Return the RAND data with a target and a split that depend on public constants alone.

    The target ``any_visit`` is 1 if the person saw a doctor that year, else 0; ``two_visits`` is 1
    from two visits on; ``visits`` is ``log(1 + visits) / log(53)``, visits clipped to [0, 52].
    ``public`` maps each feature from its range in ``COLUMNS`` onto [-1, 1]; ``standardised`` uses
    the mean and standard deviation of the training rows, is not private, and says so in
    ``non_private``. Rows are permuted by a fixed seed; the first fifth is the hold-out, the rest is
    cut to a multiple of ``clients``. Calls with equal arguments share one result.

    Raises InvalidParameter for an unknown option or a number of clients outside 1 to 16,152, and
    DataUnavailable if statsmodels or its file is broken.
    """
    _option("target", target, get_args(Target))
    _option("preprocessing", preprocessing, get_args(Preprocessing))
    _option("intercept", intercept, get_args(Intercept))
    return _load(target, preprocessing, _clients(clients), intercept)


@lru_cache(maxsize=16)
def _load(
    target: Target, preprocessing: Preprocessing, clients: int, intercept: Intercept
) -> RandHie:
    raw = _raw()
    holdout, train = _split(clients)
    if preprocessing == "public":
        features = _onto_unit_interval(raw[:, 1:])
    else:
        features = _standardise(raw[:, 1:], raw[train, 1:])
    ones = [np.ones((ROWS, 1))] if intercept == "ones" else []
    records = np.hstack([features, *ones, _target(target, raw[:, :1])])
    names = tuple(column.name for column in COLUMNS) + ("intercept",) * len(ones)
    return RandHie(
        train=_frozen(records[train]),
        holdout=_frozen(records[holdout]),
        preprocessing=preprocessing,
        non_private=(STANDARDISED,) if preprocessing == "standardised" else (),
        target=target,
        columns=names,
        clients=clients,
    )


def _split(clients: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return row numbers of hold-out and training rows; they depend on no value."""
    order = np.random.default_rng(SPLIT_SEED).permutation(ROWS)
    train = order[HOLDOUT_ROWS:]
    return order[:HOLDOUT_ROWS], train[: len(train) // clients * clients]


def _onto_unit_interval(features: Array) -> Array:
    """Map each column's public range onto [-1, 1]; a row's result is a function of that row."""
    lower = np.array([column.lower for column in COLUMNS], dtype=np.float64)
    upper = np.array([column.upper for column in COLUMNS], dtype=np.float64)
    share = (np.clip(features, lower, upper) - lower) / (upper - lower)
    return np.asarray(2.0 * share - 1.0, dtype=np.float64)


def _standardise(features: Array, train: Array) -> Array:
    spread = train.std(axis=0)
    return np.asarray((features - train.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _target(target: Target, visits: Array) -> Array:
    if target != "visits":
        return np.asarray(visits >= (1 if target == "any_visit" else 2), dtype=np.float64)
    capped = np.clip(visits, VISITS.lower, VISITS.upper)
    return np.asarray(np.log1p(capped) / math.log1p(VISITS.upper), dtype=np.float64)


@lru_cache(maxsize=1)
def _raw() -> Array:
    """Return (20190, 10) numbers, visits first, features in the order of ``COLUMNS``."""
    frame = _frame()
    try:
        raw = np.column_stack([frame[column.name] for column in (VISITS, *COLUMNS)])
        raw = raw.astype(np.float64)
    except (KeyError, TypeError, ValueError):
        raise DataUnavailable(
            "statsmodels.datasets.randhie lacks a column or holds no numbers: reinstall statsmodels"
        ) from None
    if raw.shape[0] != ROWS or not np.isfinite(raw).all():
        raise DataUnavailable(
            f"statsmodels.datasets.randhie has {raw.shape[0]} rows, or some that are not finite, "
            f"instead of {ROWS} finite ones: reinstall statsmodels"
        )
    return _frozen(raw)


def _frame() -> Any:
    try:
        from statsmodels.datasets import randhie

        return randhie.load_pandas().data
    except _BROKEN as error:
        raise DataUnavailable(
            f"statsmodels.datasets.randhie does not load ({type(error).__name__}): "
            "reinstall statsmodels and pandas"
        ) from None


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array


def _option(name: str, value: object, options: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in options:
        raise InvalidParameter(f"{name} is {value!r}: use one of {', '.join(options)}")


def _clients(clients: int) -> int:
    most = ROWS - HOLDOUT_ROWS
    try:
        count = operator.index(clients)
    except TypeError:
        count = 0
    if isinstance(clients, bool) or not 1 <= count <= most:
        raise InvalidParameter(f"clients is {clients!r}: use a whole number from 1 to {most}")
    return count
