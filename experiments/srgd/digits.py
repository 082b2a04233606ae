"""Accelerated-DP-SRGD on real data: even against odd handwritten digits."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.families.correlated.node import Factorisation
from dpaudit.kernels.query import Array, Records
from experiments.lab.fits import mean_and_error
from experiments.lab.learning import Learnt, learning_checks, learning_table
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Result,
    Results,
    Series,
    Size,
    Table,
    Values,
)
from experiments.srgd.problem import NEXT_TO_NONE, SCOPE
from mechanisms.papers.common.losses import Logistic, Loss, SoftplusNetwork, mean_value
from mechanisms.papers.common.randhie import DataUnavailable
from mechanisms.papers.srgd.accelerated import AcceleratedDPSRGD
from mechanisms.papers.srgd.constants import least_multiplier, noised
from mechanisms.papers.srgd.gradient import of_constants

FEATURES, TRAINED, ROUNDS, BATCH = 64, 1440, 36, 40
BETA, CLIP, RADIUS = 2 * Fraction(1, 4) * ROUNDS, 2, 10.0
DELTA = Fraction(1, 10**5)
NONE = 0  # stands for "noise off"
EPSILONS = {Size.QUICK: (1, 4, NONE), Size.FULL: (1, 4, 8, NONE)}
SEEDS = {Size.QUICK: 8, Size.FULL: 32}
STRATEGY = Factorisation.SQRT_TOEPLITZ
NETWORK, NETWORK_EPSILON, NETWORK_BETA, NETWORK_CLIP = SoftplusNetwork(10), 8, 18, 4
BEFORE = "ours, set before the run"
HALF = 0.25  # the squared error of always answering 1/2


def cells(size: Size) -> list[Cell]:
    """Logistic regression at each epsilon, 0 for noise off, and a network, which is not convex."""
    logistic = [Cell.of(model="logistic", epsilon=e, seeds=SEEDS[size]) for e in EPSILONS[size]]
    return [*logistic, Cell.of(model="network", epsilon=NETWORK_EPSILON, seeds=SEEDS[size])]


@lru_cache(maxsize=1)
def rows() -> Array:
    """1,797 rows of norm 1 and whether the digit is odd, (n, 65).

    Rows are scaled one by one, which needs no other row.
    Errors: DataUnavailable without scikit-learn, which brings the data.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise DataUnavailable(
            "digits: the data come with scikit-learn, which is not installed; "
            "pip install 'dpaudit[ml]'"
        ) from None
    images, digits = load_digits(return_X_y=True)
    features = images / np.linalg.norm(images, axis=1, keepdims=True)
    return np.column_stack([features, digits % 2]).astype(np.float64)


def program(model: str, epsilon: int) -> AcceleratedDPSRGD:
    """T = 36, B = 40; logistic regression has beta = 2 M T and rows clipped at 2.

    The network has no smoothness constant: its beta and clip were chosen by hand, on these data.
    """
    loss: Loss = NETWORK if model == "network" else Logistic()
    beta, clip = (NETWORK_BETA, NETWORK_CLIP) if model == "network" else (BETA, CLIP)
    multiplier = least_multiplier(epsilon, DELTA, ROUNDS, STRATEGY) if epsilon else NEXT_TO_NONE
    made = noised(ROUNDS, BATCH, beta, clip, multiplier)
    gradient = of_constants(made, loss, FEATURES, TRAINED, strategy=STRATEGY)
    return AcceleratedDPSRGD(gradient, radius=RADIUS)


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Accuracy and mean loss on 357 test rows; every epsilon has the same splits."""
    made = program(cell.text("model"), cell.count("epsilon"))
    found: dict[str, list[float]] = {"accuracy": [], "loss": [], "start": []}
    for split in range(cell.count("seeds")):
        order = np.random.default_rng(split).permutation(len(rows()))
        train, test = rows()[order[:TRAINED]], rows()[order[TRAINED:]]
        curator = Sampler(made.declaration(SCOPE), SCOPE, Records(train), rng=rng)
        output = made.run(curator).output
        found["loss"].append(float(mean_value(made.gradient.loss, output, test)[0]))
        found["start"].append(float(mean_value(made.gradient.loss, made.start(1).x, test)[0]))
        if cell.text("model") == "logistic":
            right = (test[:, :-1] @ output[0] > 0) == (test[:, -1] == 1)
            found["accuracy"].append(float(right.mean()))
    return found


def read(results: Results) -> Findings:
    """Accuracy against epsilon, in the bands of the spec."""
    logistic = results.where(model="logistic")
    (one, error), (none, _) = (_accuracy(logistic.one(epsilon=e)) for e in (1, NONE))
    four, free = (logistic.one(epsilon=e).numbers("accuracy") for e in (4, NONE))
    lost, spread = mean_and_error([a - b for a, b in zip(free, four, strict=True)])
    network = results.one(model="network")
    (loss, deviation), (start, _) = (mean_and_error(network.numbers(k)) for k in ("loss", "start"))
    checks = (
        Check(
            "accuracy at epsilon = 1", one, lower=0.70, margin=2 * error,
            source=f"{BEFORE}: at least .70",
        ),
        Check(
            "accuracy lost at epsilon = 4", lost, upper=0.03, margin=2 * spread,
            source=f"{BEFORE}: within .03 of noise off",
        ),
        Check(
            "network at epsilon = 8: test loss over that of the start", loss / start, upper=0.9,
            margin=2 * deviation / start, source=f"{BEFORE}: the loss decreases",
        ),
        Check(
            "network at epsilon = 8: test loss over that of answering 1/2", loss / HALF, upper=1.0,
            margin=2 * deviation / HALF, source=f"{BEFORE}: the loss decreases",
        ),
    )  # fmt: skip
    table = Table(
        "Logistic regression: test accuracy, delta = 1e-5, zero_out",
        ("epsilon", "accuracy", "standard error"),
        tuple((_name(r), *_accuracy(r)) for r in logistic),
    )
    private = [r for r in logistic if r.cell.count("epsilon") != NONE]
    x = tuple(r.cell.number("epsilon") for r in private)
    means, errors = zip(*map(_accuracy, private), strict=True)
    series = (
        Series("private", x, means, error=tuple(2 * e for e in errors)),
        Series("noise off", x, (none,) * len(x), "--", ""),
    )
    panel = Panel("Even or odd", "epsilon", "test accuracy", series, "linear")
    notes = ("the network's beta and clipping norm were chosen on these data: not private",)
    learnt = [_learnt(result) for result in results]
    tables = (table, learning_table(learnt, "test loss"))
    return Findings(tables, (*checks, *learning_checks(learnt)), (panel,), notes)


def _learnt(result: Result) -> Learnt:
    loss, error = mean_and_error(result.numbers("loss"))
    start = mean_and_error(result.numbers("start"))[0]
    noise = "noise off" if result.cell.count("epsilon") == NONE else f"epsilon = {_name(result)}"
    return Learnt(f"{result.cell.text('model')}, {noise}", loss, start, error)


def _name(result: Result) -> str:
    epsilon = result.cell.count("epsilon")
    return str(epsilon) if epsilon != NONE else "noise off"


def _accuracy(result: Result) -> tuple[float, float]:
    return mean_and_error(result.numbers("accuracy"))


srgd_digits = Experiment(
    name="srgd_digits",
    title="Accelerated-DP-SRGD on handwritten digits, even against odd",
    source="Choquette-Choo, Ganesh and Thakurta 2024, Algorithm 1; data: scikit-learn's digits",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
