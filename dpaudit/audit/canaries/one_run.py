"""`audit_one_run`: a claim tested on one run with many canaries.

Labels are drawn and committed to, the run is made with the canaries they include, its scores are
handed in once.  The guesses come from the scores and, where they are learned, from labels that are
opened for it and then never counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from dpaudit.accountant.account import Account
from dpaudit.audit.bounds.estimators import _scores, epsilon_of_gaussian
from dpaudit.audit.bounds.guessing import FloatArray, Sealed, fixed_guesses, learned_guesses
from dpaudit.audit.bounds.one_run import (
    MAXIMUM_CANARIES,
    chosen_epsilon_lower,
    one_run_epsilon_lower,
)
from dpaudit.audit.bounds.one_run_curves import (
    MAXIMUM_MU,
    Curve,
    one_run_curve_lower,
    one_run_mu_lower,
    one_run_renyi_lower,
    one_run_rho_lower,
    planned_guesses,
)
from dpaudit.audit.canaries.commitment import Labels, commit
from dpaudit.audit.canaries.results import OneRunResult, judged
from dpaudit.audit.canaries.terms import CanaryTerms
from dpaudit.errors import InvalidParameter
from dpaudit.scope import Adjacency

LEAST_TO_LEARN = 500  # canaries from which a number of guesses is chosen on some of them
_LEAST_MU = 1e-6  # below it every number of guesses shows nothing
_PROFILE_POINTS = 120  # Epsilons at which the account's privacy profile is read.
Bound = Callable[[int, int, int, float], float]


@dataclass
class OneRunAudit:
    """One audit: :meth:`commit` before the run, :meth:`bound` after it, each once.

    ``guesses``: how many canaries to guess, fixed beforehand; None lets claims about epsilon with
    500 canaries or more learn it, and elsewhere plans it for the claim.  ``curve``: an account's
    profile and its epsilon at the claim's delta.
    """

    canaries: int
    terms: CanaryTerms
    guesses: int | None
    curve: tuple[Curve, float] | None = None
    labels: Labels | None = field(default=None, repr=False)
    _spent: bool = field(default=False, repr=False)

    def commit(self, path: str | Path, *, seed: int | None = None) -> Labels:
        """Draw labels and write the commitment to ``path``, before the run.

        Errors: as :func:`dpaudit.audit.canaries.commitment.commit`; InvalidParameter for a second
        call.
        """
        if self.labels is not None:
            raise InvalidParameter(
                "commit: the labels of this audit are drawn; one run has one set"
            )
        self.labels = commit(path, self.canaries, seed=seed)
        return self.labels

    def bound(self, scores: npt.ArrayLike, labels: Labels | None = None) -> OneRunResult:
        """Check the labels against their commitment, guess, count, and bound; once.

        ``scores``: shape (canaries,), large where a canary looks included; +-inf are allowed.
        ``labels``: those that :func:`dpaudit.audit.canaries.commitment.load_labels` read back, if
        another process committed to them.  ``lower`` and ``decisive`` come from two separate
        choices of guesses, each valid at its own error rate.

        Errors: InvalidParameter for NaN, another shape, missing labels, a second call;
        CommitmentMismatch for labels that are not those committed to.
        """
        labels_checked = self._checked(labels)
        values = _scores(scores, "scores")
        if values.size != self.canaries:
            raise InvalidParameter(f"scores: {values.size}; {self.canaries} canaries need one each")
        self._spent = True
        shown = self._count(values, labels_checked, self.terms.shown)
        decisive = self._count(values, labels_checked, self.terms.refute_at)
        return self._result(shown, decisive, labels_checked)

    def _checked(self, given: Labels | None) -> Labels:
        if self._spent:
            raise InvalidParameter("bound: the error of this audit is spent; commit to a new run")
        labels = given if given is not None else self.labels
        if labels is None:
            raise InvalidParameter("bound: no labels; call commit() before the run")
        if labels.canaries != self.canaries:
            raise InvalidParameter(
                f"labels: of {labels.canaries} canaries, this audit has {self.canaries}"
            )
        labels.check()
        return labels

    @property
    def _learns(self) -> bool:
        is_epsilon = self.terms.target.measure == "epsilon"
        fixed = self.guesses is not None or self.curve is not None
        return not fixed and is_epsilon and self.canaries >= LEAST_TO_LEARN

    @property
    def _mu(self) -> float:
        """The mu of a Gaussian mechanism near the claim, for which guesses are planned."""
        target = self.terms.target
        if target.measure == "mu":
            return target.claimed
        if target.measure == "rho":
            return float(np.sqrt(2 * target.claimed))
        if target.measure == "renyi_epsilon":
            return float(np.sqrt(2 * target.claimed / target.order))
        if self.curve is None or target.delta == 0:
            return 0.0

        def above(mu: float) -> float:
            return float(epsilon_of_gaussian(mu, target.delta)) - target.claimed

        return (
            float(brentq(above, 1e-6, MAXIMUM_MU)) if above(1e-6) < 0 < above(MAXIMUM_MU) else 0.0
        )

    def _count(self, scores: FloatArray, labels: Labels, error: float) -> _Counted:
        sealed, target, seed = Sealed(labels.included), self.terms.target, self.terms.seed
        if self._learns:
            guesses = learned_guesses(scores, sealed, target.delta, error, seed)
        else:
            number = self.guesses or planned_guesses(self.canaries, self._mu, error)
            guesses = fixed_guesses(scores, number, seed)
        correct = sealed.count(guesses.places, guesses.guessed_in)
        opened = int(sealed.opened.sum())
        return _Counted(correct, int(guesses.places.size), guesses.canaries, opened)

    def _result(self, shown: _Counted, decisive: _Counted, labels: Labels) -> OneRunResult:
        """The result: ``decisive`` gives the verdict's bound, ``shown`` the shown one."""
        terms, target = self.terms, self.terms.target
        lower, epsilon_lower = self._bound(), self._epsilon_lower()
        most = decisive.canaries if self._learns else decisive.guesses
        strongest = _Counted(most, most, decisive.canaries, 0)
        reached = lower(decisive, terms.refute_at)
        achievable = lower(strongest, terms.refute_at)
        refuted = reached > target.claimed * (1 + 1e-12)
        words = f"; all of {most:,} guesses correct would show {achievable:.4g}"
        return OneRunResult(
            **judged(target.claimed, reached, achievable, words, refuted=refuted),
            claim=target.words + (", by an account whose curve is tested" if self.curve else ""),
            measure=target.measure,
            claimed=target.claimed,
            delta=target.delta,
            lower=lower(shown, terms.shown),
            decisive=reached,
            epsilon_lower=epsilon_lower(shown, terms.shown),
            confidence=terms.confidence,
            refute_at=terms.refute_at,
            achievable=achievable,
            seed=terms.seed,
            correct=shown.correct,
            guesses=shown.guesses,
            decisive_correct=decisive.correct,
            decisive_guesses=decisive.guesses,
            opened=shown.opened,
            canaries=self.canaries,
            commitment=labels.commitment,
        )

    def _epsilon_lower(self) -> Callable[[_Counted, float], float]:
        bound = chosen_epsilon_lower if self._learns else one_run_epsilon_lower
        delta = self.terms.target.delta
        return lambda c, error: bound(c.correct, c.guesses, c.canaries, delta, error)

    def _bound(self) -> Callable[[_Counted, float], float]:
        target = self.terms.target
        if self.curve is not None:
            profile, epsilon = self.curve
            return lambda c, error: (
                epsilon * one_run_curve_lower(c.correct, c.guesses, c.canaries, profile, error)
            )
        if target.measure == "epsilon":
            return self._epsilon_lower()
        if target.measure == "renyi_epsilon":
            order = target.order
            return lambda c, error: one_run_renyi_lower(
                c.correct, c.guesses, c.canaries, order, error
            )
        curve: Bound = one_run_mu_lower if target.measure == "mu" else one_run_rho_lower
        return lambda c, error: curve(c.correct, c.guesses, c.canaries, error)


@dataclass(frozen=True)
class _Counted:
    correct: int
    guesses: int
    canaries: int
    opened: int


def audit_one_run(
    canaries: int,
    *,
    claim: object,
    confidence: float | str = 0.95,
    refute_at: float | str = 1e-4,
    guesses: int | None = None,
    seed: int = 0,
    account: Account | None = None,
) -> OneRunAudit:
    """An audit of one run with ``canaries`` canaries, each in the data by a fair coin of its own.

    ``claim``: PureDP, ApproxDP, GDP, ZCDP or RenyiDP under an adjacency in which including one
    canary is one step.  No family is assumed: a bound on mu, say, is made for a claim of mu-GDP
    only.  ``seed`` breaks ties and draws the pilot; labels have their own randomness.

    ``account``: the account behind a claim of ApproxDP, under an adjacency as above.  Its whole
    curve is tested, which shows more than one point of it.  *refuted* then says that the mechanism
    does not have this curve; ``lower`` bounds epsilon for mechanisms whose privacy losses are a
    multiple of the account's; ``epsilon_lower`` presumes nothing.

    Errors: InvalidParameter for a claim of another kind, canaries outside [1, 1e7], guesses
    outside [1, canaries], a confidence outside (0.5, 1), ``refute_at`` outside [1e-12, 0.5), an
    account under replace_one, of another claim or of a larger epsilon.
    Source: Steinke, Nasr and Jagielski (2023); the theorem in :mod:`dpaudit.audit.bounds.one_run`.

    >>> import dpaudit as dp, tempfile
    >>> audit = dp.audit_one_run(1_000, claim=dp.PureDP(1))
    >>> labels = audit.commit(tempfile.mkdtemp() + "/commitment.json", seed=1)
    >>> result = audit.bound(labels.included.astype(float))  # of a run that hides nothing
    >>> str(result.verdict), result.epsilon_lower > 2
    ('refuted', True)
    """
    if type(canaries) is not int or not 1 <= canaries <= MAXIMUM_CANARIES:
        limit = f"{MAXIMUM_CANARIES:,}"
        raise InvalidParameter(f"canaries = {canaries!r}: expected an integer from 1 to {limit}")
    if guesses is not None and (type(guesses) is not int or not 1 <= guesses <= canaries):
        raise InvalidParameter(f"guesses = {guesses!r}: expected from 1 to {canaries}, or None")
    terms = CanaryTerms.of(claim, confidence, refute_at, seed)
    curve = None if account is None else _curve(account, terms)
    return OneRunAudit(canaries, terms, guesses, curve)


def _curve(account: Account, terms: CanaryTerms) -> tuple[Curve, float]:
    """The account's profile at some epsilons, rounded up, and its epsilon at the claim's delta.

    Errors: InvalidParameter for a claim that is no (epsilon, delta) that the account shows.
    """
    target = terms.target
    if account.scope.adjacency is Adjacency.REPLACE_ONE:
        raise InvalidParameter(
            "account: under replace_one, to include a canary is no step between neighbours; "
            "account under add_remove or zero_out"
        )
    if target.measure != "epsilon" or target.delta == 0:
        raise InvalidParameter(f"account: it is for a claim of ApproxDP, not for {target.words}")
    epsilon = float(account.epsilon(target.delta).upper)
    if not 0 < epsilon <= target.claimed * (1 + 1e-9):
        raise InvalidParameter(
            f"account: its epsilon is {epsilon:.6g} at delta {target.delta:g}; claim at least that"
        )
    grid = np.concatenate([[0.0], np.linspace(0.02, 3.0, _PROFILE_POINTS) * epsilon])
    deltas = [float(bound.upper) for _, bound in account.profile_curve(grid.tolist())]
    return Curve(grid, np.minimum(1.0, np.array(deltas) * (1 + 1e-12))), epsilon
