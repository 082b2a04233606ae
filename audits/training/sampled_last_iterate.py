"""The audit of a last iterate of sampled batches: the rows of that on all records."""

import dpaudit as dp
from audits.training.last_iterate import pair
from mechanisms.training.sampled_last_iterate import SampledLastShown

sampled_last_iterate = dp.Suite("sampled_last_iterate", SampledLastShown(), pair, trials=4_000)
