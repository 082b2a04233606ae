"""Who is exposed: records whose membership changes what a model says of them.

For each record the fit of models with it is compared with the fit of models without it.  Models are
independent and a record's coin is too, so that under "its membership changes nothing" the ranks of
one group are a random sample: the rank-sum test is valid for every record alone.  Records of one
model depend on each other in unknown ways, so that the rate of false discoveries is held by the
procedure that needs no independence.

Sources: Mann and Whitney (1947); Benjamini and Yekutieli (2001), theorem 1.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpaudit.errors import InvalidParameter
from dpaudit.membership.data import Array, FloatArray

BoolArray = npt.NDArray[np.bool_]

FALSE_DISCOVERIES = 0.05
_FEWEST = 3
_MOST_CLASSES = 50
_RESAMPLED = 100


@dataclass(frozen=True, eq=False)
class Exposure:
    """Per record: ``auc`` of its fit with it against without it, p-value, and whether it is listed.

    Of the records listed (``exposed``) at most a share ``false_discoveries`` is expected to be
    listed wrongly.  ``by_class`` and ``by_group``: share exposed and mean AUC with a 95% interval
    over models (low, high), by name.
    """

    auc: FloatArray
    p_values: FloatArray
    exposed: BoolArray
    false_discoveries: float
    by_class: Mapping[str, tuple[int, float, float, float, float]]
    by_group: Mapping[str, tuple[int, float, float, float, float]]

    @property
    def order(self) -> npt.NDArray[np.intp]:
        """Records, the most exposed first."""
        return np.lexsort((-self.auc, self.p_values))


def exposure(
    fit: FloatArray,
    included: BoolArray,
    classes: Array | None,
    groups: npt.ArrayLike | None,
    *,
    false_discoveries: float = FALSE_DISCOVERIES,
) -> Exposure:
    """Exposure of each record; ``fit`` and ``included``: (models, records).

    Errors: InvalidParameter for groups of another length.
    """
    from statsmodels.stats.multitest import multipletests

    auc, p_values = rank_sums(fit, included)
    exposed = multipletests(p_values, false_discoveries, method="fdr_by")[0]
    found = np.asarray(exposed, dtype=np.bool_)
    count = fit.shape[1]
    given = None if groups is None else np.asarray(groups)
    if given is not None and given.shape != (count,):
        raise InvalidParameter(f"groups: shape {given.shape}, expected ({count},)")
    few = None if classes is None or len(np.unique(classes)) > _MOST_CLASSES else classes
    return Exposure(
        auc,
        p_values,
        found,
        false_discoveries,
        {} if few is None else _by(fit, included, found, auc, few),
        {} if given is None else _by(fit, included, found, auc, given),
    )


def rank_sums(fit: FloatArray, included: BoolArray) -> tuple[FloatArray, FloatArray]:
    """AUC and two-sided p-value of each record, ties shared; 1/2 and 1 where a side is too small.

    The normal approximation with a correction for ties and for continuity; models whose training
    failed count as ties in the middle.
    """
    from scipy.special import ndtr
    from scipy.stats import rankdata

    values = np.where(np.isfinite(fit), fit, np.nan)
    if not np.isfinite(values).all():
        with np.errstate(all="ignore"):
            middle = np.nanmedian(np.where(np.isnan(values).all(axis=0), 0.0, values), axis=0)
        values = np.where(np.isfinite(values), values, middle)
    ranks = rankdata(values, axis=0)
    models = fit.shape[0]
    inside = included.sum(axis=0).astype(np.float64)
    outside = models - inside
    pairs = np.maximum(inside * outside, 1)
    statistic = np.where(included, ranks, 0).sum(axis=0) - inside * (inside + 1) / 2
    auc = statistic / pairs
    variance = pairs * ranks.var(axis=0) / max(models - 1, 1)
    excess = np.maximum(np.abs(statistic - pairs / 2) - 0.5, 0)
    z = excess / np.sqrt(np.maximum(variance, 1e-12))
    usable = (np.minimum(inside, outside) >= _FEWEST) & (variance > 0)
    p_values = np.where(usable, np.minimum(1.0, 2 * ndtr(-z)), 1.0)
    return np.where(usable, auc, 0.5), p_values


def _by(
    fit: FloatArray, included: BoolArray, exposed: BoolArray, auc: FloatArray, groups: Array
) -> dict[str, tuple[int, float, float, float, float]]:
    """Group: records, share exposed, mean AUC and its interval from resampled models."""
    rng = np.random.default_rng(0)
    models = fit.shape[0]
    resampled = np.empty((_RESAMPLED, fit.shape[1])) if models <= 256 and fit.size < 2e5 else None
    if resampled is not None:
        for row in range(_RESAMPLED):
            drawn = rng.integers(models, size=models)
            resampled[row] = rank_sums(fit[drawn], included[drawn])[0]
    found = {}
    for value in np.unique(groups):
        own = groups == value
        mean = float(auc[own].mean())
        low, high = mean, mean
        if resampled is not None:
            low, high = (
                float(q) for q in np.quantile(resampled[:, own].mean(axis=1), [0.025, 0.975])
            )
        found[str(value)] = (int(own.sum()), float(exposed[own].mean()), mean, low, high)
    return found
