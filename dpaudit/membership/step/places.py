"""Which line of a program makes the noise, the clip, the sum or the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpaudit.membership.step.lines import Line, Trace, named, traced
from dpaudit.membership.step.runs import Batch, Runner

# Words of the lines at which a fault is looked for, the most telling first.
_DRAWN = r"normal(?!i[sz])|randn|gauss|laplace|noise"
NOISES = (r"make_private|noise_multiplier\s*=", _DRAWN)  # patterns of lines that set or draw noise
# Patterns of lines that seed a generator.
SEEDS = (
    r"(seed|default_rng|RandomState|PRNGKey|key|Random)\(\s*\d+\s*\)"
    r"|(seed|random_state|key)\s*=\s*\d",
    r"seed\(|default_rng|RandomState|random_state|PRNGKey|random\.key|Generator\(",
    _DRAWN,
)
# Patterns of lines that clip.
CLIPS = (
    r"max_grad_norm|make_private",
    r"clip|CLIP|clamp\((?!\s*(min=)?0\.?0?\))|minimum\(|\bmin\(|(maximum|\bmax)\((?!\s*0)",
    r"norm\(|linalg",
    r"grad|backward",
)
# Patterns of lines that add up gradients.
SUMS = (r"\+=", r"zero_grad|\.grad\b", r"backward|accum|total|sum")
# Patterns of lines that divide by a count.
COUNTS = (
    r"/\s*(max\()?len\(|/\s*\w*\.?(shape|size)|\.mean\(|mean\(",
    r"\blen\(|\.shape\[0\]",
    r"/",
)
# Patterns of lines that read other records.
KEPT = r"\b(self|records|data|dataset)\.(features|labels|records|data|inputs|targets|[xXy])\b"
READS = (
    r"\.(mean|std|var|max|min|sum|fit|fit_transform)\(|np\.(mean|std|var|max|min|unique|bincount"
    r"|quantile|percentile|median|ptp)|torch\.(mean|std|unique|bincount)|unique|quantile",
    r"records|data|features|labels",
)
# Patterns of lines that compute a number from all records of a batch.
STATISTICS = (
    r"median|quantile|percentile|bincount|unique|\w\[:\s*\w+\]",
    r"\.(max|min|mean|std|var)\(|\b(max|min|mean|amax)\(|\bif ",
    r"norm\(",
)
# Patterns of lines that draw a batch.
BATCHES = (
    r"make_private|poisson_sampling",
    r"permutation|shuffle|choice\(|randint|integers\(|sample\(|Sampler|array_split",
    r"random\(|DataLoader",
    r"yield|batch",
)


@dataclass(frozen=True)
class Places:
    """The lines of a training; ``usual``: a batch, ``far``: two records that move a step."""

    runner: Runner
    usual: Batch
    far: Sequence[Batch]

    def made(self) -> list[Line]:
        """The lines that ran while the training was made."""
        return traced(lambda: self.runner.fresh(1)).lines

    def _trace(
        self, batches: list[Batch], seed: int, *, moved: bool = False, shapes: Any = None
    ) -> Trace:
        """The lines that run while fresh training steps through the batches, with a digest at each.

        The digest is of the local variables, or with ``moved`` of the parameters; ``shapes`` limits
        it to arrays of these shapes.  Two traces differ from the line on at which a change first
        has an effect.
        """
        training = self.runner.fresh(seed)
        watched = (lambda: self.runner.flat(training.parameters())) if moved else None

        def run() -> None:
            for batch in batches:
                training.step(batch.features, batch.labels)

        return traced(run, watched, shapes)

    def ran(self, batches: list[Batch]) -> list[Line]:
        return self._trace(batches, 1).lines

    def clip(self, *, after: bool = False) -> Line | None:
        """The line that clips, up to the first sum over records, or from there on if ``after``.

        A sum over records is the first array in the shape of parameters that differs between
        two records.
        """
        line = named(self.made(), CLIPS[0])
        if line:
            return line
        shapes = self.runner.shapes(1)
        near, far = self.far
        traces = [self._trace([self.usual + probe], 1, shapes=shapes) for probe in (near, far)]
        lines = traces[0].lines
        summed = traces[0].first_apart(traces[1])
        if summed is None or summed not in lines:
            return named(lines[::-1], *CLIPS) or (lines[0] if lines else None)
        place = lines.index(summed)
        if after:
            return named(lines[place:], CLIPS[1], CLIPS[2]) or summed
        return named(lines[place::-1], CLIPS[1]) or summed

    def noise(self, *words: str, moved: bool = False) -> Line | None:
        """Where noise is declared, where it enters, or else where parameters move."""
        own_line = named(
            self.made(), r"noise_multiplier\s*=\s*0(\.0*)?\b(?!\.)" if moved else NOISES[0]
        )
        if own_line:
            return own_line
        ran = self.ran([self.usual])
        if not moved:
            entered = self._trace([self.usual], 1).first_apart(self._trace([self.usual], 2))
            if entered:
                later = ran[ran.index(entered) :] if entered in ran else ran
                return (named(later, *words) if words else None) or entered
        spoken = named(ran if moved else [*ran, *self.made()], NOISES[1])
        if spoken:
            return spoken
        trace = self._trace([self.usual], 1, moved=True)
        digests = [digest for _, digest in trace.events]
        for (line, digest), after in zip(trace.events, digests[1:], strict=False):
            if after != digest:
                return line
        return ran[-1] if ran else None
