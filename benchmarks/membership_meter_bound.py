"""The lower bound of today's Privacy Meter, run in a process that has a checkout of it on its path.

Argument: a .npz file with arrays scores and included, (runs, models, records).  Prints two
JSON lists of bounds, one a run.  ``get_all_dp_audit_results`` reports the largest of the one-run
bounds at all numbers of guesses on a grid, each at 5% and at delta 0, which is what is asked here;
beside it the bound at numbers that are fixed beforehand, of Privacy Meter as well.  PyTorch is
imported by it for other things: where it is missing, empty modules stand in for it.
"""

import importlib.util
import json
import sys
import types

import numpy as np


class StandIn(types.ModuleType):
    """A module that is not there: what is asked of it is a class of its own."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}", type(name, (), {}))


def privacy_meter():
    """Its module of audits."""
    if importlib.util.find_spec("torch") is None:
        for name in ("torch", "torch.utils", "torch.utils.data"):
            sys.modules[name] = StandIn(name)
    import audit

    return audit


def main():
    """Both bounds of every run."""
    with np.load(sys.argv[1]) as arrays:
        runs = list(zip(arrays["scores"], arrays["included"], strict=True))
    audit = privacy_meter()
    quarter = runs[0][0].size // 4
    largest, fixed = [], []
    for scores, included in runs:
        found = audit.compute_abstain_attack_results(scores, included)
        largest.append(float(found["eps_opt"]))
        found = audit.compute_abstain_attack_results_for_k_pos_k_neg(
            scores, included, scores.size - quarter, quarter
        )
        fixed.append(float(found["eps"]))
    print(json.dumps([largest, fixed]))


if __name__ == "__main__":
    main()
