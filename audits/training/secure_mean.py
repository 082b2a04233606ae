"""An audit of a mean under secure aggregation: a client among others that point one way.

Its vector is a thousand times the clip.
"""

import numpy as np

import dpaudit as dp
from mechanisms.training.secure_mean import CLIENTS, SecureMean

# Together they are at half of the modulus, so that sums wrap.
rows = np.tile([0.8, 0.5, 0.3], (CLIENTS, 1))
rows[-1] = -870, 425, 283
PAIR = dp.Neighbours(
    dp.Records(rows),
    dp.Records(rows, np.arange(CLIENTS) < CLIENTS - 1),
    dp.Adjacency.ZERO_OUT,
    "a client who points another way",
)
secure_mean = dp.Suite("secure_mean", SecureMean(), PAIR, trials=4_000)
