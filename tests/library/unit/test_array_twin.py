"""The checker without NumPy: its arrays equal NumPy's, and its verdicts those beside NumPy."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

from dpaudit.check.rows import verify_file
from dpaudit.exact import array_twin as twin

ROOT = Path(__file__).parents[3]
REPORTS = [ROOT / "reports" / f"{name}.json" for name in ("dp_gd", "membership/rand_tree")]
WITH_ARRAYS = ROOT / "reports" / "diff2_bvr_local_sgd.json"
# None of these is there in a browser.
ABSENT = ("numpy", "scipy", "resource", "multiprocessing")
ALONE = """
import json, sys
from importlib import util
absent, spec = set(sys.argv[1].split(",")), util.find_spec
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(name)
for name in [name for name in sys.modules if name.partition(".")[0] in absent]:
    del sys.modules[name]
sys.meta_path.insert(0, Absent())
util.find_spec = lambda name, *of: None if name in absent else spec(name, *of)
from pathlib import Path
from dpaudit.check.rows import verify_file
for file in sys.argv[2:]:
    print(json.dumps(verify_file(Path(file), 300.0)), flush=True)
"""
X = np.array(
    [-745.0, -3.5, -1.0, -0.0, 0.0, 1e-9, 0.5, 1.0, 2.0, 710.0, math.inf, -math.inf, math.nan]
)
Y = np.array([2.0, 0.0, 1.0, 3.0, 0.0, 5.0, -0.5, math.nan, 2.0, 1e-3, 1.0, -2.0, 1.0])
W = np.linspace(0.1, 3.0, 12)
Function = Callable[[Any, Any], Any]


def alone(*files: Path, absent: tuple[str, ...] = ABSENT) -> subprocess.CompletedProcess[str]:
    """The rows of files, made by a Python that cannot import some modules."""
    command = [sys.executable, "-c", ALONE, ",".join(absent), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def compared(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the number of modules that its process imported."""
    confirmed = [text for text in row["confirmed"] if not text.startswith("in a process")]
    return {**row, "confirmed": confirmed}


def same(function: Function, *arrays: Any, off: float = 4e-15) -> None:
    expected = function(np, arrays)
    found = function(twin, tuple(twin.array(a) if isinstance(a, np.ndarray) else a for a in arrays))
    found = found.tolist() if isinstance(found, twin.Array) else found
    np.testing.assert_allclose(np.array(found), expected, rtol=off, atol=1e-300)


@pytest.mark.parametrize(
    "name",
    "exp expm1 log log1p sqrt sin cos sinh cosh arcsinh abs isfinite floor ceil rint".split(),
)
def test_each_function_of_one_number_is_numpys_also_outside_its_domain(name: str) -> None:
    with np.errstate(all="ignore"):
        same(lambda library, a: getattr(library, name)(a[0]), X)


@pytest.mark.parametrize(
    "function",
    [
        lambda _, a: a[0] + a[1],
        lambda _, a: a[0] - 2.5 * a[1],
        lambda _, a: a[0] / a[1],
        lambda _, a: 1 / a[0],
        lambda _, a: a[0] ** 2,
        lambda _, a: a[0] <= a[1],
        lambda lib, a: lib.minimum(a[0], a[1]),
        lambda lib, a: lib.maximum(a[0], 0.5),
        lambda lib, a: lib.clip(a[0], -1.0, 2.0),
        lambda lib, a: lib.logaddexp(a[0], a[1]),
        lambda lib, a: lib.where(a[0] > 0, a[1], -1.0),
        lambda lib, a: lib.nan_to_num(a[0], nan=0.0, posinf=7.0),
        lambda lib, a: lib.concatenate((a[0][::-1], a[1][2:5])),
        lambda lib, a: a[0][lib.flatnonzero(a[1] == 1)],
        lambda lib, a: a[0][:, None] * a[1][None, :],
        lambda lib, a: lib.argmax(a[1]),
    ],
)
def test_operations_on_two_arrays_are_numpys_with_infinities_and_nan(function: Function) -> None:
    with np.errstate(all="ignore"):
        same(function, X, Y)


@pytest.mark.parametrize(
    "function",
    [
        lambda _, a: a[0].sum(),
        lambda _, a: a[0] @ a[0],
        lambda _, a: a[0].reshape(3, 4) @ a[0][:4],
        lambda _, a: a[0].reshape(3, 4) @ a[0].reshape(4, 3),
        lambda _, a: a[0].reshape(3, 4).T.sum(axis=0),
        lambda _, a: a[0].reshape(3, 4)[1:, :2].max(axis=1),
        lambda _, a: (a[0].reshape(3, 4) * a[0][:4])[a[0].reshape(3, 4) > 1],
        lambda lib, a: lib.cumsum(a[0]),
        lambda lib, a: lib.cumprod(a[0].reshape(3, 4), axis=1),
        lambda lib, a: lib.diff(a[0]),
        lambda lib, a: lib.gradient(a[0] ** 2),
        lambda lib, a: lib.outer(a[0], a[0]),
        lambda lib, a: lib.add.outer(a[0], a[0]),
        lambda lib, a: lib.add.reduceat(a[0], lib.arange(0, 12, 5)),
        lambda lib, a: lib.minimum.accumulate(a[0][::-1]),
        lambda lib, a: lib.logaddexp.reduce(a[0]),
        lambda lib, a: lib.interp(lib.linspace(0.0, 4.0, 9), a[0], a[0] ** 2),
        lambda lib, a: lib.searchsorted(a[0], lib.linspace(0.0, 4.0, 9), side="right"),
        lambda lib, a: lib.bincount((a[0] * 2).astype(lib.int64), a[0], 9),
        lambda lib, a: lib.convolve(a[0], a[0][:5]),
        lambda lib, a: lib.insert(a[0], 0, 4.0),
        lambda lib, a: lib.append(a[0], 4.0),
        lambda lib, a: lib.pad(a[0], (2, 3)),
        lambda lib, a: lib.tile(a[0], 2),
        lambda lib, a: lib.repeat(a[0], [k % 3 for k in range(12)]),
        lambda lib, a: lib.unique(lib.floor(a[0])),
        lambda lib, a: lib.geomspace(1, 4097, 20),
        lambda lib, a: lib.arange(0.5, 3.1, 0.25),
        lambda lib, a: lib.remainder(a[0] * 9 - 12, 2 * math.pi),
    ],
)
def test_reductions_parts_and_made_arrays_are_numpys(function: Function) -> None:
    same(function, W)


@pytest.mark.parametrize("count", [16, 48, 80, 60])
def test_fourier_transforms_are_numpys(count: int) -> None:
    values = np.cos(np.arange(count - 3) ** 2) + 0.5
    forth = np.array(twin.fft.rfft(twin.array(values), count).tolist())
    np.testing.assert_allclose(forth, np.fft.rfft(values, count), atol=1e-12)
    np.testing.assert_allclose(
        np.abs(forth), twin.abs(twin.fft.rfft(twin.array(values), count)).tolist()
    )
    back = twin.fft.irfft(twin.fft.rfft(twin.array(values), count), count)
    np.testing.assert_allclose(back.tolist()[: count - 3], values, atol=1e-14)


@pytest.mark.first_case
@pytest.mark.parametrize("count", [48, 1000, 4096])
def test_turns_of_fourier_transforms_are_the_nearest_floats(count: int) -> None:
    """The checker's bound of a transform's error has room for no worse ones."""
    unit = 2.0**-53
    for k, turn in enumerate(twin._turns(count)):
        for part, of in ((turn.real, mpmath.cospi), (-turn.imag, mpmath.sinpi)):
            with mpmath.workprec(120):
                exact = of(mpmath.mpf(2 * k) / count)
                assert abs(part - exact) <= unit * abs(exact) * 1.0001, (k, part)


def test_gauss_and_legendres_rule_is_numpys() -> None:
    for found, expected in zip(
        twin.polynomial.legendre.leggauss(16), np.polynomial.legendre.leggauss(16), strict=True
    ):
        np.testing.assert_allclose(found.tolist(), expected, rtol=1e-13)


def test_special_functions_are_scipys() -> None:
    for x in (-40.0, -3.0, -0.1, 0.0, 2.0, 9.0):
        assert twin.log_ndtr(x) == pytest.approx(float(special.log_ndtr(x)), rel=1e-13)
        assert twin.erfc(x) == pytest.approx(float(special.erfc(x)), rel=1e-14)
    for mass in (1e-30, 1e-9, 0.3, 0.5):
        assert twin.ndtri(mass) == pytest.approx(float(special.ndtri(mass)), rel=1e-13, abs=1e-15)


def assert_same_rows(files: list[Path]) -> None:
    made = alone(*files)
    assert made.returncode == 0, made.stderr
    rows = [compared(json.loads(line)) for line in made.stdout.splitlines()]
    assert rows == [json.loads(json.dumps(compared(verify_file(file)))) for file in files]


@pytest.mark.quality
def test_reports_have_the_same_rows_without_numpy_and_processes() -> None:
    assert_same_rows(REPORTS)


@pytest.mark.quality
def test_a_report_with_a_numerical_profile_has_the_same_row_without_numpy() -> None:
    assert_same_rows([WITH_ARRAYS])


@pytest.mark.quality
def test_a_module_that_a_browser_lacks_is_noticed() -> None:
    """The guard itself: without exact balls the checker cannot start, and the test above is red."""
    made = alone(REPORTS[0], absent=(*ABSENT, "flint"))
    assert made.returncode != 0
