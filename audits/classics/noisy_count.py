"""The audit of the noisy count: a record that counts a thousand, clipped to 1, comes or goes."""

import numpy as np

import dpaudit as dp
from mechanisms.classics.noisy_count import NoisyCount

with_it, without = dp.Records(np.array([[0.0], [1e3]])), dp.Records(np.array([[0.0]]))
pair = dp.Neighbours(with_it, without, dp.Adjacency.ADD_REMOVE, "a record of 1,000 more")
noisy_count = dp.Suite("noisy_count", NoisyCount(), pair)
