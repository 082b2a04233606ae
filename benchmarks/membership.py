"""Membership audits beside Privacy Meter, and pooled bounds beside jax-privacy's.

Time and true positive rate at a false positive rate of 1%, at equal numbers of models, on logistic
regression of the digits; then one table of bounds on the same pooled scores of mechanisms of known
epsilon, with the share of runs above the truth.  Others live in environments of their own, made
here when missing; one that does not install is named and left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from benchmarks.side_by_side import ENVIRONMENT, Others, environment, say
from dpaudit.audit.canaries.terms import CanaryTerms
from dpaudit.families.opaque import ApproxDP
from dpaudit.membership import Data, Study
from dpaudit.membership.bounds import Known, bound_of
from dpaudit.membership.data import without_duplicates
from tests.membership_for_tests import gaussian, laplace, response, shared

METER = Path(__file__).resolve().parent.parent / "build" / "meter"
PINNED = "privacy-meter==1.0.1"
POOLED = ("jax epsilon_from_gdp", "jax Clopper-Pearson, all thresholds", "jax one run, split")
TARGETS = 4
NULLS = (response(0.0), response(1.0), laplace(1.0), gaussian(1.0, 1e-3), shared(1.0, 1e-3))


def meter(features: Any, labels: Any, models: int, folder: Path) -> dict[str, Any] | None:
    """Seconds an audit and the rates of Privacy Meter; None, with the reason said, without it."""
    if not (METER / ".ready").exists():
        say(f"installing {PINNED} in {METER}")
        command = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(METER), PINNED]
        if subprocess.run([sys.executable, *command], check=False).returncode:
            say("Privacy Meter does not install: left out")
            return None
        (METER / ".ready").touch()
    np.savez(folder / "data.npz", features=features, labels=labels)
    script = Path(__file__).with_name("membership_meter.py")
    command = [str(script), str(folder / "data.npz"), str(models), str(folder), str(TARGETS)]
    done = subprocess.run(
        [sys.executable, *command],
        env={"PYTHONPATH": str(METER), "OMP_NUM_THREADS": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        say(f"Privacy Meter failed: {done.stderr.strip().splitlines()[-1]}")
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def equal_models(models: int, jobs: int) -> None:
    """Ours and theirs: every attack of ours, their reference attack, on as many models."""
    features, labels = load_digits(return_X_y=True)
    features = features / 16
    whole = without_duplicates(Data(features, labels))
    half = len(whole) // 2
    audited = whole.take(np.arange(half))
    population = whole.take(np.arange(half, len(whole)))
    estimator = LogisticRegression(C=100, max_iter=200)
    started, used = time.perf_counter(), time.process_time()
    found = Study(estimator, audited, models, population=population, seed=0).run(jobs=jobs)
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    ours = {name: dict(row.true_positive_rates)[0.01] for name, row in found.attacks.items()}
    best = max(ours, key=lambda name: ours[name].value)
    print(f"{models} models of {half} digits, logistic regression")
    print(f"dpaudit, {len(ours)} attacks: {seconds:.1f} s ({processor:.1f} s of this processor)")
    print(f"  true positive rate at 1%: {best} {ours[best]}")
    with tempfile.TemporaryDirectory() as folder:
        theirs = meter(features, labels, models, Path(folder))
    if theirs is None:
        return
    rate = max(theirs["rate"].values())
    print(f"Privacy Meter, 1 attack: {theirs['seconds']:.1f} s; at 1%: {theirs['rate']}")
    ratio = ours[best].value / rate if rate else float("inf")
    print(f"ratios (ours / theirs): time {seconds / theirs['seconds']:.2f}, rate {ratio:.2f}")


def pooled_bounds(runs: int) -> None:
    """Bounds at 95% of the same scores, pooled over models, and how often they are too high."""
    try:
        python = environment(ENVIRONMENT)
    except subprocess.CalledProcessError:
        say("jax-privacy does not install: left out")
        return
    rng = np.random.default_rng(0)
    print(f"\nbounds of pooled scores, {runs} runs: share above the truth (mean bound)")
    with Others(python) as others:
        for null in NULLS:
            target = CanaryTerms.of(ApproxDP(0, null.delta), 0.95, 1e-4, 0).target
            bounds: dict[str, list[float]] = {}
            for run in range(runs):
                included = rng.random((8, 40)) < 0.5
                scores = null.scores(included, rng)
                known = Known(scores[:4], included[:4])
                ours = bound_of(known, scores[4:], included[4:], target, 0.05, run)
                bounds.setdefault("dpaudit", []).append(ours.value)
                sides = scores[included], scores[~included]
                delta = null.delta or 1e-12
                found = others.ask(sides, delta, list(POOLED))
                for tool, answer in found.items():
                    if "bound" in answer:
                        bounds.setdefault(tool, []).append(answer["bound"])
            print(f"{null} (epsilon {null.epsilon:.3g} at delta {null.delta:g})")
            for tool, values in bounds.items():
                above = np.mean(np.array(values) > null.epsilon + 1e-9)
                print(f"  {tool}: {above:.0%} ({np.mean(values):.3g})")


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    equal_models(given.models, given.jobs)
    pooled_bounds(given.runs)


if __name__ == "__main__":
    main()
