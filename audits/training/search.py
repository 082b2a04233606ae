"""The audit of a search: a record of a large gradient, which no weights have right."""

import dpaudit as dp
from audits.training.common import PAIR
from mechanisms.training.search import Searched

tuned_step_size = dp.Suite("tuned_step_size", Searched(), PAIR, trials=1_000)
