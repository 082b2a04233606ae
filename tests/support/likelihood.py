"""Programs whose true epsilon is known, and audits of them by likelihoods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from scipy.stats import norm

import dpaudit as dp
from dpaudit.accountant.account import Account
from dpaudit.audit.attack import attack
from dpaudit.audit.bounds.weighted import Bet, CountedLosses, PilotLosses, Sought
from dpaudit.audit.likelihood import Search, Tried, Wanted, likelihood_audit
from dpaudit.audit.verdict import DecisionBudget, lens, lower_for, printed_delta, raw
from dpaudit.curator.proposal import Proposal, proposed
from dpaudit.exact import is_infinite
from dpaudit.kernels.query import Array, ClippedMean, Records
from tests.support.kernels import Written

SCOPE = dp.central("zero_out")
VALUES = np.array([[1.0], [0.0], [0.0]])
PAIR = Records(VALUES), Records(VALUES, np.array([False, True, True]))
ROUNDS = 4
ERROR, RUNS, PILOT = 0.05, 200, 50
DELTAS = ("1e-2", "1e-5", "1e-10", "1e-15")
DELTA, RENYI, BAND = "delta at an epsilon", "divergence of order 4", "band of the profile"
NUMBERS = (
    *(f"epsilon at {delta}" for delta in DELTAS), "pure epsilon", "mu", "rho", RENYI, DELTA, BAND
)  # fmt: skip
Kind = TypeVar("Kind", PilotLosses, CountedLosses)


def mean(**options: Any) -> ClippedMean:
    return ClippedMean(lambda z: z[None], 1.0, **{"divisor": 1.0, **options})


def turned(seen: Array, **options: Any) -> ClippedMean:
    """A record's number, its sign by what was released before."""
    sign = np.where(seen > 0, 1.0, -1.0)[:, None, :]
    return mean(**options) if not seen.any() else ClippedMean(
        lambda z: z[None] * sign, 1.0, **{"divisor": 1.0, **options}
    )  # fmt: skip


def _once(curator: Any) -> None:
    curator.release("a", mean())


def _laplace(curator: Any) -> None:
    curator.release("a", mean(norm="l1"))


def _adaptive(curator: Any) -> None:
    seen = np.zeros((curator.trials, 1))
    for _ in range(ROUNDS):
        seen = curator.release("a", turned(seen))


def _sampled(curator: Any) -> None:
    seen = np.zeros((curator.trials, 1))
    for _ in range(ROUNDS):
        with curator.batch("a") as batch:
            seen = curator.release("a", turned(seen), rows=batch)


def _in_turns(curator: Any) -> None:
    for k in range(len(VALUES)):
        curator.release("a", mean(), rows=curator.part(k, (1,) * len(VALUES)))


class _Votes:
    """Two candidates, of which each record votes for one: randomised response of one record."""

    norm = "linf"

    def sensitivity(self, adjacency: Any, size: int) -> Array:
        return np.array(1.0)

    def value(self, records: Records, chosen: Any = None) -> Array:
        votes = (records.values[:, 0] * records.present).sum()
        return np.array([[votes, 1.0 - votes]])


def _votes(curator: Any) -> None:
    curator.release("a", _Votes())


# Programs with a shift for each delta, and the chance that a batch holds the loud record.
PROGRAMS: dict[str, tuple[Written, float]] = {
    "gaussian": (Written(dp.Gaussian("a", 1), _once), 0.0),
    "laplace": (Written(dp.Laplace("a", 1), _laplace), 0.0),
    "response": (Written(dp.ExponentialMechanism("a", 1), _votes), 0.0),
    "adaptive": (Written(dp.Repeat(dp.Gaussian("a", 4), ROUNDS), _adaptive), 0.0),
    "correlated": (Written(dp.CorrelatedGaussian("a", 2, len(VALUES)), _in_turns), 0.0),
    "sampled": (
        Written(dp.Repeat(dp.PoissonSampled(dp.Gaussian("a", 1), "0.1"), ROUNDS), _sampled), 0.4
    ),
}  # fmt: skip


@lru_cache
def truth(name: str, delta: str) -> float:
    """The accounted epsilon, which these data sets attain; of a response by one vote of two."""
    if name == "response":  # p = 1 / (1 + e^-1/2) and delta = p - e^epsilon (1 - p)
        return math.log(math.exp(0.5) - float(delta) * (1 + math.exp(0.5)))
    return float(dp.account(PROGRAMS[name][0].node, SCOPE).epsilon(delta).upper)


def losses(
    name: str, kind: Any, runs: int, shift: float, seed: Sequence[int], pair: Any = PAIR
) -> Any:
    program, include = PROGRAMS[name]
    found, _ = proposed(
        program, program.node, SCOPE, pair, rng=np.random.default_rng(seed), trials=runs,
        proposal=Proposal(shift, include),
    )  # fmt: skip
    return kind(found.losses, found.log_weights)


def shift_of(name: str, delta: str) -> float:
    """A shift that a short search on runs of its own prefers."""
    sought = Sought("epsilon", float(delta))
    tried = [(0.0, -1.0)]
    for k, shift in enumerate((0.5, 1.0, 1.5, 2.5, 4.0, 6.0, 10.0, 30.0, 60.0)):
        pilot = losses(name, PilotLosses, 400, shift, (9, k))
        tried.append((shift, Bet.of(pilot, sought, 200, 0.05).promise(pilot, 200)))
    return max(tried, key=lambda one: one[1])[0]


def _audits(name: str, shift: float, audits: int, runs: int) -> Iterator[tuple[Any, Any]]:
    """The pilot and the counted runs of many audits of one program."""
    pilots = losses(name, PilotLosses, PILOT * audits, shift, (1,))
    counted = losses(name, CountedLosses, runs * audits, shift, (2,))
    for k in range(audits):
        yield tuple(
            type(of)(of.losses[k * n : (k + 1) * n], of.log_weights[k * n : (k + 1) * n])
            for of, n in ((pilots, PILOT), (counted, runs))
        )


def bounds(name: str, delta: str, audits: int, runs: int = RUNS) -> Array:
    """Bounds on epsilon of many audits of one program, each with a pilot of its own."""
    sought, shift = Sought("epsilon", float(delta)), shift_of(name, delta)
    return np.array(
        [
            Bet.of(pilot, sought, runs, ERROR).lower(counted)
            for pilot, counted in _audits(name, shift, audits, runs)
        ]
    )


@lru_cache
def accounted(name: str, guarantee: Any) -> float | None:
    """The accounted number of a measure, which no bound may exceed; None where there is none."""
    account = Account(PROGRAMS[name][0].node, SCOPE)
    step = dp.Claim(guarantee, by="a test").check_account(account).step
    value = None if step is None else step.value
    value = value[0] if isinstance(value, tuple) else value
    if isinstance(guarantee, dp.RenyiDP) and value is not None:  # a curve over the orders
        value = value.subs(dict.fromkeys(value.free_symbols, guarantee.order)).doit().evalf()
    return None if value is None or is_infinite(value) else float(value)


def truths(name: str) -> dict[str, float]:
    """The true or accounted value of every number that an audit of a program bounds."""
    deltas = [d for d in DELTAS if (name, d) != ("sampled", "1e-15")]
    found: dict[str, float | None] = {f"epsilon at {d}": truth(name, d) for d in deltas}
    # A response's accounted pure epsilon is that of two candidates which both move.
    found["pure epsilon"] = 0.5 if name == "response" else accounted(name, dp.PureDP(9))
    found["mu"], found["rho"] = accounted(name, dp.GDP(9)), accounted(name, dp.ZCDP(9))
    found[RENYI] = accounted(name, dp.RenyiDP(4, 9))
    return {number: value for number, value in found.items() if value is not None}


def likely_above(name: str, audits: int, runs: int = RUNS) -> dict[str, int]:
    """How many likelihood bounds of a program are above the truth, number by number."""
    found = dict.fromkeys([*truths(name), DELTA, BAND], 0)
    for number in found:
        delta = {"pure epsilon": "1e-12", "mu": "1e-6", "rho": "1e-6", RENYI: "1e-6"}.get(
            number, number.removeprefix("epsilon at ") if "epsilon at" in number else "1e-5"
        )
        shift = shift_of(name, delta)
        for pilot, counted in _audits(name, shift, audits, runs):
            found[number] += _is_above(name, number, shift, pilot, counted)
    return found


def _is_above(name: str, number: str, shift: float, pilot: Any, counted: Any) -> bool:
    if number in (DELTA, RENYI):
        epsilon = truth(name, "1e-5")
        sought = Sought("delta", epsilon) if number == DELTA else Sought("divergence", 4.0)
        exact = 1e-5 if number == DELTA else truths(name)[number]
        found = Bet.of(pilot, sought, len(counted), ERROR).lower(counted)
        return bool(found > exact * (1 + 1e-9))
    delta = Fraction(number.removeprefix("epsilon at ") if "epsilon at" in number else "1e-5")
    kind = number if number in ("mu", "rho") else "epsilon"
    at = Fraction(0) if number == "pure epsilon" or kind != "epsilon" else delta
    wanted = Wanted(kind, at)
    search = Search([wanted], (ERROR, 1e-6), runs=len(counted), pilot=len(pilot))
    best = Tried(0, Proposal(shift, PROGRAMS[name][1]), pilot, 0.0, 0.0)
    if number == BAND:
        return any(
            p.epsilon > truth(name, f"{float(p.delta):.2e}") + 1e-9
            for p in search.band(best, counted)
        )
    return bool(search.bound(wanted, best, counted).shown > truths(name)[number] + 1e-9)


def plain_above(name: str, audits: int, trials: int = 500) -> dict[str, int]:
    """How many counted bounds of a program are above the truth: whole attacks, a seed each."""
    program, exact = PROGRAMS[name][0], truths(name)
    claims: dict[str, Any] = {f"epsilon at {d}": dp.ApproxDP(9, d) for d in DELTAS}
    claims |= {"pure epsilon": dp.PureDP(9), "mu": dp.GDP(9), "rho": dp.ZCDP(9)}
    asked = {k: dp.Claim(c, by="a test") for k, c in claims.items() if k in exact}
    mechanism = dp.Mechanism("plain", "A sum", "a test", program, SCOPE, list(asked.values()))
    neighbours = dp.Neighbours(*PAIR, dp.Adjacency("zero_out"), "a record of 1, or none")
    suite, budget = dp.Suite("plain", program, neighbours, trials=trials), DecisionBudget(1, 1)
    found = dict.fromkeys(asked, 0)
    for seed in range(audits):
        seen = attack(mechanism, suite, seed=seed, error=1e-6)
        lensed = lens(seen, budget)
        for number, claim in asked.items():
            delta = printed_delta(claim)
            counted = None if delta is None else raw(seen, budget, delta)
            bound = lower_for(claim, lensed, counted)
            found[number] += bound is not None and bound.shown > exact[number] + 1e-9
    return found


def whole_above(name: str, audits: int) -> int:
    """How many bounds at 1e-5 are above the truth, of audits that search their own proposals."""
    program = PROGRAMS[name][0]
    claims = [dp.Claim(dp.ApproxDP(9, "1e-5"), by="a test")]
    neighbours = dp.Neighbours(*PAIR, dp.Adjacency("zero_out"), "a record of 1, or none")
    found = 0
    for seed in range(audits):
        (bound,) = likelihood_audit(
            program, program.node, SCOPE, neighbours, claims, seed=seed, runs=RUNS,
            shown_error=ERROR, decisive_error=1e-6,
        ).bounds  # fmt: skip
        found += bound.shown > truth(name, "1e-5") + 1e-9
    return found


def gaussian(kind: type[Kind], mu: float, shift: float, runs: int, seed: int) -> Kind:
    """Of N(0, 1) against N(mu, 1), drawn from N(-shift mu, 1) but for one run in ten."""
    rng = np.random.default_rng(seed)
    moved = np.where(rng.random(runs) < 0.1, 0.0, shift * mu)
    noise = rng.standard_normal(runs) - moved
    lean = -shift * mu * noise - (shift * mu) ** 2 / 2
    return kind(mu**2 / 2 - mu * noise, -np.logaddexp(np.log(0.1), np.log(0.9) + lean))


def refuted_truths(heavier: float, audits: int, runs: int = 400_000) -> int:
    """How many audits refute the true delta of a Gaussian whose weights are multiplied."""
    delta = float(norm.cdf(0.5 - 1) - np.exp(1) * norm.cdf(-0.5 - 1))
    found = 0
    for seed in range(audits):
        pilot = gaussian(PilotLosses, 1.0, 0.5, 2000, seed)
        counted = gaussian(CountedLosses, 1.0, 0.5, runs, 10**6 + seed)
        weighed = CountedLosses(counted.losses, counted.log_weights + math.log(heavier))
        found += Bet.of(pilot, Sought("delta", 1.0), runs, ERROR).refutes(weighed, delta)
    return found


def allowed(audits: int) -> float:
    """5% of audits and two standard errors."""
    return ERROR * audits + 2 * math.sqrt(ERROR * (1 - ERROR) * audits)
