"""Losses of PyTorch modules (extra ``torch``), differentiated by autograd, one gradient a record.

Records and parameters are those of ``losses.py``: NumPy arrays in float64, a trials axis first.
Per-record gradients are ``vmap`` of ``grad``; a first linear layer's are outer products, of which
norms and clipped sums are made without an array of records times parameters.
Source: Goodfellow 2015, "Efficient Per-Example Gradient Computations"; the torch.func reference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.errors import InvalidParameter, optional
from mechanisms.papers.common.factors import Factors

Array: TypeAlias = NDArray[np.float64]
Fit: TypeAlias = Literal["squared_error", "cross_entropy", "logistic"]
Activation: TypeAlias = Literal["softplus", "tanh", "relu", "gelu"]


class Autograd(ABC):
    """A loss of what a module makes of one record's features; what both losses below share."""

    fit: Fit

    @abstractmethod
    def build(self, features: int) -> Any:
        """A module for records of that many features."""

    def dimension(self, features: int) -> int:
        """Return how many numbers the module's parameters have."""
        return sum(size for _, _, size in _layout(self, features))

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Return the module's own start under the seed, equal in all trials; reads no record."""
        torch = _torch()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = _checked(self.build(features))
            start = torch.cat([p.detach().reshape(-1) for p in made.parameters()])
        return np.tile(start.double().numpy(), (trials, 1))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the losses (trials, n)."""
        return np.asarray(self._mapped(self._value, parameters, records))

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the gradient of each record's loss: (trials, n, dimension)."""
        return np.asarray(self._mapped(_torch().func.grad(self._value), parameters, records))

    def _value(self, theta: Any, record: Any) -> Any:
        features = record.shape[-1] - 1
        module = _made(self, features)
        output = _torch().func.functional_call(
            module, _unpacked(self, features, theta), record[:-1]
        )
        return _fits()[self.fit](output, record[-1])

    def _mapped(self, function: Callable[..., Any], parameters: Any, records: Any) -> Any:
        """``function(theta, record)`` at every trial's parameters and every record."""
        torch = _torch()
        theta = torch.from_numpy(np.array(parameters, dtype=np.float64))
        rows = torch.from_numpy(np.array(records, dtype=np.float64))
        expected = self.dimension(rows.shape[-1] - 1)
        if theta.ndim != 2 or theta.shape[1] != expected or rows.ndim not in (2, 3):
            raise InvalidParameter(
                f"parameters of shape {tuple(theta.shape)}, records {tuple(rows.shape)}: expected "
                f"(trials, {expected}), and (n, features + 1) or one such array a trial"
            )
        over_rows = torch.func.vmap(function, in_dims=(None, 0))
        over_trials = torch.func.vmap(over_rows, in_dims=(0, 0 if rows.ndim == 3 else None))
        found = over_trials(theta, rows)
        if isinstance(found, tuple):
            return tuple(one.detach().numpy() for one in found)
        return found.detach().numpy()


@dataclass(frozen=True)
class ModuleLoss(Autograd):
    """The loss of any module: ``fit`` of what ``module(features)`` makes of one record's features.

    ``module`` is a function at the top level of a file, so that workers find it; dropout and batch
    norms are refused, since a record's loss would be random or depend on others.  ``fit``: squared
    error of one output; logistic loss of one output and a target of 0 or 1; cross-entropy of as
    many outputs as there are classes, the target a class's number.
    Errors: InvalidParameter for another ``fit``, for such modules, or without PyTorch.
    """

    module: Callable[[int], Any]
    fit: Fit = "squared_error"

    def __post_init__(self) -> None:
        _check_fit(self.fit)

    def __repr__(self) -> str:
        name = getattr(self.module, "__qualname__", type(self.module).__name__)
        return f"ModuleLoss({name}, {self.fit!r})"

    def build(self, features: int) -> Any:
        return self.module(features)


@dataclass(frozen=True)
class Perceptron(Autograd):
    """A fully connected network of ``hidden`` layers, differentiated by autograd.

    Its first layer's gradient is an outer product, of the derivatives in that layer's scores and
    the record's own features: it is never written out, unless for a secret batch.
    Errors: InvalidParameter for another ``fit`` or activation, for layers that are no counts.
    """

    fit: Fit = "squared_error"
    hidden: tuple[int, ...] = (10,)
    outputs: int = 1
    activation: Activation = "softplus"

    def __post_init__(self) -> None:
        _check_fit(self.fit)
        sizes = (*self.hidden, self.outputs)
        if not self.hidden or any(type(size) is not int or size < 1 for size in sizes):
            raise InvalidParameter(f"Perceptron: layers {sizes}: expected counts, one hidden layer")
        if self.activation not in _ACTIVATIONS:
            names = ", ".join(_ACTIVATIONS)
            raise InvalidParameter(f"activation = {self.activation!r}: expected one of {names}")

    def build(self, features: int) -> Any:
        torch = _torch()
        sizes = [features, *self.hidden, self.outputs]
        found: list[Any] = []
        for inside, outside in pairwise(sizes):
            found += [torch.nn.Linear(inside, outside), _ACTIVATIONS[self.activation](torch)]
        return torch.nn.Sequential(*found[:-1])

    def factors(self, parameters: ArrayLike, records: ArrayLike) -> Factors:
        """Return the same gradients as outer products of the first layer, and all the rest."""
        rows = np.array(records, dtype=np.float64)
        ones = np.ones((*rows.shape[:-1], 1))
        right = np.concatenate([rows[..., :-1], ones], axis=-1)
        left, rest = self._mapped(self._split_gradients, parameters, rows)
        return Factors(left, right, rest)

    def pack(self, outer: Array, rest: Array) -> Array:
        """Return sums of outer products (trials, hidden, features + 1) and rests, packed."""
        trials = len(outer)
        return np.concatenate([outer[..., :-1].reshape(trials, -1), outer[..., -1], rest], axis=1)

    def _split_gradients(self, theta: Any, record: Any) -> tuple[Any, Any]:
        """Derivatives in the first layer's scores (hidden,), and in all later parameters."""
        torch = _torch()
        features = record.shape[-1] - 1
        module = _made(self, features)
        named = _unpacked(self, features, theta)
        first = {name.removeprefix("0."): v for name, v in named.items() if name.startswith("0.")}
        later = {name: v for name, v in named.items() if not name.startswith("0.")}

        def tail(scores: Any, given: Any) -> Any:
            x = scores
            for place, layer in enumerate(module[1:], start=1):
                prefix = f"{place}."
                own = {k.removeprefix(prefix): v for k, v in given.items() if k.startswith(prefix)}
                x = torch.func.functional_call(layer, own, x)
            return _fits()[self.fit](x, record[-1])

        scores = torch.func.functional_call(module[0], first, record[:-1])
        left, rest = torch.func.grad(tail, argnums=(0, 1))(scores, later)
        return left, torch.cat([rest[name].reshape(-1) for name in later])


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "softplus": lambda torch: torch.nn.Softplus(threshold=700),
    "tanh": lambda torch: torch.nn.Tanh(),
    "relu": lambda torch: torch.nn.ReLU(),
    "gelu": lambda torch: torch.nn.GELU(),
}


@lru_cache(maxsize=64)
def _made(loss: Autograd, features: int) -> Any:
    """One module of a loss, for its layout: its own parameters are never used."""
    with _torch().random.fork_rng(devices=[]):
        return _checked(loss.build(features))


def _checked(module: Any) -> Any:
    """The module in float64; errors: InvalidParameter where its loss is not a record's own."""
    for part in module.modules():
        kind = type(part).__name__
        if "BatchNorm" in kind or "InstanceNorm" in kind:
            raise InvalidParameter(f"{kind}: a record's loss would depend on others")
        if "Dropout" in kind:
            raise InvalidParameter(f"{kind}: a record's loss would be random")
    return module.double()


@lru_cache(maxsize=64)
def _layout(loss: Autograd, features: int) -> tuple[tuple[str, tuple[int, ...], int], ...]:
    """Name, shape and size of each parameter, in the order in which they are packed."""
    named = _made(loss, features).named_parameters()
    return tuple((name, tuple(p.shape), p.numel()) for name, p in named)


def _unpacked(loss: Autograd, features: int, theta: Any) -> dict[str, Any]:
    found, start = {}, 0
    for name, shape, size in _layout(loss, features):
        found[name] = theta[start : start + size].reshape(shape)
        start += size
    return found


@lru_cache(maxsize=1)
def _fits() -> dict[str, Callable[[Any, Any], Any]]:
    """The loss of one record's output and target.

    A class is told by comparison, not by index: a target that is no class's number is no error.
    """
    torch = _torch()

    def squared_error(output: Any, target: Any) -> Any:
        return (output.reshape(()) - target) ** 2

    def logistic(output: Any, target: Any) -> Any:
        return torch.nn.functional.softplus((1 - 2 * target) * output.reshape(()), threshold=700)

    def cross_entropy(output: Any, target: Any) -> Any:
        classes = torch.arange(output.shape[-1], dtype=output.dtype)
        own = torch.where(classes == target, output, 0.0).sum()
        return torch.logsumexp(output, -1) - own

    return {"squared_error": squared_error, "cross_entropy": cross_entropy, "logistic": logistic}


def _check_fit(fit: str) -> None:
    if fit not in get_args(Fit):
        raise InvalidParameter(f"fit = {fit!r}: expected one of {', '.join(get_args(Fit))}")


def _torch() -> Any:
    with optional("torch", "losses by autograd"):
        import torch
    return torch
