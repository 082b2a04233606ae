"""Release a sum of 10^9 with exact Laplace noise of scale 1/64"""


def probe() -> str:
    import numpy as np

    import dpaudit as dp
    from dpaudit.kernels.base import exact_kernels

    leaf = dp.Laplace("sum", "1/64")
    values, scale = np.full((8, 1), 1e9), np.full(8, 1 / 64)
    session = exact_kernels()[dp.Laplace](leaf, 8)
    drawn = session.sample(values, scale, np.random.default_rng(1))
    return f"released {drawn[0, 0]:.3f} of 1000000000"
