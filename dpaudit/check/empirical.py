"""Empirical certificates: lower bounds of membership audits, confirmed from their counts.

They hold lower bounds alone; nothing in them bounds a leak from above.  The theorems are restated
here and evaluated in Arb, without the code that searched for the bounds:

* one run, epsilon (Steinke, Nasr and Jagielski 2023; the term with delta as derived in
  ``dpaudit/audit/bounds/one_run.py``): with q = e^epsilon / (1 + e^epsilon), W ~ Binomial(r, q) and
  beta = P[W >= v], at a price lambda >= 0 of a unit of cost,
  P[at least v of r guesses correct] <= m delta lambda
  + max over 0 <= j <= v of (beta - lambda j P[W = j]) / P[W >= j], and at delta = 0 <= beta;
* one run, mu (Mahloujifar, Melis and Chaudhuri 2024): the recursion of
  ``dpaudit/audit/bounds/one_run_curves.py`` from R_v = error passes 1;
* independent coins of one unit (Kairouz, Oh and Viswanath 2015, theorem 3.4; as derived in
  ``dpaudit/membership/coins.py``): with B ~ Binomial(m, delta),
  P[at least v of r guesses correct] <= sum over b of P[B = b] P[Binomial(r - b, 1 - q) <= r - v];
* independent runs: Clopper-Pearson at half the error for each rate, and
  1 - FNR <= e^epsilon FPR + delta, or mu >= -Phi^-1(FPR) - Phi^-1(FNR).
"""

from __future__ import annotations

from fractions import Fraction

from dpaudit.check.normal import normal_cdf, quantile
from dpaudit.check.rates import HELD_BITS, implied, is_upper
from dpaudit.check.reading import Json, decimal, require
from dpaudit.check.unchecked import Unchecked
from dpaudit.exact import enclose, working_precision
from dpaudit.exact.effort import spend
from dpaudit.exact.wire import digest

# Fields of such a certificate that are not re-derived, and why.
UNCHECKED = (
    Unchecked(
        "nobody can derive them from the file; the signer answers for them",
        (
            "issued",
            "tool",
            "target",
            "data",
            "scope",
            "study",
            "claim",
            "confidence",
            "estimates",
            "exposure",
            "findings",
            "best",
            "lower_bounds attack",
            "lower_bounds words",
            "verdict reason",
            "verdict underpowered",
        ),
    ),
    Unchecked(
        "lower bounds, which follow from more right guesses, at a larger error or delta too",
        (
            "lower_bounds counts",
            "lower_bounds value",
            "lower_bounds error",
            "lower_bounds delta",
            "lower_bounds role",
            "epochs",
        ),
    ),
    Unchecked(
        "a prover's choice: the conclusion was derived from what stands here",
        ("lower_bounds witness",),
    ),
)
MOST_GUESSES = 200_000  # a sum of so many exact terms takes a minute
_LEFT = Fraction(1, 10**8)
LARGEST_ERROR = Fraction(1, 20)
# Parts of a certificate that no checker can re-derive.
ON_TRUST = (
    "that the coins were drawn and committed to before training: compare the commitment",
    "counts, estimates, intervals, exposure and findings: run the study again",
)


def check_empirical(certificate: Json) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Confirm an empirical certificate that fits its schema: what was re-derived, and what not.

    Errors: CertificateRejected naming the first part that was changed or does not follow.
    """
    predicate = certificate["predicate"]
    changed = "the predicate does not have the recorded digest: the certificate was changed"
    require(certificate["subject"][0]["digest"]["sha256"] == digest(predicate), changed)
    bounds = predicate["lower_bounds"]
    for number, row in enumerate(bounds):
        place = f"lower bound {number + 1} ({row['attack'][:40]})"
        _in_study(row, predicate["study"], place)
        _follows(row, place)
    _verdict(predicate)
    _epochs(predicate)
    refute_at = decimal(predicate["confidence"]["refute_at"])
    require(refute_at <= LARGEST_ERROR, f"it refutes at an error above {LARGEST_ERROR}")
    confirmed = ("digest of the predicate", f"{len(bounds)} lower bounds, from their counts")
    return (*confirmed, "the verdict"), ON_TRUST


def _in_study(row: Json, study: Json, place: str) -> None:
    """Counts are of no more coins than the target models have."""
    counts, targets = row["counts"], study["models"] - study["references"]
    require(targets >= 1, "the study has no target models")
    if row["method"] == "one_run":
        coins = targets * study["units"]
        require(counts["canaries"] <= coins, f"{place}: more coins than the study has")
        return
    if row["method"] == "independent_coins":
        require(counts["canaries"] <= targets, f"{place}: more coins than target models")
        return
    trials = counts["trials_null"] + counts["trials_alternative"]
    require(trials <= targets, f"{place}: more trials than target models")


def _follows(row: Json, place: str) -> None:
    value, error = decimal(row["value"]), decimal(row["error"])
    delta = decimal(row["delta"])
    require(0 < error < 1 and 0 <= delta < 1, f"{place}: its error or delta is no probability")
    if value == 0:
        return
    require(row["method"] in _METHODS, f"{place}: an unknown method")
    follows = _METHODS[row["method"]](row, value, error, delta)
    require(follows, f"{place}: it does not follow from its counts")


def _one_run(row: Json, value: Fraction, error: Fraction, delta: Fraction) -> bool:
    counts = row["counts"]
    correct, guesses, canaries = (counts[name] for name in ("correct", "guesses", "canaries"))
    require(0 <= correct <= guesses <= canaries, "guesses: more correct or made than possible")
    require(guesses <= MOST_GUESSES, f"guesses: more than {MOST_GUESSES:,}")
    if row["measure"] == "mu":
        return _recursion(correct, guesses, canaries, value, error)
    return _priced(
        correct, guesses, value, error, canaries * delta, decimal(row["witness"]["price"])
    )


def _priced(
    correct: int, guesses: int, epsilon: Fraction, error: Fraction, slack: Fraction, price: Fraction
) -> bool:
    """The theorem's bound on P[at least ``correct`` right] is at most ``error``."""
    require(price >= 0, "the price of a unit of cost is negative")
    if correct == 0:
        return False
    import flint

    with flint.ctx.workprec(HELD_BITS + 64):
        share = 1 / (1 + (-enclose(epsilon)).exp())
        odds = share / (1 - share)
        lambda_ = enclose(price)
        # P[W = r], and downwards by ratios of neighbours.
        mass = share**guesses
        tail = flint.arb(0)
        beta, worst = flint.arb(0), flint.arb(0)
        for j in range(guesses, -1, -1):
            spend()
            tail = tail + mass
            if j == correct:
                beta = tail
            if j <= correct:
                value = (beta - lambda_ * j * mass) / tail
                worst = worst.max(value)
                # Without a price only j = 0 counts: tails grow as j falls.
                if price == 0:
                    worst = beta
                    break
            mass = mass * j / ((guesses - j + 1) * odds)
        total = worst + enclose(slack) * lambda_
        if slack > 0 and price == 0:
            return False
        return bool(total <= enclose(error))


def _coins(row: Json, epsilon: Fraction, error: Fraction, delta: Fraction) -> bool:
    """Whether so many correct guesses have probability ``error`` at most under the claim."""
    counts = row["counts"]
    correct, guesses, coins = (counts[name] for name in ("correct", "guesses", "canaries"))
    require(0 <= correct <= guesses <= coins, "guesses: more correct or made than possible")
    require(guesses <= MOST_GUESSES, f"guesses: more than {MOST_GUESSES:,}")
    require(row["measure"] == "epsilon", "coins bound epsilon alone")
    import flint

    with flint.ctx.workprec(HELD_BITS + 64):
        wrong_rate = 1 / (1 + enclose(epsilon).exp())
        chance, remaining = (1 - enclose(delta)) ** coins, flint.arb(1)
        total = flint.arb(0)
        for flipped in range(coins + 1):
            guesses_left = max(guesses - flipped, 0)
            mass = (1 - wrong_rate) ** guesses_left
            under = mass
            for wrong in range(1, min(guesses - correct, guesses_left) + 1):
                spend()
                mass = mass * (guesses_left - wrong + 1) / wrong * wrong_rate / (1 - wrong_rate)
                under = under + mass
            total, remaining = total + chance * under, remaining - chance
            # The remaining chance counts in full; beyond this its share of the error decides
            # nothing.
            if delta == 0 or remaining < enclose(error) * enclose(_LEFT):
                break
            chance = (
                chance * (coins - flipped) / (flipped + 1) * enclose(delta) / (1 - enclose(delta))
            )
        return bool(total + (remaining if delta else 0) <= enclose(error))


def _recursion(correct: int, guesses: int, canaries: int, mu: Fraction, error: Fraction) -> bool:
    """R_j for j = correct, ..., 0 from R_correct = ``error``: more than 1 is a contradiction."""
    with working_precision():
        reached = enclose(error)
        total, shift = reached, enclose(mu)
        for j in range(correct, 0, -1):
            spend()
            y = ((j - 1) * reached + total) / canaries
            needed = canaries * (normal_cdf(quantile(y) - shift) if y < 1 else 1)
            reached = reached.max((needed + total) / (guesses - j + 1))
            if reached > 1:
                return True
            total = total + reached
    return False


def _independent(row: Json, value: Fraction, error: Fraction, delta: Fraction) -> bool:
    counts, rates = row["counts"], []
    for kind, trials in (("positive", "trials_null"), ("negative", "trials_alternative")):
        count, size = counts[f"false_{kind}s"], counts[trials]
        require(0 <= count <= size and size >= 1, "counts: more errors than trials")
        upper = decimal(row["witness"][f"false_{kind}_rate_upper"])
        follows = is_upper(count, size, upper, error / 2)
        require(follows, f"the false {kind} rate is not bounded by its count")
        rates.append(enclose(min(upper, Fraction(1))))
    bound = implied((rates[0], rates[1]), None if row["measure"] == "mu" else delta)
    with working_precision():
        return bool(enclose(value) <= bound)


_METHODS = {
    "one_run": _one_run,
    "independent_coins": _coins,
    "independent_runs": _independent,
}


def _verdict(predicate: Json) -> None:
    """Refuted where the decisive bound is above the claim; nothing is ever passed."""
    claim, verdict = predicate["claim"], predicate["verdict"]["status"]
    decisive = [row for row in predicate["lower_bounds"] if row["role"] == "decisive"]
    voids = any(finding["voids"] for finding in predicate["findings"])
    require(not (voids and predicate["lower_bounds"]), "bounds although a finding voids them")
    require(len(decisive) <= 1, "more than one decisive bound")
    if claim is None or not decisive:
        require(verdict == "empirical", "a verdict without a claim or a decisive bound")
        return
    row = decisive[0]
    same = row["measure"] == claim["measure"] and row["delta"] == claim["delta"]
    require(same, "the decisive bound is in another measure than the claim")
    allowed = decimal(predicate["confidence"]["refute_at"])
    require(decimal(row["error"]) <= allowed, "a larger error than that of a refutation")
    above = decimal(row["value"]) > decimal(claim["value"])
    require(verdict == ("refuted" if above else "inconclusive"), "the verdict does not follow")


def _epochs(predicate: Json) -> None:
    """Bounds along training follow from their counts as all do."""
    for row in predicate["epochs"]:
        place = f"epoch {row['epoch']}"
        _in_study(row["bound"], predicate["study"], place)
        _follows(row["bound"], place)
