"""The audit of DP-SGD: a record whose gradient fills the clipping ball, among zeros."""

import numpy as np

import dpaudit as dp
from mechanisms.classics.dp_sgd import DpSgd

rows = np.zeros((20, 3))
rows[-1] = 1e6, 0, 1
pair = dp.Neighbours(
    dp.Records(rows), dp.Records(rows[:-1]), dp.Adjacency.ADD_REMOVE, "a record of a large gradient"
)
poisson_sgd = dp.Suite("poisson_sgd", DpSgd(), pair, trials=2_000)
