"""Membership audits of real training, kept in reports/membership: ``make membership-reports``.

Each study is resumable (its trainings are kept in build/membership) and is written as a certificate
and a page.  ``python -m benchmarks.membership_runs NAME ...`` makes some of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.families.opaque import ApproxDP
from dpaudit.membership import DPSGD, Data, Study, TorchTarget
from dpaudit.membership.certificate import MembershipAudit, save, statement
from dpaudit.membership.data import without_duplicates
from dpaudit.membership.program_target import ProgramTarget
from dpaudit.project.project import resolve
from dpaudit.report.membership import render
from dpaudit.storage.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "membership"
OUT = ROOT / "reports" / "membership"
SEED = 18


def digits(count: int) -> tuple[Data, Data]:
    """Audited digits and a population, no record twice."""
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    whole = without_duplicates(Data((features / 16)[order], labels[order]))
    return whole.take(np.arange(count)), whole.take(np.arange(count, len(whole)))


def digits_logistic() -> MembershipAudit:
    """Logistic regression, hardly regularised, on 1,400 digits."""
    from sklearn.linear_model import LogisticRegression

    audited, population = digits(1_400)
    model = LogisticRegression(C=100, max_iter=200)
    return study("digits_logistic", model, audited, 64, population).run()


def rand_tree() -> MembershipAudit:
    """Who saw a doctor at all, from the RAND health insurance experiment, by gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from statsmodels.datasets import randhie

    table = randhie.load_pandas().data
    order = np.random.default_rng(0).permutation(len(table))[:1_500]
    features = table.drop(columns="mdvis").to_numpy()[order]
    labels = (table["mdvis"].to_numpy()[order] > 0).astype(int)
    whole = without_duplicates(Data(features, labels))
    audited = whole.take(np.arange(900))
    groups = np.where(audited.features[:, 0] > np.median(audited.features[:, 0]), "high", "low")
    target = HistGradientBoostingClassifier(max_iter=60)
    population = whole.take(np.arange(900, len(whole)))
    return study("rand_tree", target, audited, 48, population).run(groups=groups)


def network() -> Any:
    """A small convolutional network for 8 x 8 digits."""
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 16, 10),
    )


def images(count: int) -> tuple[Data, Data]:
    """The digits in single precision."""
    audited, population = digits(count)
    return tuple(  # type: ignore[return-value]
        Data(part.features.astype(np.float32), part.labels) for part in (audited, population)
    )


EPOCHS = (5, 10, 20, 40)


def digits_network() -> MembershipAudit:
    """The network without privacy, after each of several numbers of epochs."""
    audited, population = images(300)
    target = TorchTarget(network, epochs=max(EPOCHS), batch_size=32, rate=0.5)
    return by_epoch("digits_network", target, audited, population, models=32)


def digits_network_opacus() -> MembershipAudit:
    """The same network trained by Opacus."""
    audited, population = images(300)
    private = DPSGD(noise_multiplier=2.0, max_grad_norm=1.0)
    target = TorchTarget(network, epochs=max(EPOCHS), batch_size=32, rate=0.5, private=private)
    return by_epoch("digits_network_opacus", target, audited, population, models=16)


def by_epoch(
    name: str, target: TorchTarget, audited: Data, population: Data, *, models: int
) -> MembershipAudit:
    """The last study, with the bounds of shorter trainings beside it."""
    rows = []
    for epochs in EPOCHS:
        shorter = replace(target, epochs=epochs)
        spent = accounted(shorter, len(audited) // 2)
        claim = ApproxDP(float(np.ceil(spent * 100) / 100), 1e-5) if np.isfinite(spent) else None
        last = epochs == max(EPOCHS)
        asked: dict[str, Any] = {} if last else {"attacks": "lira,gap"}
        possible = claim if last and claim is not None and claim_fits(claim) else None
        found = study(f"{name}_{epochs}", shorter, audited, models, population).run(
            claim=possible, **asked
        )
        if found.bound is None:
            raise SystemExit(f"{name}: {found.reason}")
        rows.append((epochs, found.bound, spent))
    return replace(found, by_epoch=tuple(rows))


def claim_fits(claim: Any) -> bool:
    """Whether the coins of these studies could refute it at all."""
    return float(claim.parameters["epsilon"]) < 5


def accounted(target: TorchTarget, records: int) -> float:
    """What Opacus says was spent on half of the records; infinite without noise."""
    if target.private is None:
        return float("inf")
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    batches = -(-records // target.batch_size)
    accountant.history = [(target.private.noise_multiplier, 1 / batches, target.epochs * batches)]
    return float(accountant.get_epsilon(1e-5))


def diff2_gd() -> MembershipAudit:
    """DIFF2-GD of the catalogue on the RAND data, its last model seen."""
    return of_catalogue("diff2_gd", ApproxDP(3, 1e-5))


def accelerated_dp_srgd() -> MembershipAudit:
    """Accelerated-DP-SRGD of the catalogue on the RAND data, its last model seen."""
    return of_catalogue("accelerated_dp_srgd", ApproxDP(1, 1e-6))


def of_catalogue(name: str, claim: Any) -> MembershipAudit:
    """A mechanism of the catalogue, 400 of its records audited."""
    mechanism = resolve(name, ROOT).mechanism
    if mechanism.records is None:
        raise SystemExit(f"{name}: no records")
    values = mechanism.records().values
    _, first = np.unique(values, axis=0, return_index=True)
    rows = np.random.default_rng(0).choice(first, 400, replace=False)
    target = ProgramTarget(mechanism, tuple(sorted(map(int, rows))))
    return study(name, target, target.data, 24, None).run(claim=claim)


def study(name: str, target: Any, audited: Data, models: int, population: Data | None) -> Study:
    """A study of scores that keeps its trainings."""
    terms: dict[str, Any] = {"population": population, "released": "scores", "seed": SEED}
    return Study(target, audited, models, folder=KEPT / name, **terms)


RUNS: dict[str, Callable[[], MembershipAudit]] = {
    run.__name__: run
    for run in (
        digits_logistic,
        rand_tree,
        digits_network,
        digits_network_opacus,
        diff2_gd,
        accelerated_dp_srgd,
    )
}


# Shown side by side on one page, under these names.
COMPARED = {
    "digits_network": "digits network",
    "digits_network_opacus": "digits network opacus",
}


def main() -> None:
    """Make the runs that are named, or all; then the pages of all that are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *RUNS])
    parser.add_argument("--pages", action="store_true", help="train nothing; pages alone, anew")
    given = parser.parse_args()
    for name in [] if given.pages else given.names or RUNS:
        started = time.perf_counter()
        found = RUNS[name]()
        save(statement(found), OUT / f"{name}.json")
        print(f"{name}: {time.perf_counter() - started:.0f} s\n{found}\n", flush=True)
    pages()


def pages() -> None:
    """The page of every certificate that is kept, and the one that compares the networks."""
    kept = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(OUT.glob("*.json"))}
    for name, certificate in kept.items():
        write_atomically(OUT / f"{name}.html", render(certificate).encode())
    if set(COMPARED) <= set(kept):
        shown = {words: kept[name] for name, words in COMPARED.items()}
        write_atomically(OUT / "networks.html", render(shown).encode())


if __name__ == "__main__":
    sys.exit(main())
