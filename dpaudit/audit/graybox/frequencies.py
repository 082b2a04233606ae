"""Secret batches: whether records are in them as often, and as independently, as declared."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from dpaudit.audit.residuals import Finding
from dpaudit.curator.entitlement import Mask, sampling_numbers
from dpaudit.errors import InvalidParameter
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node

CHECK = "sampling frequencies"
OUTWARD = 1 + 1e-9  # what SciPy's binomial tails may be off by
Counts = NDArray[np.int64]


class Counted(NamedTuple):
    """``seen`` of ``of`` draws at a ``rate``, the worst ``among`` so many, and log of its p-value.

    The p-value is of this one count.
    """

    log_p: float
    seen: int
    of: int
    rate: float
    among: int
    detail: str


class _Tallied(NamedTuple):
    """How often each record was in something that happened ``of`` times, with chance ``rate``."""

    what: str
    counts: Counts
    of: int
    rate: float


@dataclass
class _Tally:
    """Counts of one sampling over so many rows, batch by batch: no batch is kept."""

    sampling: Node
    size: int
    batches: int = 0
    successive: int = 0
    neighbouring: int = 0
    wrong_sizes: set[int] = field(default_factory=set)
    counts: list[Counts] = field(default_factory=list)
    before: Mask | None = None

    def __post_init__(self) -> None:
        self.counts = [np.zeros(self.size, dtype=np.int64) for _ in range(3)]

    def add(self, chosen: Mask) -> None:
        """Count one batch a trial, (trials, n)."""
        trials = len(chosen)
        self.batches += trials
        self.counts[0] += chosen.sum(axis=0)
        even = trials // 2 * 2
        self.neighbouring += even // 2
        self.counts[2] += (chosen[0:even:2] & chosen[1:even:2]).sum(axis=0)
        if self.before is None or len(self.before) != trials:
            self.before = chosen
        else:
            self.successive += trials
            self.counts[1] += (self.before & chosen).sum(axis=0)
            self.before = None
        if not isinstance(self.sampling, PoissonSampled):
            sizes = {int(n) for n in np.unique(chosen.sum(axis=1))}
            self.wrong_sizes |= sizes - {int(sampling_numbers(self.sampling)[0])}

    def counted(self) -> list[_Tallied]:
        numbers = sampling_numbers(self.sampling)
        poisson = isinstance(self.sampling, PoissonSampled)
        rate = numbers[0] if poisson else numbers[0] / numbers[1]
        rows = (
            _Tallied("batches", self.counts[0], self.batches, rate),
            _Tallied("pairs of successive batches", self.counts[1], self.successive, rate**2),
            _Tallied("pairs of trials' batches", self.counts[2], self.neighbouring, rate**2),
        )
        return [row for row in rows if row.of]


class Frequencies:
    """Inclusion counts of secret batches, gathered as they are drawn."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[Node, int], _Tally] = {}

    def add(self, sampling: Node, chosen: Mask) -> None:
        """Count the batches of one step, (trials, n)."""
        key = (sampling, chosen.shape[1])
        self._tallies.setdefault(key, _Tally(*key)).add(chosen)

    def check(self, error: float) -> Finding:
        """Test what was counted against what is declared.

        Under the declaration a record is in a batch with probability q (the rate, or batch size
        over population), independently over steps and trials.  So the number of batches that hold
        it is Bin(batches, q), and the number of disjoint pairs of successive steps, or of
        neighbouring trials, that both hold it is Bin(pairs, q^2).  Exact binomial tails,
        Bonferroni over records and statistics; under Poisson sampling the totals over all records
        are binomial too.  A batch without replacement must have its declared size exactly.
        ``broken`` has probability at most ``error`` if batches are drawn as declared.
        Errors: InvalidParameter for an error rate outside (0, 1).
        """
        if not 0 < error < 1:
            raise InvalidParameter(f"error = {error!r}: expected in (0, 1)")
        if not self._tallies:
            return Finding(CHECK, "not_run", math.nan, error, "no secret batch was drawn")
        for tally in self._tallies.values():
            if tally.wrong_sizes:
                declared = int(sampling_numbers(tally.sampling)[0])
                detail = f"a batch of {min(tally.wrong_sizes)} records, declared {declared}"
                return Finding(CHECK, "broken", float(len(tally.wrong_sizes)), 0.0, detail)
        tests = [test for tally in self._tallies.values() for test in _tests(tally)]
        worst = min(tests, key=lambda test: test.log_p + math.log(test.among))
        return judged(worst, len(tests), error)


def judged(worst: Counted, among: int, error: float) -> Finding:
    """What the worst of so many tests says."""
    among *= worst.among
    p = math.exp(min(worst.log_p + math.log(among), 0.0))
    text = f"{worst.detail}; p <= {p:.2g}, broken at {error:.2g}"
    return Finding(
        CHECK,
        "broken" if p <= error else "held",
        float(worst.seen),
        error,
        text,
        p_value=p,
        law="binomial",
        size=worst.of,
        among=among,
        parameter=worst.rate,
    )


def check_frequencies(batches: Iterable[tuple[Node, Mask]], error: float) -> Finding:
    """Test recorded batches, (sampling, (trials, n) membership) a step: see Frequencies.check."""
    frequencies = Frequencies()
    for sampling, chosen in batches:
        frequencies.add(sampling, chosen)
    return frequencies.check(error)


def _tests(tally: _Tally) -> list[Counted]:
    """The worst record of each statistic, and the totals."""
    found: list[Counted] = []
    for what, counts, of, rate in tally.counted():
        tails = _two_sided(counts, of, rate)
        worst = int(np.argmin(tails))
        count = int(counts[worst])
        text = f"a record is in {count} of {of} {what}, declared {rate:.4g} of them"
        found.append(Counted(_log(tails[worst]), count, of, rate, tally.size, text))
        if isinstance(tally.sampling, PoissonSampled):
            total, draws = int(counts.sum()), of * tally.size
            tail = _two_sided(np.array([total]), draws, rate)[0]
            text = f"records are in {total / tally.size:.4g} of {of} {what} on average"
            text = f"{text}, declared {rate:.4g} of them"
            found.append(Counted(_log(tail), total, draws, rate, 1, text))
    return found


def _log(tail: float) -> float:
    return math.log(tail) if tail > 0 else -math.inf


def _two_sided(counts: Counts, trials: int, rate: float) -> NDArray[np.float64]:
    """2 min(P[Bin <= k], P[Bin >= k]), rounded up."""
    lower = bdtr(counts.astype(np.float64), trials, rate)
    upper = np.where(counts > 0, bdtrc(np.maximum(counts, 1) - 1.0, trials, rate), 1.0)
    found: NDArray[np.float64] = 2 * OUTWARD * np.minimum(lower, upper)
    return found
