"""Faults of a step, and the result of its check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.audit.verdict import Verdict
from dpaudit.membership.step.lines import Line


@dataclass(frozen=True)
class Fault:
    """Something that a step does and private training must not; ``line``: where, if it is known."""

    kind: str
    words: str
    line: Line | None

    def __str__(self) -> str:
        return f"{self.words} [{self.line}]" if self.line else self.words


@dataclass(frozen=True)
class StepAudit:
    """Faults of a step, and the noise that a record was seen to meet.

    ``effective``: the noise multiplier of the step is at most this for the worst probe; ``notes``:
    what was not checked, and why.
    """

    name: str
    noise_multiplier: float
    effective: float
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]
    runs: int
    seconds: float
    error: float

    @property
    def verdict(self) -> Verdict:
        """``alarm`` for a step that does not do what is declared; nothing is ever passed."""
        return Verdict.ALARM if self.faults else Verdict.INCONCLUSIVE

    def to_json(self) -> dict[str, Any]:
        """All fields, JSON-ready."""
        return {
            "step": self.name,
            "verdict": str(self.verdict),
            "noise_multiplier": self.noise_multiplier,
            "effective_noise_multiplier": self.effective if np.isfinite(self.effective) else None,
            "faults": [
                {
                    "kind": fault.kind,
                    "words": fault.words,
                    "file": fault.line and fault.line.file,
                    "line": fault.line and fault.line.start,
                }
                for fault in self.faults
            ],
            "notes": list(self.notes),
            "steps_run": self.runs,
            "seconds": round(self.seconds, 3),
            "false_alarm_rate": self.error,
        }

    def __str__(self) -> str:
        measured = f"{self.effective:.3g}" if np.isfinite(self.effective) else "infinite"
        head = (
            f"{self.name}: {len(self.faults)} fault{'s' * (len(self.faults) != 1)} in its step"
            if self.faults
            else f"{self.name}: no fault found in its step, which proves nothing"
        )
        tail = (
            f"noise multiplier {self.noise_multiplier:g} declared, at most {measured} seen for the "
            f"worst record; {self.runs} runs in {self.seconds:.1f} s; false alarms: {self.error:g}"
        )
        lines = [head, *(f"- {fault}" for fault in self.faults)]
        return "\n".join([*lines, *(f"- not checked: {note}" for note in self.notes), tail])
