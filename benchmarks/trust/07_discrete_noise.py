"""Examine right discrete Laplace noise of epsilon 64, which is 0 nearly always"""


def probe() -> str:
    import numpy as np

    from dpaudit.audit.examine.noise import Release, drawn_alone
    from dpaudit.audit.residuals import check_residuals
    from dpaudit.families.discrete import DiscreteLaplace
    from dpaudit.kernels.base import kernel_of

    leaf = DiscreteLaplace("count", "1/64")
    kernel = kernel_of(leaf)
    values, scale = np.full((8, 1), 7.0), np.full(8, 1 / 64)
    residuals = []
    for seed in range(3):
        session = kernel(leaf, 8)
        drawn = session.sample(values, scale, np.random.default_rng(seed))
        residuals.append(session.residual(drawn, values, scale))
    found = check_residuals({"count": np.stack(residuals, axis=1)}, 1e-6)
    alarms = [f.check for f in found if f.status == "broken"]
    uses = [Release(leaf, kernel, np.arange(12.0), 1 / 64, "") for _ in range(3)]
    alone = drawn_alone({"count": uses}, seed=1).status
    return f"residuals: {len(alarms)} false alarms; noise drawn alone: {alone}"
