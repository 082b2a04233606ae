"""The audit of the histogram: a record comes or goes in the second bin."""

import numpy as np

import dpaudit as dp
from mechanisms.classics.histogram import Histogram

with_it, without = dp.Records(np.array([[0.0], [1.0]])), dp.Records(np.array([[0.0]]))
pair = dp.Neighbours(with_it, without, dp.Adjacency.ADD_REMOVE, "a record more in bin 1")
histogram = dp.Suite("histogram", Histogram(), pair)
