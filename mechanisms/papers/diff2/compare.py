"""DIFF2 and its baselines on somebody's rows: ``dpaudit compare --paper diff2``."""

from __future__ import annotations

from dpaudit.compare import Comparison, Method
from mechanisms.papers.common.compared import ONE_PASS, UNPROJECTED
from mechanisms.papers.common.objectives import logistic_anywhere
from mechanisms.papers.diff2.baselines import dp_sgd, dp_srm, srn_sgd
from mechanisms.papers.diff2.catalogue import (
    diff2_bvr_local_sgd,
    diff2_gd,
    diff2_gd_tight,
    dp_gd,
    dp_gd_tight,
)

FULL_BATCH = "DP-GD, tight constants"


COMPARISON = Comparison(
    name="diff2",
    title="DIFF2 and its baselines (Murata and Suzuki 2023)",
    methods=(
        Method("DIFF2-GD, constants as printed", diff2_gd),
        Method("DIFF2-GD, tight constants", diff2_gd_tight),
        Method("DIFF2-BVR-L-SGD", diff2_bvr_local_sgd),
        Method("DP-GD, constants as printed", dp_gd),
        Method(FULL_BATCH, dp_gd_tight),
        UNPROJECTED,
        Method("DP-SGD, batches without replacement", dp_sgd),
        Method("DP-SRM", dp_srm),
        Method("SRN-SGD", srn_sgd),
    ),
    objective=logistic_anywhere,
    one_pass=ONE_PASS,
    full_batch=FULL_BATCH,
    shared=frozenset({"clients"}),
    left_out=(
        (("diff2_gd_network",), "another model: run it by `dpaudit run`"),
        (("diff2_gd_client",), "its unit is a client and not a row"),
        (
            ("diff2_gd_shares",),
            "as diff2_gd_tight, with noise in shares of whole numbers, made for its ten clients",
        ),
    ),
)
