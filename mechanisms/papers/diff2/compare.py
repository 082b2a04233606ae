"""DIFF2 and its baselines on somebody's rows: ``dpaudit compare --paper diff2``."""

from __future__ import annotations

from typing import Any

from dpaudit.compare import Comparison, Method
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array
from mechanisms.papers.common.objectives import logistic_anywhere
from mechanisms.papers.diff2.baselines import dp_sgd, dp_srm, srn_sgd
from mechanisms.papers.diff2.catalogue import (
    diff2_bvr_local_sgd,
    diff2_gd,
    diff2_gd_tight,
    dp_gd,
    dp_gd_tight,
)
from mechanisms.papers.srgd.baselines_catalogue import dp_sgd_one_pass_replace_one

FULL_BATCH = "DP-GD, tight constants"
ONE_PASS = "one-pass DP-SGD"  # noqa: S105
FAR = 1e6  # the radius of a ball that no run here leaves: DIFF2 projects nothing


def of(name: str, mechanism: Mechanism) -> Method:
    """A method whose output holds its model as ``output``."""
    return Method(name, mechanism, _output)


def _output(found: Any) -> Array:
    model: Array = found.output
    return model


COMPARISON = Comparison(
    name="diff2",
    title="DIFF2 and its baselines (Murata and Suzuki 2023)",
    methods=(
        of("DIFF2-GD, constants as printed", diff2_gd),
        of("DIFF2-GD, tight constants", diff2_gd_tight),
        of("DIFF2-BVR-L-SGD", diff2_bvr_local_sgd),
        of("DP-GD, constants as printed", dp_gd),
        of(FULL_BATCH, dp_gd_tight),
        Method(
            ONE_PASS,
            dp_sgd_one_pass_replace_one,
            _output,
            lambda _count, _features: {"radius": FAR},
        ),
        of("DP-SGD, batches without replacement", dp_sgd),
        of("DP-SRM", dp_srm),
        of("SRN-SGD", srn_sgd),
    ),
    objective=logistic_anywhere,
    one_pass=ONE_PASS,
    full_batch=FULL_BATCH,
    shared=frozenset({"clients"}),
    left_out=(
        ("diff2_gd_network", "another model: run it by `dpaudit run`"),
        ("diff2_gd_client", "its unit is a client and not a row"),
        ("diff2_gd_shares", "as diff2_gd_tight, with noise in shares of whole numbers"),
    ),
)
