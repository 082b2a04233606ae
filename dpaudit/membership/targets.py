"""Targets: training that can be audited, with the values that an attacker sees.

A target has ``fit(records, rng) -> model`` and ``score(model, records)``.  The score is (n,),
larger where the model fits a record better (minus its loss), or (n, classes): probabilities, or
logits.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpaudit.errors import InvalidParameter, UnknownTarget
from dpaudit.membership.data import Array, Data, FloatArray
from dpaudit.storage.roots import attribute_of

_NUMBER = (int, float, np.number)


class Released(StrEnum):
    """The threat model: the values that the attacker sees, from least to most.

    ``MODEL``: what training returns, that is scores, and parameters of models that have some.
    """

    LABELS = "labels"
    SCORES = "scores"
    LOGITS = "logits"
    PARAMETERS = "parameters"
    MODEL = "model"
    ITERATES = "iterates"

    @property
    def words(self) -> str:
        return _THREATS[self]

    def shows(self, other: Released) -> bool:
        """Whether an attacker of this threat model sees all that ``other`` reveals."""
        order = list(Released)
        return order.index(self) >= order.index(other)


_THREATS = {
    Released.LABELS: "the final model, black box: predicted labels only",
    Released.SCORES: "the final model, black box: scores of records",
    Released.LOGITS: "the final model, black box: logits of records",
    Released.PARAMETERS: "the final model, white box: its parameters",
    Released.MODEL: "the final model as it is returned: scores, and parameters where it has some",
    Released.ITERATES: "white box: the parameters after every step or epoch",
}


@runtime_checkable
class Target(Protocol):
    """Training that can be audited."""

    @property
    def released(self) -> Released:
        """The threat model."""

    @property
    def words(self) -> str:
        """A description of the training in one line; part of a study's identity."""

    def fit(self, records: Data, rng: np.random.Generator) -> Any:
        """Train on these records; every random choice must come from ``rng``."""

    def score(self, model: Any, records: Data) -> Array:
        """The score of each record, (n,) or (n, classes); see the module."""


class WhiteBox(Protocol):
    """Optional methods of a target that releases parameters or iterates."""

    def numbers(self, model: Any) -> FloatArray | None:
        """All numbers of a model, (numbers,), buffers included; None where it shows none."""

    def gradients(self, model: Any, records: Data) -> FloatArray:
        """Gradients of each record's loss in the parameters, (n, parameters)."""

    def parameters(self, model: Any) -> FloatArray:
        """The model's parameters in the order of its gradients, (parameters,)."""

    def iterates(self, model: Any) -> list[Any]:
        """Models in the order of training, from before the first step to the final one."""


@dataclass(frozen=True)
class FunctionTarget:
    """A target made of two functions: ``fit(records, rng)`` and ``score(model, records)``.

    ``records`` is a :class:`~dpaudit.membership.data.Data`.  The attacker sees the numbers of a
    model, as ``parameter`` (model) -> (d,) or else :func:`numbers_of` has them.  Attacks on
    gradients need ``gradient`` (model, records) -> (n, d), and on every step a list
    ``model.iterates``.
    """

    fitted: Callable[[Data, np.random.Generator], Any]
    scored: Callable[[Any, Data], Any]
    released: Released = Released.MODEL
    name: str = ""
    gradient: Callable[[Any, Data], Any] | None = None
    parameter: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        for place in ("fitted", "scored"):
            if not callable(getattr(self, place)):
                raise InvalidParameter(f"FunctionTarget.{place}: expected a function")

    @property
    def words(self) -> str:
        named = getattr(self.fitted, "__qualname__", type(self.fitted).__qualname__)
        return self.name or f"{self.fitted.__module__}:{named}"

    def fit(self, records: Data, rng: np.random.Generator) -> Any:
        given: tuple[Any, ...] = (records, rng) if self._takes_generator else (records,)
        return self.fitted(*given)

    @cached_property
    def _takes_generator(self) -> bool:
        try:
            inspect.signature(self.fitted).bind(None, None)
        except TypeError:
            return False
        except ValueError:  # a function of C whose parameters Python cannot see
            return True
        return True

    def score(self, model: Any, records: Data) -> Array:
        return np.asarray(self.scored(model, records))

    def gradients(self, model: Any, records: Data) -> FloatArray | None:
        """The values of ``gradient``; None without it."""
        if self.gradient is None:
            return None
        return np.asarray(self.gradient(model, records), dtype=np.float64)

    def parameters(self, model: Any) -> FloatArray | None:
        """The values of ``parameter``; None without it."""
        if self.parameter is None:
            return None
        return np.asarray(self.parameter(model), dtype=np.float64)

    def numbers(self, model: Any) -> FloatArray | None:
        """The values of ``parameter``; without it those of arrays that the model consists of."""
        return numbers_of(model) if self.parameter is None else self.parameters(model)

    def iterates(self, model: Any) -> list[Any]:
        """``model.iterates``, if the models keep them."""
        return list(getattr(model, "iterates", ()))


@dataclass(frozen=True, eq=False)
class SklearnTarget:
    """A scikit-learn estimator or pipeline: cloned, its ``random_state`` drawn, fitted.

    Scores are probabilities, a decision function, minus the squared error of a regressor, or the
    log-density of a density estimator (``score_samples``).
    """

    estimator: Any
    released: Released = Released.MODEL

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "get_params") or not hasattr(self.estimator, "fit"):
            raise InvalidParameter(
                f"{type(self.estimator).__name__}: expected a scikit-learn estimator"
            )

    @property
    def words(self) -> str:
        return " ".join(repr(self.estimator).split())

    def fit(self, records: Data, rng: np.random.Generator) -> Any:
        from sklearn.base import clone

        model = clone(self.estimator)
        states = {
            name: int(rng.integers(2**31))
            for name in sorted(model.get_params(deep=True))
            if name == "random_state" or name.endswith("__random_state")
        }
        model.set_params(**states)
        return model.fit(records.features, records.labels)

    def score(self, model: Any, records: Data) -> Array:
        from sklearn.base import is_regressor

        if records.labels is not None and is_regressor(model):
            return np.asarray(-((model.predict(records.features) - records.labels) ** 2))
        if records.labels is None and hasattr(model, "score_samples"):
            return np.asarray(model.score_samples(records.features))
        if hasattr(model, "predict_proba"):
            return self._by_class(model, model.predict_proba(records.features), records)
        if hasattr(model, "decision_function") and records.labels is not None:
            logits = np.asarray(model.decision_function(records.features))
            if logits.ndim == 1:
                logits = np.column_stack([-logits / 2, logits / 2])
            return self._by_class(model, logits, records)
        raise InvalidParameter(
            f"{type(model).__name__}: no predict_proba, decision_function, score_samples, and no "
            "regressor; wrap it as FunctionTarget(fit, score)"
        )

    def _by_class(self, model: Any, values: Array, records: Data) -> Array:
        """Columns for labels 0, 1, ...; an untrained class gets probability 0 or a low logit."""
        if records.labels is None:
            return values
        labels = np.asarray(records.labels)
        if labels.dtype.kind not in "iu" or labels.min() < 0:
            raise InvalidParameter("labels: number the classes 0, 1, ... for a classifier")
        count = int(max(labels.max(), model.classes_.max())) + 1
        probabilities = bool(np.all(values >= 0) and np.allclose(values.sum(axis=1), 1))
        full = np.full((len(values), count), 0.0 if probabilities else float(values.min()) - 10)
        full[:, model.classes_.astype(int)] = values
        return full

    def numbers(self, model: Any) -> FloatArray | None:
        """The fitted arrays, such as ``coef_`` and ``intercept_``, of all steps of a pipeline."""
        return numbers_of(model)

    def gradients(self, model: Any, records: Data) -> FloatArray | None:
        """Gradients of a linear classifier's loss: (probabilities - label) x (features, 1).

        None for other estimators.
        """
        if not hasattr(model, "coef_") or not hasattr(model, "predict_proba"):
            return None
        assert records.labels is not None  # noqa: S101 (a classifier has labels)
        probabilities = self._by_class(model, model.predict_proba(records.features), records)
        errors = probabilities - np.eye(probabilities.shape[1])[records.labels]
        inputs = np.column_stack([records.features, np.ones(len(records))])
        return np.asarray(np.einsum("nk,nd->nkd", errors, inputs).reshape(len(records), -1))


def as_target(given: Any, released: Released | str | None = None) -> Target:
    """The target for an estimator, a (fit, score) pair, or a target.

    Errors: InvalidParameter for anything else.
    """
    target = given
    if isinstance(given, tuple) and len(given) == 2 and all(map(callable, given)):
        target = FunctionTarget(*given)
    elif hasattr(given, "get_params") and hasattr(given, "fit"):
        target = SklearnTarget(given)
    if not isinstance(target, Target):
        raise InvalidParameter(
            f"{type(given).__name__}: expected a scikit-learn estimator, (fit, score), or an "
            "object with fit, score, released and words"
        )
    if released is None:
        return target
    if released not in list(Released):
        raise InvalidParameter(f"released = {released!r}: expected one of {', '.join(Released)}")
    if not is_dataclass(given) and not is_dataclass(target):
        raise InvalidParameter("released: set it on your target, which is no dataclass")
    copied: Any = target
    other: Target = replace(copied, released=Released(released))
    return other


def numbers_of(model: Any) -> FloatArray | None:
    """The numbers that a model consists of, in one row; None for models that are no arrays.

    An array, a tuple, list, mapping or dataclass of arrays, a ``state_dict``, a fitted scikit-learn
    estimator or pipeline.  Attributes of other objects may be meant for nobody, and are left alone.
    """
    parts = [np.asarray(part, dtype=np.float64).ravel() for part in _arrays(model)]
    return np.concatenate(parts) if parts else None


def _arrays(model: Any) -> Iterator[Array]:
    """Arrays of floats, in an order that is the same for all models of a training."""
    model = _parts(model)
    if isinstance(model, Mapping):
        for name in sorted(model, key=str):
            yield from _arrays(model[name])
    elif isinstance(model, (tuple, list)):
        # A list of numbers, such as losses, may be as long as training took.
        grows = isinstance(model, list) and any(isinstance(part, _NUMBER) for part in model)
        for part in () if grows else model:
            yield from _arrays(part)
    elif hasattr(model, "__array__") or isinstance(model, float):
        array = np.asarray(model.detach().cpu() if hasattr(model, "detach") else model)
        if array.dtype.kind == "f" and array.size:
            yield array


def _parts(model: Any) -> Any:
    """The parts that a module, an estimator or a dataclass consists of; anything else as it is."""
    if isinstance(model, type):
        return None
    if hasattr(model, "state_dict"):
        return model.state_dict()
    if hasattr(model, "get_weights"):
        return model.get_weights()
    if hasattr(model, "get_params") and hasattr(model, "fit"):
        if hasattr(model, "steps"):
            return tuple(step for _, step in model.steps)
        return {name: value for name, value in vars(model).items() if name.endswith("_")}
    if is_dataclass(model):
        return {each.name: getattr(model, each.name) for each in fields(model)}
    return model


def named_target(name: str) -> Target:
    """The target that ``module:attribute`` names: a target, an estimator, or a function ``fit``.

    ``released`` and the functions ``gradients(model, records)`` and ``parameters(model)`` of the
    module are taken too, if it has them; without ``released`` an attacker sees what they show:
    the model that ``fit`` returns, with gradients, or with both functions the models' ``iterates``.
    Errors: UnknownTarget where the module does not import or lacks them; InvalidParameter for a
    ``released`` that is no threat model.
    """
    module, attribute = attribute_of(name)
    if hasattr(attribute, "fit") or not callable(attribute):
        return as_target(attribute)
    score = getattr(module, "score", None)
    if score is None:
        raise UnknownTarget(f"{name}: its module has no function score(model, records) beside it")
    shown = {of: getattr(module, of, None) for of in ("gradients", "parameters")}
    seen = Released.MODEL
    if shown["gradients"] is not None:
        seen = Released.PARAMETERS if shown["parameters"] is None else Released.ITERATES
    target = FunctionTarget(
        attribute, score, seen, name, gradient=shown["gradients"], parameter=shown["parameters"]
    )
    return as_target(target, getattr(module, "released", None))


def source_digest(target: Any) -> str:
    """A digest of the target's description and of its source code, if Python can find it."""
    texts = [target.words, str(target.released)]
    for part in (target, type(target), *vars(target).values()):
        try:
            texts.append(inspect.getsource(part))
        except (TypeError, OSError):
            continue
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
