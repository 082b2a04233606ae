"""Trainings of PyTorch, Opacus, scikit-learn and functions of a state, as single steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.errors import optional
from dpaudit.membership.data import Array
from dpaudit.membership.step.runs import leaves

_OPACUS = "_module."  # prefix of the names in a module that Opacus wraps


class TorchStep:
    """PyTorch training: ``step(inputs, labels)`` is one step of yours on two tensors.

    ``module``: its parameters, and its buffers of numbers, are what is released.  ``loader``: the
    batches that training draws, a DataLoader or a function that gives one.

    An optimizer other than SGD is seen by the gradients that it is given.
    """

    def __init__(
        self,
        module: Any,
        step: Callable[[Any, Any], Any],
        loader: Any = None,
    ) -> None:
        self._module, self._step, self._batches = module, step, loader
        self._gradients: dict[str, Any] | None = None

    def parameters(self) -> dict[str, Any]:
        named = {n: p for n, p in self._module.named_parameters() if p.requires_grad}
        buffers = {n: b for n, b in self._module.named_buffers() if b.dtype.is_floating_point}
        return {name.removeprefix(_OPACUS): value for name, value in {**named, **buffers}.items()}

    def step(self, features: Array, labels: Array | None) -> None:
        torch = _torch()
        self._gradients = None
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        hook = register_optimizer_step_pre_hook(self._seen)
        try:
            self._step(*self._tensors(torch, features, labels))
        finally:
            hook.remove()

    def released(self) -> dict[str, Any] | None:
        return self._gradients

    def loader(self) -> Iterable[Any] | None:
        batches: Iterable[Any] | None = (
            self._batches() if callable(self._batches) else self._batches
        )
        return batches

    def evaluating(self) -> None:
        """Put the module into evaluation mode, as after a validation."""
        self._module.eval()

    def mixing(self) -> list[str]:
        """Layers that compute a record's output from the batch's other records."""
        torch = _torch()
        kinds = (torch.nn.modules.batchnorm._BatchNorm,)
        return [
            f"{name.removeprefix(_OPACUS)} ({type(layer).__name__})"
            for name, layer in self._module.named_modules()
            if isinstance(layer, kinds)
        ]

    def _seen(self, optimizer: Any, *_: Any) -> None:
        """Keep the noisy gradients that an optimizer is about to apply, by parameter.

        A step of SGD shows them itself; adaptive optimizers divide them by what they keep.
        """
        if isinstance(getattr(optimizer, "original_optimizer", optimizer), _torch().optim.SGD):
            return
        totals = self._gradients or {}
        for name, parameter in self._module.named_parameters():
            if parameter.requires_grad:
                name = name.removeprefix(_OPACUS)
                given = 0.0 if parameter.grad is None else parameter.grad.detach().double().cpu()
                blank = np.zeros(parameter.shape)
                totals[name] = totals.get(name, blank) + np.asarray(given)
        self._gradients = totals

    def _tensors(self, torch: Any, features: Array, labels: Array | None) -> tuple[Any, Any]:
        first = next(self._module.parameters())
        place = {"device": first.device}
        kind = torch.int64 if features.dtype.kind in "iu" else first.dtype
        inputs = torch.as_tensor(np.ascontiguousarray(features)).to(dtype=kind, **place)
        if labels is None:
            return inputs, None
        kind = torch.int64 if labels.dtype.kind in "iub" else first.dtype
        return inputs, torch.as_tensor(np.ascontiguousarray(labels)).to(dtype=kind, **place)


def opacus_step(
    module: Any, optimizer: Any, loader: Any, loss: Callable[[Any, Any], Any],
    *, physical: int | None = None,
) -> TorchStep:  # fmt: skip
    """The objects that Opacus' ``make_private`` returned, trained by the usual loop; ghost clipping
    included.

    ``loss``: the criterion, which ``make_private`` gives too under ghost clipping.  ``physical``:
    records of one physical batch, for virtual steps.
    """

    def step(inputs: Any, labels: Any) -> None:
        size = max(len(inputs), 1) if physical is None else physical
        starts = range(0, max(len(inputs), 1), size)
        for start in starts:
            rows = slice(start, start + size)
            if len(starts) > 1:
                optimizer.signal_skip_step(do_skip=start != starts[-1])
            optimizer.zero_grad()
            loss(module(inputs[rows]), labels[rows]).backward()
            optimizer.step()

    return TorchStep(module, step, loader)


@dataclass
class EstimatorStep:
    """A scikit-learn estimator whose ``partial_fit`` is one step."""

    estimator: Any
    classes: Sequence[Any] | None = None

    def parameters(self) -> dict[str, Any]:
        """The fitted arrays of numbers, by name; none before the first step."""
        return {
            name: np.array(value)
            for name, value in sorted(vars(self.estimator).items())
            if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f"
        }

    def step(self, features: Array, labels: Array | None) -> None:
        more = {} if self.classes is None else {"classes": np.asarray(self.classes)}
        self.estimator.partial_fit(features, labels, **more)


@dataclass
class StateStep:
    """``update(state, features, labels) -> state``, as with JAX and optax.

    ``shown(state)``: the released part of a state, all of it by default.
    """

    state: Any
    update: Callable[[Any, Array, Array | None], Any]
    shown: Callable[[Any], Any] = lambda state: state
    batches: Callable[[], Iterable[Any]] | None = None

    def parameters(self) -> dict[str, Any]:
        return {name: np.array(value) for name, value in leaves(self.shown(self.state))}

    def step(self, features: Array, labels: Array | None) -> None:
        self.state = self.update(self.state, features, labels)

    def loader(self) -> Iterable[Any] | None:
        return None if self.batches is None else self.batches()


def _torch() -> Any:
    with optional("torch", "training with PyTorch"):
        import torch
    return torch
