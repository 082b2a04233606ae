"""The generator of runs on data: every law right, every number of fresh bits of the system's."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit.check.assumptions import SYSTEM, standing
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Repeat
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import ClippedMean, Records
from dpaudit.kernels.system import SystemGenerator
from dpaudit.scope import central

SIZE = 20_000
LAWS: dict[str, tuple[Callable[[SystemGenerator], Any], Any]] = {
    "random": (lambda g: g.random(SIZE), stats.uniform()),
    "standard_normal": (lambda g: g.standard_normal((SIZE // 10, 10)), stats.norm()),
    "laplace": (lambda g: g.laplace(1.0, 3.0, SIZE), stats.laplace(1, 3)),
    "gumbel": (lambda g: g.gumbel(size=SIZE), stats.gumbel_r()),
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes the system was asked for, each time; what it gives is of a seed here."""
    rng, asked = np.random.default_rng(1), list[int]()
    monkeypatch.setattr(os, "urandom", lambda n: (asked.append(n), rng.bytes(n))[1])
    return asked


@pytest.mark.parametrize("name", LAWS)
def test_every_law_is_right_and_every_number_is_of_its_own_bits(name: str, drawn) -> None:
    """Kolmogorov-Smirnov at 1e-6, of a seed; half the scale fails it."""
    draw, law = LAWS[name]
    found = draw(SystemGenerator())
    assert sum(drawn) == 8 * SIZE
    assert len(np.unique(found)) > 0.99 * SIZE
    assert stats.kstest(found.ravel(), law.cdf).pvalue > 1e-6
    assert stats.kstest(found.ravel() / 2, law.cdf).pvalue < 1e-6


def test_whole_numbers_bytes_and_single_draws(drawn) -> None:
    system = SystemGenerator()
    assert set(system.integers(3, 8, (50, 20)).ravel()) == set(range(3, 8))
    assert set(system.integers(3, size=99)) == {0, 1, 2}
    assert len(system.bytes(13)) == 13
    assert np.ndim(system.random()) == np.ndim(system.standard_normal()) == 0
    with pytest.raises(InvalidParameter, match="not poisson"):
        system.poisson(3)


def test_a_run_of_floats_and_batches_reads_the_system_alone(drawn, monkeypatch) -> None:
    """DP-SGD's rounds: no other generator is made once the curator is there."""
    node = Repeat(PoissonSampled(Gaussian("step", 1), "0.5"), 3)
    records = Records(np.ones((8, 2)))
    curator = Sampler(node, central("add_remove"), records, rng=SystemGenerator())  # type: ignore[arg-type]
    before = len(drawn)
    monkeypatch.setattr(np.random, "PCG64DXSM", None)
    mean = ClippedMean(lambda rows: rows[None], radius=1, divisor=4)
    for _ in range(3):
        with curator.batch("step") as batch:
            curator.release("step", mean, rows=batch)
    assert len(drawn) == before + 6
    (bits,) = (a for a in standing([], node, SYSTEM) if a.id == "random_bits")
    assert str(bits.status) == "enforced"
    (noise,) = (a for a in standing([], node, SYSTEM) if a.id == "real_arithmetic")
    assert str(noise.status) == "declared", "floats stay floats"
