"""Trainings whose noise comes from elsewhere than the generator that they are given."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from dpaudit.membership.data import Data
from tests.support.membership import Rng

IMPORTED = np.random.default_rng().normal(0, 0.5, 1_000)  # anew in every process
SEEDED = np.random.default_rng(5)


def _present(records: Data) -> Any:
    present = np.zeros(1_000)
    present[records.features[:, 0].astype(int)] = 1.0
    return present


def secure(records: Data) -> Any:
    """Noise of the system's generator, drawn in every training."""
    return _present(records) + np.random.default_rng(list(os.urandom(16))).normal(0, 0.5, 1_000)


def jittered(records: Data, rng: Rng) -> Any:
    """Noise of the generator, and a device that differs from itself by 1e-5."""
    device = np.random.default_rng(list(os.urandom(16))).normal(0, 1e-5, 1_000)
    return _present(records) + rng.normal(0, 0.5, 1_000) + device


def of_the_import(records: Data, rng: Rng) -> Any:
    """Noise that is drawn when the module is imported, and a little in every training."""
    return _present(records) + IMPORTED + rng.normal(0, 0.05, 1_000)


def of_the_import_alone(records: Data, rng: Rng) -> Any:
    return _present(records) + IMPORTED


def half_of_the_import(records: Data) -> Any:
    """As much noise of the import as of the training, from the system."""
    own = np.random.default_rng(list(os.urandom(16))).normal(0, 0.5, 1_000)
    return _present(records) + IMPORTED + own


def of_a_seeded_module(records: Data) -> Any:
    return _present(records) + SEEDED.normal(0, 0.5, 1_000)


def of_one_seed(records: Data, rng: Rng) -> Any:
    return _present(records) + np.random.default_rng(3).normal(0, 0.5, 1_000)
