"""Privacy Meter 1.0.1's reference attack, run in a process that has it.

Arguments: a .npz file with features, labels, a number of models, and a folder to write in.  Prints
one JSON object.  Privacy Meter imports TensorFlow for targets that are not used here: where it is
missing, an empty module stands in for it.
"""

import contextlib
import importlib.util
import json
import sys
import time
import types
from pathlib import Path

import numpy as np

if importlib.util.find_spec("tensorflow") is None:
    sys.modules["tensorflow"] = types.ModuleType("tensorflow")

from privacy_meter.dataset import Dataset
from privacy_meter.hypothesis_test import gaussian_threshold_func, linear_itp_threshold_func
from privacy_meter.information_source import InformationSource
from privacy_meter.information_source_signal import ModelLoss
from privacy_meter.metric import ReferenceMetric
from privacy_meter.model import Model
from sklearn.linear_model import LogisticRegression

THRESHOLDS = {
    "reference, Gaussian": gaussian_threshold_func,
    "reference, interpolated": linear_itp_threshold_func,
}

# Down to where a Gaussian's tail says nothing of a loss's: all that its thresholds can reach.
ALPHAS = np.concatenate([10.0 ** -np.arange(250, 6, -3), np.geomspace(1e-6, 0.9, 120)])


class Fitted(Model):
    """A scikit-learn classifier of many classes (Privacy Meter's own class knows two)."""

    def __init__(self, model):
        super().__init__(model, None)

    def get_logits(self, batch_samples):
        return self.model_obj.predict_log_proba(batch_samples)

    def get_loss(self, batch_samples, batch_labels, per_point=True):  # noqa: FBT002 (theirs)
        return -self.get_logits(batch_samples)[np.arange(len(batch_labels)), batch_labels]

    def get_grad(self, batch_samples, batch_labels):
        return None

    def get_intermediate_outputs(self, layers, batch_samples, forward_pass=True):  # noqa: FBT002
        return None


def data(splits):
    """Privacy Meter's data set of splits."""
    return Dataset(
        data_dict={name: {"x": x, "y": y} for name, (x, y) in splits.items()},
        default_input="x",
        default_output="y",
    )


def rates(result):
    """False and true positive rates of every threshold."""
    labels = np.asarray(result.true_labels).ravel() == 1
    predicted = np.asarray(result.predicted_labels)
    return predicted[:, ~labels].mean(axis=1), predicted[:, labels].mean(axis=1)


def at(found, rate):
    """The largest true positive rate of a threshold with at most that false positive rate."""
    alarms, hits = found
    usable = alarms <= rate
    return float(hits[usable].max()) if usable.any() else 0.0


def audit(features, labels, models, folder, seed):
    """One target model and ``models`` - 1 references on other records; rates at 1%."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    half = len(labels) // 2
    pool, rest = order[:half], order[half:]
    members, others = pool[: half // 2], pool[half // 2 :]

    def fitted(rows):
        return Fitted(LogisticRegression(C=100, max_iter=200).fit(features[rows], labels[rows]))

    target = fitted(members)
    references = [fitted(rng.permutation(rest)[: half // 2]) for _ in range(models - 1)]
    audited = data(
        {"train": (features[members], labels[members]), "test": (features[others], labels[others])}
    )
    found = {}
    for name, threshold in THRESHOLDS.items():
        metric = ReferenceMetric(
            target_info_source=InformationSource(models=[target], datasets=[audited]),
            reference_info_source=InformationSource(models=references, datasets=[audited]),
            signals=[ModelLoss()],
            hypothesis_test_func=threshold,
            logs_dirname=folder,
        )
        metric.prepare_metric()
        (result,) = metric.run_metric(ALPHAS)
        found[name] = at(rates(result), 0.01)
    return found


def main():
    """All target models, and the time of one."""
    path, models, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with np.load(path) as arrays:
        features, labels = arrays["features"], arrays["labels"]
    started, used, rows = time.perf_counter(), time.process_time(), []
    with contextlib.redirect_stdout(sys.stderr):
        for seed in range(int(sys.argv[4])):
            place = Path(folder) / str(seed)
            place.mkdir(parents=True, exist_ok=True)
            rows.append(audit(features, labels, models, str(place), seed))
    seconds = (time.perf_counter() - started) / len(rows)
    processor = (time.process_time() - used) / len(rows)
    rate = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    print(json.dumps({"seconds": seconds, "processor": processor, "rate": rate}))


if __name__ == "__main__":
    main()
