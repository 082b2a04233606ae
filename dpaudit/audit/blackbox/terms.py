"""The arguments of an audit, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy.typing as npt

from dpaudit.audit.blackbox.choice import candidates, scored_candidates
from dpaudit.audit.blackbox.claims import EventTest
from dpaudit.audit.blackbox.divergence import DIVERGENCE_SHARE, Divergence, divergence
from dpaudit.audit.blackbox.draws import TrainingDraws
from dpaudit.audit.blackbox.events import OwnScore
from dpaudit.audit.blackbox.evidence import Candidate, Edge
from dpaudit.audit.blackbox.features import Depth
from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import real

Array = npt.NDArray[Any]
Attack: TypeAlias = Callable[[Array], Array] | str | None
LEAST_TRIALS = 8  # Draws a side; fewer refute nothing.
MOST_TRIALS = 10**8  # Draws a side that an audit may ask for.


@dataclass(frozen=True)
class Terms:
    """The caller's arguments, checked."""

    target: EventTest
    trials: int
    confidence: float
    refute_at: float
    seed: int
    attack: Attack = None
    generator: str | None = None
    asked: Terms | None = None

    @property
    def halved(self) -> Terms:
        """These terms with half of each error; ``asked`` keeps the original ones."""
        confidence, refute_at = (1 + self.confidence) / 2, self.refute_at / 2
        return replace(self, confidence=confidence, refute_at=refute_at, asked=self)

    @property
    def own_score(self) -> OwnScore | None:
        """The caller's attack, where it is a function."""
        return OwnScore(self.attack) if callable(self.attack) else None

    def divergence(
        self, first: TrainingDraws, second: TrainingDraws, pairs: int
    ) -> Divergence | None:
        """The test of means, where the claim bounds a divergence."""
        error = self.refute_at * DIVERGENCE_SHARE
        return divergence(self.own_score, first, second, self.target, pairs, error)

    def candidates(
        self, first: TrainingDraws, second: TrainingDraws, edge: Edge, test_trials: int
    ) -> list[Candidate]:
        """Events chosen on training draws, by the attack that was asked for."""
        if self.own_score is not None:
            return scored_candidates(self.own_score, first, second, edge, test_trials)
        depth = Depth.BITS if self.attack == "bits" else Depth.ROUNDED
        return candidates(first, second, edge, test_trials, depth)


def checked_terms(
    claim: Any,
    trials: int,
    confidence: float | str,
    refute_at: float | str,
    seed: int,
    attack: Attack = None,
    generator: str | None = None,
) -> Terms:
    """Errors: InvalidParameter for a value outside its domain, before anything is drawn."""
    if type(trials) is not int or not LEAST_TRIALS <= trials <= MOST_TRIALS:
        raise InvalidParameter(
            f"trials = {trials!r}: expected an integer from {LEAST_TRIALS} to {MOST_TRIALS:,}; "
            "fewer could show nothing"
        )
    shown, refuting = real(confidence, "confidence"), real(refute_at, "refute_at")
    if not 0.5 < shown < 1:
        raise InvalidParameter(f"confidence = {confidence!r}: expected in (0.5, 1)")
    if not 1e-12 <= refuting <= 0.5:
        raise InvalidParameter(f"refute_at = {refute_at!r}: expected in [1e-12, 0.5]")
    if type(seed) is not int or not 0 <= seed < 2**128:
        raise InvalidParameter(f"seed = {seed!r}: expected an integer >= 0 and < 2^128")
    if attack is not None and attack != "bits" and not callable(attack):
        raise InvalidParameter(f"attack = {attack!r}: expected None, 'bits' or a function")
    if generator not in (None, "recorded"):
        raise InvalidParameter(f"generator = {generator!r}: expected None or 'recorded'")
    return Terms(EventTest.of(claim), trials, shown, refuting, seed, attack, generator)
