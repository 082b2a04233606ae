"""Bounds of jax-privacy and privacy-estimates, run by an interpreter that has them.

Reads questions from standard input, one JSON object a line: ``scores`` (a .npz file with arrays
``alternative`` and ``null``), ``delta``, ``error``, ``threshold`` (fixed beforehand, or null) and
``tools``; answers each with a line ``{tool: {"bound": epsilon, "seconds": time}}``.
"""

import json
import sys
import time

import numpy as np
from jax_privacy import auditing
from privacy_estimates import AttackResults, compute_eps_lo

SPLIT_SEED = 1


def jax(method, strategy=None):
    """A bound of jax-privacy's auditor of scores."""

    def run(question, alternative, null):
        auditor = auditing.CanaryScoreAuditor(alternative, null)
        options = {} if strategy is None else {"threshold_strategy": strategy(question)}
        if strategy is explicit:
            options["one_sided"] = False
        return getattr(auditor, method)(question["error"], question["delta"], **options)

    return run


def bonferroni(question):
    """All thresholds, each at a share of the error."""
    return auditing.Bonferroni()


def split(question):
    """Threshold from half of the scores, bound from the other half."""
    return auditing.Split(seed=SPLIT_SEED)


def multi_split(question):
    """The median over a hundred splits at half the error."""
    return auditing.MultiSplit(seed=SPLIT_SEED)


def explicit(question):
    """The threshold that was fixed beforehand."""
    return auditing.Explicit(question["threshold"])


def estimates(method, event):
    """A bound of privacy-estimates from the confusion matrix at a threshold."""

    def run(question, alternative, null):
        threshold = question["threshold"]
        if not event:
            half = auditing.CanaryScoreAuditor(
                alternative[: len(alternative) // 2], null[: len(null) // 2]
            )
            _, threshold = half._epsilon_clopper_pearson_all_thresholds(
                question["error"], question["delta"], True
            )
            alternative, null = alternative[len(alternative) // 2 :], null[len(null) // 2 :]
        hits, alarms = int(np.sum(alternative >= threshold)), int(np.sum(null >= threshold))
        counts = AttackResults(
            FN=len(alternative) - hits, FP=alarms, TN=len(null) - alarms, TP=hits
        )
        return compute_eps_lo(counts, question["delta"], question["error"], method)

    return run


TOOLS = {
    "jax Clopper-Pearson, all thresholds": jax("epsilon_clopper_pearson", bonferroni),
    "jax Clopper-Pearson, split": jax("epsilon_clopper_pearson", split),
    "jax Clopper-Pearson, 100 splits": jax("epsilon_clopper_pearson", multi_split),
    "jax Clopper-Pearson, fixed event": jax("epsilon_clopper_pearson", explicit),
    "jax epsilon_from_gdp": jax("epsilon_from_gdp"),
    "jax one run, all thresholds": jax("epsilon_one_run", bonferroni),
    "jax one run, split": jax("epsilon_one_run", split),
    "jax one run f-DP, split": jax("epsilon_one_run_fdp", split),
    "privacy-estimates beta, split": estimates("beta", False),
    "privacy-estimates jeffreys, split": estimates("jeffreys", False),
    "privacy-estimates joint-beta, split": estimates("joint-beta", False),
    "privacy-estimates beta, fixed event": estimates("beta", True),
    "privacy-estimates jeffreys, fixed event": estimates("jeffreys", True),
    "privacy-estimates joint-beta, fixed event": estimates("joint-beta", True),
}


def answer(question):
    """Every tool's bound and its seconds; a tool that fails says why."""
    with np.load(question["scores"]) as scores:
        alternative, null = scores["alternative"], scores["null"]
    answers = {}
    for tool in question["tools"]:
        start = time.perf_counter()
        try:
            bound = float(TOOLS[tool](question, alternative, null))
        except Exception as error:  # noqa: BLE001 (whatever another tool raises is its answer)
            answers[tool] = {"failed": f"{type(error).__name__}: {error}"}
            continue
        answers[tool] = {"bound": bound, "seconds": time.perf_counter() - start}
    return answers


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
