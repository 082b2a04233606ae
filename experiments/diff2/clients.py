"""What each of unequal clients' records is told about: epsilon by the size of its client.

The printed noise is made for the smallest client; a record of a client of n_p weighs 1 / (n_p P).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from dpaudit.accountant.account import account
from dpaudit.exact import enclose
from experiments.diff2 import problem
from experiments.diff2.runs import SCOPE
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Results,
    Series,
    Size,
    Table,
    Values,
)
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.noise import diff2_noise_paper

EPSILONS = {Size.QUICK: (3,), Size.FULL: (1, 3, 5)}
SIZES = (100, 200, 400, 800, 1_600)
ROUNDS, RESTART, SHARE = 20, 5, Fraction(5, 4)
# Independently computed: exact at (3, 1e-5), whatever n_min, P, R, T and u are.
EXACT_AT_3 = 2.34143


def cells(size: Size) -> list[Cell]:
    """Every budget and every client."""
    return [Cell.of(epsilon=e, client=k) for e in EPSILONS[size] for k in range(len(SIZES))]


def program(epsilon: int) -> Diff2:
    """DIFF2-GD of five clients, constants as printed for (epsilon, 1e-5)."""
    restarts, differences = ROUNDS // RESTART, ROUNDS - ROUNDS // RESTART
    total = min(SIZES) * len(SIZES)
    noise = diff2_noise_paper(epsilon, problem.DELTA, total, restarts, differences, SHARE)
    return Diff2(
        problem.LOSS, problem.FEATURES, SIZES, ROUNDS, RESTART,
        problem.GRADIENT_BOUND, problem.SMOOTHNESS, 0.1, noise=noise,
    )  # fmt: skip


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Upper bound of epsilon at 1e-5 of a record of one client, and of any; nothing is drawn."""
    made = program(cell.count("epsilon"))
    own = account(made.client_declaration(SCOPE, cell.count("client")), SCOPE)
    whole = account(made.declaration(SCOPE), SCOPE)
    return {
        "epsilon": float(enclose(own.epsilon(problem.DELTA).upper).mid()),
        "whole": float(enclose(whole.epsilon(problem.DELTA).upper).mid()),
    }


def read(results: Results) -> Findings:
    """No client is told about at more than the run's epsilon, and larger ones at less."""
    rows, series, checks = [], [], []
    for epsilon in results.parameters("epsilon"):
        own = results.where(epsilon=epsilon)
        found = [r.number("epsilon") for r in own]
        sizes = tuple(float(SIZES[r.cell.count("client")]) for r in own)
        whole = own.rows[0].number("whole")
        rows.append((float(epsilon), whole, *found))
        series.append(Series(f"epsilon = {epsilon}", sizes, tuple(found)))
        steps = max(after / before for before, after in pairwise(found))
        start = f"epsilon = {epsilon}:"
        checks += [
            Check(
                f"{start} largest of a client's over what is stated",
                max(found) / float(epsilon),
                upper=1.0,
                source="Proposition 4.1",
            ),
            Check(
                f"{start} smallest client's over the run's",
                found[0] / whole,
                1 - 1e-6,
                1 + 1e-6,
                source="the guarantee is that of n_min",
            ),
            Check(
                f"{start} a client twice as large, largest ratio",
                steps,
                upper=0.5,
                source="mu_p = mu n_min / n_p",
            ),
        ]
        if epsilon == 3:
            exact = f"epsilon = 3: the run's exact epsilon over {EXACT_AT_3}"
            checks.append(
                Check(
                    exact,
                    whole / EXACT_AT_3,
                    1 - 1e-5,
                    1 + 1e-5,
                    source="an independent computation",
                )
            )
    columns = ("stated epsilon", "exact epsilon of the run", *(f"n_p = {n}" for n in SIZES))
    table = Table("Epsilon at 1e-5 of a record of each client", columns, tuple(rows))
    note = "n_min = 100, P = 5, R = 20, T = 5, u = 1.25: mu does not depend on them"
    panel = Panel("A record's epsilon", "records of its client", "epsilon", tuple(series))
    return Findings((table,), tuple(checks), (panel,), (note,))


diff2_clients = Experiment(
    name="diff2_clients",
    title="DIFF2-GD with clients of unequal sizes: the epsilon of a record of each",
    source="Murata and Suzuki 2023, Proposition 4.1 and Lemma C.1",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
