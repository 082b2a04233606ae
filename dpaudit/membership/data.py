"""Records under audit: features, labels, and the unit of privacy each record belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.curator.files import features_of
from dpaudit.errors import InvalidParameter
from dpaudit.tabular.columns import Columns, frame_columns

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]

_BLIND_FOLDS = 5  # folds of a classifier that tells members from others without the model
_SHOWN = 3  # duplicates that a message names


@dataclass(frozen=True, eq=False)
class Data:
    """Records: ``features`` (n, ...), ``labels`` (n,) or None, ``units`` (n,) of integers >= 0.

    Records of one unit (one user) are in or out of training together; without ``units`` each
    record is a unit.  ``features, labels = data`` unpacks.
    Errors: InvalidParameter for no records, lengths that differ, or numbers that are not finite.
    """

    features: Array
    labels: Array | None = None
    units: Array | None = None

    def __post_init__(self) -> None:
        features = np.asarray(self.features)
        if features.ndim == 0 or len(features) == 0:
            raise InvalidParameter(f"Data.features: shape {features.shape}, expected (n, ...)")
        object.__setattr__(self, "features", features)
        for name in ("labels", "units"):
            given = getattr(self, name)
            if given is None:
                continue
            column = np.asarray(given)
            if column.shape != (len(features),):
                raise InvalidParameter(
                    f"Data.{name}: shape {column.shape}, expected ({len(features)},)"
                )
            object.__setattr__(self, name, column)
        for name in ("features", "labels"):
            column = getattr(self, name)
            if column is None or column.dtype.kind != "f" or np.isfinite(column).all():
                continue
            for record in np.argwhere(~np.isfinite(column))[:1, 0]:
                raise InvalidParameter(
                    f"Data.{name}: record {record + 1} holds what is no finite number; "
                    "fill it in, or leave the record out"
                )
        # Units are numbered by first appearance, so that any labels serve.
        numbers = np.arange(len(features))
        if self.units is not None and not (self.units[1:] > self.units[:-1]).all():
            _, first, inverse = np.unique(self.units, return_index=True, return_inverse=True)
            numbers = np.argsort(np.argsort(first))[inverse]
        object.__setattr__(self, "units", numbers)

    @classmethod
    def of(cls, data: Any, *, label: str | None = None, unit: str | None = None) -> Data:
        """Data from arrays, ``(features, labels)``, a DataFrame, or a map-style torch Dataset.

        ``label`` and ``unit`` name columns of a DataFrame, of any kind that narwhals reads.
        Errors: InvalidParameter for anything else.
        """
        if isinstance(data, Data):
            return data
        if isinstance(data, tuple) and len(data) in (2, 3):
            return cls(*data)
        if isinstance(data, np.ndarray):
            return cls(data)
        if hasattr(type(data), "columns"):  # asking a lazy frame itself would compute it
            return cls.of_columns(frame_columns(data), label, unit)
        if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
            return cls._of_dataset(data)
        raise InvalidParameter(
            f"data of type {type(data).__name__}: expected an array, (features, labels), a "
            "DataFrame or a map-style Dataset"
        )

    @classmethod
    def of_columns(cls, columns: Columns, label: str | None, unit: str | None) -> Data:
        """Data from a table; all columns but ``label`` and ``unit`` are features.

        Errors: InvalidParameter for an unknown column, or a feature that is not a number.
        """
        features = columns.matrix(features_of(columns, label, unit))
        labels = None if label is None else columns.classes(label)
        return cls(
            features, labels, None if unit is None else np.array(columns.texts(unit, unit=True))
        )

    @classmethod
    def _of_dataset(cls, data: Any) -> Data:
        rows = [data[i] for i in range(len(data))]
        if rows and isinstance(rows[0], Sequence) and len(rows[0]) == 2:
            return cls(np.stack([np.asarray(x) for x, _ in rows]), np.array([y for _, y in rows]))
        return cls(np.stack([np.asarray(row) for row in rows]))

    def __len__(self) -> int:
        return len(self.features)

    def __iter__(self) -> Iterator[Array | None]:
        yield self.features
        yield self.labels

    @property
    def unit_of(self) -> npt.NDArray[np.intp]:
        """The unit of each record, 0, 1, ..., shape (n,)."""
        return np.asarray(self.units, dtype=np.intp)

    @property
    def unit_count(self) -> int:
        return int(self.unit_of.max()) + 1

    def take(self, rows: Array) -> Data:
        """The records at these indices, or where a Boolean array is true."""
        labels = None if self.labels is None else self.labels[rows]
        return Data(self.features[rows], labels, self.unit_of[rows])

    def digest(self) -> str:
        """SHA-256 over types, shapes and bytes."""
        sha256 = hashlib.sha256()
        for part in (self.features, self.labels, self.unit_of):
            if part is None:
                sha256.update(b"none")
                continue
            column = np.ascontiguousarray(part)
            sha256.update(f"{column.dtype.str}{column.shape}".encode())
            is_object = column.dtype.kind == "O"
            sha256.update(repr(column.tolist()).encode() if is_object else column.tobytes())
        return sha256.hexdigest()

    def prints(self) -> list[bytes]:
        """A digest of each record's features and label; equal records have equal digests."""
        features = np.ascontiguousarray(self.features)
        if features.dtype.kind == "O":
            rows = [repr(row.tolist()).encode() for row in features.reshape(len(self), -1)]
        else:
            # 0.0 and -0.0 are equal, but their bytes differ.
            same = features + 0.0 if features.dtype.kind in "fc" else features
            rows = [row.tobytes() for row in same]
        labels = [None] * len(self) if self.labels is None else self.labels.tolist()
        return [
            hashlib.blake2b(row + repr(label).encode(), digest_size=16).digest()
            for row, label in zip(rows, labels, strict=True)
        ]


def joined(first: Data, second: Data | None) -> Data:
    """Records of both, the units of the second after those of the first.

    Errors: InvalidParameter where one has labels and the other none, or shapes differ.
    """
    if second is None:
        return first
    if (first.labels is None) != (second.labels is None):
        raise InvalidParameter("data: one part has labels and the other has none")
    if first.features.shape[1:] != second.features.shape[1:]:
        shapes = f"{first.features.shape[1:]} and {second.features.shape[1:]}"
        raise InvalidParameter(f"data: records of shapes {shapes}; they must agree")
    labels = None
    if first.labels is not None and second.labels is not None:
        labels = np.concatenate([first.labels, second.labels])
    units = np.concatenate([first.unit_of, second.unit_of + first.unit_count])
    return Data(np.concatenate([first.features, second.features]), labels, units)


def duplicates(audited: Data, others: Data | None = None) -> list[tuple[int, ...]]:
    """Groups of equal audited records in several units, or in ``others`` as well.

    Each group lists indices of audited records; a last entry of -1 says that ``others`` (always in
    training) hold the same record.
    """
    elsewhere = set() if others is None else set(others.prints())
    groups: dict[bytes, list[int]] = {}
    for row, content in enumerate(audited.prints()):
        groups.setdefault(content, []).append(row)
    unit_of = audited.unit_of
    return [
        (*rows, -1) if content in elsewhere else tuple(rows)
        for content, rows in groups.items()
        if content in elsewhere or len({int(unit_of[row]) for row in rows}) > 1
    ]


def shared(audited: Data, others: Data) -> int:
    """The number of audited records that equal some record of ``others``."""
    elsewhere = set(others.prints())
    return sum(content in elsewhere for content in audited.prints())


def without_duplicates(audited: Data, others: Data | None = None) -> Data:
    """The audited records without duplicates and without records of ``others``.

    The first of several equal records stays.  Errors: InvalidParameter if no record is left.
    """
    doubles = duplicates(audited, others)
    removed = {row for group in doubles for row in (group[:-1] if group[-1] == -1 else group[1:])}
    unique = np.array([row not in removed for row in range(len(audited))])
    if not unique.any():
        raise InvalidParameter("data: every record is also among those that are always in training")
    return audited.take(unique)


@dataclass(frozen=True)
class Blind:
    """How well members are distinguished from non-members without a model.

    ``auc_of_records``: by their features.  ``auc_of_order``: by the best single column, such as a
    date.  ``differs``: one of the two is further from 1/2 than in 1 of 10,000 random splits; an
    attack's success then says nothing about training.
    """

    auc_of_records: float
    auc_of_order: float
    differs: bool

    def __str__(self) -> str:
        verb = "differ" if self.differs else "are not seen to differ"
        return (
            f"members and non-members {verb} without any model: AUC {self.auc_of_records:.3f} by "
            f"their records, {self.auc_of_order:.3f} by their order"
        )


def blind_baseline(members: Data, non_members: Data, *, seed: int = 0) -> Blind:
    """Distinguish members from non-members without the model, by drift, time order or source.

    The attacks are a cross-validated logistic regression on all columns, and each single column.
    Errors: InvalidParameter for fewer than 10 records a side, or records on both sides.
    Source: Das, Zhang and Tramer (2024), blind baselines beat membership inference attacks.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from dpaudit.audit.roc import area

    sizes = len(members), len(non_members)
    if min(sizes) < 2 * _BLIND_FOLDS:
        raise InvalidParameter(f"{sizes[0]} members, {sizes[1]} non-members: give 10 of each")
    both = shared(members, non_members)
    if both:
        raise InvalidParameter(
            f"members: {both:,} of them are non-members too; drop them (without_duplicates)"
        )
    columns = [_columns(side) for side in (members, non_members)]
    features = np.concatenate(columns)
    labels = np.repeat([1, 0], sizes)
    folds = StratifiedKFold(_BLIND_FOLDS, shuffle=True, random_state=seed)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    score = cross_val_predict(model, features, labels, cv=folds, method="decision_function")
    by_records = area(score[: sizes[0]], score[sizes[0] :])
    # A single column, such as a date or a running number, can separate better than the regression.
    by_order = max(
        (abs(area(first, second) - 0.5) for first, second in _sides(columns)), default=0.0
    )
    deviation = float(np.sqrt((sum(sizes) + 1) / (12 * sizes[0] * sizes[1])))
    tests = features.shape[1] + 1
    from scipy.special import ndtri

    limit = -float(ndtri(1e-4 / (2 * tests))) * deviation
    differs = max(abs(by_records - 0.5), by_order) > limit
    return Blind(by_records, 0.5 + by_order, bool(differs))


def _columns(side: Data) -> FloatArray:
    flat = side.features.reshape(len(side), -1).astype(np.float64)
    if side.labels is None or side.labels.dtype.kind not in "fiub":
        return flat
    return np.column_stack([flat, side.labels.astype(np.float64)])


def _sides(columns: list[FloatArray]) -> Iterator[tuple[FloatArray, FloatArray]]:
    yield from zip(columns[0].T, columns[1].T, strict=True)
