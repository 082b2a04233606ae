"""Mechanisms of the catalogue that are made for other records: claims hold, and a row fits."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.claim import Outcome
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Records
from dpaudit.project.project import load
from dpaudit.storage.roots import catalogue_root
from mechanisms.papers.claims_page import PAPERS
from mechanisms.papers.diff2 import catalogue as diff2
from mechanisms.papers.srgd import catalogue as srgd
from mechanisms.papers.user_level import catalogue as user_level
from mechanisms.papers.user_level import options_catalogue as options
from mechanisms.papers.user_level.problem import unequal_records

MECHANISMS = (
    diff2.diff2_gd, diff2.diff2_gd_tight, diff2.dp_gd, diff2.dp_gd_tight, diff2.diff2_gd_network,
    srgd.accelerated_dp_srgd, srgd.accelerated_dp_srgd_sqrt_toeplitz, srgd.dp_srgd,
)  # fmt: skip


@pytest.mark.first_case
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


@pytest.mark.first_case
@pytest.mark.parametrize(
    "mechanism",
    [
        user_level.user_level_phased_sgd,
        user_level.user_level_accelerated_sgd,
        user_level.user_level_phased_erm,
        options.user_level_phased_sgd_public_order,
    ],
    ids=lambda m: m.name,
)
def test_claims_hold_for_other_users(mechanism: Mechanism) -> None:
    """3,000 users of up to 3 items, some with fewer: it runs, and too few are refused."""
    assert mechanism.for_shape is not None
    made = mechanism.for_shape(3_000, (3, 5))
    assert "RAND" not in str(made.setting)
    for claim in made.claims:
        assert claim.check(made.declaration, made.scope).outcome is Outcome.PROVED
    rng = np.random.default_rng(1)
    users = [rng.uniform(-1, 1, (1 + k % 3, 5)) for k in range(3_000)]
    sampler = Sampler(
        made.declaration, made.scope, unequal_records(users, 3), rng=np.random.default_rng(2)
    )
    assert np.isfinite(made.program.run(sampler).output).all()
    with pytest.raises(InvalidParameter, match=r"too few|need one in each|at least"):
        mechanism.for_shape(20, (3, 5))
    for count, row in ((None, (3, 5)), (3_000, (5,)), (3_000, (3, 1))):
        with pytest.raises(InvalidParameter, match="expected users of items"):
            mechanism.for_shape(count, row)


def test_a_claim_of_clients_holds_for_other_clients() -> None:
    """The noise is of the number of clients, however many rows each has."""
    hook: Any = diff2.diff2_gd_client.for_shape
    few, many, long = (hook(*shape) for shape in ((200, (4, 6)), (800, (4, 6)), (200, (9, 6))))
    for made in (few, many, long):
        assert made.scope == diff2.diff2_gd_client.scope
        assert "RAND" not in str(made.setting)
        assert {str(c.check(made.declaration, made.scope).outcome) for c in made.claims} == {
            "proved"
        }
    assert few.declaration == many.declaration == long.declaration  # over the sensitivity
    noises = [float(made.program.noise.sigma_1) for made in (few, many, long)]
    assert noises == pytest.approx([4 * noises[1], noises[1], 4 * noises[1]])
    rows = np.random.default_rng(1).uniform(-1, 1, (200, 4, 6))
    sampler = Sampler(few.declaration, few.scope, Records(rows), rng=np.random.default_rng(2))
    assert np.isfinite(few.program.run(sampler).output).all()
    for count, row in ((None, (4, 6)), (200, (6,)), (200, (4, 1))):
        with pytest.raises(InvalidParameter, match="expected clients of rows"):
            hook(count, row)


@pytest.mark.parametrize("mechanism", [diff2.diff2_gd, diff2.diff2_gd_tight])
def test_shards_of_unequal_sizes_have_the_claim_of_their_smallest(mechanism: Mechanism) -> None:
    """As docs/training.md makes them; noise for all rows in equal blocks would be too little."""
    sizes, row, values = (120, 80, 100), (5,), {"clients": 3, "epsilon": 2, "rounds": 10}
    hook: Any = mechanism.for_shape

    def sharded(count: int) -> tuple[Mechanism, set[str]]:
        made = hook(count, row, **values)
        own = replace(made, program=replace(made.program, client_sizes=sizes))
        return own, {str(c.check(own.declaration, own.scope).outcome) for c in own.claims}

    made, outcomes = sharded(min(sizes) * len(sizes))
    assert outcomes == {"proved"}
    assert "each client's number of records" in made.setting.invariants[0]
    rows = Records(np.random.default_rng(1).uniform(-1, 1, (sum(sizes), *row)))
    sampler = Sampler(made.declaration, made.scope, rows, rng=np.random.default_rng(2))
    assert np.isfinite(made.program.run(sampler).output).all()
    assert "refuted" in sharded(sum(sizes))[1]


COMPARISONS = {
    paper: import_module(f"mechanisms.papers.{paper}.compare").COMPARISON for paper in PAPERS
}


def without_shape(paper: str) -> set[str]:
    """The paper's mechanisms that run on records of their own alone."""
    modules = (import_module(f"mechanisms.papers.{paper}.{name}") for name in PAPERS[paper])
    found = (one for module in modules for one in vars(module).values())
    return {
        one.name
        for one in found
        if isinstance(one, Mechanism) and one.records is not None and one.for_shape is None
    }


@pytest.mark.parametrize("paper", PAPERS)
def test_whatever_takes_no_other_records_says_why(paper: str) -> None:
    """Every one is named with a reason, once, and nothing is named that is compared."""
    left_out = COMPARISONS[paper].left_out
    named = [name for names, _ in left_out for name in names]
    assert all(why for _, why in left_out)
    assert len(set(named)) == len(named)
    assert without_shape(paper) <= set(named)
    assert not {one.mechanism.name for one in COMPARISONS[paper].methods} & set(named)
    known = load(catalogue_root()).mechanisms
    assert set(named) <= set(known)
