"""Logistic regression on secret batches, of which the last weights alone are shown."""

from __future__ import annotations

import dpaudit as dp
from dpaudit.families.iterates import SampledLastIterate
from mechanisms.training.last_iterate import STEPS, LastShown


class SampledLastShown(LastShown):
    """As :class:`LastShown`, each step on a batch that holds each record with probability 1/10.

    Gradients of a batch are added up and divided by the number of all records, which is public.
    """

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Noise of once what one record moves in each of 50 steps."""
        return SampledLastIterate("weights", 1, STEPS, "0.1", contraction="0.8")


sampled_last_iterate = dp.Mechanism(
    "sampled_last_iterate",
    "Logistic regression on sampled batches by its last iterate",
    "Altschuler and Talwar 2022, Theorem 3.1; Bok, Su and Altschuler 2024, Theorem 3.1",
    SampledLastShown(),
    dp.central("zero_out"),
    [dp.Claim(dp.ApproxDP("1.5", "0.01"), by="this page")],
)
