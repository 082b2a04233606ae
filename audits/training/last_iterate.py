"""The audit of a last iterate: one record against none, on either side of the others."""

import numpy as np

import dpaudit as dp
from mechanisms.training.last_iterate import LastShown

rows = np.zeros((12, 3))
rows[-1] = 1, 0, 1
pair = dp.Neighbours(
    dp.Records(rows),
    dp.Records(rows, np.arange(12) < 11),
    dp.Adjacency.ZERO_OUT,
    "a unit row is zeroed out",
)
last_iterate = dp.Suite("last_iterate", LastShown(), pair, trials=4_000)
