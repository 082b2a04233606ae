"""The audit of DP-SGD that is clipped at a private quantile."""

import dpaudit as dp
from audits.training.common import PAIR
from mechanisms.training.adaptive_clipping import AdaptivelyClipped

adaptively_clipped_sgd = dp.Suite("adaptively_clipped_sgd", AdaptivelyClipped(), PAIR, trials=2_000)
