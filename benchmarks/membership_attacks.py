"""Every attack on one setting of its paper's kind: ``python -m benchmarks.membership_attacks``.

Image classifiers that overfit, as in the papers, at a size that two cores train in minutes: a small
convolutional network on the digits, seen whole (every iterate, so that each attack has what it
needs); and generators of tables, for the attacks on synthetic data.  Prints the rows of the table
in docs/membership.md.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.membership_runs import images, network
from dpaudit.membership import Data, Released, Study, SyntheticTarget, TorchTarget
from dpaudit.membership.certificate import MembershipAudit

MODELS = 12
HEADER = "| attack | source | area under the curve | true positive rate at 1% |"


def classifiers(released: Released, attacks: str | None = None) -> MembershipAudit:
    """Attacks on one network: 250 digits, half of them in each of the models."""
    audited, population = images(250)
    target = TorchTarget(network, epochs=20, batch_size=16, rate=0.3, released=released)
    return Study(target, audited, MODELS, population=population, seed=18).run(attacks=attacks)


def copying(records: Data, rng: np.random.Generator) -> Any:
    """A generator that overfits: noisy copies of its records, four of each."""
    rows = rng.integers(len(records), size=4 * len(records))
    return records.features[rows] + rng.normal(0, 0.35, (rows.size, records.features.shape[1]))


def generators() -> dict[str, MembershipAudit]:
    """Distances and density ratios on a released table of 150 records in 6 columns."""
    rng = np.random.default_rng(18)
    audited, reference = (Data(rng.normal(size=(count, 6))) for count in (300, 600))
    targets = {
        "nearest": SyntheticTarget(copying),
        "density_ratio": SyntheticTarget(copying, "density_ratio", reference),
    }
    return {
        kind: Study(target, audited, MODELS, seed=18).run(attacks="loss")
        for kind, target in targets.items()
    }


def row(name: str, source: str, found: Any) -> str:
    """One line of the table."""
    rate = dict(found.true_positive_rates)[0.01].value
    return f"| `{name}` | {source} | {found.auc.value:.3f} | {rate:.1%} |"


SOURCES = {
    "nearest": "Hilprecht et al. (2019), Monte Carlo",
    "density_ratio": "van Breugel et al. (2023), DOMIAS",
}


def main() -> None:
    """The table, and the seconds it took."""
    started = time.perf_counter()
    print(HEADER)
    print("|---|---|---|---|")
    for released, asked in ((Released.LABELS, "label_only"), (Released.ITERATES, None)):
        for name, found in classifiers(released, asked).attacks.items():
            print(row(name, found.source, found), flush=True)
    for kind, audit in generators().items():
        print(row(f"synthetic: {kind}", SOURCES[kind], audit.attacks["loss"]))
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
