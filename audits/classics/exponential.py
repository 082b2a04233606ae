"""The audit of the exponential mechanism: the last category has one record more, or as many."""

import numpy as np

import dpaudit as dp
from mechanisms.classics.exponential import MostFrequent

more, fewer = dp.Records(np.array([[0.0], [3.0]])), dp.Records(np.array([[0.0]]))
pair = dp.Neighbours(more, fewer, dp.Adjacency.ADD_REMOVE, "a record more of category 3")
most_frequent = dp.Suite("most_frequent", MostFrequent(), pair)
