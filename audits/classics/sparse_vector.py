"""The audit of the sparse vector technique: one column is one short of the threshold, or not.

The fifth one is a thousand, clipped to 1.
"""

import numpy as np

import dpaudit as dp
from mechanisms.classics.sparse_vector import SparseVector

ones = np.array([[0.0, 0.0, 1.0]] * 4 + [[0.0, 0.0, 1e3]])
pair = dp.Neighbours(
    dp.Records(ones), dp.Records(ones[:-1]), dp.Adjacency.ADD_REMOVE, "a fifth one in column 2"
)
sparse_vector = dp.Suite("sparse_vector", SparseVector(), pair)
