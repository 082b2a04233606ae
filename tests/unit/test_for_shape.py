"""Mechanisms of the catalogue that are made for other records: claims hold, and a row fits."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.accountant.claim import Outcome
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Records
from mechanisms.papers.diff2 import catalogue as diff2
from mechanisms.papers.srgd import catalogue as srgd

MECHANISMS = (
    diff2.diff2_gd, diff2.diff2_gd_tight, diff2.dp_gd, diff2.dp_gd_tight, diff2.diff2_gd_network,
    srgd.accelerated_dp_srgd, srgd.accelerated_dp_srgd_sqrt_toeplitz, srgd.dp_srgd,
)  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_claims_hold_for_records_of_another_shape(mechanism: Mechanism) -> None:
    assert mechanism.for_shape is not None
    made = mechanism.for_shape(150, (6,))
    assert made.name == mechanism.name
    assert made.records is None
    assert "RAND" not in str(made.setting)
    for claim in made.claims:
        assert claim.check(made.declaration, made.scope).outcome is Outcome.PROVED
    rows = np.random.default_rng(1).uniform(-1, 1, (150, 6))
    sampler = Sampler(made.declaration, made.scope, Records(rows), rng=np.random.default_rng(2))
    assert np.isfinite(made.program.run(sampler).output).all()
    for count, row in ((None, (6,)), (150, (1,)), (150, (4, 6))):
        with pytest.raises(InvalidParameter, match="features, then a target"):
            mechanism.for_shape(count, row)
