"""Two queries of your own on people.csv: a function of all rows, and a function of one row."""

import dpaudit as dp
from dpaudit.kernels.query import Array
from mechanisms.noisy_mean import people


class CountAbove:
    """How many people weigh more than a public number; you state how far one row moves it."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Gaussian noise of twice the stated sensitivity."""
        return dp.Gaussian("count", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        """The noisy count, shape (trials, 1)."""
        above = dp.Statistic(lambda rows: (rows[:, 1] > 0.1).sum(), sensitivity=1)
        return curator.release("count", above)


class SumOfRows:
    """The sum of a number of each row; the library clips it, whatever the function does."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Gaussian noise of twice the sensitivity."""
        return dp.Gaussian("sum", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        """The noisy sum, shape (trials, 1)."""
        return curator.release("sum", dp.RowFunction(lambda row: row[0] * row[1], radius=0.5))


claims = [dp.Claim(dp.GDP("0.5"), by="this file")]
source, scope = "Dwork and Roth 2014, Appendix A", dp.central("replace_one")
count_above = dp.Mechanism(
    "count_above", "A noisy count", source, CountAbove(), scope, claims, records=people
)
sum_of_rows = dp.Mechanism(
    "sum_of_rows", "A noisy sum", source, SumOfRows(), scope, claims, records=people
)
