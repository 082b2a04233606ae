"""Audits of DP-Adam."""

import dpaudit as dp
from audits.training.common import PAIR
from mechanisms.training.adam import DpAdam

dp_adam = dp.Suite("dp_adam", DpAdam(), PAIR, trials=2_000)
dp_adam_unbiased = dp.Suite("dp_adam_unbiased", DpAdam(unbiased=True), PAIR, trials=2_000)
