"""The black-box set: every label against exact chances, or simulations with a stated error."""

import math
import pickle

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta, binom

from audits.blackbox import Case, Domain, Relation, catalogue
from audits.blackbox.case import on_grid
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP, RenyiDP

CASES = catalogue()
BUGGY = [case for case in CASES if not case.correct]
CORRECT = [case for case in CASES if case.correct]
KNOWN = [case for case in BUGGY if case.chances is not None]
SEEN = [case for case in BUGGY if case.chances is None]
ORDERS = np.concatenate([np.linspace(1.01, 4, 60), np.geomspace(4, 1000, 60)])


def _names(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


def violates(claim: object, p: float, q: float) -> bool:
    """Whether no mechanism with this claim has an event of chances p here and q there."""
    if p <= q:
        return False
    if isinstance(claim, PureDP):
        return p > math.exp(float(claim.epsilon)) * q
    if isinstance(claim, ApproxDP):
        return p > math.exp(float(claim.epsilon)) * q + float(claim.delta)
    if isinstance(claim, GDP):
        return float(ndtri(p) - ndtri(q)) > float(claim.mu)
    assert isinstance(claim, ZCDP | RenyiDP)
    with np.errstate(divide="ignore"):
        inside = ORDERS * np.log(p) + (1 - ORDERS) * np.log(max(q, 1e-300))
        outside = ORDERS * np.log1p(-p) + (1 - ORDERS) * np.log(max(1 - q, 1e-300))
    divergence = np.logaddexp(inside, outside) / (ORDERS - 1)
    if isinstance(claim, RenyiDP):
        return bool((divergence[float(claim.order) >= ORDERS] > float(claim.epsilon)).any())
    return bool((divergence > float(claim.rho) * ORDERS).any())


def _draws(case: Case, seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    one, two = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    return case.mechanism(case.d0, one, size), case.mechanism(case.d1, two, size)


def test_sizes_of_the_set() -> None:
    assert len(BUGGY) >= 74
    assert len(CORRECT) >= 25
    assert len({case.name for case in CASES}) == len(CASES)
    assert len({case.family for case in CASES}) == 16
    assert {type(case.claim) for case in CASES} == {PureDP, ApproxDP, GDP, ZCDP, RenyiDP}


@pytest.mark.parametrize("case", CASES, ids=_names(CASES))
def test_is_described_and_its_pair_is_one(case: Case) -> None:
    assert case.text.endswith((".", ")"))
    assert len(case.text) > 20
    assert case.source
    assert case.correct == case.text.startswith("Right")
    assert (case.event is None) == case.correct
    assert case.domain.holds(case.d0)
    assert case.domain.holds(case.d1)
    assert _related(case)


def _related(case: Case) -> bool:
    if case.relation is Relation.ADD_REMOVE:
        longer, shorter = sorted((case.d0, case.d1), key=len, reverse=True)
        return len(longer) == len(shorter) + 1 and any(
            np.array_equal(np.delete(longer, i, axis=0), shorter) for i in range(len(longer))
        )
    if case.d0.shape != case.d1.shape:
        return False
    if case.relation is Relation.REPLACE_ONE:
        rows = (case.d0 != case.d1).reshape(len(case.d0), -1).any(axis=1)
        return np.count_nonzero(rows) == 1
    moved = np.abs(case.d0 - case.d1)
    return 0 < moved.max() <= 1


@pytest.mark.parametrize("case", CASES, ids=_names(CASES))
def test_draws_one_output_a_run(case: Case) -> None:
    before = case.d0.copy()
    outputs, _ = _draws(case, 3, 50)
    assert outputs.dtype == np.float64
    assert outputs.shape[0] == 50
    assert outputs.ndim in (1, 2)
    assert case.mechanism(case.d1, np.random.default_rng(3), 50).shape == outputs.shape
    assert case.mechanism(case.d0, np.random.default_rng(3), 1).shape == (1, *outputs.shape[1:])
    np.testing.assert_array_equal(case.d0, before)
    again = case.mechanism(case.d0, np.random.default_rng([3, 0]), 50)
    np.testing.assert_array_equal(again, outputs)


@pytest.mark.parametrize("case", KNOWN, ids=_names(KNOWN))
def test_exact_chances_violate_the_claim(case: Case) -> None:
    assert case.chances is not None
    assert violates(case.claim, *case.chances)


@pytest.mark.parametrize("case", KNOWN, ids=_names(KNOWN))
def test_chances_are_those_of_the_mechanism(case: Case) -> None:
    """Two-sided binomial tests, 1e-7 each: false alarm below 1e-4 in all.

    The public grid moves chances by less than 1e-6, which the band allows for.
    """
    assert case.chances is not None
    assert case.event is not None
    for outputs, chance in zip(_draws(case, 11, 20_000), case.chances, strict=True):
        hits = int(np.count_nonzero(case.event(outputs)))
        low, high = max(chance - 1e-6, 0.0), min(chance + 1e-6, 1.0)
        assert binom.sf(hits - 1, 20_000, high) > 1e-7
        assert binom.cdf(hits, 20_000, low) > 1e-7


@pytest.mark.first_case
@pytest.mark.parametrize("case", SEEN, ids=_names(SEEN))
def test_counted_chances_violate_the_claim(case: Case) -> None:
    """Clopper and Pearson at 1e-6 a side: false proof below 1e-4 in all."""
    assert case.event is not None
    trials = 100_000
    hits, other = (int(np.count_nonzero(case.event(x))) for x in _draws(case, 12, trials))
    lower = beta.ppf(1e-6, hits, trials - hits + 1) if hits else 0.0
    upper = beta.isf(1e-6, other + 1, trials - other) if other < trials else 1.0
    assert violates(case.claim, float(lower), float(upper))


@pytest.mark.first_case
@pytest.mark.parametrize("case", CORRECT, ids=_names(CORRECT))
def test_no_simple_event_refutes_a_correct_case(case: Case) -> None:
    """Values, thresholds, missing outputs; binomial bounds at 1e-9 each, false alarm below 1e-4."""
    trials = 5_000
    columns = [outputs.reshape(trials, -1) for outputs in _draws(case, 13, trials)]
    for first, second in zip(columns[0].T, columns[1].T, strict=True):
        for a, b in _events(first, second):
            assert not _refutes(case, a, b, trials)
            assert not _refutes(case, b, a, trials)


def _events(first: np.ndarray, second: np.ndarray) -> list[tuple[int, int]]:
    """Counts on both sides of missing outputs, of the commonest values, and of thresholds."""
    values, counts = np.unique(first[~np.isnan(first)], return_counts=True)
    common = values[np.argsort(-counts)[:10]]
    cuts = np.quantile(values, np.linspace(0, 1, 41)) if values.size else []
    found = [(int(np.isnan(x).sum()), int(np.isnan(y).sum())) for x, y in [(first, second)]]
    found += [(int((first == v).sum()), int((second == v).sum())) for v in common]
    found += [(int((first < v).sum()), int((second < v).sum())) for v in cuts]
    return found + [(int((first > v).sum()), int((second > v).sum())) for v in cuts]


def _refutes(case: Case, hits: int, other: int, trials: int) -> bool:
    lower = beta.ppf(1e-9, hits, trials - hits + 1) if hits else 0.0
    upper = beta.isf(1e-9, other + 1, trials - other) if other < trials else 1.0
    return violates(case.claim, float(lower), float(upper))


def test_cases_travel_to_other_processes() -> None:
    mechanisms = [case.mechanism for case in CASES]
    assert pickle.loads(pickle.dumps(mechanisms)) is not None  # noqa: S301


def test_all_are_quick() -> None:
    """2,000 draws of every case, both sides, within a generous half minute."""
    from time import perf_counter

    started = perf_counter()
    for case in CASES:
        _draws(case, 5, 2_000)
    assert perf_counter() - started < 30


def test_a_domain_refuses_what_is_outside() -> None:
    domain = Domain(2, 3, 0, 2, whole=True, special=(math.nan, math.inf))
    assert domain.holds(np.array([0.0, 2.0]))
    assert domain.holds(np.array([math.nan, math.inf, 1.0]))
    for outside in ([1.0], [0.0] * 4, [0.0, 0.5], [0.0, 3.0], [-1.0, 0.0], [-math.inf, 0.0]):
        assert not domain.holds(np.array(outside))
    assert not domain.holds(np.zeros((2, 1)))
    assert not Domain(2, 2, 0, 1).holds(np.array([math.nan, 0.0]))


def test_outputs_are_on_a_grid_but_for_floating_point_bugs() -> None:
    odd = np.array([math.nan, math.inf, -0.0, 0.3])
    rounded = on_grid(odd, 0.25)
    assert math.isnan(rounded[0])
    assert rounded[1] == math.inf
    assert np.signbit(rounded[2])
    assert rounded[3] == 0.25
    for case in CASES:
        if case.family not in ("floating point", "randomness"):
            outputs = case.mechanism(case.d0, np.random.default_rng(2), 20)
            known = outputs[np.isfinite(outputs)] * 2.0**30
            assert (known == np.rint(known)).all()
