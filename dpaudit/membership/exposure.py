"""Exposed records: their membership changes how a model fits them.

For each record, the fit of models trained with it is compared with the fit of models trained
without it.  Models and coins are independent, so under the null hypothesis that membership changes
nothing the ranks of one group are a random sample: the rank-sum test is valid for each record.
Records of one model may depend on each other, so the false discovery rate is controlled by the
procedure of Benjamini and Yekutieli, which allows any dependence.

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

FALSE_DISCOVERIES = 0.05  # the false discovery rate among the listed records
_FEWEST = 3  # models with, and without, a record; fewer give no p-value
_MOST_CLASSES = 50  # a label with more values is not listed by class
_RESAMPLED = 100  # resamples of models behind an interval


@dataclass(frozen=True, eq=False)
class Exposure:
    """Exposure of each record: AUC of its fit (models with it against models without), p-value.

    ``exposed``: the listed records, with a false discovery rate of at most ``false_discoveries``.
    ``by_class`` and ``by_group``, by name: number of records, share exposed, mean AUC, and the ends
    of its 95% interval over models.
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
    listed = np.asarray(exposed, dtype=np.bool_)
    count = fit.shape[1]
    given = None if groups is None else np.asarray(groups)
    if given is not None and given.shape != (count,):
        raise InvalidParameter(f"groups: shape {given.shape}, expected ({count},)")
    few = None if classes is None or len(np.unique(classes)) > _MOST_CLASSES else classes
    return Exposure(
        auc,
        p_values,
        listed,
        false_discoveries,
        {} if few is None else _by(fit, included, listed, auc, few),
        {} if given is None else _by(fit, included, listed, auc, given),
    )


def rank_sums(fit: FloatArray, included: BoolArray) -> tuple[FloatArray, FloatArray]:
    """AUC and two-sided p-value of each record; 1/2 and 1 if too few models are on one side.

    The p-value is the normal approximation, corrected for ties and continuity.  Models whose
    training failed count with the record's median fit.
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
    """For each group: records, share exposed, mean AUC and its interval over resampled models."""
    rng = np.random.default_rng(0)
    models = fit.shape[0]
    resampled = np.empty((_RESAMPLED, fit.shape[1])) if models <= 256 and fit.size < 2e5 else None
    if resampled is not None:
        for row in range(_RESAMPLED):
            drawn = rng.integers(models, size=models)
            resampled[row] = rank_sums(fit[drawn], included[drawn])[0]
    summaries = {}
    for value in np.unique(groups):
        members = groups == value
        mean = float(auc[members].mean())
        low, high = mean, mean
        if resampled is not None:
            low, high = (
                float(q) for q in np.quantile(resampled[:, members].mean(axis=1), [0.025, 0.975])
            )
        summaries[str(value)] = (
            int(members.sum()),
            float(exposed[members].mean()),
            mean,
            low,
            high,
        )
    return summaries
