"""How long the attacks on floating-point arithmetic take: each sampler, and all of them together.

python -m benchmarks.arithmetic
"""

from __future__ import annotations

import time
from typing import Any

from dpaudit.audit.arithmetic.floating import audit_arithmetic
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.additive.kernel import GridGaussianKernel, GridLaplaceKernel
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace

SAMPLERS: dict[str, Any] = {
    "Laplace, doubles": Laplace("a", 1),
    "Gaussian, doubles": Gaussian("a", 2),
    "Laplace, rounded to a grid": GridLaplaceKernel(Laplace("a", 1), 1),
    "Gaussian, rounded to a grid": GridGaussianKernel(Gaussian("a", 2), 1),
    "discrete Laplace": DiscreteLaplace("a", 3),
    "discrete Gaussian": DiscreteGaussian("a", 9, 2),
}


def main() -> None:
    """Print one row a sampler, and their sum."""
    total = [0.0, 0.0]
    print(f"{'attacks on the arithmetic of':32} {'seconds':>8} {'of CPU':>8} {'broken':>7}")
    for name, sampler in SAMPLERS.items():
        started = time.perf_counter(), time.process_time()
        findings = audit_arithmetic(sampler)
        spent = time.perf_counter() - started[0], time.process_time() - started[1]
        broken = sum(finding.status == "broken" for finding in findings)
        print(f"{name:32} {spent[0]:8.2f} {spent[1]:8.2f} {broken:7}")
        total = [total[0] + spent[0], total[1] + spent[1]]
    print(f"{'together':32} {total[0]:8.2f} {total[1]:8.2f}")


if __name__ == "__main__":
    main()
