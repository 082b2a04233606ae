"""Published audits of DP-SGD, each made again as a small study: the paper's figure beside ours.

``dpaudit audit --reproduce NAME`` runs one.  Pictures are scikit-learn's digits, or the data that
are given; the model is a softmax regression trained by DP-SGD on all records: T steps, gradients
clipped to norm 1, noise of deviation sqrt(T) / mu, so that the training is exactly mu-GDP.  Text is
Python's own documentation.  Papers train larger models on more records for hours, so that figures
compare how much of the same theoretical epsilon each audit shows, and nothing else.

A gradient canary is a record whose gradient the attacker chose: here one coordinate, of the
clipping norm.  Canaries that share a training have a weight each, of pixels that are always blank.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

from dpaudit.audit.bounds.estimators import epsilon_of_gaussian
from dpaudit.audit.bounds.weighted import mu_of_delta
from dpaudit.audit.canaries.scores import audit_one_run
from dpaudit.audit.canaries.terms import CanaryTerms
from dpaudit.errors import InvalidParameter, optional
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.membership.canaries import adversarial
from dpaudit.membership.data import Data, FloatArray, duplicates
from dpaudit.membership.study import Study
from dpaudit.membership.targets import FunctionTarget, Released
from dpaudit.membership.text import TokenTraining, new_token_canaries, token_windows

DELTA = 1e-5  # of the papers' claims
NOT_CHECKED = "not checked here"
_PICTURES = 400  # records beside the canaries where many models train
_STEPS = 10  # of a training
_MODELS = 2_000  # of one canary; a fifth are references
# Trainings of many canaries, whose mean bound is shown.  A single one's bound has a deviation of up
# to .5 of epsilon, since it counts some 300 guesses.
_REPEATED = 40
_REFERENCES = 0.2  # share of the models on which attacks are fitted
_WORDS, _STRETCHES = 200, 3_000  # vocabulary, and records of three words
_TOKEN_CANARIES = 500  # canaries, each with a token of its own


@dataclass(frozen=True)
class Row:
    """A setting, the theoretical epsilon, what the paper reports, and our bound at 95%."""

    setting: str
    theory: float
    reported: str
    shown: float


@dataclass(frozen=True)
class Reproduction:
    """A published audit made again; ``source``: where the reported figures were read."""

    name: str
    paper: str
    published: str
    source: str
    rows: tuple[Row, ...]
    scale: str
    seconds: float

    def __str__(self) -> str:
        lines = [f"{self.paper}: {self.published}", f"here: {self.scale}, {self.seconds:.0f} s"]
        lines += [
            f"{row.setting}: epsilon >= {row.shown:.2f} of {row.theory:g} at delta {DELTA:g}, "
            f"95% confidence; the paper: {row.reported}"
            for row in self.rows
        ]
        return "\n".join([*lines, f"figures of the paper: {self.source}"])

    def to_json(self) -> dict[str, Any]:
        """The reproduction as plain values."""
        rows = [vars(row) for row in self.rows]
        return {**vars(self), "delta": DELTA, "rows": rows}


class Pictures(NamedTuple):
    """Records with pixels in [0, 1], one always blank pixel and a one; half of them are public."""

    private: Data
    public: Data
    classes: int


def pictures(data: Data | None) -> Pictures:
    """Scikit-learn's digits, or the records given; each column is divided by its public maximum.

    Errors: InvalidParameter for records without classes, or fewer than 40.
    """
    if data is None:
        with optional("ml", "the digits"):
            from sklearn.datasets import load_digits
        data = Data(*load_digits(return_X_y=True))
    if data.labels is None or data.labels.dtype.kind == "f" or len(data) < 40:
        raise InvalidParameter(
            f"data: {len(data)} records; the studies take 40 or more, with a class each"
        )
    if data.features.dtype.kind not in "fiub":
        raise InvalidParameter("data: the studies take records of numbers")
    flat = data.features.reshape(len(data), -1).astype(np.float64)
    half = len(data) // 2
    largest = np.maximum(np.abs(flat[half:]).max(axis=0), 1e-9)
    scaled = np.clip(flat / largest, -1, 1)
    inputs = np.column_stack([scaled, np.zeros(len(flat)), np.ones(len(flat))])
    classes, labels = np.unique(data.labels, return_inverse=True)
    private = Data(inputs[: min(half, _PICTURES)], labels[: min(half, _PICTURES)])
    return Pictures(private, Data(inputs[half:], labels[half:]), classes.size)


@dataclass
class Weights:
    """Parameters in one row; ``iterates`` from before the first step."""

    values: FloatArray
    iterates: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class DPSoftmax:
    """The training, mu-GDP under add/remove.

    A record with label -1 - k is a gradient canary: its gradient is 1 in coordinate k.  ``spare``:
    weights of pixels that are blank in every record.
    """

    classes: int
    mu: float
    steps: int = _STEPS
    rate: float = 0.002  # of the summed gradients: small, so that a gradient turns little meanwhile
    start: FloatArray | None = None
    spare: int = 0
    keeps: bool = False

    def __call__(self, records: Any, rng: np.random.Generator) -> Weights:
        size = records.features.shape[1] * self.classes + self.spare
        values = np.zeros(size) if self.start is None else self.start
        model = Weights(values, [Weights(values)] if self.keeps else [])
        for _ in range(self.steps):
            noise = rng.normal(0, math.sqrt(self.steps) / self.mu, size)
            update = self.clipped_sum(model.values, records) + noise
            model.values = model.values - self.rate * update
            if self.keeps:
                model.iterates.append(Weights(model.values))
        return model

    def clipped_sum(self, values: FloatArray, records: Any) -> FloatArray:
        """The sum of the records' gradients, each clipped to norm 1."""
        labels = np.asarray(records.labels)
        inputs, own = records.features[labels >= 0], -1 - labels[labels < 0]
        residual = softmax(inputs @ self._matrix(values, inputs), axis=1)
        residual[np.arange(len(inputs)), labels[labels >= 0]] -= 1
        norms = np.linalg.norm(inputs, axis=1) * np.linalg.norm(residual, axis=1)
        residual *= np.minimum(1, 1 / np.maximum(norms, 1e-12))[:, None]
        total = np.zeros_like(values)
        total[: inputs.shape[1] * self.classes] = (inputs.T @ residual).ravel()
        np.add.at(total, own, 1.0)
        return total

    def score(self, model: Weights, records: Data) -> FloatArray:
        """The log-likelihood of a picture's class; how far a canary's coordinate went down."""
        labels = np.asarray(records.labels)
        own = np.maximum(-1 - labels, 0)
        logits = records.features @ self._matrix(model.values, records.features)
        chances = log_softmax(logits, axis=1)[np.arange(len(labels)), np.maximum(labels, 0)]
        return np.asarray(np.where(labels < 0, -model.values[own], chances))

    def gradients(self, model: Weights, records: Data) -> FloatArray:
        """Each record's clipped gradient, (n, parameters)."""
        rows = (records.take(np.array([row])) for row in range(len(records)))
        return np.stack([self.clipped_sum(model.values, row) for row in rows])

    def _matrix(self, values: FloatArray, inputs: Any) -> FloatArray:
        used = inputs.shape[1] * self.classes
        return np.asarray(values[:used].reshape(inputs.shape[1], self.classes))


def _weights(model: Weights) -> FloatArray:
    return model.values


def many_models(
    training: DPSoftmax, canary: Data, beside: Data, released: Released, seed: int, jobs: int
) -> float:
    """Epsilon from one canary in half of many models, by a bound on mu."""
    target = FunctionTarget(
        training, training.score, released, "DP-SGD", training.gradients, _weights
    )
    if duplicates(canary, beside):
        raise InvalidParameter("data: a record occurs among those that train and as the canary")
    study = Study(target, canary, _MODELS, beside, references=_REFERENCES, seed=seed)
    attack = "lira_steps" if training.keeps else "loss"
    # Where the noise of these trainings comes from is known: they are not trained twice over.
    trained = study.train(jobs=jobs, repeated=False)
    terms = CanaryTerms.of(GDP(repr(training.mu)), 0.95, 1e-4, 0)
    audited = study.result(trained, [attack], terms, [], None, claimed=True)
    return epsilon_of_gaussian(audited.bounds[attack].value, DELTA)


def one_model(fit_and_score: Callable[[Any, int], Any], count: int, claim: Any, seed: int) -> float:
    """The mean bound on epsilon, or of the epsilon that a bound on mu gives, from single trainings.

    ``fit_and_score(included, seed)`` gives canaries' scores.  Each training has coins and noise of
    its own, and each bound holds at 95% confidence.
    """
    bounds = []
    for each in range(seed, seed + _REPEATED):
        audit = audit_one_run(count, claim=claim, seed=each)
        with tempfile.TemporaryDirectory() as folder:
            labels = audit.commit(Path(folder) / "commitment.json", seed=each)
            bound = audit.bound(fit_and_score(labels.included, each))
        in_epsilon = bound.measure == "epsilon"
        bounds.append(bound.lower if in_epsilon else epsilon_of_gaussian(bound.lower, DELTA))
    return float(np.mean(bounds))


def _with_canaries(
    theory: float, canaries: int, held: Pictures
) -> tuple[float, Callable[[Any, int], Any]]:
    """mu, and one training of pictures and many gradient canaries."""
    mu, width = mu_of_delta(theory, DELTA), held.private.features.shape[1]
    training = DPSoftmax(held.classes, mu, spare=canaries)
    numbers = width * held.classes + np.arange(canaries)

    def fit_and_score(included: Any, seed: int) -> Any:
        features = np.zeros((canaries, width))
        own = Data(features, -1 - numbers)
        chosen = own.take(included)
        records = Data(
            np.concatenate([held.private.features, chosen.features]),
            np.concatenate([np.asarray(held.private.labels), np.asarray(chosen.labels)]),
        )
        model = training(records, np.random.default_rng([seed, canaries]))
        return training.score(model, own)

    return mu, fit_and_score


Made = tuple[tuple[Row, ...], str]


def _of_one(count: int) -> str:
    return f"means of {_REPEATED} single trainings on {count} pictures, {_STEPS} steps"


def _steinke(data: Data | None, seed: int, jobs: int) -> Made:
    images, canaries = pictures(data), 1_000
    rows = []
    for theory in (1.0, 2.0, 4.0, 8.0, 16.0):
        _, run = _with_canaries(theory, canaries, images)
        shown = one_model(run, canaries, ApproxDP(repr(theory), repr(DELTA)), seed)
        rows.append(Row(f"{canaries:,} gradient canaries", theory, NOT_CHECKED, shown))
    return tuple(rows), _of_one(len(images.private))


def _mahloujifar(data: Data | None, seed: int, jobs: int) -> Made:
    images, canaries = pictures(data), 5_000
    rows = []
    for theory, reported in ((4.0, "2.51"), (8.0, "5.25")):
        mu, run = _with_canaries(theory, canaries, images)
        shown = one_model(run, canaries, GDP(repr(mu)), seed)
        rows.append(Row(f"{canaries:,} gradient canaries, by f-DP", theory, reported, shown))
    return tuple(rows), _of_one(len(images.private))


def _scale(held: Pictures) -> str:
    return f"{_MODELS:,} trainings of {len(held.private)} pictures and one canary, {_STEPS} steps"


def _nasr(data: Data | None, seed: int, jobs: int) -> Made:
    images, theory = pictures(data), 8.0
    training = DPSoftmax(images.classes, mu_of_delta(theory, DELTA), keeps=True)
    canary = Data(np.zeros((1, images.private.features.shape[1])), np.array([-1]))
    shown = many_models(training, canary, images.private, Released.ITERATES, seed, jobs)
    return (Row("gradient canary, every step seen", theory, NOT_CHECKED, shown),), _scale(images)


def _cebere(data: Data | None, seed: int, jobs: int) -> Made:
    images, theory = pictures(data), 10.0
    training = DPSoftmax(images.classes, mu_of_delta(theory, DELTA))
    blank = (
        images.private.features.shape[1] - 2
    ) * images.classes  # a weight that no picture moves
    canary = Data(np.zeros((1, images.private.features.shape[1])), np.array([-1 - blank]))
    shown = many_models(training, canary, images.private, Released.SCORES, seed, jobs)
    reported = "the upper bound is matched, up to the number of trainings"
    return (Row("crafted gradient in every step, final model", theory, reported, shown),), _scale(
        images
    )


def _annamalai(data: Data | None, seed: int, jobs: int) -> Made:
    """Annamalai and De Cristofaro: a crafted start, attacked through the final model."""
    images, theory = pictures(data), 10.0
    mu = mu_of_delta(theory, DELTA)
    size = images.private.features.shape[1]
    # Public records teach the start, so that the private ones move it little; the blank pixel's
    # weights are sure of another class than the canary's.
    start = DPSoftmax(images.classes, 1e9, steps=200, rate=0.01)(
        images.public, np.random.default_rng(seed)
    ).values
    start = start.copy()
    start[(size - 2) * images.classes] = -10.0
    lit = np.zeros((1, size))
    lit[0, -2:] = 1.0
    canary = Data(lit, np.array([0]))
    shown = many_models(
        DPSoftmax(images.classes, mu, start=start),
        canary,
        images.private,
        Released.SCORES,
        seed,
        jobs,
    )
    reported = "7.21 (MNIST) and 6.95 (CIFAR-10), on 1,000 records"
    return (Row("crafted start, final model", theory, reported, shown),), _scale(images)


def _yoon(data: Data | None, seed: int, jobs: int) -> Made:
    images, theory = pictures(data), 10.0
    training = DPSoftmax(images.classes, mu_of_delta(theory, DELTA))
    target = FunctionTarget(training, training.score, name="DP-SGD")
    rng = np.random.default_rng(seed)
    wrong = images.public.take(rng.permutation(len(images.public))[:200])
    shifted = (np.asarray(wrong.labels) + 1) % images.classes
    canary = adversarial(target, images.private, Data(wrong.features, shifted), 1, rng)
    shown = many_models(training, canary, images.private, Released.SCORES, seed, jobs)
    reported = "4.914 (MNIST), 4.385 by a canary that is not crafted"
    return (Row("record of the largest loss, final model", theory, reported, shown),), _scale(
        images
    )


def _panda(data: Data | None, seed: int, jobs: int) -> Made:
    """Panda and others: canaries of a new token, from one training."""
    if data is not None:
        raise InvalidParameter("--data: this study is of text that ships; leave it out")
    import pydoc_data.topics

    text = " ".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    records = token_windows(text, 3, _WORDS).take(np.arange(_STRETCHES))
    theory, steps = 4.0, _STEPS
    canaries = new_token_canaries(records, _TOKEN_CANARIES, _WORDS, np.random.default_rng(seed))
    noise = math.sqrt(steps) / mu_of_delta(theory, DELTA)
    training = TokenTraining(_WORDS + _TOKEN_CANARIES, 2, steps, 0.03, noise)

    def fit_and_score(included: Any, seed: int) -> Any:
        together = np.concatenate([records.features, canaries.features[included]])
        model = training.fit(Data(together), np.random.default_rng([seed, steps]))
        # A canary's token against the other new tokens after the same words.
        chances = training.log_chances(model, canaries)[:, -1, _WORDS:]
        return np.diag(chances) - chances.mean(axis=1)

    claim = ApproxDP(repr(theory), repr(DELTA))
    shown = one_model(fit_and_score, _TOKEN_CANARIES, claim, seed)
    row = Row(f"{_TOKEN_CANARIES} canaries of a new token", theory, "about 1", shown)
    scale = (
        f"mean of {_REPEATED} single trainings on {_STRETCHES:,} stretches of three words, "
        f"{_WORDS} common words"
    )
    return (row,), scale


class Paper(NamedTuple):
    """A published audit: paper, setting, the place of its figures, and the study made of it."""

    paper: str
    published: str
    source: str
    make: Callable[[Data | None, int, int], Made]


PAPERS = {
    "steinke-2023": Paper(
        "Steinke, Nasr and Jagielski 2023, Privacy Auditing with One (1) Training Run",
        "many canaries in one training of a wide residual network on CIFAR-10",
        NOT_CHECKED,
        _steinke,
    ),
    "nasr-2023": Paper(
        "Nasr and others 2023, Tight Auditing of Differentially Private Machine Learning",
        "gradient canaries and every update seen; its abstract says that two trainings nearly "
        "match the guarantee",
        NOT_CHECKED,
        _nasr,
    ),
    "annamalai-2024": Paper(
        "Annamalai and De Cristofaro 2024, Nearly Tight Black-Box Auditing",
        "a start that the attacker crafted, and the final model's losses",
        "abstract, arXiv 2405.14106",
        _annamalai,
    ),
    "cebere-2024": Paper(
        "Cebere, Bellet and Papernot 2024, Tighter Privacy Auditing in the Hidden State Model",
        "a sequence of crafted gradients, and the final model",
        "abstract, arXiv 2405.14457, in words; its numbers were not checked here",
        _cebere,
    ),
    "yoon-2024": Paper(
        "Yoon, Jeung and No 2024, Adversarial Sample-Based Approach, Final Model Only",
        "a crafted record, and the final model's losses",
        "abstract, arXiv 2412.01756",
        _yoon,
    ),
    "mahloujifar-2025": Paper(
        "Mahloujifar, Melis and Chaudhuri 2025, Auditing f-Differential Privacy in One Run",
        "canaries in one run, by the trade-off curve",
        "held to here, not checked in the paper",
        _mahloujifar,
    ),
    "panda-2025": Paper(
        "Panda and others 2025, Privacy Auditing of Large Language Models",
        "canaries that end in a new token, in one fine-tuned language model",
        "abstract, arXiv 2503.06808",
        _panda,
    ),
}


def reproduce(name: str, data: Data | None = None, *, seed: int = 1, jobs: int = 1) -> Reproduction:
    """A published audit by its name, made again on pictures that ship or on the data given.

    Errors: InvalidParameter for an unknown name, or data that the study cannot take.
    """
    if name not in PAPERS:
        raise InvalidParameter(f"reproduce = {name!r}: expected one of {', '.join(PAPERS)}")
    paper, started = PAPERS[name], time.perf_counter()
    rows, scale = paper.make(data, seed, jobs)
    seconds = time.perf_counter() - started
    return Reproduction(name, *paper[:3], rows, scale, round(seconds, 1))
