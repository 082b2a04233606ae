"""The check of one optimiser step: probes, tests and the names of faults.

The noise of a step is measured by repeating it; the effect of a record is the difference between
two runs with the same noise, with and without the record.  :mod:`dpaudit.membership.step.noise`
puts both into one number, which private training with noise multiplier z keeps below 1/z.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise, product
from typing import Any

import numpy as np
from scipy.stats import chi2, t

from dpaudit.errors import InvalidParameter
from dpaudit.membership import clock
from dpaudit.membership.data import Data, FloatArray
from dpaudit.membership.step.drawn import Drawn, contents, drawn, faults
from dpaudit.membership.step.lines import Line, named, traced
from dpaudit.membership.step.noise import MOVED, Noise
from dpaudit.membership.step.places import (
    BATCHES,
    CLIPS,
    COUNTS,
    KEPT,
    NOISES,
    READS,
    SEEDS,
    STATISTICS,
    SUMS,
    Places,
)  # fmt: skip
from dpaudit.membership.step.result import Fault
from dpaudit.membership.step.runs import (
    Batch,
    Make,
    Runner,
    Training,
    batches_of,
    described_function,
    first_failure,
)

_SECONDS = 0.25  # of repeating steps on one batch
_REPEATS = (16, 400)  # fewest and most repetitions of a step
_MORE = 8  # times as many, where a difference may be by chance
_STEPS = 3  # a step with the record, and two without records
_QUIET = 16  # records of the usual batch
_SIZES = 32  # numbers of updates whose sizes are compared
_SCALES = (1.0, 1e2, 1e4, 1e6)  # of a probe's features
_PROBED = 2  # records from which probes are made
_ROUNDING = 1e-3  # of a bound: how far single precision may pass it
_ALIKE = 0.02  # relative difference of two effects that are the same but for rounding
_LINKED = 3.5  # deviations of a correlation with the noise: beyond, means are compared instead
_ONE_DRAW = 0.95  # correlation of two steps whose noise is one
_TINY = 1e-2  # of a probe's features: a record that moves a step little
_FEW = 4  # sizes of the smallest batches, of no record and more
_CROWD = 100  # copies of one record, to see whether their sum is clipped
_GROWN = 5.0  # times a hundredfold record moves a step more: no norm bounds it
_SINGLE = 4e-7  # of a parameter: the rounding of a difference in single precision
_NOTHING = 1e-200  # squared length of noise that is none, whose logarithm is asked for
_SAME = 1e-3  # of an update: noise of two seeds differs by more
_LOADED = 200  # batches that a loader is asked for
_LOADING = 0.2  # seconds of asking it
_BY_CHANCE = 10  # rows that a loader gives for the first time, however its batches are drawn


@dataclass
class Check:
    """The tests of one training; ``faults``, ``notes`` and ``seen``, lower bounds on mu, grow."""

    make: Make
    data: Data
    multiplier: float
    error: float
    seed: int
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)
    runs: int = 0

    def __post_init__(self) -> None:
        self.all = Batch.of(self.data)
        self.usual = self.all.take(slice(0, min(_QUIET, len(self.all) // 2)))
        self.none = self.all.take(slice(0, 0))
        self.runner = Runner(self.make, self.data, root=self.seed)
        self.limit = 1 / self.multiplier
        self.base = self.none
        self.places = Places(self.runner, self.usual, list(self._probes())[-2:])

    # --- the order of the check ------------------------------------------------------------------

    def run(self) -> None:
        """Find the faults of a step; a fault ends the tests that it would disturb."""
        place = described_function(self.make)
        if first_failure(self._mixes, place):
            return
        first = first_failure(lambda: self.observed([self.usual], 1), place)
        if not np.isfinite(first).all():
            raise InvalidParameter(
                f"{place}: a step on {len(self.usual)} records makes parameters "
                " that are not finite; give records as training gets them"
            )
        self._empty()
        if not self._seeded():
            return
        self.noise = self._sampled([self.base] * _STEPS)
        self._linear()
        if self._skipped() or self._shared():
            return
        self.crowded = self._sampled([self.usual])
        self._by_count()
        self._shape()
        if not self._silent():
            self._effects()
        self._outside()
        self._evaluated()

    def observed(self, batches: list[Batch], seed: int, records: Data | None = None) -> FloatArray:
        self.runs += 1
        return self.runner.observed(batches, seed, records)

    def add(self, kind: str, words: str, line: Line | None) -> None:
        self.faults.append(Fault(kind, words, line))

    # --- what the training is --------------------------------------------------------------------

    def _mixes(self) -> bool:
        mixing: list[str] = getattr(self.runner.fresh(1), "mixing", list)()
        if mixing:
            self.add(
                "batch_norm",
                f"{', '.join(mixing)}: each record's output depends on the batch's other records, "
                "so that clipping one gradient bounds nothing; use GroupNorm or LayerNorm",
                named(self.places.made(), "BatchNorm", "batch_norm|norm"),
            )
        return bool(mixing)

    def _empty(self) -> None:
        """Whether a step on no records works: only then its noise is seen alone."""
        try:
            steps = self.observed([self.none] * _STEPS, 1)
        except InvalidParameter:
            raise
        except Exception as error:  # noqa: BLE001 (of the program)
            steps, why = np.array([np.nan]), f"raises {type(error).__name__}"
        else:
            why = "makes parameters that are not finite"
        if not np.isfinite(steps).all():
            self.base = self.all.take(slice(0, 1))
            self.notes.append(
                f"a step on no records, which Poisson sampling may draw, {why}; whether "
                "gradients are zeroed after a step is not checked without it"
            )

    def _seeded(self) -> bool:
        """Find how noise is seeded; False where there is none, or always the same."""
        first, two = (self.observed([self.base], seed) for seed in (1, 2))
        again = self.observed([self.base], 1)
        busy = [self.observed([self.usual], seed) for seed in (1, 2)]
        self.paired = np.array_equal(first, again)
        if not np.array_equal(first, two) or not np.array_equal(busy[0], busy[1]):
            return True
        self.runner.remade = True
        first, two = (self._blank(seed) for seed in (1, 2))
        starts = [self.runner.start(seed) for seed in (1, 2)]
        rounding = _SINGLE * np.abs(starts).max(initial=1.0)
        if np.abs(first - two).max() > rounding + _SAME * np.abs(first).max():
            return True
        self.seen.append(np.inf)
        if self._without_noise(first, starts[0], rounding):
            self.add("no_noise", "no noise is added to the update", self.places.noise(moved=True))
        else:
            self.add(
                "fixed_noise",
                "the noise is the same whatever the seed: whoever knows it subtracts it",
                named([*self.places.ran([self.usual]), *self.places.made()], *SEEDS),
            )
        return False

    def _blank(self, seed: int) -> FloatArray:
        """The update of a step on no records, or what a sum over records would make of it."""
        if self.base is self.none:
            update: FloatArray = self.observed([self.none], seed)[0]
            return update
        twice = self.observed([self.base + self.base], seed)[0]
        return np.asarray(2 * self.observed([self.base], seed)[0] - twice)

    def _without_noise(self, update: FloatArray, start: FloatArray, rounding: float) -> bool:
        """Whether an update on no records holds no noise: nothing, or weight decay alone."""
        if np.abs(update).max() <= rounding:
            return True
        if self.base is not self.none:
            lines = [*self.places.ran([self.base]), *self.places.made()]
            return named(lines, *NOISES) is None
        if start.size != update.size or not start.any():
            return False
        factor = float(update @ start) / float(start @ start)
        return bool(np.abs(update - factor * start).max() <= rounding)

    # --- noise -----------------------------------------------------------------------------------

    def _sampled(self, batches: list[Batch], times: int = 1) -> Noise:
        started = clock.seconds()
        self.observed(batches, 2)
        each = max(clock.seconds() - started, 1e-6)
        repeats = times * int(np.clip(_SECONDS / each, *_REPEATS))
        samples = np.stack([self.observed(batches, 100 + k) for k in range(repeats)])
        return Noise.of(samples, self.runner.spans)

    def _linear(self) -> None:
        """Errors: InvalidParameter for an optimiser that normalises its update, as Adam does."""
        count = -(-_SIZES // int((~self.noise.silent).sum() or 1))
        runs = [self.observed([self.base], 3_000 + k)[0] for k in range(count)]
        sizes = np.abs(np.stack(runs)[:, ~self.noise.silent])
        if sizes.size and sizes.std() < 1e-2 * sizes.mean():
            raise InvalidParameter(
                f"{described_function(self.make)}: all updates are of one size, as of Adam; give "
                "released(), the noisy gradient of the last step"
            )

    def _skipped(self) -> bool:
        if self.noise.deviation.any():
            return False
        self.seen.append(np.inf)
        lines = self.places.ran([self.none])
        self.add(
            "skipped",
            "a step on no records adds no noise, so that an empty batch shows",
            named(lines[-2:], r"return|continue|len\(|if ") or (lines[-1] if lines else None),
        )
        return True

    def _shared(self) -> bool:
        if not self.noise.dependent():
            return False
        self.seen.append(np.inf)
        self.add(
            "shared_noise",
            "several parameters get the same draw of noise, which their difference cancels",
            self.places.noise(),
        )
        return True

    def _by_count(self) -> None:
        alone = self.base is not self.none
        if alone and self.runner.remade:
            return
        if not self.noise.shrinks(self.crowded, self.error):
            return
        # Twice the same records have the same accuracy, mean and median.
        twice = self._sampled([self.usual + self.usual])
        if self.crowded.shrinks(twice, self.error):
            self.add(
                "noise_by_count",
                f"noise is smaller the more records a batch holds ({len(self.usual)} against "
                f"{len(self.base)}): divide by a public batch size",
                self.places.noise(*COUNTS),
            )
        else:
            self._by_records(f"less with {len(self.usual)} than with {len(self.base)}")

    def _by_records(self, shown: str) -> None:
        """Add the fault of noise that the records decide, once."""
        if any(fault.kind == "noise_by_records" for fault in self.faults):
            return
        self.add(
            "noise_by_records",
            "how much noise is added depends on the records, as where it follows their norms, "
            f"their number or how many are right: {shown}",
            named(self.places.ran([self.usual]), *STATISTICS) or self.places.noise(),
        )

    def _shape(self) -> None:
        if self.noise.shape_p_value() < self.error:
            self.add("not_gaussian", "the noise is not Gaussian", self.places.noise())

    def _silent(self) -> bool:
        silent = self.noise.silent
        if not silent.any() or not self.paired:
            return False
        moved = np.zeros(silent.size, dtype=bool)
        for probe in self._probes():
            effect = self._effect(self.base, probe, 1)
            if effect is not None:
                moved |= np.abs(effect[0]) > MOVED * self.noise.deviation.max()
        parts = self._parts(silent & moved)
        if not parts:
            return False
        self.seen.append(np.inf)
        self.add(
            "part_without_noise",
            f"{', '.join(parts)} move with the records and get no noise",
            self.places.noise(),
        )
        return True

    # --- effects of records ----------------------------------------------------------------------

    def _probes(self) -> Iterator[Batch]:
        """Records from the end of the data: their own, scaled, and with another's label."""
        for place in range(1, _PROBED + 1):
            row = self.all.take(slice(len(self.all) - place, len(self.all) - place + 1))
            scales = _SCALES if row.features.dtype.kind == "f" else _SCALES[:1]
            for label in self._labels(row):
                for scale in scales:
                    yield self._times(row, label, scale)

    def _labels(self, row: Batch) -> list[Any]:
        if row.labels is None or self.all.labels is None:
            return [None]
        others = np.unique(self.all.labels[self.all.labels != row.labels[0]])
        return [row.labels, *([others[-1:]] if others.size else [])]

    @staticmethod
    def _times(row: Batch, label: Any, scale: float) -> Batch:
        """Records of a multiple of the features, and of the label if it is a number of its own."""
        features = (row.features * scale).astype(row.features.dtype)
        real = label is not None and label.dtype.kind == "f"
        return Batch(features, label * scale if real else label)

    def _updates(self, batches: list[Batch], seed: int = 1) -> FloatArray | None:
        """Updates with the noise of one seed, (steps, d); None where the program fails."""
        try:
            updates = self.observed(batches, seed)
        except Exception:  # noqa: BLE001 (a program may refuse a record that is far outside)
            return None
        return updates if np.isfinite(updates).all() else None

    def _effect(self, base: Batch, probe: Batch, seed: int, steps: int = 1) -> FloatArray | None:
        """Updates with the probe less those without, (steps, d); None where the program fails."""
        later = [self.none] * (steps - 1)
        with_it = self._updates([base + probe, *later], seed)
        return None if with_it is None else with_it - self.observed([base, *later], seed)

    def _effects(self) -> None:
        """Test the largest effect of a probe record against the noise, and then rarer faults."""
        probes = list(self._probes())
        effects = [self._effect(self.base, probe, 1) for probe in probes]
        effective = [
            (p, e) for p, e in zip(probes, effects, strict=True) if e is not None and e.any()
        ]
        if effective:
            self._alone(effective, effects)
        if not self.faults:
            self._among_others([probe for probe, _ in effective])
        if not effective and not self.seen:
            self.notes.append("the effect of a record: no probe moved a step")

    def _alone(
        self, effective: list[tuple[Batch, FloatArray]], effects: list[FloatArray | None]
    ) -> None:
        """Test a record in a step without others, or with one, and the steps after it."""
        largest = effective[_last_largest([self._size(effect) for _, effect in effective])][0]
        pair = [[first, *[self.base] * (_STEPS - 1)] for first in (self.base, self.base + largest)]
        moved = self._sampled(pair[1])
        if not self._aligned(moved, 0):
            self._unpaired((self.noise, moved), pair)
            return
        mus = [self.noise.mu(effect, self.error) for _, effect in effective]
        worst = _last_largest(mus)
        probe = effective[worst][0]
        if self._exceeds(mus[worst]):
            self._named_excess(probe, effects, [e for _, e in effective], mus[worst])
            return
        if self._reused():
            return
        if not all(self._aligned(moved, step) for step in range(1, _STEPS)):
            self._unpaired((self.noise, moved), pair)
            return
        if self.base is self.none and self._exceeds(mu := self._repeated(probe)):
            self._named_sequence(mu)
            return
        if self._exceeds(mu := self._later(probe)):
            self.add(
                "later_noise",
                f"noise of a later step is too small for what a record moves: {self._ratio(mu)}",
                self.places.noise(),
            )

    def _size(self, effect: FloatArray) -> float:
        return float(np.linalg.norm(effect))

    def _exceeds(self, mu: float) -> bool:
        self.seen.append(mu)
        return mu > self.limit * (1 + _ROUNDING)

    def _aligned(self, moved: Noise, step: int) -> bool:
        """Whether a batch meets the same noise as the base under the same seed, so that it cancels.

        Where it draws other noise, or scales it, the difference goes along with the noise.
        """
        if not self.paired:
            return False
        count = min(len(moved.samples), len(self.noise.samples))
        difference = moved.samples[:count, step] - self.noise.samples[:count, step]
        products = (difference * self.noise.residuals[:count, step]).sum(axis=1)
        return abs(float(products.sum())) <= _LINKED * float(np.linalg.norm(products))

    def _later(self, probe: Batch) -> float:
        """The bound on mu for a record in the last step only, whose noise may not be smaller."""
        before = [self.base] * (_STEPS - 1)
        try:
            moved = self.observed([*before, self.base + probe], 1)[-1:]
        except Exception:  # noqa: BLE001 (a program may refuse a record that is far outside)
            return 0.0
        effect = moved - self.observed([*before, self.base], 1)[-1:]
        if not np.isfinite(effect).all():
            return 0.0
        return self.noise.last(self.runner.spans).mu(effect, self.error)

    def _repeated(self, probe: Batch) -> float:
        effect = self._effect(self.none, probe, 1, _STEPS)
        return 0.0 if effect is None else self.noise.mu(effect, self.error)

    def _among_others(self, effective: list[Batch]) -> None:
        """Test a record among others: what they add, and the noise, may not depend on it."""
        largest, found = self.limit * (1 + _ROUNDING), None
        # Parameters of zeros, as before the first step, may give all records the same loss.
        for before, (batches, record) in product(([], [self.base]), self._neighbours(effective)):
            updates = [self._updates([*before, batch]) for batch in batches]
            for place, (one, more) in enumerate(pairwise(updates)):
                if one is None or more is None:
                    break
                if (mu := self.noise.mu(more - one, self.error)) > largest:
                    pair = [[*before, batch] for batch in batches[place : place + 2]]
                    largest, found = mu, (pair, record, one, more)
        if found is not None:
            self._dependent(*found)

    def _dependent(
        self, pair: list[list[Batch]], record: Batch, one: FloatArray, more: FloatArray
    ) -> None:
        """Test two sequences of steps, the last with a record more, of which updates are given."""
        without, moved = map(self._sampled, pair)
        *before, last = pair[1]
        step, effect = len(before), more - one
        turned = self._updates([*before, last.take(slice(None, None, -1))])
        first, second = (self._updates(batches, 2) for batches in pair)
        # A record's own draws, as of dropout, change with its place and with the seed.
        again = [] if turned is None else [turned - one]
        if first is not None and second is not None:
            again.append(second - first)
        exact = any(self._alike(effect_again, effect) for effect_again in again)
        if not (exact and self._aligned(without, step) and self._aligned(moved, step)):
            self._unpaired((without, moved), pair, record)
        elif self._exceeds(mu := without.mu(effect, self.error)):
            self._named_crowd(record, mu)

    def _alike(self, one: FloatArray, other: FloatArray) -> bool:
        return self._size(one - other) <= _ALIKE * self._size(other)

    def _neighbours(self, effective: list[Batch]) -> Iterator[tuple[list[Batch], Batch]]:
        """Batches, each of which holds one record more or less than the one before, and a record.

        Batches of two kinds of records hold any share of each, at one of which a median, a mean, a
        largest norm or a class's share moves; new records come last or first, as a step may keep
        only some.  All are of few sizes, for each of which JAX compiles a step.
        """
        count = self._scaled_count
        probes = list(self._probes())
        own, other = probes[-2 * count : -count], probes[-count:]
        tiny = self._times(own[0], own[0].labels, _TINY)
        yield [self.base + self.usual.take(slice(0, k)) for k in range(_FEW)], self.usual
        for probe in effective:
            yield [self.usual, self.usual + probe], probe
        crowd = self._crowd(own[-1])
        yield [other[-1] + crowd, crowd, crowd + other[-1]], other[-1]
        for first, later in ((tiny, other[-1]), (own[-2:][0], other[-1])):
            both = first + later
            for share in range(len(self.usual) + 1):
                base = both.take((np.arange(len(self.usual)) < share).astype(np.intp))
                yield [first + base, base, base + later], later

    def _named_crowd(self, probe: Batch, mu: float) -> None:
        if any(fault.kind in ("noise_by_count", "batch_norm") for fault in self.faults):
            return
        line = self.places.clip(after=True)
        ran = self.places.ran([self.usual + probe])
        depends = "what a record adds depends on"
        if self._twice():
            self.add(
                "batch_weighted",
                f"{depends} the others, as where a batch is weighted, scaled or cut by numbers of "
                f"its own: {self._ratio(mu)}",
                named(ran, *STATISTICS) or line,
            )
            return
        counted = named(ran, *COUNTS)
        if self._whole(probe) or named(ran, *COUNTS[:-1]) is None:
            self.add(
                "batch_clipped",
                f"{depends} the others, as where the batch's gradient is clipped and not each "
                f"record's: {self._ratio(mu)}",
                line,
            )
            return
        self.add(
            "divided_by_count",
            f"{depends} how many others there are, and the noise does not: {self._ratio(mu)}",
            counted or line,
        )

    def _twice(self) -> bool:
        """Whether twice the records add twice as much: neither count nor sum matters."""
        once, twice = (self.observed([k], 1)[0] for k in (self.usual, self.usual + self.usual))
        silence = self.observed([self.base], 1)[0]
        extra = len(self.base) * (once - silence) / max(len(self.usual) - len(self.base), 1)
        once, twice = once - silence + extra, twice - silence + extra
        return self._alike(twice, 2 * once)

    def _whole(self, probe: Batch) -> bool:
        """Whether the sum is clipped: a huge record takes the place of others, or many saturate."""
        if self.base is not self.none:
            return True
        silence = self.observed([self.none], 1)[0]
        others = self.observed([self.usual], 1)[0] - silence
        for large in (probe, *list(self._probes())[self._scaled_count - 1 :: self._scaled_count]):
            batches = (self.usual + large, large)
            huge, alone = (self.observed([b], 1)[0] - silence for b in batches)
            if _cosine(huge, alone) > 1 - 1e-4 and _cosine(huge, others) < 1 - 1e-4:
                return True
        many, alone = (self.observed([b], 1)[0] - silence for b in (self._crowd(probe), probe))
        grown = self._size(many) / max(self._size(alone), _NOTHING)
        return bool(_CROWD**0.1 < grown < (1 - _ALIKE) * _CROWD)

    @staticmethod
    def _crowd(probe: Batch) -> Batch:
        """Many copies of a record."""
        return probe.take(np.zeros(_CROWD, dtype=np.intp))

    def _named_excess(
        self, probe: Batch, effects: list[FloatArray | None], kept: list[FloatArray], mu: float
    ) -> None:
        """Name the fault that lets a record move a step by more than the noise covers."""
        self._farthest(effects)
        growing = self._growing(effects)
        if growing:
            parts = "" if len(growing) == len(self.runner.names) else f" ({', '.join(growing)})"
            self.add(
                "not_clipped",
                f"a record moves a step the more the larger it is{parts}: no norm bounds it; "
                f"{self._ratio(mu)}",
                self.places.clip(),
            )
            return
        if self._additive_fails(probe):
            self._named_crowd(probe, mu)
            return
        smaller = self._quieter()
        if smaller:
            self.add(
                "part_with_less_noise",
                f"{', '.join(smaller)}: less noise than the rest; {self._ratio(mu)}",
                self.places.noise(),
            )
            return
        apart = self._apart(kept)
        if apart:
            self.add(
                "parts_clipped_apart",
                f"the clipping norm holds for parts of the gradient and not for all of it together "
                f"({', '.join(apart)}); {self._ratio(mu)}",
                self.places.clip(),
            )
            return
        self.add(
            "small_noise",
            f"noise is too small for what a record moves: {self._ratio(mu)}",
            self.places.noise(),
        )

    def _additive_fails(self, probe: Batch) -> bool:
        if any(fault.kind in ("noise_by_count", "batch_norm") for fault in self.faults):
            return True
        effect = self._effect(self.base, probe, 1)
        for base in (self.usual, self._crowd(probe)):
            more = self._effect(base, probe, 1)
            if effect is None or more is None:
                continue
            if not self._alike(more, effect):
                return True
        return False

    def _farthest(self, effects: list[FloatArray | None]) -> None:
        """Look for lines with the record that moves a step most, and with another one."""
        sizes = [0.0 if effect is None else self._size(effect) for effect in effects]
        start = int(np.argmax(sizes)) // self._scaled_count * self._scaled_count
        probes = list(self._probes())
        last = start + self._scaled_count - 1
        other = probes[(last + self._scaled_count) % len(probes)]
        self.places = replace(self.places, far=[other, probes[last]])

    @property
    def _scaled_count(self) -> int:
        return len(_SCALES) if self.all.features.dtype.kind == "f" else 1

    def _growing(self, effects: list[FloatArray | None]) -> list[str]:
        """Parts that a record moves more the larger it is."""
        count = self._scaled_count
        names: list[str] = []
        for start in range(0, len(effects), count):
            by_scale = effects[start : start + count]
            if count < 2 or by_scale[-1] is None or by_scale[-2] is None:
                continue
            for name, span in zip(self.runner.names, self.runner.spans, strict=True):
                large, small = self._size(by_scale[-1][:, span]), self._size(by_scale[-2][:, span])
                scale = float(self.noise.deviation.max()) * self.limit
                if large > _GROWN * small and large > scale and name not in names:
                    names.append(name)
        return names

    def _quieter(self) -> list[str]:
        """Parts whose noise is less than half of another's."""
        deviation = self.noise.deviation
        each = {
            name: float(deviation[span][~self.noise.silent[span]].max(initial=0.0))
            for name, span in zip(self.runner.names, self.runner.spans, strict=True)
        }
        most = max(each.values())
        return [name for name, value in each.items() if 0 < value < 0.7 * most]

    def _apart(self, kept: list[FloatArray]) -> list[str]:
        """Parts of which some reach the clipping norm, and which exceed it only together."""
        if len(self.runner.spans) < 2:
            return []
        limit = self.limit * float(np.median(self.noise.deviation[~self.noise.silent]))
        sizes = np.array([[self._size(e[0, span]) for span in self.runner.spans] for e in kept])
        largest = sizes.max(axis=0)
        if _jointly(sizes):
            return []
        # Several records reach the same length: that part is clipped.
        reached = (np.abs(sizes / np.maximum(largest, 1e-300) - 1) < 0.01).sum(axis=0) > 1
        clipped = reached & (np.abs(largest / limit - 1) < 0.15)
        if not clipped.any() or (largest > 0.2 * limit).sum() < 2:
            return []
        parts = zip(self.runner.names, largest > 0.2 * limit, strict=True)
        return [name for name, is_over in parts if is_over]

    def _reused(self) -> bool:
        """Whether two steps use one draw: momentum of .9 gives them a correlation of .67."""
        first_step, two = (self.noise.residuals[:, step].ravel() for step in (0, 1))
        if abs(_cosine(first_step, two)) < _ONE_DRAW:
            return False
        self.seen.append(np.inf)
        ran, lines_made = self.places.ran([self.usual]), self.places.made()
        self.add(
            "repeated_noise",
            "the noise of one step is used again in the next, so that their difference shows the "
            "records",
            named(ran, *SEEDS[:2]) or named(lines_made[::-1], SEEDS[-1]) or self.places.noise(),
        )
        return True

    def _named_sequence(self, mu: float) -> None:
        self.add(
            "comes_back",
            "a record of one step comes back in the next, as where gradients are not zeroed: "
            f"{self._ratio(mu)}",
            named(self.places.ran([self.usual]), *SUMS),
        )

    def _unpaired(
        self, noises: tuple[Noise, Noise], pair: list[list[Batch]], crowded: Batch | None = None
    ) -> None:
        """Effects where each run draws other noise: on means, and on the size of the noise.

        ``noises``: of two sequences of steps, ``pair``, the second with a record more, ``crowded``,
        where it is one of several.  Sizes that may differ by chance are looked at a second time.
        """
        if self._apart_by_chance(*noises, crowded):
            without, moved = (self._sampled(batches, _MORE) for batches in pair)
            self._apart_by_chance(without, moved, crowded)
        words = (
            "effects are means of runs with different noise, which are less sharp: noise does not "
            "follow the seed, or the records decide how much is drawn"
        )
        if words not in self.notes:
            self.notes.append(words)

    def _apart_by_chance(self, without: Noise, moved: Noise, crowded: Batch | None) -> bool:
        """Add a fault where means or sizes differ by too much; or say whether sizes may do so."""
        error = self.error / 2  # of each of two looks
        count = min(len(moved.samples), len(without.samples))
        # Runs of unlike seeds, so that the differences are those of independent runs.
        pairs = moved.samples[:count], np.roll(without.samples[:count], 1, axis=0)
        mean = _projected((pairs[0] - pairs[1]).reshape(count, -1), error)
        sizes = [
            np.log(np.square(part - part.mean(axis=0)).sum(axis=2).clip(min=_NOTHING))
            for part in pairs
        ]
        changes = (sizes[0] - sizes[1]).T[..., None]
        scale = max(_projected(change, error / _STEPS) for change in changes)
        if self._exceeds(scale):
            self._by_records(self._ratio(scale))
        elif self._exceeds(mean):
            if crowded is not None:
                self._named_crowd(crowded, mean)
            else:
                self.add(
                    "small_noise",
                    f"noise is too small for what a record moves: {self._ratio(mean)}",
                    self.places.noise() or self.places.clip(),
                )
        else:
            return max(_projected(change, 1.0) for change in changes) > self.limit
        return False

    # --- what lies outside of the batch ----------------------------------------------------------

    def _outside(self) -> None:
        """A record of the data that is in no batch must move nothing, in later steps neither."""
        mover = "a step" if self.paired and self._moves_unread() else ""
        mover = mover or ("a row of loader()" if self._prepared() else "")
        if not mover:
            return
        self.seen.append(np.inf)
        self.add(
            "outside_the_batch",
            f"{mover} moves with a record that is not in its batch: all records are read before, "
            "as for a mean, a vocabulary or weights of classes",
            named(self.places.made(), *READS[:1])
            or named(self.places.ran([self.usual]), KEPT, *READS[:1])
            or named(self.places.made(), *READS),
        )

    def _changed(self, count: int) -> Data:
        """The data, whose last ``count`` records are one that is far outside."""
        huge = list(self._probes())[-1]
        features, labels = self.data.features.copy(), self.data.labels
        features[-count:] = huge.features[0]
        if labels is not None and huge.labels is not None:
            labels = labels.copy()
            labels[-count:] = huge.labels[0]
        return Data(features, labels)

    def _moves_unread(self) -> bool:
        """Whether steps on a batch move with a record that is in none."""
        try:
            moved = self.observed([self.usual] * _STEPS, 1, self._changed(1))
        except Exception:  # noqa: BLE001 (of the program)
            return False
        usual = self.observed([self.usual] * _STEPS, 1)
        size = MOVED * float(self.crowded.deviation.max(initial=0.0))
        return not (moved.shape == usual.shape and np.abs(moved - usual).max() <= size)

    def _prepared(self) -> bool:
        """Whether other records change the rows of a loader's batches, beyond those of new draws.

        A quarter of the records become one and the same, which is one new row of a right loader.
        """
        changed = self._changed(len(self.data) // 4)
        try:
            rows, again, moved = (
                contents(self._loaded(seed, data))
                for seed, data in ((1, None), (2, None), (1, changed))
            )
        except Exception:  # noqa: BLE001 (of the program)
            return False
        return len(moved - rows - again) > _BY_CHANCE + 3 * len(again - rows)

    def _evaluated(self) -> None:
        """In evaluation mode a step must refuse, or keep the same bound."""
        if self.faults or not hasattr(self.runner.fresh(1), "evaluating"):
            return
        make = self.make

        def evaluating(records: Data, rng: np.random.Generator) -> Training:
            training_made: Any = make(records, rng)
            training_made.evaluating()
            training: Training = training_made
            return training

        other = Check(evaluating, self.data, self.multiplier, self.error, self.seed)
        try:
            other.runner.remade = self.runner.remade
            other.base, other.paired = self.base, self.paired
            other.noise = other._sampled([self.base])
            if not other.noise.deviation.any():
                other.seen.append(np.inf)
            for probe in list(self._probes())[-1:]:
                effect = other._effect(self.base, probe, 1)
                if effect is not None and other.noise.deviation.any():
                    other._exceeds(other.noise.mu(effect, self.error))
        except Exception:  # noqa: BLE001 (a step that refuses is right)
            return
        self.runs += other.runs
        mu = max([0.0, *other.seen])
        if mu > self.limit * (1 + _ROUNDING):
            self.add(
                "evaluation_mode",
                f"in evaluation mode a step is not private: {self._ratio(mu)}; call train() before",
                named(self.places.ran([self.usual]), r"\.eval\(|\.train\(", *CLIPS),
            )

    # --- batches ---------------------------------------------------------------------------------

    def sampling(self, rate: float | None) -> None:
        """Compare the batches of ``loader()`` with records drawn each by a coin."""
        if batches_of(self.runner.fresh(1)) is None:
            self.notes.append("how batches are drawn: the training has no loader()")
            return

        def lot(seed: int) -> Drawn:
            return drawn(self._loaded(seed), self.data)

        lots = first_failure(lambda: lot(1), "loader()")
        fault_texts = faults(lots, rate, self.error)
        other = lot(2)
        if not fault_texts and lots.sizes == other.sizes and len(lots.sizes) > 9:
            same = lots.rows is None or all(
                np.array_equal(a, b) for a, b in zip(lots.rows, other.rows or (), strict=False)
            )
            if same:
                fault_texts = ["the batches are the same whatever the seed"]
        if fault_texts:
            lines = traced(lambda: list(islice(self._loaded(1), 3))).lines
            words = "; ".join(fault_texts)
            self.add("sampling", words, named(lines, *BATCHES))

    def _loaded(self, seed: int, records: Data | None = None) -> Iterator[Any]:
        """Batches of one epoch after the other, until time is over."""
        training = replace(self.runner, remade=True).fresh(seed, records)
        started, given = clock.seconds(), 0
        while given < _LOADED and (given < 40 or clock.seconds() - started < _LOADING):
            before = given
            for batch in islice(batches_of(training) or (), _LOADED - given):
                given += 1
                yield batch
            if given == before:
                return

    # --- words -----------------------------------------------------------------------------------

    def _parts(self, marked: Any) -> list[str]:
        return [
            name
            for name, span in zip(self.runner.names, self.runner.spans, strict=True)
            if marked[span].any()
        ]

    def _ratio(self, mu: float) -> str:
        if not np.isfinite(mu):
            return f"no noise hides it, and a multiplier of {self.multiplier:g} is declared"
        return f"a noise multiplier of {1 / mu:.3g} at most, where {self.multiplier:g} is declared"


def _jointly(sizes: FloatArray) -> bool:
    """Whether records of unlike parts reach one common length, (records, parts): one clip."""
    totals = np.linalg.norm(sizes, axis=1)
    shares = sizes[totals > 0.99 * totals.max()] / totals.max()
    return bool((shares.max(axis=0) - shares.min(axis=0)).max() > 0.05)


def _last_largest(values: list[float]) -> int:
    """The place of the last value that is the largest but for rounding: of the longest record."""
    least = (1 - _ALIKE) * max(values)
    return max(place for place, value in enumerate(values) if value >= least)


def _cosine(one: FloatArray, other: FloatArray) -> float:
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths else 0.0


def _projected(differences: FloatArray, error: float) -> float:
    """A lower bound on the mean's length in deviations of one run, (repeats, d) differences.

    The direction is that of the first half's mean, in units of each coordinate's deviation; the
    second half is projected on it.  One number has two directions, and all of its differences.
    """
    half = len(differences) // 2
    if differences.shape[1] == 1:
        along, error = differences[:, 0] * np.sign(differences.mean()), error / 2
    else:
        scale = differences[:half].std(axis=0)
        scale[scale == 0] = 1.0
        direction = differences[:half].mean(axis=0) / scale**2
        direction /= np.linalg.norm(direction) or 1.0
        along = differences[half:] @ direction
    count, spread = len(along), float(along.std(ddof=1))
    if spread == 0:
        return np.inf if along.any() else 0.0
    least = float(along.mean()) - float(t.isf(error / 2, count - 1)) * spread / np.sqrt(count)
    most = spread * np.sqrt((count - 1) / float(chi2.ppf(error / 2, count - 1)))
    # A difference of two runs has twice the variance of one.
    return float(max(least, 0.0) / most * np.sqrt(2))
