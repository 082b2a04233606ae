"""Audits of adaptive noisy gradient descent as printed, where all norms are silent.

On ``Pulled`` with no pull both data sets have a mean gradient of norm L0 / n: noisy norms are
noise, and often negative.
"""

from __future__ import annotations

from dataclasses import replace

from audits.kl import turned_round, zeroed_out
from audits.kl_adaptive import EXCESS, pulled
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from mechanisms.papers.kl import adaptive_readings as catalogue
from mechanisms.papers.kl.adaptive_printed import PrintedAdaptiveNoisyGD

TRIALS, SOME = 2_000, 8_000
# So many that the attack can show an epsilon of 7 at delta = 1e-3 (no 1-zCDP code has over 5.42).
MANY = 36_000
# The few runs that go on are cut here: what an attacker of the first rounds sees is less.
ROUNDS = 60
REPLACED, ZEROED = turned_round(catalogue.BENCH.size), zeroed_out(catalogue.BENCH.size)


def silent(program: PrintedAdaptiveNoisyGD) -> PrintedAdaptiveNoisyGD:
    """With no pull, and not for long: the worst case for printed charges; vectors in the plane."""
    line = pulled(program.problem, 2 if program.reading == "vector" else 1, 0.0, EXCESS)
    return replace(program, problem=line, rounds_at_most=ROUNDS)


def aligned(program: PrintedAdaptiveNoisyGD) -> PrintedAdaptiveNoisyGD:
    """With a pull along the canary, so that some dozens of rounds cost about the same."""
    return replace(
        program, problem=pulled(program.problem, 200, 0.004, EXCESS), rounds_at_most=ROUNDS
    )


def _suite(
    name: str, program: PrintedAdaptiveNoisyGD, pair: Neighbours = REPLACED, trials: int = TRIALS
) -> Suite:
    return Suite(f"adaptive_noisy_gd_paper{name}", program, pair, trials)


adaptive_noisy_gd_paper = _suite("", silent(catalogue.SIGNED), trials=MANY)
# Few runs go on for long, and these are told apart far above 0: 4 was best in runs of seed 11.
adaptive_noisy_gd_paper_signed_zero_out = replace(
    _suite("_signed_zero_out", silent(catalogue.SIGNED), ZEROED, SOME), threshold=4.0
)
adaptive_noisy_gd_paper_vector = _suite("_vector", silent(catalogue.VECTOR))
adaptive_noisy_gd_paper_iterates = _suite("_iterates", aligned(catalogue.ITERATES), trials=600)

suites = [
    adaptive_noisy_gd_paper,
    adaptive_noisy_gd_paper_signed_zero_out,
    adaptive_noisy_gd_paper_vector,
    adaptive_noisy_gd_paper_iterates,
]
