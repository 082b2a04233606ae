"""Audits of accumulated gradients, and of microbatches."""

import dpaudit as dp
from audits.training.common import TURNED, ZEROED
from mechanisms.training.microbatches import TOGETHER, InPieces

accumulated_gd = dp.Suite("accumulated_gd", InPieces(), ZEROED, trials=4_000)
microbatched_gd = dp.Suite("microbatched_gd", InPieces(TOGETHER), TURNED, trials=4_000)
