"""Algorithms 3 to 6 on real rows: polynomial on any data, run, attacked, claimed as accounted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import audits.stable_erm_rows as audits
from dpaudit.accountant.account import account
from dpaudit.accountant.claim import Claim
from dpaudit.audit.suite import Suite
from dpaudit.certificate.order import Order
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import GDP
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.stable_erm import rows_catalogue as rows
from mechanisms.papers.stable_erm.calibration import USERS, del_output_pert_paper
from mechanisms.papers.stable_erm.certificate import Certified, GradientCertificate
from mechanisms.papers.stable_erm.phased import Phases
from mechanisms.papers.stable_erm.problem import DeltaRule
from mechanisms.papers.stable_erm.stable import Found, Statistic, Unending
from tests.support.planted import UNCONTRADICTED, judged_by_its_suite

MECHANISMS = {v.name: v for v in vars(rows).values() if isinstance(v, Mechanism)}
SUITES = {v.mechanism: v for v in vars(audits).values() if isinstance(v, Suite)}
QUICK = "stable_phased_sco_rows", "strongly_convex_sco_rows"


@dataclass(frozen=True)
class Refused(Unending):
    """An enumeration that is not even begun."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        raise InvalidParameter("no certificate passed")


def hostile(users: int, items: int) -> Array:
    """Every second user pulls one way with all that it has, the others back; one is no number."""
    found = np.full((users, items, rows.FEATURES), 1e3)
    found[::2, :, :-1] *= -1
    found[0] = np.nan
    return found


def small(gamma: float) -> Any:
    """PhasedSCO on 80 users of 2 rows, kappa = 2, three phases."""
    program: Any = rows.stable_phased_sco_rows.program
    problem = replace(program.problem, users=80, items=2)
    constants = replace(program.constants, kappa=2)
    search = Certified(GradientCertificate("c1"), Refused())
    return replace(
        program, problem=problem, constants=constants, count=2, search=search,
        rule=DeltaRule("c1", gamma=gamma),
    )  # fmt: skip


def stated(claim: Claim) -> Fraction:
    guarantee: Any = claim.guarantee
    return Fraction(guarantee.epsilon)


def run(program: Any, users: Array, trials: int = 1) -> Any:
    curator = Sampler(
        program.declaration(USERS), USERS, Records(users), rng=np.random.default_rng(4),
        trials=trials,
    )  # fmt: skip
    return program.run(curator)


def test_at_a_radius_of_two_g_no_data_needs_an_enumeration() -> None:
    """On users as far apart as gradients can be; within a tenth of that radius it is called."""
    users = hostile(80, 2)
    assert np.isfinite(run(small(2 * rows.NORM), users, trials=3).output).all()
    with pytest.raises(InvalidParameter, match="its query failed"):
        run(small(0.2 * rows.NORM), users)


@pytest.mark.parametrize("name", MECHANISMS)
def test_units_are_made_for_any_data(name: str) -> None:
    """What the note says: gamma is 2 G in every release, more rows a user would make it less."""
    program: Any = MECHANISMS[name].program
    parts = [program] if isinstance(program, Phases) else [program.first, program.phases]
    assert [part.rule.gamma for part in parts] == [2 * rows.NORM] * len(parts)
    assert rows.ALWAYS in MECHANISMS[name].setting.notes
    search: Any = parts[0].search
    assert isinstance(search.fallback, Unending)
    assert rows.radius_of(rows.problem_of(160, 100, 0.0), 5) < 2 * rows.NORM


def test_constants_phases_and_sizes_are_the_papers() -> None:
    """T = ceil(log2(n m)), a T-th of the budget each, of half of it where a release comes first."""
    for name, parts in (("stable_phased_erm_rows", 1), ("strongly_convex_erm_rows", 2)):
        program: Any = MECHANISMS[name].program
        phases = program if parts == 1 else program.phases
        problem = phases.problem
        assert problem.items > 1
        assert problem.dimension == 10
        assert phases.count == math.ceil(math.log2(problem.users * problem.items))
        share = Fraction(1, parts * phases.count)
        assert phases.constants == del_output_pert_paper(share, rows.DELTA * share)


def test_lambda_is_made_for_the_ball_of_the_first_release() -> None:
    """The radius R' of the unit that is used: G sqrt(d) / (R' n sqrt(m)), and the SCO's at 2 R'."""
    program: Any = rows.strongly_convex_erm_rows.program
    problem = program.phases.problem
    root = problem.users * math.sqrt(problem.items)
    wanted = rows.NORM * math.sqrt(10) / (program.radius * root)
    assert program.phases.weight == pytest.approx(wanted, rel=1e-12)
    other: Any = rows.strongly_convex_sco_rows.program
    many = other.phases.problem
    root = many.users * math.sqrt(many.items)
    wanted = math.sqrt(10) / root + 1 / math.sqrt(many.users * many.items)
    assert other.phases.weight == pytest.approx(rows.NORM * wanted / (2 * other.radius), rel=1e-12)


@pytest.mark.first_case
@pytest.mark.parametrize("name", QUICK)
def test_entries_run_on_their_rows(name: str) -> None:
    """No phase is bottom; the noise is what is left of the data, as the page says."""
    mechanism = MECHANISMS[name]
    records = mechanism.records() if mechanism.records is not None else Records(np.zeros((0, 1)))
    found = run(mechanism.program, records.values)
    assert mechanism.evaluate is not None
    passed, loss, start = mechanism.evaluate(found)
    assert passed.value == 1.0
    assert start.value == pytest.approx(1.0)
    assert loss.value > start.value


def test_a_bottom_is_counted() -> None:
    """The share of phases that passed falls by those that did not."""
    mechanism = rows.stable_phased_sco_rows
    problem: Any = mechanism.program
    found = run(small(2 * rows.NORM), hostile(80, 2))
    failed = np.array([[True, False]])
    shares = [
        rows.metrics(problem.problem, replace(found, failed=f))[0].value for f in (failed, ~failed)
    ]
    assert shares == [0.5, 0.5]


@pytest.mark.long_cases(
    "strongly_convex_erm_rows", "stable_phased_erm_rows", "strongly_convex_sco_rows"
)
@pytest.mark.parametrize("name", MECHANISMS)
def test_claims_are_what_the_account_says(name: str) -> None:
    """Both hold, and what the checker confirms too is at most a tenth above the account."""
    mechanism = MECHANISMS[name]
    shown = account(mechanism.declaration, USERS).epsilon(rows.DELTA).upper
    printed, exact = (stated(claim) for claim in mechanism.claims)
    assert shown <= exact <= 1.11 * float(shown)
    assert printed == 1


@pytest.mark.quality
@pytest.mark.parametrize("name", QUICK)
def test_entries_are_attacked(name: str) -> None:
    """By the function that attains the profile: certified, and the audit near the exact number."""
    mechanism = replace(MECHANISMS[name], records=None)
    order = Order(mechanism, replace(SUITES[name], trials=4_000), "project", {"a.py": "0" * 64})
    result = judged_by_its_suite(order, seed=20_230_729)
    assert result.verdict in UNCONTRADICTED
    found = result.certificate["predicate"]["audits"]
    shown = [b for row in found for b in row["lower_bounds"] if "epsilon" in b]
    exact = float(stated(mechanism.claims[1]))
    assert 0.5 * exact <= max(float(bound["epsilon"]) for bound in shown) <= exact


def test_every_entry_has_an_audit_of_the_same_declaration() -> None:
    assert set(SUITES) == set(MECHANISMS)
    for name, audit in SUITES.items():
        assert audit.program.declaration(USERS) == MECHANISMS[name].declaration


@pytest.mark.parametrize("name", MECHANISMS)
def test_on_any_data_the_noise_of_its_own_loss_hides_the_whole_domain(name: str) -> None:
    """No score moves, and vectors lie in a ball: no pair of data sets shows a fifth of the claim.

    So its suite attacks another loss.
    """
    program: Any = MECHANISMS[name].program
    phases = getattr(program, "phases", program)
    sizes = getattr(phases, "sizes", (phases.problem.users,) * phases.count)
    deviations = [phases.deviation(k + 1, sizes[k]) for k in range(phases.count)]
    if phases is not program:
        deviations.append(program.first.deviation)
    mu = float(np.linalg.norm(phases.problem.domain.diameter / np.array(deviations)))
    shown = account(GDP(mu), USERS).epsilon(rows.DELTA).upper
    assert shown < min(map(stated, MECHANISMS[name].claims)) / 5
