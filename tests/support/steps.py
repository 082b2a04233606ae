"""Private trainings with a wrong step, each a right one in which lines were replaced.

A bug is a name, the replaced text, its replacement, and the kinds of fault that name it; the lines
that a check has to name are those of the replacement.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpaudit.membership.data import Data

NOISE, RATE = 1.1, 0.1

NUMPY = """
import numpy as np

CLIP, NOISE, BATCH, RATE, LEARNING_RATE = 1.0, 1.1, 20, 0.1, 0.5


class Logistic:
    def __init__(self, records, rng):
        self.features, self.labels = records.features, records.labels
        self.center, self.width = 0.0, 1.0
        self.rng = rng
        self.weights = np.zeros(self.features.shape[1])
        self.bias = np.zeros(1)

    def parameters(self):
        return {"weights": self.weights, "bias": self.bias}

    def loader(self):
        for _ in range(len(self.features) // BATCH):
            chosen = self.rng.random(len(self.features)) < RATE
            yield self.features[chosen], self.labels[chosen]

    def step(self, features, labels):
        inputs = (features - self.center) / self.width
        errors = 1 / (1 + np.exp(-(inputs @ self.weights + self.bias))) - labels
        gradients = np.column_stack([errors[:, None] * inputs, errors])
        norms = np.linalg.norm(gradients, axis=1)
        factors = np.minimum(1, CLIP / np.maximum(norms, 1e-12))
        total = (factors[:, None] * gradients).sum(axis=0)
        noise = self.rng.normal(0, NOISE * CLIP, total.size)
        update = (total + noise) / BATCH
        self.weights = self.weights - LEARNING_RATE * update[:-1]
        self.bias = self.bias - LEARNING_RATE * update[-1]
"""

MOMENTUM = """
import numpy as np

C, SIGMA, LOT, ETA, BETA = 0.5, 1.1, 20, 0.05, 0.9


def gradients(w, x, y):
    return 2 * (x @ w - y)[:, None] * x


def clipped(g):
    return g / np.maximum(1, np.linalg.norm(g, axis=1, keepdims=True) / C)


class Regression:
    def __init__(self, records, rng):
        self.w = rng.normal(0, 0.1, records.features.shape[1])
        self.velocity = np.zeros_like(self.w)
        self.total = np.zeros_like(self.w)
        self.rng = rng

    def parameters(self):
        return self.w

    def step(self, x, y):
        self.total = np.zeros_like(self.w)
        for start in range(0, len(x), 8):
            part = gradients(self.w, x[start : start + 8], y[start : start + 8])
            self.total += clipped(part).sum(axis=0)
        noisy = self.total + SIGMA * C * self.rng.standard_normal(self.w.shape)
        self.velocity = BETA * self.velocity + noisy / LOT
        self.w = self.w - ETA * self.velocity
"""

TORCH = """
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from dpaudit.membership import TorchStep

CLIP, SIGMA, BATCH = 1.0, 1.1, 20


def make(records, rng):
    torch.manual_seed(int(rng.integers(2**31)))
    module = nn.Sequential(
        nn.Linear(records.features.shape[1], 6),
        nn.Tanh(),
        nn.Linear(6, 2),
    ).double()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)

    def loss(parameters, x, y):
        return nn.functional.cross_entropy(functional_call(module, parameters, (x[None],)), y[None])

    def step(inputs, labels):
        named = {name: p.detach() for name, p in module.named_parameters()}
        optimizer.zero_grad()
        each = {name: torch.zeros((0, *p.shape)) for name, p in named.items()}
        if len(inputs):
            each = vmap(grad(loss), (None, 0, 0))(named, inputs, labels)
        squares = [part.flatten(1).square().sum(1) for part in each.values()]
        norms = torch.stack(squares).sum(0).sqrt()
        factors = (CLIP / norms.clamp(min=1e-12)).clamp(max=1.0)
        for name, p in module.named_parameters():
            summed = torch.einsum("n,n...->...", factors, each[name])
            noise = torch.randn_like(p) * SIGMA * CLIP
            p.grad = (summed + noise) / BATCH
        optimizer.step()

    def loader():
        for _ in range(len(records.features) // BATCH):
            chosen = torch.rand(len(records.features)) < 0.1
            yield torch.as_tensor(records.features)[chosen], torch.as_tensor(records.labels)[chosen]

    return TorchStep(module, step, loader)
"""

OPACUS = """
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from dpaudit.membership import TorchStep


def make(records, rng):
    torch.manual_seed(int(rng.integers(2**31)))
    inputs = torch.as_tensor(records.features, dtype=torch.float32)
    loader = DataLoader(TensorDataset(inputs, torch.as_tensor(records.labels)), batch_size=20)
    module = nn.Sequential(nn.Linear(inputs.shape[1], 6), nn.ReLU(), nn.Linear(6, 2))
    plain = torch.optim.Adam(module.parameters(), lr=0.01)
    module, optimizer, loader = PrivacyEngine().make_private(
        module=module, optimizer=plain, data_loader=loader,
        noise_multiplier=1.1,
        max_grad_norm=1.0,
        poisson_sampling=True,
    )
    loss = nn.CrossEntropyLoss()

    def step(x, y):
        optimizer.zero_grad()
        loss(module(x), y).backward()
        optimizer.step()

    return TorchStep(module, step, loader)
"""

GHOST = """
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from dpaudit.membership import TorchStep


def make(records, rng):
    torch.manual_seed(int(rng.integers(2**31)))
    inputs = torch.as_tensor(records.features, dtype=torch.float32)
    loader = DataLoader(TensorDataset(inputs, torch.as_tensor(records.labels)), batch_size=20)
    module = nn.Sequential(nn.Linear(inputs.shape[1], 6), nn.ReLU(), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module, optimizer, loss, loader = PrivacyEngine().make_private(
        module=module, optimizer=optimizer, data_loader=loader, criterion=nn.CrossEntropyLoss(),
        noise_multiplier=1.1, max_grad_norm=1.0, grad_sample_mode="ghost",
    )

    def step(x, y):
        optimizer.zero_grad()
        loss(module(x), y).backward()
        optimizer.step()

    return TorchStep(module, step, loader)
"""


JAX = """
import jax
import jax.numpy as jnp
import optax
from dpaudit.membership import StateStep

CLIP, NOISE, BATCH = 1.0, 1.1, 20


def loss(parameters, x, y):
    logit = x @ parameters["weights"] + parameters["bias"]
    return optax.sigmoid_binary_cross_entropy(logit, y.astype(float))


def make(records, rng):
    parameters = {"weights": jnp.zeros(records.features.shape[1]), "bias": jnp.zeros(())}
    optimizer = optax.sgd(0.5, momentum=0.9)

    def update(state, x, y):
        parameters, carried, key = state
        key, drawn = jax.random.split(key)
        each = jax.vmap(jax.grad(loss), (None, 0, 0))(parameters, x, y)
        norms = jnp.sqrt(jnp.sum(each["weights"] ** 2, axis=1) + each["bias"] ** 2)
        factors = jnp.minimum(1, CLIP / jnp.maximum(norms, 1e-12))
        total = jax.tree.map(lambda part: jnp.tensordot(factors, part, 1), each)
        keys = dict(zip(total, jax.random.split(drawn, len(total))))
        noisy = {
            name: (part + NOISE * CLIP * jax.random.normal(keys[name], part.shape)) / BATCH
            for name, part in total.items()
        }
        moved, carried = optimizer.update(noisy, carried, parameters)
        return optax.apply_updates(parameters, moved), carried, key

    start = (parameters, optimizer.init(parameters), jax.random.key(int(rng.integers(2**31))))
    return StateStep(start, update, lambda state: state[0])
"""

KERAS = """
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np
import torch

CLIP, NOISE, BATCH = 1.0, 1.1, 20


class Network:
    def __init__(self, records, rng):
        seed = int(rng.integers(2**31))
        keras.utils.set_random_seed(seed)
        self.noise = keras.random.SeedGenerator(seed)
        self.model = keras.Sequential([
            keras.layers.Input((records.features.shape[1],)),
            keras.layers.Dense(4, activation="relu"),
            keras.layers.Dense(1),
        ])
        self.optimizer = keras.optimizers.SGD(0.1)
        self.loss = keras.losses.BinaryCrossentropy(from_logits=True)

    def parameters(self):
        return {v.path: np.array(keras.ops.convert_to_numpy(v)) for v in self.model.weights}

    def gradient(self, x, y):
        self.model.zero_grad()
        self.loss(y[None, None], self.model(x[None])).backward()
        return [v.value.grad.clone() for v in self.model.trainable_weights]

    def step(self, features, labels):
        x = torch.as_tensor(features, dtype=torch.float32)
        y = torch.as_tensor(labels, dtype=torch.float32)
        totals = [torch.zeros(v.shape) for v in self.model.trainable_weights]
        for record, label in zip(x, y):
            parts = self.gradient(record, label)
            norm = torch.sqrt(sum((part**2).sum() for part in parts))
            factor = min(1.0, CLIP / max(float(norm), 1e-12))
            totals = [total + factor * part for total, part in zip(totals, parts)]
        noisy = [
            (total + keras.random.normal(total.shape, 0, NOISE * CLIP, seed=self.noise)) / BATCH
            for total in totals
        ]
        with torch.no_grad():
            self.optimizer.apply(noisy, self.model.trainable_weights)
"""

ESTIMATOR = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from dpaudit.membership import EstimatorStep

NOISE, BATCH = 1.1, 20


class PrivateClassifier(ClassifierMixin, BaseEstimator):
    def __init__(self, eta0=0.5, random_state=None):
        self.eta0, self.random_state = eta0, random_state

    def partial_fit(self, X, y, classes=None):
        if not hasattr(self, "coef_"):
            self.classes_ = np.asarray(classes)
            self.coef_ = np.zeros(X.shape[1])
            self.random_ = check_random_state(self.random_state)
        if not len(X):
            X = np.zeros((1, self.coef_.size))
            y = np.zeros(1)
        rows = normalize(X)  # records of norm 1, so that gradients are no longer
        errors = 1 / (1 + np.exp(-rows @ self.coef_)) - y
        noise = self.random_.normal(0, NOISE, self.coef_.size)
        self.coef_ = self.coef_ - self.eta0 * (errors @ rows + noise) / BATCH
        return self


def make(records, rng):
    return EstimatorStep(PrivateClassifier(random_state=int(rng.integers(2**31))), (0, 1))
"""


class Planted(NamedTuple):
    """A bug: what is replaced by what in which source, and the kinds of fault that name it."""

    source: str
    old: str
    new: str
    kinds: tuple[str, ...]
    line: str | None = None  # text of the line to name, where a line is missing


_CLIPPED = NUMPY[NUMPY.index("        norms = ") : NUMPY.index("        noise = ")]
_NOISY = NUMPY[NUMPY.index("        norms = ") : NUMPY.index("        update = ")]
_NORMS = "        norms = np.linalg.norm(gradients, axis=1)\n"
_SUM = (
    "        factors = np.minimum(1, c / np.maximum(norms, 1e-12))\n"
    "        total = (factors[:, None] * gradients).sum(axis=0)\n"
)
_NOISE = "        noise = self.rng.normal(0, NOISE * c, gradients.shape[1])\n"
_OF_CLIP = "        c = CLIP\n"
_STANDARD = _NORMS + _OF_CLIP + _SUM + _NOISE  # the right lines in the place of _NOISY
_CLASSES = (
    "        counts = np.bincount(labels, minlength=2)\n"
    "        weights = (len(labels) / 2 / np.maximum(counts, 1))[labels]\n"
)
_TORCH_CLIPPED = TORCH[TORCH.index("        squares = ") : TORCH.index("        optimizer.step")]
_SEEDED = "np.random.default_rng(7).normal(0, NOISE * CLIP, total.size)"
BUGS: dict[str, Planted] = {
    "NumPy: no clipping": Planted(
        NUMPY, _CLIPPED, "        total = gradients.sum(axis=0)\n",
        ("not_clipped",),
    ),
    "NumPy: clip of the mean": Planted(
        NUMPY, _CLIPPED,
        "        mean = gradients.sum(axis=0) / max(len(gradients), 1)\n"
        "        total = BATCH * mean * min(1.0, CLIP / max(np.linalg.norm(mean), 1e-12))\n",
        ("batch_clipped",),
    ),
    "NumPy: noise over the batch twice": Planted(
        NUMPY, "self.rng.normal(0, NOISE * CLIP, total.size)",
        "self.rng.normal(0, NOISE * CLIP, total.size) / BATCH", ("small_noise",),
    ),
    "NumPy: noise of one seed": Planted(
        NUMPY, "self.rng.normal(0, NOISE * CLIP, total.size)", _SEEDED, ("fixed_noise",)
    ),
    "NumPy: bias not clipped": Planted(
        NUMPY, _CLIPPED,
        "        factors = np.minimum(1, CLIP / np.linalg.norm(gradients[:, :-1], axis=1))\n"
        "        total = np.append(factors @ gradients[:, :-1], gradients[:, -1].sum())\n",
        ("parts_clipped_apart", "not_clipped"),
    ),
    "NumPy: an empty batch is skipped": Planted(
        NUMPY, "        inputs = (features - self.center) / self.width\n",
        "        if len(features) == 0:\n            return\n"
        "        inputs = (features - self.center) / self.width\n", ("skipped",),
    ),
    "NumPy: divided by the drawn batch": Planted(
        NUMPY, "(total + noise) / BATCH", "(total + noise) / max(len(features), 1)",
        ("noise_by_count",),
    ),
    "NumPy: shuffled batches": Planted(
        NUMPY, "        for _ in range(len(self.features) // BATCH):\n"
        "            chosen = self.rng.random(len(self.features)) < RATE\n",
        "        order = self.rng.permutation(len(self.features))\n"
        "        for chosen in np.array_split(order, len(order) // BATCH):\n", ("sampling",),
    ),
    "NumPy: private mean and deviation": Planted(
        NUMPY, "self.center, self.width = 0.0, 1.0",
        "self.center, self.width = self.features.mean(0), self.features.std(0)",
        ("outside_the_batch",),
    ),
    "NumPy: noise that grows as the root of the batch": Planted(
        NUMPY, "self.rng.normal(0, NOISE * CLIP, total.size)",
        "self.rng.normal(0, NOISE * CLIP * max(1, len(features)) ** 0.5, total.size)",
        ("noise_by_records",),
    ),
    "NumPy: batches less the mean of all records": Planted(
        NUMPY, "        self.features, self.labels = records.features, records.labels\n",
        "        self.features, self.labels = records.features, records.labels\n"
        "        self.features = self.features - self.features.mean(axis=0)\n",
        ("outside_the_batch",), "self.features.mean(axis=0)",
    ),
    "NumPy: large values become the mean of the others": Planted(
        NUMPY, "        self.features, self.labels = records.features, records.labels\n",
        "        self.features, self.labels = records.features, records.labels\n"
        "        large = self.features > np.quantile(self.features, 0.9)\n"
        "        self.features = np.where(large, self.features[~large].mean(), self.features)\n",
        ("outside_the_batch",),
    ),
    "NumPy: a step length from the loss on all records": Planted(
        NUMPY, "        update = (total + noise) / BATCH\n",
        "        update = getattr(self, 'rate', 1.0) * (total + noise) / BATCH\n"
        "        margins = self.features @ self.weights + self.bias\n"
        "        losses = np.logaddexp(0, margins) - self.labels * margins\n"
        "        self.rate = 0.5 if losses.mean() > 0.8 else 1.0\n",
        ("outside_the_batch",), "self.features @ self.weights",
    ),
    "NumPy: gradients are not zeroed": Planted(
        MOMENTUM, "        self.total = np.zeros_like(self.w)\n        for start",
        "        for start", ("comes_back",), "self.total +=",
    ),
    "NumPy: one draw for all parameters": Planted(
        MOMENTUM, "self.rng.standard_normal(self.w.shape)", "self.rng.standard_normal()",
        ("shared_noise",),
    ),
    "NumPy: clip and noise of the batch's median norm": Planted(
        NUMPY, _NOISY,
        _NORMS + "        c = np.median(norms) if len(norms) else CLIP\n" + _SUM + _NOISE,
        ("noise_by_records",), "np.median",
    ),
    "NumPy: clip of a quantile, of at most CLIP, from 8 records on": Planted(
        NUMPY, _NOISY,
        _NORMS + "        c = min(CLIP, np.quantile(norms, 0.5)) if len(norms) > 7 else CLIP\n"
        + _SUM + _NOISE.replace("* c", "* CLIP"),
        ("batch_weighted",), "np.quantile",
    ),
    "NumPy: clip of the last batch's median norm": Planted(
        NUMPY, _NOISY,
        _NORMS + "        c = getattr(self, 'clip', CLIP)\n" + _SUM + _NOISE
        + "        self.clip = np.median(norms) if len(norms) else c\n",
        ("noise_by_records",), "np.median",
    ),
    "NumPy: gradients over the batch's largest": Planted(
        NUMPY, _NOISY,
        _NORMS + "        gradients = CLIP * gradients / norms.max(initial=1e-12)\n"
        + _OF_CLIP + _SUM + _NOISE,
        ("batch_weighted",), "norms.max(",
    ),
    "NumPy: the batch's mean and deviation": Planted(
        NUMPY, "        inputs = (features - self.center) / self.width\n",
        "        few = len(features) < 2\n"
        "        inputs = features if few else (features - features.mean(0)) / features.std(0)\n",
        ("batch_weighted",), "features.mean(0)",
    ),
    "NumPy: weights of the batch's classes": Planted(
        NUMPY, _NOISY,
        _CLASSES + _NORMS + _OF_CLIP + _SUM.replace("* gradients", "* gradients * weights[:, None]")
        + _NOISE,
        ("batch_weighted",), "np.bincount",
    ),
    "NumPy: gradients less the batch's mean": Planted(
        NUMPY, _NOISY,
        "        gradients = gradients - gradients.sum(0) / max(len(gradients), 1)\n" + _STANDARD,
        ("batch_weighted",), "gradients.sum(0)",
    ),
    "NumPy: a batch with a large gradient is skipped": Planted(
        NUMPY, _NOISY,
        _NORMS + "        if norms.max(initial=0) > 50:\n            return\n"
        + _OF_CLIP + _SUM + _NOISE,
        ("noise_by_records",), "norms.max(",
    ),
    "NumPy: less noise the more of a batch is right": Planted(
        NUMPY, _NOISY,
        "        right = (inputs @ self.weights + self.bias > 0) == labels\n"
        + _NORMS + _OF_CLIP + _SUM + _NOISE.replace("* c", "* c * (1.3 - 0.6 * right.sum() "
        "/ max(len(right), 1))"),
        ("noise_by_records",),
    ),
    "NumPy: at most 64 records of a batch": Planted(
        NUMPY, _NOISY, "        gradients = gradients[:64]\n" + _STANDARD,
        ("batch_weighted",), "gradients[:64]",
    ),
    "PyTorch: clip_grad_norm_ of the batch": Planted(
        TORCH, _TORCH_CLIPPED,
        "        for name, p in module.named_parameters():\n"
        "            p.grad = each[name].sum(0) / BATCH\n"
        "        nn.utils.clip_grad_norm_(module.parameters(), CLIP)\n"
        "        for p in module.parameters():\n"
        "            p.grad += SIGMA * CLIP * torch.randn_like(p) / BATCH\n",
        ("batch_clipped",), "nn.utils.clip_grad_norm_",
    ),
    "PyTorch: batch norm": Planted(
        TORCH, "        nn.Tanh(),\n", "        nn.BatchNorm1d(6, track_running_stats=False),\n",
        ("batch_norm",),
    ),
    "PyTorch: no noise on biases": Planted(
        TORCH, "torch.randn_like(p) * SIGMA * CLIP",
        "torch.randn_like(p) * SIGMA * CLIP * (p.dim() > 1)", ("part_without_noise",),
    ),
    "PyTorch: noise without its mean square": Planted(
        TORCH, "torch.randn_like(p) * SIGMA * CLIP", "(torch.rand_like(p) - 0.5) * SIGMA * CLIP",
        ("small_noise", "not_gaussian"),
    ),
    "PyTorch: each layer clipped alone": Planted(
        TORCH, _TORCH_CLIPPED,
        "        for name, p in module.named_parameters():\n"
        "            norms = each[name].flatten(1).norm(dim=1).clamp(min=1e-12)\n"
        "            factors = (CLIP / norms).clamp(max=1.0)\n"
        '            summed = torch.einsum("n,n...->...", factors, each[name])\n'
        "            noise = torch.randn_like(p) * SIGMA * CLIP\n"
        "            p.grad = (summed + noise) / BATCH\n",
        ("parts_clipped_apart",),
    ),
    "Opacus: a tenth of the noise": Planted(
        OPACUS, "noise_multiplier=1.1", "noise_multiplier=0.11", ("small_noise",)
    ),
    "Opacus: the plain optimizer steps": Planted(
        OPACUS, "        optimizer.step()\n", "        plain.step()\n", ("no_noise",)
    ),
    "Opacus: no Poisson sampling": Planted(
        OPACUS, "poisson_sampling=True", "poisson_sampling=False", ("sampling",)
    ),
    "Opacus: ghost clipping, noise of one seed": Planted(
        GHOST, 'grad_sample_mode="ghost",',
        'grad_sample_mode="ghost", noise_generator=torch.Generator().manual_seed(3),',
        ("fixed_noise",),
    ),
    "JAX: one key for every step": Planted(
        JAX, "        key, drawn = jax.random.split(key)\n", "        drawn = key\n",
        ("repeated_noise",), "noisy = {",
    ),
    "JAX: a constant key": Planted(
        JAX, "jax.random.key(int(rng.integers(2**31)))", "jax.random.key(0)", ("fixed_noise",)
    ),
    "JAX: the gradient of the mean loss is clipped": Planted(
        JAX, JAX[JAX.index("        each = ") : JAX.index("        keys = ")],
        "        each = jax.vmap(jax.grad(loss), (None, 0, 0))(parameters, x, y)\n"
        "        mean = jax.tree.map(lambda part: part.sum(0) / max(len(x), 1), each)\n"
        "        factor = jnp.minimum(1, CLIP / jnp.maximum(optax.global_norm(mean), 1e-12))\n"
        "        total = jax.tree.map(lambda part: factor * BATCH * part, mean)\n",
        ("batch_clipped",),
    ),
    "Keras: no noise on biases": Planted(
        KERAS, "NOISE * CLIP, seed=self.noise)",
        "NOISE * CLIP * (total.ndim > 1), seed=self.noise)", ("part_without_noise",),
    ),
    "Keras: an integer seed, which draws the same each time": Planted(
        KERAS, "seed=self.noise)", "seed=7)", ("fixed_noise",),
    ),
    "Keras: clipnorm of the optimizer": Planted(
        KERAS, "            factor = min(1.0, CLIP / max(float(norm), 1e-12))\n",
        "            factor = 1.0  # keras.optimizers.SGD(clipnorm=1.0) is trusted\n",
        ("not_clipped",), "v.value.grad.clone()",
    ),
    "scikit-learn: a fixed random_state": Planted(
        ESTIMATOR, "random_state=int(rng.integers(2**31))", "random_state=0", ("fixed_noise",)
    ),
    "scikit-learn: rows are not normalised": Planted(
        ESTIMATOR, "rows = normalize(X)  #", "rows = X  #", ("not_clipped",), "errors @ rows"
    ),
    "scikit-learn: noise of the variance": Planted(
        ESTIMATOR, "self.random_.normal(0, NOISE, self.coef_.size)",
        "self.random_.normal(0, NOISE / BATCH, self.coef_.size)", ("small_noise",),
    ),
}  # fmt: skip

_OWN = (  # a generator of its own, seeded where the training is made, and random parameters
    "        self.rng = rng\n        self.weights = np.zeros(self.features.shape[1])\n",
    "        self.rng = np.random.default_rng(int(rng.integers(2**31)))\n"
    "        self.weights = 0.1 * rng.normal(size=self.features.shape[1])\n",
)
_DROPOUT = "        gradients = gradients * (self.rng.random(gradients.shape) < 0.7)\n"
_QUANTILE = (
    _NORMS
    + "        c = getattr(self, 'clip', CLIP)\n"
    + _SUM
    + _NOISE
    + "        below = (norms <= c).sum() - len(norms) / 2 + 4 * self.rng.standard_normal()\n"
    "        self.clip = c * np.exp(-0.2 * below / 20)\n"
)
# Right steps that look like those in which records depend on each other.
RIGHT: dict[str, Planted] = {
    "dropout": Planted(NUMPY, _NOISY, _DROPOUT + _STANDARD, ()),
    "dropout, of a generator of its own": Planted(
        NUMPY.replace(*_OWN), _NOISY, _DROPOUT + _STANDARD, ()
    ),
    "noise before dropout": Planted(
        NUMPY, _NOISY, _OF_CLIP + _NOISE + _DROPOUT + _NORMS + _SUM, ()
    ),
    "a clip of noisy quantiles": Planted(NUMPY, _NOISY, _QUANTILE, ()),
    "copies that count once": Planted(
        NUMPY, _NOISY, "        gradients = np.unique(gradients, axis=0)\n" + _STANDARD, ()
    ),
    "a sum that is cut to a ball": Planted(
        NUMPY, _NOISY,
        _STANDARD + "        total = total / max(1, np.linalg.norm(total) / (3 * CLIP))\n", (),
    ),
    "large records left out": Planted(
        NUMPY, _NOISY,
        "        gradients = gradients[np.linalg.norm(gradients, axis=1) < 50]\n" + _STANDARD, (),
    ),
    "batches under noise of their own": Planted(
        NUMPY, "yield self.features[chosen],",
        "yield self.features[chosen] + self.rng.normal(0, 0.1, self.features[chosen].shape),", (),
    ),
    "batches in the order of a column": Planted(
        NUMPY, "            yield", "            chosen = np.flatnonzero(chosen)\n"
        "            chosen = chosen[np.argsort(self.features[chosen, 0])]\n            yield", (),
    ),
    "batches less a noisy mean": Planted(
        NUMPY, "        self.rng = rng\n", "        self.rng = rng\n"
        "        total = np.clip(self.features, -4, 4).sum(axis=0)\n"
        "        self.features = self.features - (total + rng.normal(0, 50, total.size)) / 200\n",
        (),
    ),
}  # fmt: skip


def records(name: str = "") -> Data:
    """200 records of 5 columns in two classes, or with a real label."""
    rng = np.random.default_rng(5)
    features = rng.normal(size=(200, 5))
    margin = features @ rng.normal(size=5) + 0.3 * rng.normal(size=200)
    return Data(features, margin if "regression" in name else (margin > 0).astype(int))


def data_of(planted: Planted) -> Data:
    return records("regression" if planted.source is MOMENTUM else "")


def library(planted: Planted) -> str | None:
    """The library that a training imports; None for NumPy and scikit-learn, which are there."""
    names = ("opacus", "keras", "jax", "torch")
    return next(
        (
            name
            for name in names
            if f"import {name}\n" in planted.source or f"from {name}" in planted.source
        ),
        None,
    )


def written(planted: Planted, folder: Path, *, right: bool) -> tuple[Callable[..., Any], range]:
    """The function that makes the training, from a file of its own, and the lines of the bug."""
    text = planted.source
    if planted.old not in text:
        raise ValueError(f"the source does not hold {planted.old!r}")
    start = text[: text.index(planted.old)].count("\n") + 1
    lines = range(start, start + max(1, planted.new.count("\n") + (planted.new[-1:] != "\n")))
    if not right:
        text = text.replace(planted.old, planted.new, 1)
    if planted.line is not None and not right:
        start = text[: text.index(planted.line)].count("\n") + 1
        lines = range(start, start + 1)
    name = f"step_{abs(hash((planted.new, right))) % 10**9}"
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    made = [getattr(module, n, None) for n in ("make", "Logistic", "Regression", "Network")]
    return next(one for one in made if one is not None), lines
