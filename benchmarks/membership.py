"""Membership audits beside Privacy Meter, and pooled bounds beside jax-privacy's and its own.

Time and true positive rate at a false positive rate of 1%, at equal numbers of models, on logistic
regression of the digits; then one table of bounds on the same pooled scores of mechanisms of known
epsilon, with the share of runs above the truth.  Others live in environments of their own, made
here when missing; one that does not install is named and left out.  Privacy Meter computes a bound
since its packages ended (1.0.1): of a checkout of it, given by ``--checkout``, or left out by name.
"""

from __future__ import annotations

import argparse
import json
import os
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
from tests.support.membership import gaussian, laplace, response, shared

METER = Path(__file__).resolve().parent.parent / "build" / "meter"
PINNED = "privacy-meter==1.0.1"
CURRENT = "github.com/privacytrustlab/ml_privacy_meter"
POOLED = ("jax epsilon_from_gdp", "jax Clopper-Pearson, all thresholds", "jax one run, split")
METER_BOUNDS = ("best of all numbers of guesses", "a quarter guessed on either side")
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
    path = f"{METER}:{os.environ.get('PYTHONPATH', '')}"
    command = [str(script), str(folder / "data.npz"), str(models), str(folder), str(TARGETS)]
    done = subprocess.run(
        [sys.executable, *command],
        env={"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PATH": ""},
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
    study = Study(estimator, audited, models, population=population, released="scores", seed=0)
    found = study.run(jobs=jobs)
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
    used_by_them = f"{theirs['seconds']:.1f} s ({theirs['processor']:.1f} s of a processor)"
    print(f"Privacy Meter, 1 attack: {used_by_them}; at 1%: {theirs['rate']}")
    ratio = ours[best].value / rate if rate else float("inf")
    times = processor / theirs["processor"]
    print(f"ratios (ours / theirs): processor time {times:.2f}, rate {ratio:.2f}")


def pooled_bounds(runs: int, checkout: Path | None) -> None:
    """Bounds at 95% of the same scores, pooled over models, and how often they are too high."""
    python = jax_privacy()
    tools = ["dpaudit", *(POOLED if python else ())]
    rows, rng = [], np.random.default_rng(0)
    with Others(python) as others:
        for null in NULLS:
            target = CanaryTerms.of(ApproxDP(0, null.delta), 0.95, 1e-4, 0).target
            bounds: dict[str, list[float]] = {}
            included = np.empty((runs, 8, 40), dtype=bool)
            scores = np.empty(included.shape)
            for run in range(runs):
                included[run] = inside = rng.random((8, 40)) < 0.5
                scores[run] = given = null.scores(inside, rng)
                known = Known(given[:4], inside[:4])
                ours = bound_of(known, given[4:], inside[4:], target, 0.05, run)
                bounds.setdefault("dpaudit", []).append(ours.value)
                sides = given[inside], given[~inside]
                found = others.ask(sides, null.delta or 1e-12, tools[1:])
                for tool, answer in found.items():
                    if "bound" in answer:
                        bounds.setdefault(tool, []).append(answer["bound"])
            bounds |= meter_bounds(checkout, scores, included)
            rows.append((null, bounds))
    table(rows, runs)


def jax_privacy() -> Path | None:
    """The interpreter that has jax-privacy; None, with the reason said, without it."""
    try:
        return environment(ENVIRONMENT)
    except subprocess.CalledProcessError:
        say("jax-privacy does not install: left out")
        return None


def meter_bounds(checkout: Path | None, scores: Any, included: Any) -> dict[str, list[float]]:
    """Privacy Meter's own bounds, a list a tool, of scores (runs, models, records)."""
    if checkout is None:
        return {}
    script = Path(__file__).with_name("membership_meter_bound.py")
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "runs.npz", scores=scores, included=included)
        path = f"{checkout}:{os.environ.get('PYTHONPATH', '')}"
        done = subprocess.run(
            [sys.executable, "-P", str(script), f"{folder}/runs.npz"],
            env={"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        say(f"Privacy Meter at {checkout} failed: {done.stderr.strip().splitlines()[-1]}")
        return {}
    found = zip(METER_BOUNDS, json.loads(done.stdout.splitlines()[-1]), strict=True)
    return {f"Privacy Meter, {tool}": values for tool, values in found}


def table(rows: list[tuple[Any, dict[str, list[float]]]], runs: int) -> None:
    """The rows of docs/membership.md: share of runs above the truth, and the mean bound."""
    tools = list(rows[0][1])
    print(f"\nbounds of pooled scores, {runs} runs: share above the truth (mean bound)")
    print(f"| mechanism in place of training | epsilon | {' | '.join(tools)} |")
    print("|---" * (len(tools) + 2) + "|")
    for null, bounds in rows:
        cells = [
            f"{np.mean(np.array(bounds[tool]) > null.epsilon + 1e-9):.0%} "
            f"({np.mean(bounds[tool]):.3g})"
            for tool in tools
        ]
        print(f"| {null} | {null.epsilon:.3g} | {' | '.join(cells)} |")


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--bounds", action="store_true", help="the second table alone")
    parser.add_argument("--checkout", type=Path, help=f"a checkout of {CURRENT}, for its bounds")
    given = parser.parse_args()
    if given.checkout is None:
        say(f"the bounds of {CURRENT}, of which there is no package: left out (--checkout FOLDER)")
    if not given.bounds:
        equal_models(given.models, given.jobs)
    pooled_bounds(given.runs, given.checkout)


if __name__ == "__main__":
    main()
