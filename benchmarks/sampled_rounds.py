"""What sampling the rounds of correlated noise buys: a tree, and bands, of 256 rounds.

python -m benchmarks.sampled_rounds [--write]

k is how many rounds a record is in: exactly, in public turns; or on average, by a coin of k / 256
in every round, or of 1/4 in each of its group's 4 k turns.  ``conditional``: for every round
sampled, conditional composition (Choquette-Choo, Ganesh, Steinke, Thakurta 2023) of the tree's
nodes from the root down, each a sampled count N(J, z^2), J binomial, at a rate that bounds the
coins' posterior: given y_a of the c nodes above, q L / (1 - q + q L), L = exp((sum y_a - c/2) /
z^2), where the sum exceeds its limit (Chernoff) with a tenth of delta in all nodes together.
"""

from __future__ import annotations

import argparse
import math
import re
import textwrap
from fractions import Fraction
from pathlib import Path

import numpy as np

import dpaudit as dp
from dpaudit.families.correlated import Factorisation
from dpaudit.families.correlated.strategies import prefix_squares
from dpaudit.pairs import Drawn, product
from dpaudit.profiles import epsilon_interval

ROUNDS, DELTA, FAILED = 256, Fraction(1, 10**5), Fraction(1, 10**6)
TREE, ROOT = Factorisation.TREE, Factorisation.SQRT_TOEPLITZ
PAGE = Path(__file__).parents[1] / "docs" / "accountant.md"
BANDS = {
    4: dp.BandedToeplitz(("1", "1/2", "3/8", "5/16")),
    16: dp.BandedToeplitz(tuple(Fraction(math.comb(2 * k, k), 4**k) for k in range(16))),
}


def account(strategy: object, groups: int, rate: Fraction | None, z: int) -> str:
    """[lower, upper] of epsilon; public turns where there is no rate."""
    turns = dp.Participation(ROUNDS // groups, groups)
    rows = dp.CorrelatedGaussian("sums", z, ROUNDS, strategy, turns)
    node = rows if rate is None else dp.CyclicPoisson(rows, groups, rate)
    found = dp.account(node, dp.central("add_remove")).epsilon(DELTA)
    return f"[{float(found.lower):.3g}, {float(found.upper):.3g}]"


def conditional(k: int, z: int) -> float:
    """Epsilon of a tree whose rounds are sampled at k / 256, the larger of both directions."""
    height = ROUNDS.bit_length() - 1
    found = []
    for present in (True, False):
        factors = [(Drawn(Fraction(1, z), Fraction(k, ROUNDS), Fraction(ROUNDS)), Fraction(1))]
        for depth in range(1, height + 1):
            for lefts in range(depth):  # of the nodes above, besides the root
                rate = Fraction(
                    posterior(k / ROUNDS, lefts + 1, z, present=present)
                ).limit_denominator(10**6) + Fraction(1, 10**6)
                node = Drawn(Fraction(1, z), rate, Fraction(ROUNDS >> depth))
                factors.append((node, Fraction(math.comb(depth - 1, lefts))))
        pair = product(factors)
        pair = pair if present else pair.swapped
        found.append(epsilon_interval(pair, DELTA - FAILED).upper)
    return float(max(found))


def posterior(q: float, above: int, z: int, *, present: bool) -> float:
    """What a round's coin is at most believed to be, given the nodes above that hold it."""
    sizes = [ROUNDS >> i for i in range(above)] + [0]
    held = [(i + 1, sizes[i] - (sizes[i + 1] if i + 1 < above else 0)) for i in range(above)]
    log = math.log(ROUNDS / float(FAILED))
    limit = min(
        t * z**2 * above / 2
        + (sum(n * math.log1p(q * math.expm1(t * w)) for w, n in held) if present else 0) / t
        + log / t
        for t in np.geomspace(0.1, 4, 200) * math.sqrt(2 * log / above) / z
    )
    likelier = math.exp((limit - above / 2) / z**2)
    return q * likelier / (1 - q + q * likelier)


def tree_rows() -> list[str]:
    """A line for each k and noise."""
    lines = [
        "| k | noise | k public turns | 4 k turns, coins | every round, coins | conditional |",
        "|---|---|---|---|---|---|",
    ]
    for k in (1, 4):
        for z in (5, 10, 20):
            cells = [
                account("tree", ROUNDS // k, None, z),
                account("tree", ROUNDS // (4 * k), Fraction(1, 4), z),
                account("tree", 1, Fraction(k, ROUNDS), z),
                f"{conditional(k, z):.3g}" if z >= 10 else "",
            ]
            lines.append(f"| {k} | {z} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def band_rows() -> list[str]:
    """Groups of as many as there are bands, or one."""
    lines = [
        "| bands | k | noise | as many groups, coins | every round, coins |",
        "|---|---|---|---|---|",
    ]
    for bands, strategy in BANDS.items():
        for k in (1, 4):
            for z in (2, 5):
                cells = [
                    account(strategy, bands, Fraction(k * bands, ROUNDS), z),
                    account(strategy, 1, Fraction(k, ROUNDS), z),
                ]
                lines.append(f"| {bands} | {k} | {z} | {' | '.join(cells)} |")
                print(lines[-1], flush=True)
    return lines


def errors() -> str:
    """Variances of prefix sums, over a clipped record's square, at one epsilon."""
    epsilon, tree, turns = (
        conditional(1, 10),
        100 * prefix_squares(TREE, ROUNDS),
        dp.Participation(),
    )
    low, high = 1.0, 100.0
    while high - low > 1e-3:
        z = (low + high) / 2
        rows = dp.CorrelatedGaussian("sums", Fraction(z), ROUNDS, ROOT, turns)
        found = dp.account(rows, dp.central("add_remove")).epsilon(DELTA).upper
        low, high = (z, high) if found > epsilon else (low, z)
    root = high**2 * prefix_squares(ROOT, ROUNDS)
    return (
        f"Noise in prefix sums at epsilon {epsilon:.3g}, in squares of a clipped record: a tree "
        f"sampled every round, noise 10, at most {tree.max():.0f}, on average {tree.mean():.0f}; "
        f"the square root strategy in one public turn, noise {high:.3g}, at most "
        f"{root.max():.0f}, on average {root.mean():.0f}."
    )


def main() -> None:
    """Print both tables, and write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    write = parser.parse_args().write
    table = "\n".join([*tree_rows(), "", *band_rows(), "", *textwrap.wrap(errors(), 120)])
    if write:
        start = "<!-- sampled: written by python -m benchmarks.sampled_rounds -->\n"
        found = re.compile(rf"(?<={re.escape(start)}).*?(?=\n<!-- end of sampled -->)", re.DOTALL)
        PAGE.write_text(found.sub(lambda _: table, PAGE.read_text()))


if __name__ == "__main__":
    main()
