"""The audit of a last iterate: one record against none, among zeros.

Its features are a thousand long, which the program cuts to 1: gradients are 1 at most, and its clip
of them never acts.
"""

import numpy as np

import dpaudit as dp
from mechanisms.training.last_iterate import LastShown

rows = np.zeros((12, 3))
rows[-1] = 1e3, 0, 1
pair = dp.Neighbours(
    dp.Records(rows),
    dp.Records(rows, np.arange(12) < 11),
    dp.Adjacency.ZERO_OUT,
    "a long row, cut to a unit one, is zeroed out",
)
last_iterate = dp.Suite("last_iterate", LastShown(), pair, trials=4_000)
