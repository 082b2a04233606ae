"""The mean of the rows of people.csv, with Gaussian noise: put your own file in its place."""

from pathlib import Path

import dpaudit as dp
from dpaudit.curator.files import read_records
from dpaudit.kernels.query import Array


class NoisyMean:
    """Clips every row to norm 1; one row then moves the mean by 2 / n at most."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Gaussian noise of twice as much."""
        return dp.Gaussian("mean", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        """The noisy mean, shape (trials, columns)."""
        return curator.release("mean", dp.ClippedMean(lambda rows: rows[None], radius=1))


def people() -> dp.Records:
    """The rows of the file below its line of names."""
    path = Path(__file__).with_name("people.csv")
    return read_records(path)


claims = [dp.Claim(dp.GDP("0.5"), by="this file"), dp.Claim(dp.ApproxDP(2, "1e-5"), by="this file")]
source, scope = "Dwork and Roth 2014, Appendix A", dp.central("replace_one")
noisy_mean = dp.Mechanism(
    "noisy_mean", "A noisy mean", source, NoisyMean(), scope, claims, records=people
)
