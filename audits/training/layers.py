"""The audit of DP-SGD with each layer clipped by itself."""

import dpaudit as dp
from audits.training.common import FAR
from mechanisms.training.layers import Layered

layered_sgd = dp.Suite("layered_sgd", Layered(), FAR, trials=2_000)
