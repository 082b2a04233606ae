"""``diff2_preprocessed`` at the other epsilon of the paper's figures, 5, under five seeds.

It stands alone so that the runs at epsilon 3 need not be made again.
"""

from __future__ import annotations

from experiments.diff2 import preprocessed
from experiments.lab.model import Cell, Experiment, Size

EPSILON = 5
# As many as the paper's; set before the run for its time, as are all bands, which are the paper's.
SEEDS = {Size.QUICK: 1, Size.FULL: 5}


def cells(size: Size) -> list[Cell]:
    """The searches of ``diff2_preprocessed`` at this epsilon."""
    return preprocessed.grid(size, EPSILON, SEEDS[size])


diff2_preprocessed_five = Experiment(
    name="diff2_preprocessed_five",
    title="DIFF2-GD, DP-GD and gradient descent on data prepared by themselves, epsilon 5",
    source="Murata and Suzuki 2023, Section 6 (Data Preparation) and Appendix A",
    cells=cells,
    run=preprocessed.run,
    read=preprocessed.read,
    alone=("largest excess of a run", "settings that survived"),
)
