"""Names, and rows on records, that the comparisons of several papers share."""

from __future__ import annotations

from dpaudit.compare import Method
from mechanisms.papers.srgd.baselines_catalogue import dp_sgd_one_pass_replace_one

ONE_PASS, FULL_BATCH = "one-pass DP-SGD", "full-batch DP-GD"
FAR = 1e6  # the radius of a ball that no run leaves, for methods that project nothing
UNPROJECTED = Method(ONE_PASS, dp_sgd_one_pass_replace_one, fixed=lambda *_: {"radius": FAR})
