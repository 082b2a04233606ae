"""A search and cut batches, as events of dp-accounting and as JSON, are read as declarations."""

import json
import math

from dp_accounting import dp_event

from dpaudit.crosscheck.interchange import from_dp_event


def probe() -> str:
    """How many of eight are read, and the first reason for a refusal."""
    noise = dp_event.GaussianDpEvent(2.0)
    events = [
        dp_event.RepeatAndSelectDpEvent(noise, 3.0, 1.0),
        dp_event.RepeatAndSelectDpEvent(noise, 3.0, 0.5),
        dp_event.RepeatAndSelectDpEvent(noise, 3.0, math.inf),
        dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.1, 120, 1.0),
    ]
    forms = [*events, *(json.loads(json.dumps(each.to_named_tuple())) for each in events)]
    reasons = []
    for form in forms:
        try:
            from_dp_event(form, "add_remove")
        except Exception as error:
            reasons.append(str(error).rpartition(": ")[2])
    return f"{len(forms) - len(reasons)} of {len(forms)} read; {(reasons or ['none refused'])[0]}"
