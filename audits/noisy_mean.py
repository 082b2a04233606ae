"""The audit of noisy_mean: two data sets that move the mean by nearly its whole sensitivity.

The changed row has another absolute value and another norm too, and no other row is zero: a leak
through either, or through weights that are made of all rows, moves what is released as well.  It is
a thousand times the clip in one of them: a clip that was deleted shows.
"""

import numpy as np

import dpaudit as dp
from mechanisms.noisy_mean import NoisyMean

t = np.arange(10)
first = (0.2 + 0.06 * t)[:, None] * np.stack([np.cos(t), np.sin(t)], axis=1)
second = first.copy()
first[0], second[0] = (1_000, 0), (-0.9, 0.3)
text = "one row is (1000, 0), clipped to (1, 0), or (-0.9, 0.3)"
pair = dp.Neighbours(dp.Records(first), dp.Records(second), dp.Adjacency.REPLACE_ONE, text)
noisy_mean = dp.Suite("noisy_mean", NoisyMean(), pair)
