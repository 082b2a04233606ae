"""The audits of the sparse vector technique: a column one short of the threshold, and a rare one.

The fifth one is a thousand, clipped to 1.  Where two columns are far above the threshold, that the
third is the first is rare; a record that adds to them and takes from it tells most of it: half of
epsilon by the threshold, and a quarter by the third question.
"""

from dataclasses import replace

import numpy as np

import dpaudit as dp
from mechanisms.classics.sparse_vector import SparseVector


def audit(others: list[list[float]], last: list[float], text: str) -> dp.Suite:
    """The program, on some records and one more, or without it."""
    records = np.array([*others, last])
    neighbours = dp.Neighbours(
        dp.Records(records), dp.Records(records[:-1]), dp.Adjacency.ADD_REMOVE, text
    )
    return dp.Suite("sparse_vector", SparseVector(), neighbours)


ONE_MORE = "one more in two large columns, one less in a small one"
sparse_vector = replace(
    audit([[0.0, 0.0, 1.0]] * 4, [0.0, 0.0, 1e3], "a fifth one in column 2"),
    also=(audit([[1.0, 1.0, 0.0]] * 25, [1e3, 1e3, -1e3], ONE_MORE),),
)
