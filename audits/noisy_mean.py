"""The audit of noisy_mean: two data sets that move the mean by its whole sensitivity."""

import numpy as np

import dpaudit as dp
from mechanisms.noisy_mean import NoisyMean

first, second = np.zeros((10, 2)), np.zeros((10, 2))
first[0, 0], second[0, 0] = 1.0, -1.0
pair = dp.Neighbours(
    dp.Records(first), dp.Records(second), dp.Adjacency.REPLACE_ONE, "one row is (1, 0) or (-1, 0)"
)
noisy_mean = dp.Suite("noisy_mean", NoisyMean(), pair)
