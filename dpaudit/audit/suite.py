"""A suite: how one mechanism of the catalogue is attacked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpaudit.audit.neighbours import Neighbours
from dpaudit.curator.curator import Program
from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import real
from dpaudit.nodes import Node

BATCH_TRIALS = 2_000  # trials that run side by side: enough for NumPy, and few enough for memory
# The outputs that an attacker sees.
THREAT_MODELS = (
    "white_box",
    "black_box_all",
    "black_box_final",
    "gradient_canary",
    "worst_case_input",
)


@dataclass(frozen=True)
class Suite:
    """The audit of the mechanism named ``mechanism``.

    ``program`` is the implementation that is run: the mechanism's own program on a worst-case
    loss; its declaration must be the mechanism's, or the audit would attack something else.
    ``neighbours`` saturate the sensitivities.  ``kernels`` replaces sampler kernels (only
    implementations that are wrong on purpose do that; the replayer always uses the declared ones).
    ``caught_by`` lists what must catch a planted bug; empty for an implementation meant to be
    right.  ``threshold`` fixes the lens threshold: 0 is where declared Gaussian densities cross.
    ``together``: how many trials are run at once, fewer where a trial takes much memory.

    >>> import dpaudit as dp
    >>> class Count:
    ...     def declaration(self, scope):
    ...         return dp.Laplace("count", noise_multiplier=1)
    ...     def run(self, curator):
    ...         return curator.release("count", dp.ClippedMean(lambda v: v[None], 1, divisor=1))
    >>> one, none = dp.Records([[0.0], [1.0]]), dp.Records([[0.0]])
    >>> pair = dp.Neighbours(one, none, "add_remove", "a record of 1 more")
    >>> dp.Suite("noisy_count", Count(), pair).trials
    20000
    """

    mechanism: str
    program: Program
    neighbours: Neighbours
    trials: int = 20_000
    threat_model: str = "white_box"
    threshold: float = 0.0
    kernels: Mapping[type[Node], type[Any]] = field(default_factory=dict)
    caught_by: tuple[str, ...] = ()
    bug: str = ""
    also: tuple[Suite, ...] = ()
    together: int = BATCH_TRIALS

    @property
    def all(self) -> tuple[Suite, ...]:
        """This one, then the further worst cases."""
        return (self, *self.also)

    def __post_init__(self) -> None:
        for other in self.also:
            if other.mechanism != self.mechanism or other.also:
                raise InvalidParameter(
                    f"Suite.also: a suite of {other.mechanism!r}; expected further suites of "
                    f"{self.mechanism!r}, side by side"
                )
        if self.threat_model not in THREAT_MODELS:
            raise InvalidParameter(
                f"Suite.threat_model = {self.threat_model!r}: expected {', '.join(THREAT_MODELS)}"
            )
        object.__setattr__(self, "threshold", real(self.threshold, "Suite.threshold"))
        for name, least in (("trials", 2), ("together", 1)):
            if getattr(self, name) < least:
                raise InvalidParameter(
                    f"Suite.{name} = {getattr(self, name)}: expected at least {least}"
                )
