"""Reconstruction of a record by an attacker who knows all others and a list of candidates for it.

Each model is trained on the background and one candidate, drawn uniformly.  The attacker guesses
which.  Attribute inference is the same with candidates that differ in one column.

No attack on a mechanism with trade-off function f guesses one of K candidates more often than
1 - f(1/K).  Proof: let E_k be the event that candidate k is guessed, P_k the outputs with k, and Q
those without any.  The Q(E_k) sum to at most 1.  P_k(E_k) <= 1 - f(Q(E_k)), and 1 - f is concave
and grows, so the mean over k is at most 1 - f(1/K).

Sources: Balle, Cherubin and Hayes (2022), informed adversaries; Hayes, Mahloujifar and Balle
(2023), theorem 2; Kaissis et al. (2023), the bound from a trade-off function.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.accountant.account import Account
from dpaudit.audit.bounds.estimators import proportion_upper
from dpaudit.audit.engine import Batch, generator, run_batches
from dpaudit.audit.verdict import Verdict
from dpaudit.errors import InvalidParameter
from dpaudit.membership.attacks import ATTACKS, View
from dpaudit.membership.data import Data, FloatArray, duplicates, joined
from dpaudit.membership.study import MAIN, Training
from dpaudit.membership.targets import as_target
from dpaudit.nodes import Node
from dpaudit.scope import central

FEWEST_CANDIDATES, FEWEST_MODELS = 2, 8  # records to guess among; trainings
_DRAW = 0x63616E64  # separates the drawn candidates from the noise of training


@dataclass(frozen=True)
class Reconstruction:
    """How often the candidate was guessed, beside the most that a guarantee allows.

    ``lower``: a lower bound on the attack's rate of success, wrong with probability 1 -
    ``confidence``.  ``allowed``: the accounted bound; 1 without a claim.  ``verdict``: refuted
    where the bound at error ``refute_at`` exceeds it; None without a claim.
    """

    correct: int
    models: int
    candidates: int
    lower: float
    confidence: float
    allowed: float
    verdict: Verdict | None

    @property
    def rate(self) -> float:
        """The share of models whose candidate was guessed."""
        return self.correct / self.models

    def __str__(self) -> str:
        summary = (
            f"{self.correct:,} of {self.models:,} candidates guessed, of {self.candidates} each: "
            f"at least {self.lower:.3g} at {self.confidence:.0%} confidence; blind guesses "
            f"{1 / self.candidates:.3g}"
        )
        if self.verdict is None:
            return summary
        return f"{self.verdict}: {summary}; the claim allows {self.allowed:.3g}"


def allowed_rate(guarantee: Node | Account, candidates: int) -> float:
    """The highest rate at which one of so many equally likely candidates can be guessed.

    ``guarantee``: a claim under add/remove, or an account.  Errors: those of
    :meth:`~dpaudit.accountant.account.Account.tradeoff`.
    """
    if not isinstance(guarantee, Account):
        return allowed_rate(Account(guarantee, central("add_remove")), candidates)
    return 1 - float(guarantee.tradeoff(Fraction(1, candidates)).lower)


def with_values(record: Data, column: int, values: Sequence[Any]) -> Data:
    """Copies of one record that differ in a column: the candidates of attribute inference.

    Errors: InvalidParameter for several records, or a column that is not there.
    """
    if len(record) != 1 or record.features.ndim != 2:
        raise InvalidParameter(f"record: shape {record.features.shape}, expected (1, columns)")
    if not 0 <= column < record.features.shape[1]:
        raise InvalidParameter(
            f"column = {column}: expected from 0 to {record.features.shape[1] - 1}"
        )
    copies = record.take(np.zeros(len(values), dtype=np.intp))
    features = copies.features.copy()
    features[:, column] = values
    return Data(features, copies.labels)


def audit_reconstruction(
    target: Any,
    background: Any,
    candidates: Any,
    *,
    claim: Node | Account | None = None,
    models: int = 200,
    confidence: float = 0.95,
    refute_at: float = 1e-4,
    seed: int | None = None,
    jobs: int = 1,
) -> Reconstruction:
    """Train models on the background and one candidate each, and guess which, by likelihoods.

    Half of the models are references: the attacker knows their candidates, and compares each
    target's scores with theirs.  The other half are guessed, each an independent trial.
    ``claim``: a guarantee of one record under add/remove, or the account of one.

    Errors: InvalidParameter for fewer than 2 different candidates or 8 models; the errors of
    training.
    """
    trained = as_target(target)
    beside, given = Data.of(background), Data.of(candidates)
    choices = Data(given.features, given.labels)  # each candidate stands for itself
    joined(choices, beside)
    count = len(choices)
    if count < FEWEST_CANDIDATES or duplicates(choices):
        raise InvalidParameter(f"candidates: {count}; give two or more that differ")
    if type(models) is not int or models < FEWEST_MODELS:
        raise InvalidParameter(
            f"models = {models!r}: expected an integer of {FEWEST_MODELS} or more"
        )
    root = secrets.randbits(127) if seed is None else seed
    drawn = generator(root, (_DRAW, 0)).integers(count, size=models)
    included = drawn[:, None] == np.arange(count)
    task = Training(trained, choices, beside, None, included, root)
    batches = [Batch((model, MAIN), 1) for model in range(models)]
    first = run_batches(task, batches[:1], root_seed=root)
    if first[(0, MAIN)]["failed"][0]:
        raise InvalidParameter(task.failure(0, float(first[(0, MAIN)]["seconds"][0])))
    done = first | run_batches(task, batches[1:], root_seed=root, jobs=jobs)
    fits = np.concatenate([_fit(done[(model, MAIN)], count) for model in range(models)])
    half = models // 2
    guesses = _guesses(fits, included, half, choices)
    correct = int(np.count_nonzero(guesses == drawn[half:]))
    return _judged(correct, models - half, count, claim, confidence, refute_at)


def _fit(arrays: Any, count: int) -> FloatArray:
    """Scores of a model; a training that failed tells nothing."""
    return np.asarray(arrays.get("fit", np.full((1, count), np.nan)), dtype=np.float64)


def _guesses(fits: FloatArray, included: Any, half: int, candidates: Data) -> Any:
    view = View(
        {"fit": fits[:half]}, included[:half], {"fit": fits[half:]}, {}, {}, candidates, None, 0
    )
    return np.argmax(ATTACKS["lira"].score(view), axis=1)


def _judged(
    correct: int,
    models: int,
    candidates: int,
    claim: Node | Account | None,
    confidence: float,
    refute_at: float,
) -> Reconstruction:
    allowed = 1.0 if claim is None else allowed_rate(claim, candidates)
    shown, decisive = (
        1 - proportion_upper(models - correct, models, error)
        for error in (1 - confidence, refute_at)
    )
    verdict = None
    if claim is not None:
        verdict = Verdict.REFUTED if decisive > allowed else Verdict.INCONCLUSIVE
    return Reconstruction(correct, models, candidates, shown, confidence, allowed, verdict)
