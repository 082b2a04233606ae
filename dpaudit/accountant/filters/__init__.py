"""Privacy filters and odometers for releases outside a program, as immutable values.

A *filter* has a budget that is fixed in advance; a charge that would pass it is refused before
data is touched.  Mechanisms and their charges may depend on everything released before (fully
adaptive composition).  The guarantee is the budget, never the realised sum.  An *odometer* has no
budget: it bounds the privacy loss so far, at every time at once.

Charges are exact fractions; irrational ones are rounded up and irrational caps down, at 30 digits.
Which sums are filters, by method:

* basic: sums of epsilon and of delta (Rogers, Roth, Ullman, Vadhan 2016);
* advanced: sqrt(2 log(1/d') S) + S/2 <= epsilon for S = sum of epsilon^2, and the deltas add up to
  at most delta - d' (Whitehouse, Ramdas, Rogers, Wu 2023);
* zcdp: sums of rho (Whitehouse et al. 2023; Feldman, Zrnic 2021);
* rdp: sums of the curve, at every one of some orders fixed in advance (Feldman, Zrnic 2021), which
  guarantees a RenyiCurve's values there and nowhere else (``OpenFilter.guarantees``);
* gdp: sums of mu^2 (Smith, Thakurta 2022; for Gaussian noise Koskela, Tobaben, Honkela 2022).

No filter adds whole privacy profiles: stopping where their product passes a given curve is not
private in general (Tran, Koskela, Raisa, Honkela 2026).  An (epsilon, delta) budget, or a profile
given by its points, is kept by one of the methods above, chosen in advance, with the largest cap
that keeps every point.
"""

from __future__ import annotations

from dpaudit.accountant.filters.caps import ORDERS, Method
from dpaudit.accountant.filters.charges import Amounts
from dpaudit.accountant.filters.odometer import Odometer, open_odometer, read_odometer
from dpaudit.accountant.filters.opened import OpenFilter, open_filter, read_filter

__all__ = [
    "ORDERS",
    "Amounts",
    "Method",
    "Odometer",
    "OpenFilter",
    "open_filter",
    "open_odometer",
    "read_filter",
    "read_odometer",
]
