"""Attacks of paper 1 reach a user in whichever phase reads it; an unread one shows nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audits.user_level import suite
from dpaudit.audit.attack import attack
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import DecisionBudget, lens
from dpaudit.kernels.query import Records
from mechanisms.papers.user_level import catalogue

MECHANISM = catalogue.user_level_phased_sgd


def shown(made: Suite) -> float:
    """The lower bound on mu at 95%: above 0 in one run in 20 where there is nothing."""
    found = attack(MECHANISM, made, seed=3, index=0, trials=made.trials, error=1e-4)
    assert all(finding.status != "broken" for finding in found.findings)
    return lens(found, DecisionBudget(2, 1)).shown


@pytest.mark.parametrize("phase", [0, 1])
def test_a_user_is_attacked_in_its_phase(phase: int) -> None:
    made = suite(MECHANISM, 1500, phase)
    first, second = made.neighbours.first.values, made.neighbours.second.values
    before = sum(one.users for one in MECHANISM.program.phases[:phase])
    assert np.flatnonzero((first != second).any(axis=(1, 2))).tolist() == [before]
    assert shown(made) > 0.05
    # The same rows where no phase reads them.
    rest = sum(one.users for one in MECHANISM.program.phases) - before
    unread = [Records(np.roll(rows, rest, axis=0)) for rows in (first, second)]
    pair = replace(made.neighbours, first=unread[0], second=unread[1])
    assert shown(replace(made, neighbours=pair)) == 0


def test_a_program_without_phases_has_none_to_attack() -> None:
    with pytest.raises(TypeError, match="no phase 2"):
        suite(catalogue.user_level_accelerated_sgd, 100, 1)
