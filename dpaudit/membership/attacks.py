"""Membership attacks: from signals of models to a score of each record in each target model.

An attack sees *reference* models, whose members it knows, and the target models, whose members it
does not.  Scores are larger for members; (targets, records).

No attack reads a target's labels: :class:`View` does not hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.errors import InvalidParameter
from dpaudit.membership.data import Data, FloatArray

BoolArray = npt.NDArray[np.bool_]
Signals = Mapping[str, FloatArray]

GAMMA = 2.0  # RMIA's threshold on the ratio of ratios, as in the paper's experiments
FEWEST_POPULATION = 20  # records; fewer give too coarse a ranking
OFFLINE_SCALE = 0.3  # the paper's a in p(x) = ((1 + a) p_out(x) + (1 - a)) / 2
_PER_RECORD = 8  # models; the weight of the pooled variance beside a record's own
_PER_ANSWER = 3  # observations for each answer that a normal law is fitted to
_TREES, _LEAF = 40, 4  # of a forest, and reference scores in each leaf
_MOST_ROWS = 6_000  # that a forest is fitted to
_LEAST_DEVIATION = 1e-6  # keeps a constant signal from a division by zero
_COIN_RIDGE = 1.0  # models; keeps coins of more records than models from explaining all noise


@dataclass(frozen=True, eq=False)
class View:
    """The attacker's view: the signals of reference models and of target models, by name.

    ``references`` and ``targets``: (models, records).  ``included``: (references, records), which
    records each reference was trained on.  ``population`` and ``population_targets``: the signals
    of population records, which are in no training, in the references and in the targets.
    """

    references: Signals
    included: BoolArray
    targets: Signals
    population: Signals
    population_targets: Signals
    records: Data
    population_records: Data | None
    seed: int

    def signal(self, name: str, *, of: str = "targets") -> FloatArray:
        """One signal; values that are not finite are replaced by the record's median over models.

        The median carries no evidence for either side.
        """
        values = np.asarray(getattr(self, of)[name], dtype=np.float64)
        if np.isfinite(values).all():
            return values
        finite = np.where(np.isfinite(values), values, np.nan)
        overall = np.nanmedian(finite) if np.isfinite(finite).any() else 0.0
        with np.errstate(all="ignore"):
            middle = np.array(
                [
                    np.median(column[np.isfinite(column)]) if np.isfinite(column).any() else overall
                    for column in finite.T
                ]
            )
        return np.where(np.isfinite(values), values, middle)


@dataclass(frozen=True)
class Attack:
    """One attack: its score, the signals it needs, and whether it needs references or a
    population.

    ``fewest``: reference models, where two are too few.
    """

    name: str
    words: str
    source: str
    needs: tuple[str, ...]
    score: Callable[[View], FloatArray]
    references: bool = False
    population: bool = False
    fewest: int = 2


# --- one model alone -----------------------------------------------------------------------------


def _loss(view: View) -> FloatArray:
    return -view.signal("loss")


def _correct(view: View) -> FloatArray:
    return view.signal("correct")


def _label_only(view: View) -> FloatArray:
    return view.signal("correct") + view.signal("agreement")


def _gradient(view: View) -> FloatArray:
    return -view.signal("gradient")


def _influence(view: View) -> FloatArray:
    return -view.signal("influence")


def _quantile(view: View) -> FloatArray:
    """The deviations by which a record's fit exceeds the fit expected of similar non-members.

    Two forests, trained on population records, predict mean and deviation of the target's scores:
    Bertran et al.'s Gaussian variant, which needs no reference model.
    """
    from sklearn.ensemble import ExtraTreesRegressor

    assert view.population_records is not None  # noqa: S101 (asked for by ``population``)
    population_inputs, record_inputs = (
        _inputs(side) for side in (view.population_records, view.records)
    )
    observed = view.signal("fit", of="population_targets").T
    settings = {"n_estimators": 60, "min_samples_leaf": 5, "random_state": view.seed}
    # One forest predicts the scores of all target models at once.  Residuals use out-of-bag
    # predictions: residuals on records that the forest was fitted to would be too small.
    forest = ExtraTreesRegressor(**settings, bootstrap=True, oob_score=True).fit(
        population_inputs, observed
    )
    mean = _columns(forest.predict(record_inputs))
    residual = np.log((observed - _columns(forest.oob_prediction_)) ** 2 + 1e-12)
    spread = ExtraTreesRegressor(**settings).fit(population_inputs, residual)
    deviation = np.exp(np.clip(_columns(spread.predict(record_inputs)), -20, 20) / 2)
    return np.asarray((view.signal("fit") - mean.T) / deviation.T)


def _columns(values: FloatArray) -> FloatArray:
    return values[:, None] if values.ndim == 1 else values


def _inputs(records: Data) -> FloatArray:
    flat = records.features.reshape(len(records), -1).astype(np.float64)
    if records.labels is None or records.labels.dtype.kind not in "fiub":
        return flat
    return np.column_stack([flat, records.labels.astype(np.float64)])


# --- against references --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Moments:
    mean: FloatArray
    deviation: FloatArray
    count: npt.NDArray[np.intp]


def _moments(values: FloatArray, chosen: BoolArray) -> _Moments:
    """Mean and deviation of each record's signal over the chosen models.

    With few models the deviation is close to the one pooled over all records.

    Source: Carlini et al. (2022), section VI-C: one variance for all with few shadow models.
    """
    count = chosen.sum(axis=0)
    weights = np.where(chosen, 1.0, 0.0)
    total = float(weights.sum())
    overall = float((weights * values).sum() / total) if total else float(values.mean())
    mean = np.where(count > 0, (weights * values).sum(axis=0) / np.maximum(count, 1), overall)
    squares = weights * (values - mean) ** 2
    freedom = max(total - np.count_nonzero(count), 1.0)
    pooled = squares.sum() / freedom
    record_variance = squares.sum(axis=0) / np.maximum(count - 1, 1)
    # The record's own variance is noisy with few models: the pooled one counts as _PER_RECORD.
    share = np.where(count >= 2, (count - 1) / (count - 1 + _PER_RECORD), 0.0)
    deviation = np.sqrt(share * record_variance + (1 - share) * pooled)
    return _Moments(mean, np.maximum(deviation, _LEAST_DEVIATION), count)


def _log_normal(values: FloatArray, of: _Moments) -> FloatArray:
    scaled = (values - of.mean) / of.deviation
    return np.asarray(-(scaled**2) / 2 - np.log(of.deviation))


def _lira_of(name: str) -> Callable[[View], FloatArray]:
    def score(view: View) -> FloatArray:
        references, targets = view.signal(name, of="references"), view.signal(name)
        inside = _moments(references, view.included)
        outside = _moments(references, ~view.included)
        ratio = _log_normal(targets, inside) - _log_normal(targets, outside)
        # A record without a model on one side gets a ratio of 0: no evidence.
        return np.where((inside.count > 0) & (outside.count > 0), ratio, 0.0)

    return score


def _lira_offline(view: View) -> FloatArray:
    outside = _moments(view.signal("fit", of="references"), ~view.included)
    return np.asarray((view.signal("fit") - outside.mean) / outside.deviation)


def _calibrated(view: View) -> FloatArray:
    outside = _moments(view.signal("loss", of="references"), ~view.included)
    return outside.mean - view.signal("loss")


def _reference(view: View) -> FloatArray:
    """The share of models without the record whose loss on it is larger; ties count half."""
    references, targets = view.signal("loss", of="references"), view.signal("loss")
    outside = ~view.included
    count = np.maximum(outside.sum(axis=0), 1)
    shares = np.empty_like(targets)
    for model, loss in enumerate(targets):
        more = ((references > loss) & outside).sum(axis=0)
        tied = ((references == loss) & outside).sum(axis=0)
        shares[model] = (more + tied / 2) / count
    return shares


def _rmia(view: View, *, online: bool) -> FloatArray:
    """P over z of [p(x | theta) / p(x)] / [p(z | theta) / p(z)] >= gamma; equations (2) to (10)."""
    likelihood, others = (np.exp(-view.signal("loss", of=of)) for of in ("targets", "references"))
    inside, outside = view.included, ~view.included
    mean_out = _mean(others, outside)
    if online:
        evidence = (_mean(others, inside) + mean_out) / 2
    else:
        evidence = ((1 + OFFLINE_SCALE) * mean_out + (1 - OFFLINE_SCALE)) / 2
    ratio = likelihood / np.maximum(evidence, 1e-30)
    of_population = np.exp(-view.signal("loss", of="population_targets"))
    population_evidence = np.exp(-view.signal("loss", of="population")).mean(axis=0)
    # No reference was trained on population records: offline, p(z) is corrected like p(x).
    if not online:
        population_evidence = ((1 + OFFLINE_SCALE) * population_evidence + (1 - OFFLINE_SCALE)) / 2
    rivals = np.sort(of_population / np.maximum(population_evidence, 1e-30), axis=1)
    return np.stack(
        [
            np.searchsorted(rival, own / GAMMA, "right") / rival.size
            + 1e-3 * own / (1 + own)  # breaks the paper's ties by the ratio
            for rival, own in zip(rivals, ratio, strict=True)
        ]
    )


def _mean(values: FloatArray, chosen: BoolArray) -> FloatArray:
    count = chosen.sum(axis=0)
    mean = np.where(chosen, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, mean, values.mean(axis=0)))


ATTACKS: dict[str, Attack] = {
    attack.name: attack
    for attack in (
        Attack("loss", "the loss", "Yeom et al. (2018)", ("loss",), _loss),
        Attack("gap", "whether the label is right", "Yeom et al. (2018)", ("correct",), _correct),
        Attack(
            "label_only",
            "right labels of noised copies",
            "Choquette-Choo et al. (2021)",
            ("correct", "agreement"),
            _label_only,
        ),
        Attack(
            "calibrated",
            "the loss less that of models without the record",
            "Watson et al. (2022)",
            ("loss",),
            _calibrated,
            references=True,
        ),
        Attack(
            "reference",
            "the loss among those of models without the record",
            "Ye et al. (2022), attack R",
            ("loss",),
            _reference,
            references=True,
        ),
        Attack(
            "lira",
            "likelihood ratio of models with and without the record",
            "Carlini et al. (2022), algorithm 1",
            ("fit",),
            _lira_of("fit"),
            references=True,
        ),
        Attack(
            "lira_offline",
            "deviations above models without the record",
            "Carlini et al. (2022), section IV-D",
            ("fit",),
            _lira_offline,
            references=True,
        ),
        Attack(
            "lira_margin",
            "LiRA on the margin between logits",
            "Carlini et al. (2022), section VI-A",
            ("margin",),
            _lira_of("margin"),
            references=True,
        ),
        Attack(
            "lira_queries",
            "LiRA on the scores of the record and of others beside it",
            "Carlini et al. (2022), section VI-C, several queries",
            ("fit", "query_0"),
            lambda view: _lira_queries(view),
            references=True,
        ),
        Attack(
            "forest",
            "trees on the scores of the record and of others beside it",
            "Bichsel, Steffen, Bogunovic and Vechev (2021), a learned posterior",
            ("fit", "query_0"),
            lambda view: _forest(view),
            references=True,
            fewest=256,
        ),
        Attack(
            "rmia",
            "relative likelihood ratio against population records",
            "Zarifzadeh, Liu and Shokri (2024), online",
            ("loss",),
            lambda view: _rmia(view, online=True),
            references=True,
            population=True,
        ),
        Attack(
            "rmia_offline",
            "relative likelihood ratio, without models trained on the record",
            "Zarifzadeh, Liu and Shokri (2024), offline",
            ("loss",),
            lambda view: _rmia(view, online=False),
            references=True,
            population=True,
        ),
        Attack(
            "quantile",
            "regression of scores that population records get",
            "Bertran et al. (2023)",
            ("fit",),
            _quantile,
            population=True,
        ),
        Attack(
            "lira_numbers",
            "likelihood ratio of all numbers of the model, and of all coins at once",
            "Carlini et al. (2022) on parameters, as normal as Verdu (1998), section 6.1",
            ("numbers",),
            lambda view: _lira_numbers(view),
            references=True,
        ),
        Attack(
            "gradient_norm",
            "the norm of the loss gradient",
            "Nasr, Shokri and Houmansadr (2019)",
            ("gradient",),
            _gradient,
        ),
        Attack(
            "lira_gradient",
            "LiRA on the log of the gradient's norm",
            "Carlini et al. (2022) on Nasr et al. (2019)'s signal",
            ("gradient",),
            lambda view: _lira_log_gradient(view),
            references=True,
        ),
        Attack(
            "influence",
            "the record's influence on itself",
            "Cohen and Giryes (2024)",
            ("influence",),
            _influence,
        ),
        Attack(
            "lira_path",
            "LiRA on the mean over all iterates",
            "Carlini et al. (2022) on the iterates of Nasr et al. (2021)",
            ("path",),
            _lira_of("path"),
            references=True,
        ),
        Attack(
            "lira_steps",
            "likelihood ratio of every step's move along the record's gradient",
            "Nasr et al. (2023), algorithm 2, on Carlini et al. (2022)",
            ("step_0",),
            lambda view: _lira_steps(view),
            references=True,
        ),
    )
}


def _lira_steps(view: View) -> FloatArray:
    """The likelihood ratio of all steps jointly: means for each record, one covariance for all.

    With few models what a record moves is drawn towards what all records move on average: their
    gradients are clipped to one length.
    """
    names = sorted(name for name in view.targets if name.startswith("step_"))
    references = np.stack([view.signal(name, of="references") for name in names], axis=-1)
    targets = np.stack([view.signal(name) for name in names], axis=-1)
    inside, outside = view.included[..., None], ~view.included[..., None]
    counts = np.maximum(inside.sum(axis=0), 1), np.maximum(outside.sum(axis=0), 1)
    means = [
        np.where(side, references, 0).sum(axis=0) / count
        for side, count in zip((inside, outside), counts, strict=True)
    ]
    residual = references - np.where(inside, means[0], means[1])
    flat = residual.reshape(-1, len(names))
    covariance = flat.T @ flat / max(len(flat) - 2 * references.shape[1], 1)
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-30))
    # Steps are scaled to deviation 1.  The ridge keeps the system solvable if steps are collinear.
    correlation = covariance / np.outer(scale, scale) + 1e-9 * np.eye(len(names))
    gap = (means[0] - means[1]) / scale
    share = np.minimum(*counts) / (np.minimum(*counts) + _PER_ANSWER * len(names))
    gap = share * gap + (1 - share) * gap.mean(axis=0)
    centre = (means[0] + means[1]) / 2
    weights = np.linalg.solve(correlation, gap.T).T
    both = (counts[0][..., 0] > 0) & (counts[1][..., 0] > 0)
    ratio = np.einsum("nd,mnd->mn", weights, (targets - centre) / scale)
    return np.where(both, ratio, 0.0)


def _lira_queries(view: View) -> FloatArray:
    """Two normal laws of all answers about a record: means by record, a covariance a side for all.

    Answers are in units of the deviation that they have on one side, so that what holds between
    them exactly, whatever noise they share, holds for all records.  With few models the two
    covariances are drawn towards that of both sides (Friedman 1989).
    """
    references, targets = _answers(view)
    sides = [side[..., None] for side in (view.included, ~view.included)]
    counts = [np.maximum(side.sum(axis=0), 1) for side in sides]
    means = [
        np.where(side, references, 0).sum(axis=0) / count
        for side, count in zip(sides, counts, strict=True)
    ]
    seen_twice = np.minimum(sides[0].sum(axis=0), sides[1].sum(axis=0))[:, 0] > 1
    answers = references.shape[2]
    squares, free = [], []
    for side, mean in zip(sides, means, strict=True):
        residual = np.where(side, references - mean, 0.0).reshape(-1, answers)
        squares.append(residual.T @ residual)
        free.append(max(int(side.sum()) - int(np.count_nonzero(side.any(axis=0))), 1))
    both = sum(squares) / sum(free)
    ratio = np.zeros(targets.shape[:2])
    for sign, square, freedom, mean in zip((1.0, -1.0), squares, free, means, strict=True):
        share = freedom / (freedom + _PER_ANSWER * answers)
        covariance = share * square / freedom + (1 - share) * both
        scale = np.sqrt(np.maximum(np.diag(covariance), 1e-24))
        correlation = covariance / np.outer(scale, scale) + 1e-6 * np.eye(answers)
        root = np.linalg.cholesky(correlation)
        inner = np.linalg.solve(root, ((targets - mean) / scale).reshape(-1, answers).T)
        log = np.log(np.diag(root)).sum() + np.log(scale).sum()
        ratio -= sign * ((inner**2).sum(axis=0).reshape(ratio.shape) / 2 + log)
    return np.where(seen_twice, ratio, 0.0)


def _answers(view: View) -> tuple[FloatArray, FloatArray]:
    """All answers about each record, (models, records, answers), of references and of targets.

    The record's own and those beside it are in units of its own score's deviation, those about
    probes in units of their own; probes are left out where few models would be fitted to them.
    """
    names = ["fit", *sorted(name for name in view.targets if name.startswith("query_"))]
    unit = np.maximum(_spread(view.signal("fit", of="references"), view.included), 1e-12)
    own = [
        np.stack([view.signal(name, of=of) / unit for name in names], axis=-1)
        for of in ("references", "targets")
    ]
    probes = view.targets["probes"].shape[1] if "probes" in view.targets else 0
    if not probes or len(own[0]) < 2 * _PER_ANSWER * (probes + len(names)):
        return own[0], own[1]
    wide = np.maximum(view.signal("probes", of="references").std(axis=0), 1e-12)
    about = [view.signal("probes", of=of) / wide for of in ("references", "targets")]
    joined = [
        np.concatenate([each, np.repeat(probe[:, None, :], each.shape[1], axis=1)], axis=2)
        for each, probe in zip(own, about, strict=True)
    ]
    return joined[0], joined[1]


def _forest(view: View) -> FloatArray:
    """Log odds of membership by a forest: no law is presumed, and equal answers are seen."""
    from sklearn.ensemble import ExtraTreesClassifier

    references, targets = _answers(view)
    middle = np.median(references, axis=0)

    def inputs(answers: FloatArray) -> Any:
        centred = answers - middle
        beside = 1 + sum(name.startswith("query_") for name in view.targets)
        apart = answers[..., :1] - answers[..., 1:beside]
        rows = np.concatenate([centred, apart], axis=2)
        return np.clip(rows.reshape(-1, rows.shape[2]), -1e30, 1e30).astype(np.float32)

    rows, labels = inputs(references), view.included.ravel()
    if labels.all() or not labels.any():
        return np.zeros(targets.shape[:2])
    chosen = np.random.default_rng(view.seed).permutation(labels.size)[:_MOST_ROWS]
    forest = ExtraTreesClassifier(
        _TREES, min_samples_leaf=_LEAF, max_features=None, random_state=view.seed
    ).fit(rows[chosen], labels[chosen])
    chance = forest.predict_proba(inputs(targets))[:, list(forest.classes_).index(True)]
    least = 1 / (_TREES * _LEAF)
    odds = np.log(np.maximum(chance, least) / np.maximum(1 - chance, least))
    by_model: FloatArray = np.asarray(odds, dtype=np.float64).reshape(targets.shape[:2])
    return by_model


def _spread(values: FloatArray, included: BoolArray) -> FloatArray:
    """Deviation of each record's values about their side's mean."""
    squares = np.zeros(values.shape[1])
    for side in (included, ~included):
        count = np.maximum(side.sum(axis=0), 1)
        mean = np.where(side, values, 0).sum(axis=0) / count
        squares += np.where(side, (values - mean) ** 2, 0).sum(axis=0)
    return np.sqrt(squares / max(len(values) - 2, 1))


def _lira_numbers(view: View) -> FloatArray:
    """Log odds of each coin from all numbers of a model, as if coins moved them by fixed amounts.

    A ridge regression of the references' numbers on all of their coins says what each record moves
    and what noise is left, so that records are told apart that are in play together.  Estimated
    effects of a record are shrunk to 0 by as much as noise alone would show, covariances fully.
    Source: James and Stein (1961); Verdu (1998), section 6.1, the linear estimate of all bits.
    """
    references = view.signal("numbers", of="references")
    middle, wide = references.mean(axis=0), references.std(axis=0)
    moving = wide > _LEAST_DEVIATION**2 * np.abs(middle)
    if not moving.any():
        return np.zeros((len(view.targets["numbers"]), view.included.shape[1]))

    def scaled(numbers: FloatArray) -> FloatArray:
        return np.asarray((numbers - middle)[:, moving] / wide[moving])

    rows, shares = scaled(references), view.included.mean(axis=0)
    left, sizes, right = np.linalg.svd(view.included - shares, full_matrices=False)
    weights = sizes / (sizes**2 + _COIN_RIDGE)
    moved = (right.T * weights) @ (left.T @ rows)
    residual = rows - (left * (sizes * weights)) @ (left.T @ rows)
    free = max(len(rows) - 1 - float((sizes * weights).sum()), 1.0)
    numbers = rows.shape[1]
    share = free / (free + _PER_ANSWER * numbers)
    covariance = residual.T @ residual / free
    alone = np.maximum(np.diag(covariance), _LEAST_DEVIATION**2)
    covariance = share * covariance + np.diag((1 - share) * alone + _LEAST_DEVIATION**2)
    told = np.einsum("nd,dn->n", moved, np.linalg.solve(covariance, moved.T))
    by_chance = numbers * ((right.T * weights) ** 2).sum(axis=1)
    moved *= np.maximum(1 - by_chance / np.maximum(told, 1e-300), 0.0)[:, None]
    # Coins of variance 1/4 beside the noise: their linear estimate, and its error.
    both = np.linalg.solve(covariance + moved.T @ moved / 4, moved.T).T / 4
    errors = np.maximum(1 / 4 - (both * moved).sum(axis=1) / 4, _LEAST_DEVIATION**2)
    return np.asarray(scaled(view.signal("numbers")) @ both.T / errors)


def _lira_log_gradient(view: View) -> FloatArray:
    def logs(signals: Signals) -> dict[str, FloatArray]:
        return {"log": -np.log(np.maximum(signals["gradient"], 1e-30))}

    from dataclasses import replace

    return _lira_of("log")(
        replace(view, references=logs(view.references), targets=logs(view.targets))
    )


def chosen_attacks(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Attack names from "lira,rmia" or a sequence; None means all that apply.

    Errors: InvalidParameter for an unknown one.
    """
    if names is None:
        return None
    listed = names.split(",") if isinstance(names, str) else list(names)
    wanted = tuple(name.strip() for name in listed)
    for name in wanted:
        if name not in ATTACKS:
            raise InvalidParameter(f"attack {name!r}: expected one of {', '.join(ATTACKS)}")
    return wanted


def applicable(
    names: tuple[str, ...] | None,
    shown: set[str],
    *,
    references: int,
    population: int,
) -> tuple[str, ...]:
    """The attacks that the threat model and the study allow.

    ``shown``: the signals that exist; before training, those that may exist.
    Errors: InvalidParameter, naming what a requested attack lacks.
    """
    usable = []
    for name in names or tuple(ATTACKS):
        attack = ATTACKS[name]
        missing = [f"the signal {n!r}" for n in attack.needs if n not in shown]
        if attack.references and references < attack.fewest:
            missing.append(f"{attack.fewest} reference models")
        if attack.population and population < FEWEST_POPULATION:
            missing.append(f"{FEWEST_POPULATION} population records")
        if not missing:
            usable.append(name)
        elif names is not None:
            raise InvalidParameter(
                f"attack {name!r}: needs {' and '.join(missing)}, which this study does not have"
            )
    if not usable:
        raise InvalidParameter("attacks: none applies; release more, or train more models")
    return tuple(usable)
