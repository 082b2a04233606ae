"""Secret batches: whether records are in them as often, and as independently, as declared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from dpaudit.audit.residuals import Finding
from dpaudit.check.laws import is_broken, p_value
from dpaudit.curator.entitlement import Mask
from dpaudit.errors import InvalidParameter
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.batches import Batches, batches_of
from dpaudit.nodes import Node

CHECK = "sampling frequencies"
ROUND_UP = 1 + 1e-9  # Factor above the relative rounding error of SciPy's binomial tails.
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
    wrong: dict[str, None] = field(default_factory=dict)
    counts: list[Counts] = field(default_factory=list)
    before: Mask | None = None

    def __post_init__(self) -> None:
        self.counts = [np.zeros(self.size, dtype=np.int64) for _ in range(3)]

    @property
    def drawn(self) -> Batches:
        return batches_of(self.sampling)

    def add(self, chosen: Mask, index: int) -> None:
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
        self.check_sizes(chosen)

    def check_sizes(self, chosen: Mask) -> None:
        """Note sizes that no draw as declared can have."""
        size, most = self.drawn.size, self.drawn.most
        for count in np.unique(chosen.sum(axis=1)).tolist():
            if (size and count != size) or (most and count > most):
                declared = f"{size}" if size else f"at most {most}"
                self.wrong.setdefault(f"a batch of {count} records, declared {declared}")

    def counted(self) -> list[_Tallied]:
        rate = self.drawn.share(self.size)
        rows = (
            _Tallied("batches", self.counts[0], self.batches, rate),
            _Tallied("pairs of successive batches", self.counts[1], self.successive, rate**2),
            _Tallied("pairs of trials' batches", self.counts[2], self.neighbouring, rate**2),
        )
        return [row for row in rows if row.of and self.size]


@dataclass
class _Slots(_Tally):
    """Counts of a sampling whose batches are drawn together, a pass at a time, by slot."""

    in_slot: list[Counts] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.in_slot = [np.zeros(self.size, dtype=np.int64) for _ in range(self.drawn.slots)]

    def of_slots(self, rate: float) -> list[_Tallied]:
        """How often each record was in each slot."""
        return [
            _Tallied(f"batches number {slot + 1} of a pass", counts, self.batches, rate)
            for slot, counts in enumerate(self.in_slot)
        ]


@dataclass
class _Passes(_Slots):
    """Counts of a sampling that puts each record into one slot of a pass.

    A pass is counted where all its batches were noted.  ``places``: (trials, n), the slot of each
    record in the pass that is open, -1 where it was in none so far.
    """

    places: Counts | None = None
    last: Counts | None = None
    noted: int = 0

    def add(self, chosen: Mask, index: int) -> None:
        """Note one batch of a pass."""
        self.check_sizes(chosen)
        visit, slot = index % self.drawn.length, self.drawn.slot(index)
        if self.drawn.public and (chosen != self._public(slot)).any():
            self.wrong.setdefault(f"batch {slot + 1} of a public order holds other records")
        if visit == 0 or self.places is None or len(self.places) != len(chosen):
            self.places, self.noted = np.full(chosen.shape, -1), 0
        self.noted += 1
        if (chosen & (self.places >= 0) & (self.places != slot)).any():
            self.wrong.setdefault("a record is in two different batches of one pass")
        if (~chosen & (self.places == slot)).any():
            self.wrong.setdefault("a batch that comes again has lost a record")
        self.places = np.where(chosen, slot, self.places)
        if self.noted == self.drawn.length and visit == self.drawn.length - 1:
            self._count(self.places)
            self.places = None

    def _public(self, slot: int) -> Mask:
        rng = np.random.default_rng(0)  # decides nothing
        return np.asarray(self.drawn.assign(1, self.size, rng) == slot)

    def _count(self, places: Counts) -> None:
        if (places < 0).any():
            self.wrong.setdefault("a record is in no batch of a pass")
        trials = len(places)
        self.batches += trials
        for slot, counts in enumerate(self.in_slot):
            counts += (places == slot).sum(axis=0)
        even = trials // 2 * 2
        self.neighbouring += even // 2
        self.counts[2] += (places[0:even:2] == places[1:even:2]).sum(axis=0)
        if self.last is None or len(self.last) != trials:
            self.last = places
        else:
            self.successive += trials
            self.counts[1] += (self.last == places).sum(axis=0)
            self.last = None

    def counted(self) -> list[_Tallied]:
        rate = self.drawn.share(self.size)
        if self.drawn.public or rate == 1:
            return []
        rows = self.of_slots(rate)
        rows += [
            _Tallied("pairs of passes at one place", self.counts[1], self.successive, rate),
            _Tallied("pairs of trials at one place", self.counts[2], self.neighbouring, rate),
        ]
        return [row for row in rows if row.of]


@dataclass
class _SeveralSlots(_Slots):
    """Counts of a sampling that puts each record into several slots of a pass.

    A pass is counted where all its batches were noted.  ``pass_``: (slots, trials, n), who is in
    which batch of the pass that is open; ``last``: (trials, n), who was in the first batch of the
    pass before.
    """

    pass_: list[Mask] = field(default_factory=list)
    last: Mask | None = None
    with_first: list[Counts] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.with_first = [np.zeros(self.size, dtype=np.int64) for _ in self.in_slot[1:]]

    def add(self, chosen: Mask, index: int) -> None:
        """Note one batch of a pass."""
        slot = self.drawn.slot(index)
        if slot == 0:
            self.pass_ = []
        if len(self.pass_) == slot and all(len(batch) == len(chosen) for batch in self.pass_):
            self.pass_.append(chosen)
        if len(self.pass_) == self.drawn.slots:
            self._count(np.array(self.pass_))
            self.pass_ = []

    def _count(self, places: Mask) -> None:
        for times in np.setdiff1d(places.sum(axis=0), [self.drawn.draws]).tolist():
            self.wrong.setdefault(
                f"a record is in {times} batches of a pass, declared {self.drawn.draws}"
            )
        first, trials = places[0], places.shape[1]
        self.batches += trials
        for counts, batch in zip(self.in_slot, places, strict=True):
            counts += batch.sum(axis=0)
        for counts, batch in zip(self.with_first, places[1:], strict=True):
            counts += (first & batch).sum(axis=0)
        even = trials // 2 * 2
        self.neighbouring += even // 2
        self.counts[2] += (first[0:even:2] & first[1:even:2]).sum(axis=0)
        if self.last is None or len(self.last) != trials:
            self.last = first
        else:
            self.successive += trials
            self.counts[1] += (self.last & first).sum(axis=0)
            self.last = None

    def counted(self) -> list[_Tallied]:
        rate = self.drawn.share(self.size)
        if rate == 1:
            return []
        rows = self.of_slots(rate)
        both = rate * (self.drawn.draws - 1) / (self.drawn.slots - 1)
        rows += [
            _Tallied(f"batches number 1 and {slot + 2} of a pass", counts, self.batches, both)
            for slot, counts in enumerate(self.with_first)
        ]
        rows += [
            _Tallied("pairs of passes' first batches", self.counts[1], self.successive, rate**2),
            _Tallied("pairs of trials' first batches", self.counts[2], self.neighbouring, rate**2),
        ]
        return [row for row in rows if row.of and self.size]


class Frequencies:
    """Inclusion counts of secret batches, gathered as they are drawn."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[Node, int, Any], _Tally] = {}

    def add(self, sampling: Node, chosen: Mask, index: int = 0, part: Any = None) -> None:
        """Count the batches of one step, (trials, n): number ``index`` of its sampling and part."""
        drawn, size = batches_of(sampling), chosen.shape[1]
        may = drawn.eligible(drawn.slot(index), size)
        key = (sampling, size, part if drawn.draws else may.tobytes())
        kind = (_Tally, _Passes, _SeveralSlots)[min(drawn.draws, 2)]
        tally = self._tallies.setdefault(key, kind(sampling, int(may.sum())))
        if chosen[:, ~may].any():
            tally.wrong.setdefault("a batch holds a record of a group whose turn it is not")
        tally.add(chosen[:, may], index)

    def check(self, error: float) -> Finding:
        """Test what was counted against what is declared.

        Under the declaration a record is in a batch with probability q (the rate, or batch size
        over population), independently over steps and trials.  So the number of batches that hold
        it is Bin(batches, q), and the number of disjoint pairs of successive steps, or of
        neighbouring trials, that both hold it is Bin(pairs, q^2).  Exact binomial tails,
        Bonferroni over records and statistics; under Poisson sampling the totals over all records
        are binomial too.  A record is in a stated number of the batches that are drawn together: in
        each of them in Bin(passes, q) passes.  If it is in one, it is at the same place in
        Bin(pairs, q) of disjoint pairs of successive passes, or of trials; if in k of t, it is in
        both first batches in Bin(pairs, q^2) of them, and in the first and another batch in
        Bin(passes, q (k - 1) / (t - 1)) passes.  Sizes, places and public orders must be as
        declared.
        ``broken`` has probability at most ``error`` if batches are drawn as declared.
        Errors: InvalidParameter for an error rate outside (0, 1).
        """
        if not 0 < error < 1:
            raise InvalidParameter(f"error = {error!r}: expected in (0, 1)")
        if not self._tallies:
            return Finding(CHECK, "not_run", math.nan, error, "no secret batch was drawn")
        for tally in self._tallies.values():
            for detail in tally.wrong:
                return Finding(CHECK, "broken", float(len(tally.wrong)), 0.0, detail)
        tests = [test for tally in self._tallies.values() for test in _tests(tally)]
        if not tests:
            return Finding(CHECK, "not_run", math.nan, error, "no batch is left to chance")
        worst = min(tests, key=lambda test: test.log_p + math.log(test.among))
        return judged(worst, len(tests), error)


def judged(worst: Counted, among: int, error: float) -> Finding:
    """The finding of the worst among so many tests."""
    among *= worst.among
    p = p_value("binomial", worst.seen, worst.of, among, worst.rate)
    text = f"{worst.detail}; p <= {p:.2g}, broken at {error:.2g}"
    return Finding(
        CHECK,
        "broken" if is_broken(p, error) else "held",
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
    frequencies, uses = Frequencies(), Counter[Node]()
    for sampling, chosen in batches:
        frequencies.add(sampling, chosen, uses[sampling])
        uses[sampling] += 1
    return frequencies.check(error)


def _tests(tally: _Tally) -> list[Counted]:
    """The worst record of each statistic, and the totals."""
    tests: list[Counted] = []
    for batches_text, counts, of, rate in tally.counted():
        tails = _two_sided(counts, of, rate)
        worst = int(np.argmin(tails))
        count = int(counts[worst])
        text = f"a record is in {count} of {of} {batches_text}, declared {rate:.4g} of them"
        tests.append(Counted(_log(tails[worst]), count, of, rate, tally.size, text))
        if isinstance(tally.sampling, PoissonSampled):
            total, draws = int(counts.sum()), of * tally.size
            tail = _two_sided(np.array([total]), draws, rate)[0]
            text = f"records are in {total / tally.size:.4g} of {of} {batches_text} on average"
            text = f"{text}, declared {rate:.4g} of them"
            tests.append(Counted(_log(tail), total, draws, rate, 1, text))
    return tests


def _log(tail: float) -> float:
    return math.log(tail) if tail > 0 else -math.inf


def _two_sided(counts: Counts, trials: int, rate: float) -> NDArray[np.float64]:
    """2 min(P[Bin <= k], P[Bin >= k]), rounded up."""
    lower = bdtr(counts.astype(np.float64), trials, rate)
    upper = np.where(counts > 0, bdtrc(np.maximum(counts, 1) - 1.0, trials, rate), 1.0)
    p_values: NDArray[np.float64] = 2 * ROUND_UP * np.minimum(lower, upper)
    return p_values
