"""Numerical arrays for the checker: NumPy where it is installed, and a twin in Python elsewhere.

The checker computes with ``np`` and ``special`` of this module and imports no other numerical
library.  In a browser there is no NumPy; there :mod:`dpaudit.exact.array_twin` answers the same
calls.  The tests compare the two, function by function and certificate by certificate.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dpaudit.exact.later import Later

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy import special

    Floats = NDArray[np.float64]
    Complexes = NDArray[np.complex128]
    Integers = NDArray[np.int64]
    Array = np.ndarray[Any, Any]
else:
    Floats = Complexes = Integers = Array = Any
    if find_spec("numpy") and find_spec("scipy"):
        np, special = Later("numpy"), Later("scipy.special")
    else:
        np = special = Later("dpaudit.exact.array_twin")

__all__ = ["Array", "Complexes", "Floats", "Integers", "np", "special"]
