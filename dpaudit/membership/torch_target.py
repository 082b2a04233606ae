"""PyTorch modules as targets, trained plainly or by Opacus' PrivacyEngine (extra ``torch``)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter, optional
from dpaudit.membership.data import Array, Data, FloatArray
from dpaudit.membership.targets import Released, numbers_of

_NO_CLIP = 1e12  # a clipping norm that no gradient exceeds
_NORMS_AT_ONCE = 256  # records in one vectorised call; bounds its memory


@dataclass(frozen=True)
class DPSGD:
    """Opacus' settings: noise over the clipping norm, and sampling by Poisson or by shuffling."""

    noise_multiplier: float
    max_grad_norm: float
    poisson_sampling: bool = True


@dataclass
class Fitted:
    """A trained module; ``iterates`` are copies before training and after every epoch."""

    module: Any
    iterates: list[Any] = field(default_factory=list)
    epsilon: Callable[[float], float] | None = None


@dataclass(frozen=True)
class TorchTarget:
    """PyTorch training of a fresh ``module()``, by cross-entropy or by ``loss``.

    All randomness (weights, shuffling, dropout, Opacus' noise) comes from the generator given to
    ``fit``, which seeds torch's.  ``private``: train by Opacus.  ``start``: initial weights, for an
    attacker who chooses them (Annamalai and De Cristofaro 2024).
    ``optimizer(parameters)``: SGD at ``rate`` by default.

    Errors: InvalidParameter for sizes below 1, or where torch or Opacus is not installed.
    """

    module: Callable[[], Any]
    epochs: int = 10
    batch_size: int = 32
    rate: float = 0.1
    released: Released = Released.MODEL
    private: DPSGD | None = None
    loss: Callable[[Any, Any], Any] | None = None
    optimizer: Callable[[Any], Any] | None = None
    start: Mapping[str, Any] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        for place in ("epochs", "batch_size"):
            value = getattr(self, place)
            if type(value) is not int or value < 1:
                raise InvalidParameter(f"TorchTarget.{place} = {value!r}: expected at least 1")
        _torch()

    @property
    def words(self) -> str:
        trained = f"{self.epochs} epochs of batches of {self.batch_size} at rate {self.rate:g}"
        by = ""
        if self.private is not None:
            by = (
                f", by Opacus at noise multiplier {self.private.noise_multiplier:g}, clipping norm "
                f"{self.private.max_grad_norm:g}"
            )
        named = self.name or getattr(self.module, "__qualname__", type(self.module).__name__)
        return f"{named}: {trained}{by}"

    def fit(self, records: Data, rng: np.random.Generator) -> Fitted:
        torch = _torch()
        with torch.random.fork_rng():
            torch.manual_seed(int(rng.integers(2**63)))
            return self._fitted(torch, records)

    def unclipped(self) -> TorchTarget:
        """The same training with its clip off and as much noise."""
        if self.private is None:
            return self
        noise = self.private.noise_multiplier * self.private.max_grad_norm
        off = replace(self.private, noise_multiplier=noise / _NO_CLIP, max_grad_norm=_NO_CLIP)
        return replace(self, private=off)

    def _fitted(self, torch: Any, records: Data) -> Fitted:
        """Train a module, with Opacus if it is asked for, keeping iterates if they are released."""
        module = self._made()
        if self.start is not None:
            module.load_state_dict(dict(self.start))
        make = self.optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=self.rate))
        optimizer = make(module.parameters())
        dataset = torch.utils.data.TensorDataset(*self._tensors(records, module))
        loader = torch.utils.data.DataLoader(dataset, self.batch_size, shuffle=True)
        fitted = Fitted(module)
        keeps = self.released is Released.ITERATES
        if keeps:
            fitted.iterates.append(copy.deepcopy(module))
        trained, optimizer, loader, engine = self._made_private(module, optimizer, loader)
        loss = self.loss or torch.nn.functional.cross_entropy
        trained.train()
        for _ in range(self.epochs):
            for inputs, labels in loader:
                if len(inputs) == 0:  # an empty Poisson batch: Opacus still adds noise
                    optimizer.zero_grad()
                    optimizer.step()
                    continue
                optimizer.zero_grad()
                loss(trained(inputs), labels).backward()
                optimizer.step()
            if keeps:
                fitted.iterates.append(_plain_copy(trained, self._made))
        fitted.module = _plain_copy(trained, self._made)
        if engine is not None:
            fitted.epsilon = engine.get_epsilon
        return fitted

    def _made_private(self, module: Any, optimizer: Any, loader: Any) -> tuple[Any, Any, Any, Any]:
        if self.private is None:
            return module, optimizer, loader, None
        with optional("torch", "private training"):
            from opacus import PrivacyEngine
        engine = PrivacyEngine()
        private = engine.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=self.private.noise_multiplier,
            max_grad_norm=self.private.max_grad_norm,
            poisson_sampling=self.private.poisson_sampling,
        )
        return (*private[:3], engine)

    def _made(self) -> Any:
        """A fresh module, on a GPU where there is one."""
        module = self.module()
        return module.to("cuda") if _torch().cuda.is_available() else module

    def _tensors(self, records: Data, module: Any) -> tuple[Any, Any]:
        """Inputs and labels where the module is, numbers in its precision (float32 or float64)."""
        torch = _torch()
        first = next(module.parameters(), torch.zeros(0))
        place = {"device": first.device}
        features = np.ascontiguousarray(records.features)
        inputs = torch.as_tensor(features.astype(np.float64)).to(dtype=first.dtype, **place)
        if records.labels is None:
            raise InvalidParameter("TorchTarget: the records have no labels")
        real = records.labels.dtype.kind == "f"
        kind = first.dtype if real else torch.int64
        return inputs, torch.as_tensor(np.ascontiguousarray(records.labels)).to(dtype=kind, **place)

    def score(self, model: Fitted | Any, records: Data) -> Array:
        """Logits, or minus the loss where a ``loss`` was given."""
        torch = _torch()
        module = model.module if isinstance(model, Fitted) else model
        inputs, labels = self._tensors(records, module)
        module.eval()
        with torch.no_grad():
            outputs = module(inputs)
            if self.loss is None:
                return np.asarray(outputs.double().cpu().numpy())
            rows = [
                self.loss(outputs[row : row + 1], labels[row : row + 1]).item()
                for row in range(len(labels))
            ]
            return -np.asarray(rows)

    def iterates(self, model: Fitted) -> list[Any]:
        return model.iterates

    def parameters(self, model: Fitted | Any) -> FloatArray:
        torch = _torch()
        module = model.module if isinstance(model, Fitted) else model
        flat = torch.nn.utils.parameters_to_vector(module.parameters())
        return np.asarray(flat.detach().double().cpu().numpy())

    def numbers(self, model: Fitted | Any) -> FloatArray | None:
        """The module's ``state_dict``: parameters, and buffers such as running means."""
        return numbers_of(model.module if isinstance(model, Fitted) else model)

    def gradients(self, model: Fitted | Any, records: Data) -> FloatArray:
        """Gradients of each record's loss by torch.func, (n, parameters)."""
        torch = _torch()
        module = model.module if isinstance(model, Fitted) else model
        module.eval()
        named = {name: value.detach() for name, value in module.named_parameters()}
        loss = self.loss or torch.nn.functional.cross_entropy

        def of_record(parameters: Any, one: Any, label: Any) -> Any:
            outputs = torch.func.functional_call(module, parameters, (one.unsqueeze(0),))
            return loss(outputs, label.unsqueeze(0))

        each = torch.func.vmap(torch.func.grad(of_record), in_dims=(None, 0, 0))
        inputs, labels = self._tensors(records, module)
        chunks = []
        for start in range(0, len(labels), _NORMS_AT_ONCE):
            rows = slice(start, start + _NORMS_AT_ONCE)
            parts = each(named, inputs[rows], labels[rows])
            flat = [parts[name].reshape(len(labels[rows]), -1) for name in named]
            chunks.append(torch.cat(flat, dim=1).double().cpu().numpy())
        return np.concatenate(chunks)


def _plain_copy(trained: Any, make: Callable[[], Any]) -> Any:
    """A module without Opacus' hooks, with the same weights."""
    inner = getattr(trained, "_module", trained)
    plain = make()
    plain.load_state_dict({k: v.detach().clone() for k, v in inner.state_dict().items()})
    return plain


def _torch() -> Any:
    with optional("torch", "training with PyTorch"):
        import torch
    return torch
