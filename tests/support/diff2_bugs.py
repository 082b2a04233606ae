"""What the planted bugs of DIFF2 truly guarantee, in the bench settings, by number.

Found for the project's audit plan with independent code: mu and the exact epsilon at 1e-5, or an
attained lower and a proved upper end.  The correct twins: mu .57735, epsilon 2.341; [1.558, 1.575].
"""

from __future__ import annotations

TRUTH = {
    "none": "mu .577, epsilon 2.341 (local steps: 1.558 to 1.575)",
    "no noise at all": "none",
    "B1": "mu 1.155, epsilon 5.175",
    "B2": "mu .816, epsilon 3.467",
    "B3": "mu .693, epsilon 2.876",
    "B4": "mu 2.687, epsilon 14.48",
    "B5": "mu_r = 2 sqrt(C_r)/(nP sigma_2): worse where C_r > 1, better where C_r < 1",
    "B6": "mu 11.55, epsilon 115",
    "B7": "mu 2.633, epsilon 14.1 (unbounded in the record's curvature)",
    "B8": "unbounded as steps shrink",
    "B9": "unbounded as steps shrink (median mu 17)",
    "B10": "unbounded as steps shrink",
    "B11": "none: two releases cancel the noise",
    "B12": "mu 1.041, epsilon 4.585",
    "B13": "mu 1.155, epsilon 5.175",
    "B14": "mu .772, epsilon 3.254",
    "B15": "mu 1.732, epsilon 8.39",
    "B16": "none",
    "B17": "mu 1.155, epsilon 5.175",
    "B18": "batch known: mu 1.132, epsilon 5.056; secret: epsilon at least 3.067",
    "B19": "epsilon 1.762 to 1.774",
    "B20": "mu .588, epsilon 2.388",
    "B21": "epsilon 2.275 to 2.347",
    "B22": "epsilon 2.421 to 2.505",
    "B23": "epsilon 2.343 to 2.420",
    "B24": "none: the output depends on raw losses",
    "B25": "another mechanism: no claim",
    "B26": "none: the stop depends on raw values",
    "B27": "mu .928 (.719 declared), epsilon 4.01: 6 of 10 shares of a tenth",
}


def truth(bug: str) -> str:
    """What a bug, named as its suite names it, truly guarantees."""
    return TRUTH[bug.partition(":")[0]]
