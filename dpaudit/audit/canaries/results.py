"""Results of canary audits: a verdict on one claim, its bound, and how far it could reach."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from dpaudit.audit.verdict import Ruling, Verdict, judge


@dataclass(frozen=True, repr=False)
class CanaryAudit(ABC):
    """The verdict on a claim about ``measure`` (epsilon, mu, rho or renyi_epsilon).

    ``verdict``: refuted (false, at error rate ``refute_at``) or inconclusive; never passed.
    ``lower`` bounds the measure at ``confidence``, ``decisive`` at 1 - ``refute_at``, and
    ``epsilon_lower`` epsilon at ``delta``, at ``confidence``.  ``achievable``: the largest
    ``decisive`` that these trials could give.  ``underpowered``: it does not exceed the claim, so
    that no outcome could have refuted it.
    """

    verdict: Verdict
    reason: str
    claim: str
    measure: str
    claimed: float
    delta: float
    lower: float
    decisive: float
    epsilon_lower: float
    confidence: float
    refute_at: float
    achievable: float
    underpowered: bool
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Plain values for json.dumps; infinite numbers as text."""
        values = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {**values, "verdict": str(self.verdict)}

    def __str__(self) -> str:
        return f"{self.verdict}: {self.claim}; {self._shown}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.verdict}, {self.claim}, lower={self.lower:.4g})"

    def _repr_html_(self) -> str:
        from dpaudit.report.notebook import card

        rows = [("verdict", f"{self.verdict}: {self.reason}"), ("shown", self._shown)]
        return card(self.claim, [*rows, ("counted", self.counted)])

    @property
    def details(self) -> str:
        """Verdict, bound and counts, a line each."""
        first = f"{self.verdict}: {self.reason}"
        return "\n".join([first, f"claim: {self.claim}; shown: {self._shown}", self.counted])

    @property
    def _shown(self) -> str:
        return f"{self.measure} >= {self.lower:.4g} at {self.confidence:.0%} confidence"

    @property
    @abstractmethod
    def counted(self) -> str:
        """The counts, in words."""


INDEPENDENT = (
    "every score comes from a run of its own, as the caller said; many canaries in one run are "
    "dependent, and audit_one_run is for them"
)


@dataclass(frozen=True, repr=False)
class ScoresAudit(CanaryAudit):
    """An audit of two samples of scores: counts at a threshold chosen on other scores.

    ``hits`` of ``trials`` scores of the sample that ``favours`` names ("in" or "out") lie above
    ``threshold``, and ``other_hits`` of ``other_trials`` of the other: the counts of the verdict;
    the threshold of ``lower`` may be another.  ``means``: the function of the score on whose means
    the verdict rests in place of those counts, or empty.  ``smallest_epsilon``: the smallest true
    epsilon that would have refuted the claim half the time, at the best event.  ``limit``: an
    estimate of the epsilon that an audit could show which knew the laws of the scores.
    ``assumes``: what every bound here rests on, as the caller said.
    """

    p_value: float
    threshold: float
    favours: str
    hits: int
    trials: int
    other_hits: int
    other_trials: int
    training: tuple[int, int]
    smallest_epsilon: float
    limit: float
    means: str = ""
    assumes: str = INDEPENDENT

    @property
    def achieved(self) -> float:
        """``epsilon_lower`` as a share of ``limit``; luck may carry it above 1."""
        return self.epsilon_lower / self.limit if self.limit > 0 else 1.0

    @property
    def details(self) -> str:
        share = f"{self.achieved:.0%} of the bound on epsilon that these scores could show"
        lines = [super().details, *([share] if self.measure == "epsilon" else [])]
        return "\n".join([*lines, f"assumes: {self.assumes}"])

    @property
    def counted(self) -> str:
        if self.means:
            return f"means of {self.means}, over {self.trials:,} and {self.other_trials:,} scores"
        other = "out" if self.favours == "in" else "in"
        return (
            f"scores above {self.threshold:.6g}: {self.hits:,} of {self.trials:,} {self.favours}, "
            f"{self.other_hits:,} of {self.other_trials:,} {other}"
        )


@dataclass(frozen=True, repr=False)
class OneRunResult(CanaryAudit):
    """An audit of one run: correct guesses behind ``lower``, and behind ``decisive``.

    ``opened``: labels read to choose the guesses of ``lower``, none of which is guessed.
    ``commitment``: the digest written before the run, with which the labels were compared.
    """

    correct: int
    guesses: int
    decisive_correct: int
    decisive_guesses: int
    opened: int
    canaries: int
    commitment: str

    @property
    def counted(self) -> str:
        return f"{self.correct:,} of {self.guesses:,} guesses correct; {self.canaries:,} canaries"


@dataclass(frozen=True, repr=False)
class ScoresEstimate:
    """How well scores tell members from non-members, where nothing makes a bound of them.

    There is no verdict and no lower bound here, on purpose; ``reason`` says why.  ``auc`` is the
    area under the receiver operating curve, ``advantage`` the largest true less false positive
    rate, ``true_positive_rates`` pairs (false positive rate, true positive rate at it).
    """

    reason: str
    auc: float
    advantage: float
    true_positive_rates: tuple[tuple[float, float], ...]
    members: int
    non_members: int

    def to_json(self) -> dict[str, Any]:
        """Plain values for json.dumps; ``kind`` is "estimate"."""
        values = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {"kind": "estimate", **values}

    def __str__(self) -> str:
        return f"an estimate, no bound: AUC {self.auc:.3f}, advantage {self.advantage:.3f}"

    def __repr__(self) -> str:
        return f"ScoresEstimate(auc={self.auc:.3f}, advantage={self.advantage:.3f})"

    def _repr_html_(self) -> str:
        from dpaudit.report.notebook import card

        rows = [("AUC", f"{self.auc:.3f}"), ("advantage", f"{self.advantage:.3f}")]
        return card("An estimate, no bound", [*rows, ("why", self.reason)])

    @property
    def details(self) -> str:
        """Why this is no bound, and the operating characteristics."""
        rates = ", ".join(f"{tpr:.3g} at {fpr:g}" for fpr, tpr in self.true_positive_rates)
        return (
            f"an estimate, no bound: {self.reason}\n"
            f"AUC {self.auc:.3f}, advantage {self.advantage:.3f}; true positive rate {rates} "
            f"false positives; {self.members:,} members, {self.non_members:,} non-members"
        )


def judged(
    claimed: float, decisive: float, achievable: float, more: str, *, refuted: bool
) -> dict[str, Any]:
    """The fields verdict, reason and underpowered; ``more`` ends the reason of a fair try."""
    could = achievable > claimed
    rulings = [Ruling(Verdict.INCONCLUSIVE, f"nothing above the claim was shown{more}")]
    if refuted:
        shown = f"the trials contradict it; at least {decisive:.4g} was shown"
        rulings.append(Ruling(Verdict.REFUTED, shown))
    if not could:
        underpowered = (
            f"underpowered: even the clearest outcome would show {achievable:.4g} only, and the "
            f"claim is {claimed:.4g}; use more canaries"
        )
        rulings.insert(0, Ruling(Verdict.INCONCLUSIVE, underpowered))
    verdict, reason = judge(rulings)
    return {"verdict": verdict, "reason": reason, "underpowered": not (refuted or could)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
