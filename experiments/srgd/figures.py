"""The plots of Section 4: what recursive gradients need acceleration for."""

from experiments.lab.figures import Figure, together
from experiments.lab.model import Size
from experiments.srgd import estimator, variance

section_4_3 = Figure(
    "srgd_section_4_3",
    "Recursive gradients: the variance without acceleration, and the error with it",
    "Choquette-Choo, Ganesh and Thakurta 2024, Section 4.3 (beside 4.2)",
    together,
    lambda _reads: (
        "the section prints an argument for T = n / B steps, n large, and no run: measured are n = "
        f"{variance.SIZES[Size.FULL][0]:,} to {variance.SIZES[Size.FULL][-1]:,} at B = "
        f"{', '.join(map(str, variance.BATCHES))}, beside T = {estimator.ROUNDS} with acceleration"
    ),
    experiments=("srgd_variance", "srgd_estimator"),
)
