"""The result of a black-box audit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpaudit.audit.blackbox.claims import Tally
from dpaudit.audit.blackbox.events import EventOnOutputs
from dpaudit.audit.blackbox.findings import EXPLANATIONS, Finding
from dpaudit.audit.bounds.estimators import proportion_upper
from dpaudit.audit.verdict import Verdict
from dpaudit.errors import InvalidParameter
from dpaudit.measures.region import Region

EDGE_POINTS = 401  # of a figure


@dataclass(frozen=True)
class Recorded:
    """A lower bound from likelihoods of trials with recorded noise; ``why_not`` says why none.

    ``lower``: in the claim's measure, at half of the audit's error.  ``p_value``: of the claim.
    ``trials`` were counted; ``pilots`` chose the proposal.  ``unconfirmed``: counted trials that
    show nothing, because no noise was found that gives the same output on the other data set.
    ``numbers``: of noise a trial.  ``solved``: of which maps.  ``side``: the data set that was run.
    """

    lower: float = 0.0
    p_value: float = 1.0
    trials: int = 0
    pilots: int = 0
    unconfirmed: int = 0
    numbers: int = 0
    solved: str = ""
    side: int = 0
    why_not: str = ""

    @property
    def assumption(self) -> str:
        """The condition under which the bound holds; empty where there is no bound."""
        if self.why_not:
            return ""
        return (
            f"outputs are one-to-one in the noise ({self.numbers} numbers a trial): in all trials "
            f"they were {self.solved}, and running d{1 - self.side} with the solved noise gave the "
            f"same output in {self.trials - self.unconfirmed:,}"
        )

    def words(self, measure: str) -> str:
        """A sentence for a terminal or a page."""
        if self.why_not:
            return f"from likelihoods: none, the plain audit stands alone: {self.why_not}"
        return (
            f"from likelihoods of {self.trials:,} trials of d{self.side}: {measure} >= "
            f"{self.lower:.5g} (p-value {self.p_value:.2g}), if {self.assumption}"
        )

    def to_json(self) -> dict[str, Any]:
        """Its fields, with the assumption."""
        return {**asdict(self), "assumption": self.assumption}


@dataclass(frozen=True, eq=False, repr=False)
class FunctionAudit:
    """The verdict on one claim about one pair of data sets, and what it rests on.

    ``verdict``: refuted (the claim is false, at error rate ``refute_at``), alarm (the calls of the
    mechanism are broken in a way that no trial can be trusted), else inconclusive; never passed.
    ``lower`` bounds ``measure`` (epsilon, mu, rho or renyi_epsilon, as claimed) and
    ``epsilon_lower`` epsilon at ``delta``, both at ``confidence``.  ``event`` favours the data set
    ``favours`` (0 or 1); a claim on divergences may be refuted by means of a score instead, which
    ``reason`` then says.  ``smallest_showable``: the smallest true value of ``measure`` that these
    trials would have refuted the claim with, half the time, at the best event.  ``recorded``: the
    bound from likelihoods, where ``generator="recorded"`` asked for it.  ``log_e_value``: the
    natural logarithm of what bets against the claim end with, from 1; those of independent audits
    of a claim add up, and a sum of log(1 / error) refutes it at that error, whenever one looks.
    ``region``: what the claim allows, which :meth:`plot` draws.
    """

    verdict: Verdict
    reason: str
    claim: str
    measure: str
    claimed: float
    delta: float
    lower: float
    epsilon_lower: float
    confidence: float
    refute_at: float
    p_value: float
    event: EventOnOutputs
    favours: int
    tally: Tally
    smallest_showable: float
    findings: tuple[Finding, ...]
    trials: int
    training_trials: int
    seed: int
    reproducer: str
    seconds: Mapping[str, float]
    recorded: Recorded | None = None
    log_e_value: float = 0.0
    region: Region | None = None

    @property
    def event_text(self) -> str:
        """The event in words, with how often it happened on either side."""
        first, second = (0, 1) if self.favours == 0 else (1, 0)
        t = self.tally
        return (
            f"{self.event.text}: {t.hits:,} of {t.trials:,} from d{first}, "
            f"{t.other_hits:,} of {t.other_trials:,} from d{second}"
        )

    @property
    def smallest_epsilon(self) -> float:
        """``smallest_showable`` under its name for epsilon claims."""
        return self.smallest_showable

    def to_json(self) -> dict[str, Any]:
        """Plain values for json.dumps; infinite numbers as text."""
        plain = {
            "verdict": str(self.verdict),
            "reason": self.reason,
            "claim": self.claim,
            "measure": self.measure,
            "claimed": self.claimed,
            "delta": self.delta,
            "lower": self.lower,
            "epsilon_lower": self.epsilon_lower,
            "confidence": self.confidence,
            "refute_at": self.refute_at,
            "p_value": self.p_value,
            "log_e_value": self.log_e_value,
            "event": self.event_text,
            "event_code": self.event.code,
            "favours": f"d{self.favours}",
            "smallest_showable": self.smallest_showable,
            "findings": {str(f): EXPLANATIONS[f] for f in self.findings},
            "trials": self.trials,
            "training_trials": self.training_trials,
            "seed": self.seed,
            "reproducer": self.reproducer,
            "seconds": dict(self.seconds),
            "recorded": None if self.recorded is None else self.recorded.to_json(),
        }
        return {
            k: str(v) if isinstance(v, float) and not math.isfinite(v) else v
            for k, v in plain.items()
        }

    def __str__(self) -> str:
        return (
            f"{self.verdict}: {self.claim}; {self.measure} >= {self.lower:.4g} at "
            f"{self.confidence:.0%} confidence"
        )

    def __repr__(self) -> str:
        return f"FunctionAudit({self.verdict}, {self.claim}, lower={self.lower:.4g})"

    def _repr_html_(self) -> str:
        from dpaudit.report.notebook import card

        shown = f"{self.measure} >= {self.lower:.4g} at {self.confidence:.0%} confidence"
        rows = [("verdict", f"{self.verdict}: {self.reason}"), ("shown", shown)]
        if self.recorded is not None:
            rows.append(("recorded noise", self.recorded.words(self.measure)))
        return card(self.claim, [*rows, ("event", self.event_text)])

    def plot(self) -> Any:
        """The event's frequency on either data set, and what the claim allows, as a figure.

        A Matplotlib figure; the event's confidence intervals are Clopper-Pearson's, each at half
        of the audit's error.

        >>> import dpaudit as dp
        >>> def flip(data, rng, size):
        ...     return rng.random(size) < (0.9 if data else 0.1)
        >>> audit = dp.audit_function(flip, 0, 1, claim=dp.PureDP(1), trials=2_000, seed=1)
        >>> audit.plot().axes[0].get_title()
        'PureDP(epsilon=1): refuted'
        """
        from dpaudit.report.curves import event_figure

        if self.region is None:
            raise InvalidParameter("plot: this result was made without its claim's region")
        places = np.linspace(0, 1, EDGE_POINTS)
        edge = list(zip(places.tolist(), self.region.largest(places).tolist(), strict=True))
        tally, error = self.tally, (1 - self.confidence) / 4
        box = tuple(
            (
                hits / trials,
                1 - proportion_upper(trials - hits, trials, error),
                proportion_upper(hits, trials, error),
            )
            for hits, trials in (
                (tally.other_hits, tally.other_trials),
                (tally.hits, tally.trials),
            )
        )
        return event_figure(edge, (box[0], box[1]), self.claim, f"{self.claim}: {self.verdict}")

    @property
    def details(self) -> str:
        """Verdict, bound, event and findings, a line each."""
        lines = [
            f"{self.verdict}: {self.reason}",
            f"claim: {self.claim}; shown: {self.measure} >= {self.lower:.4g} at "
            f"{self.confidence:.0%} confidence (p-value {self.p_value:.2g})",
            f"event: {self.event_text}",
            f"{self.trials:,} draws a side would show {self.measure} from about "
            f"{self.smallest_showable:.4g}",
        ]
        if self.recorded is not None:
            lines.append(self.recorded.words(self.measure))
        return "\n".join(lines + [f"{f}: {EXPLANATIONS[f]}" for f in self.findings])
