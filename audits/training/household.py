"""The audit of a count of households: four records of 1,000, clipped to 1, come or go."""

import numpy as np

import dpaudit as dp
from mechanisms.training.household import HouseholdCount

rows = np.array([[1.0]] * 2 + [[1e3]] * 4)
one = dp.Records(rows)
pair = dp.Neighbours(one, one.rows(0, 2), dp.Adjacency.ADD_REMOVE, "a household of four", size=4)
household_count = dp.Suite("household_count", HouseholdCount(), pair)
