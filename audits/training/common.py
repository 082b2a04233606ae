"""Data sets that the audits of training share: a record of a large gradient, among zeros."""

import numpy as np

import dpaudit as dp

rows = np.zeros((20, 3))
rows[-1] = 1e6, 0, 1
PAIR = dp.Neighbours(
    dp.Records(rows), dp.Records(rows[:-1]), dp.Adjacency.ADD_REMOVE, "a record of a large gradient"
)
far = np.zeros((20, 3))
far[-1] = 1, -1, 1e6  # an error that fills both layers' balls, with units that are not saturated
FAR = dp.Neighbours(
    dp.Records(far), dp.Records(far[:-1]), dp.Adjacency.ADD_REMOVE, "a record of a large error"
)
whole = np.zeros((24, 3))
whole[-1] = 1e6, 0, 1
ZEROED = dp.Neighbours(
    dp.Records(whole),
    dp.Records(whole, np.arange(24) < 23),
    dp.Adjacency.ZERO_OUT,
    "a record of a large gradient is zeroed out",
)
against = whole.copy()
# Three of its microbatch pull the other way: without it their mean is on the other side.
against[-4:-1] = -1e6, 0, 1
TURNED = dp.Neighbours(
    dp.Records(np.where(np.arange(24)[:, None] == 23, [[1e8, 0, 1]], against)),
    dp.Records(np.where(np.arange(24)[:, None] == 23, [[1e8, 0, 1]], against), np.arange(24) < 23),
    dp.Adjacency.ZERO_OUT,
    "a record that turns the mean of its microbatch",
)
