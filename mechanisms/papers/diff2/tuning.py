"""How the paper's experiments chose their parameters: **not private**, and marked as such.

Every evaluation of the training loss here is an access to the data that no account covers.  What
comes out is a :class:`NonPrivateSearch`; a program that uses it must list its ``reason`` among its
``non_private`` ones, which leaves it without a finite guarantee.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import NonPrivate
from dpaudit.kernels.query import Array
from mechanisms.papers.diff2.framework import Diff2

STEP_SIZES = tuple(0.5**i for i in range(10))
RADII = (1.0, 3.0, 10.0, 30.0, 100.0)
PERIOD_SHARES = (0.003, 0.01, 0.03, 0.1)  # T over R
REASON = "tuning: non-private (grid search and early stopping by the raw training loss)"

Setting = TypeVar("Setting")
Start = Callable[[Setting, float], Iterator[Array]]
Evaluate = Callable[[Array], tuple[float, float]]


@dataclass(frozen=True)
class Patience:
    """When a run is given up: evaluated ``every`` rounds, ``most`` failures.

    A loss above ``tolerance`` times the best of the run counts one more; one below the best sets
    the count to zero; NaN ends the run at once.
    Errors: InvalidParameter for counts below 1, or a tolerance below 1.
    Source: Murata and Suzuki 2023, Appendix A.
    """

    every: int = 20
    most: int = 5
    tolerance: float = 1.05

    def __post_init__(self) -> None:
        for name in ("every", "most"):
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
                raise InvalidParameter(f"Patience.{name} = {value!r}: expected a count from 1 on")
        if not 1 <= self.tolerance < math.inf:
            raise InvalidParameter(f"Patience.tolerance = {self.tolerance}: expected 1 or more")


@dataclass(frozen=True)
class Tried(Generic[Setting]):
    """One run: losses and squared gradient norms at rounds 0, ``every``, 2 ``every``, ...

    ``survived``: whether it was not given up.
    """

    setting: Setting
    step_size: float
    losses: tuple[float, ...]
    gradients: tuple[float, ...]
    survived: bool

    @property
    def lowest_loss(self) -> float:
        """The least training loss over the evaluated rounds; infinite where all are NaN."""
        return min((v for v in self.losses if not math.isnan(v)), default=math.inf)

    @property
    def smallest_gradient(self) -> float:
        """The least squared gradient norm over the evaluated rounds."""
        return min((v for v in self.gradients if not math.isnan(v)), default=math.inf)


@dataclass(frozen=True)
class NonPrivateSearch(Generic[Setting]):
    """Every run of a search, in order; nothing in it has a guarantee (``reason`` says why)."""

    tried: tuple[Tried[Setting], ...]
    reason: str = REASON

    @property
    def declaration(self) -> NonPrivate:
        """The search as a node: whatever is composed with it has no finite guarantee."""
        return NonPrivate(self.reason)

    @property
    def chosen(self) -> tuple[Tried[Setting], ...]:
        """The first surviving run of each setting: its step size is the one taken."""
        return tuple(run for run in self.tried if run.survived)

    def best(self, criterion: Callable[[Tried[Setting]], float]) -> Tried[Setting] | None:
        """The chosen run with the least criterion; None where every run was given up.

        The paper reports training loss at the best ``lowest_loss``, gradient norms at the best
        ``smallest_gradient``, and test loss at the best ``lowest_loss``.
        """
        return min(self.chosen, key=criterion, default=None)


def paper_grid_search(
    settings: Sequence[Setting],
    start: Start[Setting],
    evaluate: Evaluate,
    *,
    step_sizes: Sequence[float] = STEP_SIZES,
    patience: Patience | None = None,
) -> NonPrivateSearch[Setting]:
    """The paper's search, **not private**: for each setting the first step size that lasts.

    ``start(setting, step_size)`` yields the iterates x_0, x_1, ..., x_R of a new run;
    ``evaluate(x)`` gives training loss and squared gradient norm.  Step sizes are tried in the
    order given, largest first in the paper, until a run lasts all its rounds; smaller ones are then
    not tried, so that the one taken is the largest stable one rather than the best.
    Errors: InvalidParameter for no setting, no step size, one that is not positive, or a run
    without iterates.
    Source: Murata and Suzuki 2023, Appendix A.
    """
    if not settings or not step_sizes:
        raise InvalidParameter("paper_grid_search: give at least one setting and one step size")
    for step_size in step_sizes:
        if not 0 < step_size < math.inf:
            raise InvalidParameter(f"step_sizes: {step_size} is not positive and finite")
    rule = patience or Patience()
    tried: list[Tried[Setting]] = []
    for setting in settings:
        for step_size in step_sizes:
            tried.append(_run(setting, step_size, start, evaluate, rule))
            if tried[-1].survived:
                break
    return NonPrivateSearch(tuple(tried))


def _run(
    setting: Setting, step_size: float, start: Start[Setting], evaluate: Evaluate, rule: Patience
) -> Tried[Setting]:
    losses: list[float] = []
    gradients: list[float] = []
    best, failures, survived = math.inf, 0, True
    for r, x in enumerate(start(setting, step_size)):
        if r % rule.every:
            continue
        loss, gradient = evaluate(x)
        losses.append(loss)
        gradients.append(gradient)
        failures = _failures(failures, loss, best, rule.tolerance)
        if math.isnan(loss) or failures >= rule.most:
            survived = False
            break
        best = min(best, loss)
    if not losses:
        raise InvalidParameter("paper_grid_search: a run yielded no iterate, not even its start")
    return Tried(setting, step_size, tuple(losses), tuple(gradients), survived)


def _failures(failures: int, loss: float, best: float, tolerance: float) -> int:
    if loss < best:
        return 0
    return failures + (loss > tolerance * best)


def path_of(program: Diff2, curator: Curator) -> Iterator[Array]:
    """x_0, x_1, ..., x_R of a run of DIFF2 or DP-GD, round by round, for ``start``."""
    yield program.loss.initial(program.features, curator.trials, program.start_seed)
    for _, after in program.iterates(curator):
        yield after


@dataclass(frozen=True)
class PairedTest:
    """A one-sided paired t-test: ``statistic``, degrees of freedom and p-value."""

    statistic: float
    degrees: int
    p_value: float


def paired_one_sided_ttest(lower: Sequence[float], higher: Sequence[float]) -> PairedTest:
    """Test whether the first values are below the second on average, seed by seed.

    t = mean(d) / (sd(d) / sqrt(n)), d = lower - higher, with n - 1 degrees of freedom (4 over the
    paper's 5 seeds); the p-value is P(T <= t).
    Errors: InvalidParameter for fewer than two pairs, other numbers of them, values that are not
    finite, or differences that are all equal.
    Source: Murata and Suzuki 2023, Section 6; SciPy's ttest_rel.
    """
    if len(lower) != len(higher) or len(lower) < 2:
        raise InvalidParameter(
            f"paired_one_sided_ttest: {len(lower)} and {len(higher)} values; give two equal rows"
        )
    differences = list(map(operator.sub, lower, higher))
    if not all(map(math.isfinite, (*lower, *higher))) or len(set(differences)) == 1:
        raise InvalidParameter("paired_one_sided_ttest: give finite values whose differences vary")
    from scipy.stats import ttest_rel

    found = ttest_rel(lower, higher, alternative="less")
    return PairedTest(float(found.statistic), len(lower) - 1, float(found.pvalue))
