"""Losses by autograd beside NumPy's: the same numbers; they need the extra ``torch``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.certificate.order import Options, Order
from dpaudit.certificate.training import train
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, ClippedMean, Records
from mechanisms.papers.common.autograd import ModuleLoss, Perceptron
from mechanisms.papers.common.losses import LeastSquares, Logistic, Loss, SoftplusNetwork
from mechanisms.papers.common.softmax import Softmax
from mechanisms.papers.diff2.catalogue import diff2_gd_program
from mechanisms.papers.diff2.ghost import GhostClippedMean, is_ghost

torch = pytest.importorskip("torch", reason="losses by autograd: the extra torch is not installed")
RNG = np.random.default_rng(7)
FEATURES, TRIALS, N = 4, 3, 6
X = RNG.standard_normal((N, FEATURES))


def rows(classes: int = 0) -> Array:
    target = RNG.integers(0, classes, N) if classes else RNG.standard_normal(N)
    return np.column_stack([X, target])


def plain(features: int) -> Any:
    return torch.nn.Linear(features, 1, bias=False)


def linear(features: int) -> Any:
    return torch.nn.Linear(features, 3)


def random(features: int) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(features, 2), torch.nn.Dropout())


def crowded(features: int) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(features, 2), torch.nn.BatchNorm1d(2))


@pytest.mark.parametrize(
    ("ours", "theirs", "classes"),
    [
        (LeastSquares(), ModuleLoss(plain), 0),
        (Logistic(), ModuleLoss(plain, "logistic"), 2),
        (Softmax(3), ModuleLoss(linear, "cross_entropy"), 3),
        (SoftplusNetwork(hidden=5), Perceptron(hidden=(5,)), 0),
    ],
)
def test_values_and_gradients_are_those_of_numpy(
    ours: Loss, theirs: ModuleLoss, classes: int
) -> None:
    records = rows(classes)
    assert theirs.dimension(FEATURES) == ours.dimension(FEATURES)
    theta = RNG.standard_normal((TRIALS, ours.dimension(FEATURES)))
    np.testing.assert_allclose(theirs.values(theta, records), ours.values(theta, records), 1e-12)
    expected = ours.gradients(theta, records)
    np.testing.assert_allclose(theirs.gradients(theta, records), expected, 1e-11, 1e-13)
    batches = np.stack([records[[k, 0]] for k in range(TRIALS)])
    np.testing.assert_allclose(
        theirs.gradients(theta, batches), ours.gradients(theta, batches), 1e-11, 1e-13
    )


def test_ghost_norms_give_the_clipped_mean_of_the_written_out_gradients() -> None:
    loss = Perceptron("cross_entropy", hidden=(5, 4), outputs=3, activation="tanh")
    assert is_ghost(loss)
    assert not is_ghost(ModuleLoss(linear))
    theta = RNG.standard_normal((TRIALS, loss.dimension(FEATURES)))
    before = theta + 0.1 * RNG.standard_normal(theta.shape)
    records = Records(rows(3))
    now, then = partial(loss.factors, theta), partial(loss.factors, before)
    difference = loss.gradients(theta, records.values) - loss.gradients(before, records.values)
    radius = float(np.median(np.linalg.norm(difference, axis=-1)))
    written = ClippedMean(lambda v: loss.gradients(theta, v) - loss.gradients(before, v), radius)
    ghost = GhostClippedMean(
        written.per_record, radius, factors=lambda v: now(v) - then(v), pack=loss.pack
    )
    np.testing.assert_allclose(ghost.value(records), written.value(records), 1e-10, 1e-14)
    whole = ClippedMean(partial(loss.gradients, theta), 0.2)
    quick = GhostClippedMean(whole.per_record, 0.2, factors=now, pack=loss.pack)
    np.testing.assert_allclose(quick.value(records), whole.value(records), 1e-10, 1e-14)


def test_a_record_that_is_no_number_touches_no_other_and_raises_nothing() -> None:
    loss = Perceptron("cross_entropy", hidden=(5,), outputs=3)
    theta = loss.initial(FEATURES, 1, 3)
    records = rows(3)
    expected = loss.gradients(theta, records)
    broken = records.copy()
    broken[2] = np.nan
    broken[3, -1] = 17.5
    found = loss.gradients(theta, broken)
    assert np.isnan(found[0, 2]).any()
    assert np.isfinite(found[0, 3]).all()
    np.testing.assert_array_equal(np.delete(found, [2, 3], 1), np.delete(expected, [2, 3], 1))


def test_a_start_depends_on_the_seed_alone() -> None:
    loss = Perceptron(hidden=(3,))
    first = loss.initial(FEATURES, 2, 5)
    torch.rand(3)
    np.testing.assert_array_equal(first, loss.initial(FEATURES, 2, 5))
    assert (first[0] == first[1]).all()
    assert (first != loss.initial(FEATURES, 2, 6)).any()


def test_modules_whose_loss_is_not_a_records_own_are_refused() -> None:
    for module in (random, crowded):
        with pytest.raises(InvalidParameter, match="a record's loss would"):
            ModuleLoss(module).dimension(FEATURES)
    with pytest.raises(InvalidParameter, match="expected one of"):
        ModuleLoss(linear, "hinge")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"expected \(trials, 15\)"):
        ModuleLoss(linear).values(np.zeros((1, 4)), rows())


def network(count: int | None = None, row: tuple[int, ...] = (5,)) -> dp.Mechanism:
    """DIFF2-GD on a network of PyTorch, for records of any shape."""
    program = diff2_gd_program(
        Perceptron("logistic", hidden=(6,), activation="tanh"), row[0] - 1, (count or 400,),
        rounds=10, restart_every=5, epsilon=3, delta="1e-5", gradient_radius=2.0,
        difference_radius=5.0, step_size=0.1,
    )  # fmt: skip
    claim, scope = dp.Claim(dp.ApproxDP(3, "1e-5"), by="this test"), dp.central("replace_one")
    return dp.Mechanism(
        "network", "A network", "this test", program, scope, [claim], for_shape=network
    )


@pytest.mark.quality
def test_a_network_is_trained_on_records_with_a_certificate(tmp_path: Path) -> None:
    """What `dpaudit run` does: examined, attacked, charged, drawn and written."""
    x = np.random.default_rng(1).uniform(-1, 1, (400, 4))
    records = Records(np.column_stack([x, x[:, 0] * x[:, 1] > 0]))
    written = train(
        Order(network(), None, "project", {}), records, tmp_path / "m.npz", Options(trials=200)
    )
    predicate = written.certificate["predicate"]
    assert predicate["verdict"]["status"] == "certified_under_assumptions"
    assert predicate["audits"][0]["about"] == "program"
    with np.load(written.output) as arrays:
        assert arrays["output.last"].shape == (1, 37)
