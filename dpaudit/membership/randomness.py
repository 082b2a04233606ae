"""Where training gets its randomness, and whether models that are counted share some of it.

A bound from many models holds if, given the coins, the models are independent: each draws noise of
its own, from the generator that fit is given, the system, a device, or anywhere else.  Constants
of the program, a seed written into it among them, are no noise.  Noise that is drawn once and used
by several models voids the bound.

*Fresh processes* import the training anew and train on the same records.  If they give the models
that the study's process gives for the same generators, nothing is hidden in a process.  If they do
not, models trained in one process are compared with models of different processes: without
shared noise, any two are as far apart as any other two.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dpaudit.membership.data import FloatArray
from dpaudit.membership.results import Finding

Pair = tuple[FloatArray, FloatArray]
Trained = Callable[[int], FloatArray]

PAIRS = 4  # of trainings, a process each: 105 ways to pair eight, so an error below 1%
_CLOSE = 1e-6  # of the scores' deviation: trainings that agree to this are the same
_JITTER = 1e-3  # of it: the most that a device's order of sums may change
_LEVEL = 1 / 105 + 1e-9  # the processes' own pairing is the closest of all
_SIMULATED = 200  # tests by which power is told


def examined(
    train: Trained,
    raw: tuple[FloatArray, FloatArray, FloatArray],
    *,
    jobs: int,
    importable: bool,
    claimed: bool,
) -> list[Finding]:
    """Findings about noise from repeated trainings on the records of one model.

    ``train(stream)``: scores of a model trained with that stream of the generator, in this process;
    picklable.  ``raw``: those of stream 0, 0 again and 1, from where the study trains.
    ``importable``: whether another process can import the training.
    """
    first, again, other = raw
    jitter, moved = distance(first, again), distance(first, other)
    alike = max(_CLOSE, min(3 * jitter, _JITTER))
    same = moved <= alike
    if not importable:
        # The second training here: the first has the state that was copied to the workers.
        if jobs > 1 and distance(other, (train(0), train(1))[1]) > alike:
            return [
                Finding.shared(
                    "worker processes may hold copies of one generator; use one job, or "
                    "functions of a module"
                )
            ]
        return [Finding.same_noise(claimed=claimed)] if same else []
    if jitter <= _CLOSE and not claimed:
        return [Finding.same_noise(claimed=claimed)] if same else []
    try:
        fresh = fresh_pair(train, (0, 1))
    except Exception as error:  # noqa: BLE001 (of a training that another process cannot repeat)
        untested = Finding.untested(type(error).__name__)
        return [Finding.same_noise(claimed=claimed), untested] if same else [untested]
    if max(distance(first, fresh[0]), distance(other, fresh[1])) <= alike:
        return [Finding.same_noise(claimed=claimed)] if same else []
    if same or jitter <= _CLOSE:
        return [Finding.shared("it is drawn once in a process, as where a module is imported")]
    pairs = [fresh_pair(train, (2 * k, 2 * k + 1)) for k in range(1, PAIRS)]
    if distance(pairs[0][0], pairs[1][0]) <= _JITTER:
        return [Finding.repeated()]
    return [_judged([(first, other), *pairs])]


def distance(one: FloatArray, other: FloatArray) -> float:
    """Root mean square of the difference, in deviations of the first; 0 where both are infinite."""
    finite = np.isfinite(one) & np.isfinite(other)
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return np.inf
    if not finite.any():
        return 0.0
    spread = float(np.std(one[finite])) or 1.0
    return float(np.sqrt(np.mean((one[finite] - other[finite]) ** 2)) / spread)


def is_importable(target: Any) -> bool:
    """Whether another process imports the target by name: what it holds is then made anew."""
    try:
        content = pickle.dumps(target)
    except Exception:  # noqa: BLE001 (of a user's own object)
        return False
    return b"__main__" not in content


def fresh_pair(train: Trained, streams: tuple[int, int]) -> Pair:
    """Scores of two trainings, one after the other, in a process of their own."""
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    with ProcessPoolExecutor(max_workers=1) as pool:
        pair: Pair = pool.submit(_both, train, streams).result()
    return pair


def _both(train: Trained, streams: tuple[int, int]) -> Pair:
    return train(streams[0]), train(streams[1])


def shared_p_value(pairs: Sequence[Pair]) -> float:
    """The p-value of trainings as far apart in one process as in two: exact, over all pairings."""
    rows = np.stack([row for pair in pairs for row in pair]).reshape(2 * len(pairs), -1)
    rows = rows[:, np.isfinite(rows).all(axis=0)]
    rows = rows / np.maximum(rows.std(axis=0), 1e-300)
    apart = ((rows[:, None] - rows[None]) ** 2).sum(axis=-1)
    sums = [sum(apart[i, j] for i, j in pairing) for pairing in _pairings(tuple(range(len(rows))))]
    # The first pairing is that of the processes.
    return float(np.mean(np.array(sums) <= sums[0] * (1 + 1e-12)))


def _pairings(places: tuple[int, ...]) -> Iterator[list[tuple[int, int]]]:
    if not places:
        yield []
        return
    for partner in places[1:]:
        places_left = tuple(place for place in places[1:] if place != partner)
        for pairs in _pairings(places_left):
            yield [(places[0], partner), *pairs]


def power(dimensions: int, share: float, *, seed: int = 0) -> float:
    """How often the test notices noise of which ``share`` of the variance is shared."""
    rng = np.random.default_rng(seed)
    noticed = 0
    for _ in range(_SIMULATED):
        common = rng.normal(size=(PAIRS, 1, dimensions)) * np.sqrt(share)
        noise = common + rng.normal(size=(PAIRS, 2, dimensions)) * np.sqrt(1 - share)
        noticed += shared_p_value([(pair[0], pair[1]) for pair in noise]) <= _LEVEL
    return noticed / _SIMULATED


def _judged(pairs: Sequence[Pair]) -> Finding:
    if shared_p_value(pairs) <= _LEVEL:
        return Finding.shared("models of one process are closer than those of two")
    rows = np.stack([row for pair in pairs for row in pair])
    rows = rows[:, np.isfinite(rows).all(axis=0)].reshape(2 * len(pairs), -1)
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    dimensions = max(1, round(float(values.sum() ** 2 / (values**2).sum())))
    noticed = power(dimensions, 0.5)
    return Finding.independent(
        f"{len(rows)} trainings in {len(pairs)} processes show no noise that models share; noise "
        f"of which half is shared is noticed in {noticed:.0%} of such tests"
    )
