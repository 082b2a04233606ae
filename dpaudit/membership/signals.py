"""Signals: values that one model gives each record, as far as the threat model reveals them.

``fit``      how well the model fits the record, larger for members: log(p / (1 - p)) of the true
             label's probability p (Carlini et al. 2022, section IV-C), or the score itself
``loss``     minus log p, or minus the score
``margin``   the logit of the true label less the largest other one; needs logits
``correct``  whether the predicted label is the true one
``agreement`` the share of noised copies of the record whose predicted label is the true one
``numbers``  those of the model, or sums of them, and how many there are; needs parameters
``gradient`` the norm of the record's loss gradient; needs parameters
``influence`` the record's self-influence g' F^-1 g, F the damped mean of gradients' outer products
``path``     ``fit`` averaged over all iterates; needs iterates
``step_0``, ``step_1``, ...: how far each step moved against the record's gradient at its start:
             (parameters before - after)' g / |g|; needs iterates, gradients and parameters
``step_0_apart``, ...: the same, less what other records' gradients explain (least squares)

All but ``numbers``, which is of the same length for all models, are arrays (records,) of floats.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dpaudit.errors import InvalidParameter
from dpaudit.membership.data import Array, Data, FloatArray
from dpaudit.membership.targets import Released, Target

NOISED_COPIES = 8  # of each record, for the label-only attack
NOISE_SHARE = 0.3  # the noise on those copies, in deviations of each feature
_DAMPING = 1e-3  # of F, as a share of its mean eigenvalue, so that it can be inverted
_LARGEST_FISHER = 4_000  # parameters: F is a square of them
_CHUNK = 2**22  # numbers of gradients held at once, 32 MB
_SKETCHED = 256  # numbers of a gradient that overlaps of records are computed from
_RIDGE = 1e-2  # of overlaps of directions, so that records of one direction share what moved
_SINGLE = 3  # records that are scored alone, for comparison
_NOISE_STREAM = 0x6E6F6973  # separates the noised copies' generator from all others
_MOST_STEPS = 200  # steps with a signal each; later ones are left out


_FROM = {
    "fit": Released.SCORES,
    "loss": Released.SCORES,
    "margin": Released.LOGITS,
    "numbers": Released.PARAMETERS,
    "gradient": Released.PARAMETERS,
    "influence": Released.PARAMETERS,
    "path": Released.ITERATES,
    "step_0": Released.ITERATES,
}


def possible(released: Released) -> set[str]:
    """The signals that a threat model can reveal; a target may offer fewer."""
    names = {name for name, needed in _FROM.items() if released.shows(needed)}
    return names | {"correct"} | ({"agreement"} if released is Released.LABELS else set())


def signals(target: Target, model: Any, records: Data, seed: int) -> dict[str, FloatArray]:
    """Every signal of ``model`` that ``target.released`` reveals; NaN where a score is NaN.

    ``seed`` draws the noised copies of the label-only attack, the same for every model.
    Errors: InvalidParameter for scores of a wrong shape.
    """
    score = checked_score(target, model, records)
    released, inside = target.released, {}
    if released.shows(Released.PARAMETERS):
        inside = _of_parameters(target, model, records)
        if not inside and released is Released.PARAMETERS:
            raise InvalidParameter(
                f"released = {released}: the target shows scores and no parameters; return arrays, "
                "or give it gradients(model, records), one row a record, or ask for logits"
            )
        if not inside and released is Released.MODEL:
            released = Released.SCORES
    by_name = _of_score(score, records, released) | inside
    if released is Released.LABELS:
        by_name["agreement"] = _agreement(target, model, records, seed)
    if released is Released.ITERATES:
        by_name |= _of_iterates(target, model, records)
    return by_name


def seen(released: Released, shown: Container[str]) -> Released:
    """The threat model in which models show these signals: parameters where they have some."""
    if released is not Released.MODEL:
        return released
    inside = any(name in shown for name in ("numbers", "gradient"))
    return Released.PARAMETERS if inside else Released.SCORES


def _of_parameters(target: Any, model: Any, records: Data) -> dict[str, FloatArray]:
    """Signals of the numbers of a model, and of its gradients; none where it shows neither."""
    by_name = {}
    numbers = target.numbers(model) if hasattr(target, "numbers") else None
    if numbers is not None:
        row = _sketched(np.asarray(numbers, dtype=np.float64)[None])[0]
        by_name["numbers"] = np.append(np.pad(row, (0, _SKETCHED - row.size)), numbers.size)
    parts = []
    if hasattr(target, "gradients"):
        parts = list(_gradients(target, model, records, _norms))
    if parts:
        by_name["gradient"] = np.concatenate(parts)
        by_name |= _influences(target, model, records)
    return by_name


def fit_of(target: Target, model: Any, records: Data) -> FloatArray:
    """How well the model fits each record; whether the label is right where only labels are seen.

    Errors: InvalidParameter for scores of a wrong shape.
    """
    answers = _of_score(checked_score(target, model, records), records, target.released)
    return answers["fit"] if "fit" in answers else answers["correct"]


def checked_score(target: Target, model: Any, records: Data) -> FloatArray:
    """The target's score, (n,) or (n, classes).

    Errors: InvalidParameter for another shape or type, or labels that are no column of the scores.
    """
    score = np.asarray(target.score(model, records))
    if score.dtype.kind not in "fiub" or score.ndim not in (1, 2) or len(score) != len(records):
        raise InvalidParameter(
            f"score: shape {score.shape} of type {score.dtype} for {len(records)} records; "
            "expected one number, or one a class, for each record"
        )
    if score.ndim == 2:
        labels = records.labels
        if labels is None:
            raise InvalidParameter("score: one number a class, but the records have no labels")
        if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= score.shape[1]:
            raise InvalidParameter(
                f"labels: expected integers in [0, {score.shape[1]}), a column of the scores each"
            )
    return score.astype(np.float64)


def scores_single_records(target: Target, model: Any, records: Data) -> bool:
    """Whether a record's score is the same alone as among others (to 1e-4 of the scores' spread).

    Errors: InvalidParameter naming the error of a model that cannot score a record alone.
    """
    together = checked_score(target, model, records.take(np.arange(min(_SINGLE, len(records)))))
    finite = together[np.isfinite(together)]
    spread = float(np.ptp(finite)) + 1e-12 if finite.size else 1e-12
    for row in range(min(_SINGLE, len(records))):
        try:
            alone = checked_score(target, model, records.take(np.array([row])))
        except InvalidParameter:
            raise
        except Exception as error:
            raise InvalidParameter(
                f"score: cannot score a single record ({type(error).__name__}); an attacker asks "
                "about one record at a time"
            ) from error
        if not np.allclose(alone[0], together[row], rtol=0, atol=1e-4 * spread, equal_nan=True):
            return False
    return True


def _of_score(score: FloatArray, records: Data, released: Released) -> dict[str, FloatArray]:
    if score.ndim == 1:
        if released is Released.LABELS:
            return {"correct": score}
        return {"fit": score, "loss": -score}
    labels = np.asarray(records.labels, dtype=np.intp)
    rows = np.arange(len(score))
    broken = np.isnan(score).any(axis=1)
    predicted = np.argmax(np.where(np.isnan(score), -np.inf, score), axis=1)
    correct = np.where(broken, np.nan, predicted == labels)
    if released is Released.LABELS:
        return {"correct": correct}
    logs = _log_probabilities(score)
    of_label = logs[rows, labels]
    others = logs.copy()
    others[rows, labels] = -np.inf
    by_name = {"fit": of_label - _log_sums(others), "loss": -of_label, "correct": correct}
    if released.shows(Released.LOGITS):
        by_name["margin"] = of_label - others.max(axis=1)
    return {name: np.where(broken, np.nan, values) for name, values in by_name.items()}


def _log_probabilities(score: FloatArray) -> FloatArray:
    """Log probabilities, from probabilities or from logits.

    Rows that are non-negative and sum to 1 are probabilities; a probability of 0 counts as 1e-45.
    """
    complete_rows = score[~np.isnan(score).any(axis=1)]
    if (
        complete_rows.size
        and complete_rows.min() >= 0
        and np.allclose(complete_rows.sum(axis=1), 1, atol=1e-4)
    ):
        return np.asarray(np.log(np.maximum(score, 1e-45)))
    logits = np.clip(score, -1e6, 1e6)
    return np.asarray(logits - _log_sums(logits)[:, None])


def _log_sums(rows: FloatArray) -> FloatArray:
    """The log of the sum of exponentials in each row; -inf where all are -inf."""
    top = rows.max(axis=1)
    base = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(base + np.log(np.exp(rows - base[:, None]).sum(axis=1)))


def _agreement(target: Target, model: Any, records: Data, seed: int) -> FloatArray:
    """The share of noised copies with the right label; Choquette-Choo et al. (2021)."""
    features = records.features
    if features.dtype.kind != "f" or records.labels is None:
        return np.zeros(len(records))
    rng = np.random.default_rng([seed, _NOISE_STREAM])
    deviation = NOISE_SHARE * features.std(axis=0)
    agreed = np.zeros(len(records))
    for _ in range(NOISED_COPIES):
        noise = rng.normal(size=features.shape) * deviation
        noised = Data((features + noise).astype(features.dtype), records.labels, records.units)
        score = checked_score(target, model, noised)
        agreed += _of_score(score, noised, Released.LABELS)["correct"]
    return agreed / NOISED_COPIES


def _gradients(
    target: Any, model: Any, records: Data, of: Callable[[FloatArray], FloatArray]
) -> Iterator[FloatArray]:
    """A number of each record's gradient, chunk by chunk; nothing where the target gives none.

    The first record's gradient says how many fit into ``_CHUNK`` numbers.
    """
    start, rows = 0, 1
    while start < len(records):
        chunk = records.take(np.arange(start, min(start + rows, len(records))))
        given = target.gradients(model, chunk)
        if given is None:
            return
        gradients = np.asarray(given, dtype=np.float64)
        yield of(gradients)
        start += rows
        rows = max(1, _CHUNK // gradients.shape[1])


def directions_of(target: Target, model: Any, records: Data) -> FloatArray | None:
    """Directions of records' gradients, (n, d), d as :func:`_sketched`; None without gradients."""
    parts = list(_gradients(target, model, records, lambda rows: _sketched(directions(rows))))
    return np.concatenate(parts) if parts else None


def directions(gradients: FloatArray) -> FloatArray:
    """Rows of length 1; 0 where a gradient is 0 or not finite."""
    finite = np.where(np.isfinite(gradients).all(axis=1, keepdims=True), gradients, 0.0)
    lengths = np.linalg.norm(finite, axis=1, keepdims=True)
    return np.asarray(finite / np.where(lengths > 0, lengths, 1.0))


def _sketched(rows: FloatArray) -> FloatArray:
    """Rows of at most ``_SKETCHED`` numbers: as they are, or sums of numbers with random signs.

    Sums keep lengths and angles up to about 1 / sqrt(_SKETCHED).
    Source: Charikar, Chen and Farach-Colton (2002), count sketch.
    """
    numbers = rows.shape[1]
    if numbers <= _SKETCHED:
        return rows
    rng = np.random.default_rng(numbers)
    into, signs = rng.integers(_SKETCHED, size=numbers), rng.choice([-1.0, 1.0], numbers)
    sums = csr_array((signs, (np.arange(numbers), into)), shape=(numbers, _SKETCHED))
    return np.asarray(rows @ sums)


def _norms(gradients: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(gradients, axis=1))


def _influences(target: Any, model: Any, records: Data) -> dict[str, FloatArray]:
    """Self-influences; Koh and Liang (2017), equation (2) with F in place of H.

    None for models of more parameters than ``_LARGEST_FISHER``, whose F is not solved for.
    """
    size = np.asarray(target.gradients(model, records.take(np.arange(1)))).shape[1]
    if size > _LARGEST_FISHER:
        return {}
    gradients = np.concatenate(list(_gradients(target, model, records, lambda rows: rows)))
    if not np.isfinite(gradients).all():
        return {}
    fisher = gradients.T @ gradients / len(gradients)
    damping = _DAMPING * float(np.trace(fisher)) / len(fisher) + 1e-300
    solved = np.linalg.solve(fisher + damping * np.eye(len(fisher)), gradients.T)
    return {"influence": np.einsum("nd,dn->n", gradients, solved)}


def _of_iterates(target: Any, model: Any, records: Data) -> dict[str, FloatArray]:
    """Signals from all iterates: mean fit, and each step along a record's gradient."""
    iterates = target.iterates(model) if hasattr(target, "iterates") else []
    if not iterates:
        raise InvalidParameter(
            "released = iterates: the target keeps none; give it iterates(model), or models with "
            "a list `iterates`, or set released = parameters"
        )
    scores = []
    for each in iterates:
        of_iterate = _of_score(checked_score(target, each, records), records, Released.SCORES)
        scores.append(of_iterate["fit"])
    by_name = {"path": np.asarray(np.mean(scores, axis=0))}
    if not hasattr(target, "gradients") or not hasattr(target, "parameters"):
        return by_name
    for step, (before, after) in enumerate(pairwise(iterates[: _MOST_STEPS + 1])):
        start = target.parameters(before)
        if start is None:
            return by_name
        step_taken = start - target.parameters(after)

        def along(gradients: FloatArray, taken: FloatArray = step_taken) -> FloatArray:
            rows = directions(gradients)
            return np.column_stack([rows @ taken, _sketched(rows)])

        parts = list(_gradients(target, before, records, along))
        if not parts:
            return by_name
        moved, rows = np.split(np.concatenate(parts), [1], axis=1)
        by_name[f"step_{step}"] = moved[:, 0]
        overlap = rows.T @ rows + _RIDGE * np.eye(rows.shape[1])
        by_name[f"step_{step}_apart"] = rows @ np.linalg.solve(
            overlap, _sketched(step_taken[None])[0]
        )
    return by_name


def constant(values: Array) -> bool:
    """Whether all finite values of an array (models, records) are equal."""
    finite = values[np.isfinite(values)]
    return bool(finite.size == 0 or finite.min() == finite.max())
