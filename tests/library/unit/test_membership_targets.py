"""Canaries, synthetic tables, and PyTorch targets (left out, by name, where torch is missing)."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import PureDP
from dpaudit.membership import (
    DPSGD,
    Data,
    FunctionTarget,
    Released,
    Study,
    SyntheticTarget,
    TorchTarget,
    adversarial,
    blank,
    gradients_of,
    mislabelled,
    torch_target,
    users_of_mislabelled,
)
from dpaudit.membership.attacks import ATTACKS
from dpaudit.membership.control import clip_off
from dpaudit.membership.results import attack_result
from dpaudit.membership.signals import signals
from tests.support.membership import (
    DPOptimizer,
    background,
    logits,
    loss_gradients,
    numbered,
)

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
needs_opacus = pytest.mark.skipif(find_spec("opacus") is None, reason="opacus is not installed")


def test_mislabelled_canaries_have_another_label_and_no_record_twice() -> None:
    data = Data(np.arange(60.0).reshape(30, 2), np.arange(30) % 3)
    made = mislabelled(data, 12, np.random.default_rng(0))
    rows = (made.features[:, 0] / 2).astype(int)
    assert len(set(rows.tolist())) == 12
    assert made.labels is not None
    assert (made.labels != rows % 3).all()
    assert set(made.labels.tolist()) <= {0, 1, 2}
    users = users_of_mislabelled(data, 4, 3, np.random.default_rng(0))
    assert users.unit_count == 4
    assert np.bincount(users.unit_of).tolist() == [3] * 4


def test_blank_and_gradient_canaries() -> None:
    data = numbered(10)
    assert blank(data).features.tolist() == [[0.0] * 3] * 2
    diracs = gradients_of(6, 4, 2.0, np.random.default_rng(0)).features
    assert (np.count_nonzero(diracs, axis=1) == 1).all()
    assert np.allclose(diracs @ diracs.T, 4 * np.eye(4))
    random = gradients_of(6, 9, 2.0, np.random.default_rng(0), kind="random").features
    assert np.allclose(np.linalg.norm(random, axis=1), 2)


def test_adversarial_canaries_move_training_most() -> None:
    target = FunctionTarget(DPOptimizer(), logits, Released.PARAMETERS, "linear", loss_gradients)
    candidates = Data(np.diag([1.0, 9.0, 3.0, 5.0]), np.array([0, 1, 0, 1]))
    rng = np.random.default_rng(0)
    made = adversarial(target, background(), candidates, 2, rng)
    assert made.features.max(axis=1).tolist() == [9.0, 5.0]
    by_loss = FunctionTarget(DPOptimizer(), logits)
    assert len(adversarial(by_loss, background(), candidates, 3, rng)) == 3


BAD: list[Any] = [
    lambda rng: mislabelled(numbered(5), 6, rng),
    lambda rng: mislabelled(Data(np.zeros((3, 1)), np.zeros(3, dtype=int)), 1, rng),
    lambda rng: mislabelled(Data(np.zeros((3, 1))), 1, rng),
    lambda rng: gradients_of(3, 4, 1.0, rng),
    lambda rng: gradients_of(3, 2, 0.0, rng),
    lambda rng: gradients_of(3, 2, 1.0, rng, kind="blank"),
    lambda rng: SyntheticTarget(lambda records, rng: records.features, "far"),
    lambda rng: SyntheticTarget(lambda records, rng: records.features, "density_ratio"),
]


@pytest.mark.parametrize("call", BAD)
def test_canaries_that_cannot_be_made_are_refused(call: Any) -> None:
    with pytest.raises(InvalidParameter):
        call(np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["nearest", "density_ratio"])
def test_a_table_of_noisy_copies_gives_its_members_away(kind: str) -> None:
    """A generator that perturbs what it saw, beside one that draws from a fitted normal."""

    def copies(records: Data, rng: np.random.Generator) -> Any:
        return records.features + rng.normal(0, 0.05, records.features.shape)

    def normal(records: Data, rng: np.random.Generator) -> Any:
        x = records.features
        return rng.normal(x.mean(axis=0), x.std(axis=0), x.shape)

    rng = np.random.default_rng(0)
    data, reference = Data(rng.normal(size=(60, 4))), Data(rng.normal(size=(200, 4)))
    areas = {}
    for generator in (copies, normal):
        target = SyntheticTarget(generator, kind, reference)
        found = Study(target, data, 12, seed=1).run(claim=PureDP(0.5), attacks="loss,lira")
        areas[generator.__name__] = found.attacks["lira"].auc.value
    assert areas["copies"] > 0.9
    assert abs(areas["normal"] - 0.5) < 0.1


# --- torch ----------------------------------------------------------------------------------------


def small() -> Any:
    import torch

    return torch.nn.Linear(4, 2)


def torch_data(count: int = 40) -> Data:
    rng = np.random.default_rng(0)
    return Data(rng.normal(size=(count, 4)).astype(np.float32), rng.integers(0, 2, count))


class OnDevice:
    """A module or tensor that keeps where it was sent, and with what precision."""

    def __init__(self, device: str = "cpu", dtype: str = "float32") -> None:
        self.device, self.dtype = device, dtype

    def to(self, device: str | None = None, dtype: str | None = None) -> OnDevice:
        return OnDevice(device or self.device, dtype or self.dtype)

    def parameters(self) -> Any:
        return iter([self])


@pytest.mark.parametrize(("available", "device"), [(True, "cuda"), (False, "cpu")])
def test_a_gpu_is_used_where_torch_says_that_there_is_one(
    available: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a torch that holds no numbers; precision is that of the module, float64 too."""
    fake = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: available),
        as_tensor=lambda values: OnDevice(dtype=str(values.dtype)),
        zeros=lambda size: OnDevice(),
        int64="int64",
    )
    monkeypatch.setattr(torch_target, "_torch", lambda: fake)
    for precision in ("float32", "float64"):
        target = TorchTarget(partial(OnDevice, dtype=precision))
        inputs, labels = target._tensors(numbered(4), target._made())
        assert (inputs.device, labels.device) == (device, device)
        assert (inputs.dtype, labels.dtype) == (precision, "int64")


@needs_torch
def test_a_module_is_trained_from_the_generator_alone() -> None:
    import torch

    target, data = TorchTarget(small, epochs=2, batch_size=8), torch_data()
    before = torch.random.get_rng_state()
    first, again = (target.fit(data, np.random.default_rng(1)) for _ in range(2))
    other = target.fit(data, np.random.default_rng(2))
    assert (torch.random.get_rng_state() == before).all()
    weights = [target.parameters(model) for model in (first, again, other)]
    assert (weights[0] == weights[1]).all()
    assert (weights[0] != weights[2]).any()
    assert target.score(first, data).shape == (40, 2)


@needs_torch
def test_gradients_are_those_of_each_record() -> None:
    import torch

    data = torch_data(5)
    target = TorchTarget(small, epochs=3, released=Released.ITERATES)
    model = target.fit(data, np.random.default_rng(0))
    assert len(target.iterates(model)) == 4
    found = target.gradients(model, data)
    assert found is not None
    module = model.module
    for row in range(5):
        module.zero_grad()
        inputs = torch.as_tensor(data.features[row : row + 1])
        labels = torch.as_tensor(np.asarray(data.labels)[row : row + 1])
        torch.nn.functional.cross_entropy(module(inputs), labels).backward()
        own = torch.cat([p.grad.reshape(-1) for p in module.parameters()])
        assert np.allclose(found[row], own.numpy(), atol=1e-6)
    shown = signals(target, model, data, 0)
    assert {"step_0", "step_1", "step_2", "path", "influence", "margin"} <= set(shown)


@needs_torch
@needs_opacus
def test_opacus_trains_and_accounts() -> None:
    data = torch_data()
    target = TorchTarget(small, epochs=2, batch_size=8, private=DPSGD(1.0, 1.0))
    model = target.fit(data, np.random.default_rng(1))
    again = target.fit(data, np.random.default_rng(1))
    assert (target.parameters(model) == target.parameters(again)).all()
    assert model.epsilon is not None
    assert 0.5 < model.epsilon(1e-5) < 20
    assert "Opacus at noise multiplier 1" in target.words


@needs_torch
def test_a_torch_study_runs_as_any_other() -> None:
    target = TorchTarget(small, epochs=1, batch_size=16, rate=0.5)
    found = Study(target, torch_data(), 6, seed=1).run(claim=PureDP(0.1), attacks="loss,lira")
    assert found.bound is not None
    assert found.findings == ()
    attack_result(ATTACKS["loss"], np.zeros((2, 3)), np.array([[1, 0, 1], [0, 1, 0]]) > 0)


@needs_torch
def test_bad_settings_of_torch_are_refused() -> None:
    for bad in ({"epochs": 0}, {"batch_size": 1.5}):
        with pytest.raises(InvalidParameter):
            TorchTarget(small, **bad)  # type: ignore[arg-type]


def test_jax_functions_are_targets() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")

    def fit(records: Data, rng: np.random.Generator) -> Any:
        key = jax.random.key(int(rng.integers(2**31)))
        return jax.numpy.asarray(records.features).mean(axis=0) + jax.random.normal(key, (3,))

    def score(model: Any, records: Data) -> Any:
        return -((jax.numpy.asarray(records.features) - model) ** 2).sum(axis=1)

    found = Study((fit, score), numbered(40), 6, seed=1).run(claim=PureDP(1), attacks="loss")
    assert found.bound is not None


@needs_torch
def test_norms_of_pytorch_are_0_only_while_a_clip_is_off() -> None:
    import torch

    rows = torch.tensor([[3.0, 4.0]])
    weight = torch.nn.Parameter(rows.clone())
    weight.grad = 10 * rows
    with clip_off(object()):
        assert float(rows.norm()) == float(torch.linalg.vector_norm(rows)) == 0
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
        assert torch.equal(weight.grad, 10 * rows)
    assert float(rows.norm()) == 5
    torch.nn.utils.clip_grad_norm_([weight], 1.0)
    assert float(weight.grad.norm()) == pytest.approx(1, rel=1e-3)


@needs_torch
def test_a_torch_target_without_its_clip_has_as_much_noise() -> None:
    target = TorchTarget(small, private=DPSGD(1.5, 2.0))
    with clip_off(target) as off:
        assert off.private.max_grad_norm > 1e9
        assert off.private.noise_multiplier * off.private.max_grad_norm == pytest.approx(3.0)
        assert off.private.poisson_sampling == target.private.poisson_sampling  # type: ignore[union-attr]
    plain = TorchTarget(small)
    assert plain.unclipped() is plain
