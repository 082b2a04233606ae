"""audit_function with recorded noise: bounds, reasons for none, and what the bounds rest on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit.audit import FunctionAudit, Verdict, audit_domain, audit_function
from dpaudit.audit.blackbox import solved
from dpaudit.audit.blackbox.likely import recorded_audit
from dpaudit.audit.blackbox.recorded import RecordedGenerator, layout_of
from dpaudit.audit.blackbox.result import Recorded
from dpaudit.audit.blackbox.terms import checked_terms
from dpaudit.curator.proposal import NoLikelihood
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP, RenyiDP

Generator = np.random.Generator
SIGMA = 3.7306318  # of Gaussian noise whose epsilon at 1e-5 is 1, of sensitivity 1
CLAIM = ApproxDP(1, "1e-5")


def bound(mechanism: Any, claim: Any = CLAIM, **more: Any) -> Recorded:
    given: dict[str, Any] = {"trials": 4_000, "seed": 1, "data": (0.0, 1.0)} | more
    terms = checked_terms(claim, given["trials"], 0.95, 1e-4, given["seed"])
    return recorded_audit(mechanism, given["data"], terms)


def gaussian(scale: float = 1.0, times: float = 1.0) -> Callable[..., Any]:
    return lambda d, rng, size: times * d + rng.normal(0, SIGMA * scale, size)


def each_trial(d: float, rng: Generator, size: int) -> Any:
    return [d + rng.normal(0, SIGMA * 0.98) for _ in range(size)]


def across(d: float, rng: Generator, size: int) -> Any:
    return (d / math.sqrt(4) + SIGMA * 0.98 * rng.standard_normal((4, size))).T


def correlated(d: float, rng: Generator, size: int) -> Any:
    noise = rng.multivariate_normal([0, 0], SIGMA**2 * np.array([[2, 1], [1, 2.0]]) * 0.98**2, size)
    return noise + d * math.sqrt(1.5) * np.array([1.0, 0.0]) / 1.0


def beside_its_parts(d: float, rng: Generator, size: int) -> Any:
    """Three outputs of one number of noise, and a number that nothing is made of."""
    rng.random(size)
    y = d + rng.normal(0, SIGMA * 0.98, size)
    return np.stack([y, 2 * y, np.full(size, 3.0)], axis=1)


def exponentiated(d: float, rng: Generator, size: int) -> Any:
    return np.exp(d + rng.normal(0, SIGMA * 0.98, size))


def adaptive(d: float, rng: Generator, size: int) -> Any:
    """The first output moves the second, whose own shift is not moved."""
    first = d / math.sqrt(2) + rng.normal(0, SIGMA * 0.98, size)
    second = d / math.sqrt(2) + rng.normal(0, SIGMA * 0.98, size) + 0.3 * first**2
    return np.stack([first, second], axis=1)


@pytest.mark.first_case
@pytest.mark.long_cases("each_trial-affine", "adaptive-monotone")
@pytest.mark.parametrize(
    ("mechanism", "solved_as"),
    [
        (gaussian(0.98), "affine"),
        (each_trial, "affine"),
        (across, "affine"),
        (correlated, "affine"),
        (beside_its_parts, "affine"),
        (exponentiated, "monotone"),
        (adaptive, "monotone"),
    ],
)
def test_gaussian_noise_2_percent_too_small_is_refuted(mechanism: Any, solved_as: str) -> None:
    """All have epsilon 1.0224 at 1e-5; a bound errs with probability 0.025."""
    found = bound(mechanism)
    assert not found.why_not
    assert found.solved.startswith(solved_as)
    assert 2 * found.p_value <= 1e-4
    assert 1.005 < found.lower <= 1.0224


@pytest.mark.parametrize("side", [0, 1])
def test_either_data_set_may_be_the_one_that_is_run(side: int) -> None:
    """Noise is positive: outputs below 1 come from one data set only, and all others from both."""
    data = (1.0, 0.0) if side else (0.0, 1.0)
    found = bound(lambda d, rng, size: d + rng.exponential(1, size), data=data)
    assert found.side == side
    assert found.lower > 1000


@pytest.mark.parametrize(("claim", "truth"), [(GDP(0.2), 1 / SIGMA), (ZCDP(0.01), 0.5 / SIGMA**2)])
def test_claims_in_other_measures_are_bounded(claim: Any, truth: float) -> None:
    found = bound(gaussian(), claim)
    assert 2 * found.p_value <= 1e-4
    assert 0.9 * truth < found.lower <= truth
    assert bound(gaussian(), RenyiDP(2, 1)).why_not.startswith("no likelihood bound")


def inverse_laplace(d: float, rng: Generator, size: int) -> Any:
    u = rng.random(size) - 0.5
    return d - np.sign(u) * np.log1p(-2 * np.abs(u))


@pytest.mark.first_case
@pytest.mark.parametrize(
    "mechanism",
    [lambda d, rng, size: d + rng.laplace(0, 1, size), inverse_laplace],
    ids=["laplace", "uniform"],
)
def test_laplace_noise_reaches_its_pure_epsilon(mechanism: Any) -> None:
    found = bound(mechanism, PureDP("0.99"))
    assert 0.999 < found.lower <= 1
    assert 2 * found.p_value <= 1e-4


@pytest.mark.quality
def test_a_wrong_clip_is_refuted_and_right_noise_is_not() -> None:
    """The clip lets 1.1 through.  21 audits of right noise err with probability 1e-4 in all."""
    assert 1.09 < bound(gaussian(times=1.1)).lower <= 1.1056
    for seed in range(21):
        right = bound(gaussian(), seed=seed)
        assert not right.why_not
        assert right.p_value > 1e-6
        assert right.lower < 1.01


# --- what cannot be bounded -----------------------------------------------------------------------


def nothing(d: float, rng: Generator, size: int) -> Any:
    return np.full(size, d)


def own_generator(d: float, rng: Generator, size: int) -> Any:
    return d + np.random.default_rng().normal(0, 1, size) + rng.normal(0, 1, size)


def module_of_numpy(d: float, rng: Generator, size: int) -> Any:
    return d + np.random.normal(0, 1, size) + rng.normal(0, 1, size)  # noqa: NPY002


def caught(d: float, rng: Generator, size: int) -> Any:
    try:
        return d + rng.integers(0, 10, size)
    except Exception:  # noqa: BLE001 (as such functions do)
        return d + rng.normal(0, 1, size)


def until_large(d: float, rng: Generator, size: int) -> Any:
    found = rng.normal(0, 1, size)
    while (found < -1).any():
        found = rng.normal(0, 1, size)
    return d + found


def stopped(d: float, rng: Generator, size: int) -> Any:
    y = d + rng.normal(0, 1, size)
    y[y > 2] = np.nan
    return y


def raising(d: float, rng: Generator, size: int) -> Any:
    if d:
        raise ValueError("a record of somebody: 17")
    return d + rng.normal(0, 1, size)


def wide(d: float, rng: Generator, size: int) -> Any:
    return np.full((size, 1 + int(d)), d) + rng.normal(0, 1, size)[:, None]


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        (lambda d, rng, size: np.round(d + rng.normal(0, SIGMA, size), 1), "rounded"),
        (lambda d, rng, size: np.abs(d + rng.normal(0, SIGMA, size)), "not one-to-one"),
        (lambda d, rng, size: (d + rng.normal(0, SIGMA, size)) % 7, "not one-to-one"),
        (lambda d, rng, size: d + rng.normal(0, 1, (size, 2)).sum(1), "determine only 1"),
        (lambda d, rng, size: d + np.exp(rng.normal(0, 1, (size, 2)).sum(1)), "two draws"),
        (lambda d, rng, size: rng.random(size) < 0.3 + d / 9, "truth values"),
        (lambda d, rng, size: d + rng.normal(0, 1, (size, 501)), "at most 500"),
        (lambda d, rng, size: np.exp(d + rng.normal(0, 1, (size, 33))), "at most 32"),
        (nothing, "draws nothing"),
        (own_generator, "another generator"),
        (module_of_numpy, "another generator"),
        (caught, "rng.integers"),
        (lambda d, rng, size: d + rng.spawn(1)[0].normal(0, 1, size), "rng.spawn"),
        (lambda d, rng, size: Generator(rng.bit_generator).normal(d, 1, size), "bit_generator"),
        (lambda d, rng, size: rng.normal(0, 1, (size, 1 + int(d))).sum(1) + d, "draws that it"),
        (until_large, "draws that it asks for"),
        (lambda d, rng, size: d + rng.normal(0, 1) + rng.normal(0, 1, size), "told apart by trial"),
        (lambda d, rng, size: d + np.cumsum(rng.normal(0, 1, size)), "one trial moves"),
        (stopped, "no finite number"),
        (raising, "it raised ValueError in a run with recorded noise"),
        (wide, "number of outputs"),
        (lambda d, rng, size: rng.normal(0, 1, size).reshape(1, -1), "shape"),
    ],
)
def test_a_function_without_such_a_bound_says_why(mechanism: Any, reason: str) -> None:
    found = bound(mechanism)
    assert reason in found.why_not
    assert (found.lower, found.p_value, found.trials) == (0, 1, 0)
    assert "17" not in found.why_not


def test_a_coin_of_records_is_no_noise_of_the_output() -> None:
    """Outputs do not determine who was in the batch: no bound, rather than one given the batch."""

    def sampled(d: float, rng: Generator, size: int) -> Any:
        return d * (rng.random(size) < 0.01) + rng.normal(0, 1, size)

    assert "two draws" in bound(sampled, PureDP(1)).why_not


# --- what the bound rests on ----------------------------------------------------------------------


@pytest.mark.quality
def test_a_bound_without_the_jacobian_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laplace noise of scale 1 or 1.5: epsilon at 1e-5 is 4.80, by integrating by hand."""
    truth = math.log(1 / 3e-5) / 2 - math.log(1.5)

    def scaled(d: float, rng: Generator, size: int) -> Any:
        return (1 + 0.5 * d) * rng.laplace(0, 1, size)

    for mechanism in (scaled, lambda *given: np.sinh(scaled(*given))):
        assert 0.9 * truth < bound(mechanism).lower <= truth
    losses = solved.Solved.__dict__["losses"].fget
    flat = property(lambda s: losses(solved.Solved(s.ratios, 0 * s.volume, s.sure)))
    monkeypatch.setattr(solved.Solved, "losses", flat)
    for mechanism in (scaled, lambda *given: np.sinh(scaled(*given))):
        assert bound(mechanism).lower > truth


def test_noise_that_is_solved_for_wrongly_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running the other data set finds it: without what is made of that, the bound is wrong."""

    class Wrong(solved.Affine):
        def solve(self, side: int, scores: Any) -> solved.Solved:
            self.maps[1 - side][0] += 3.0
            found = super().solve(side, scores)
            self.maps[1 - side][0] -= 3.0
            return found

        def check(self, side: int, noise: Any) -> Any:
            return self.run(side, noise)

    monkeypatch.setattr(solved, "Affine", Wrong)
    assert bound(gaussian()).why_not == solved.UNSOLVED
    monkeypatch.setattr(solved, "confirmed", lambda off, *_: np.ones(len(off), dtype=bool))
    assert not bound(gaussian()).lower > 0  # the likeliest noise near it is no rarer
    likeliest = solved._likeliest
    monkeypatch.setattr(solved, "_likeliest", lambda laws, z, off: likeliest(laws, z, 0 * off))
    assert bound(gaussian()).lower > 1.5


def test_outputs_that_are_nearly_reached_lower_the_bound() -> None:
    """Outputs on a grid of 1e-9 of the noise: solved noise is off by as much, and q larger."""
    grid = 2.0**-28
    found = bound(lambda d, rng, size: np.round((d + rng.normal(0, SIGMA, size)) / grid) * grid)
    assert 0.95 < found.lower < 1.0
    assert found.unconfirmed == 0


def test_a_map_that_is_not_monotone_has_a_wrong_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distances from 0: the one root that is found would stand for the two that there are."""

    def distance(d: float, rng: Generator, size: int) -> Any:
        return np.abs(d + rng.normal(0, 1, size)) ** 1.5

    assert bound(distance).why_not == solved.NOT_MONOTONE


# --- the generator --------------------------------------------------------------------------------


@pytest.mark.first_case
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(1, 2, 5),
        lambda rng: rng.normal([1, 2, 3], [[1], [2]]),
        lambda rng: rng.laplace(1, 2, (2, 3)),
        lambda rng: rng.logistic(1, 2, 4),
        lambda rng: rng.gumbel(1, 2, 4),
        lambda rng: rng.uniform(-1, 5, 4),
        lambda rng: rng.exponential(3, 4),
        lambda rng: rng.lognormal(1, 0.5, 4),
        lambda rng: rng.multivariate_normal([1, 2], [[2, 1], [1, 2]], 4),
        lambda rng: rng.standard_normal(),
        lambda rng: rng.random(3, np.float32),
        lambda rng: rng.standard_exponential(3, np.float64, "inv"),
        lambda rng: rng.random(out=np.zeros((2, 2))),
        lambda rng: rng.standard_normal(3, np.float64, np.zeros(3)),
        lambda rng: np.random.default_rng(rng).normal(size=2),
    ],
)
def test_recorded_numbers_have_numpys_shapes_types_and_laws(draw: Any) -> None:
    """Of 20,000 draws means lie within six standard errors of each other, 2e-9 a case."""
    plain = np.random.default_rng(1)
    scores = np.random.default_rng(2)
    fake = RecordedGenerator(lambda _, law, shape: law.of_score(scores.standard_normal(shape)))
    first, second = draw(plain), draw(fake)
    assert np.shape(first) == np.shape(second)
    assert np.asarray(first).dtype == np.asarray(second).dtype
    count = 20_000 // max(1, np.size(first))
    sides = [np.array([draw(rng) for _ in range(count)], dtype=float) for rng in (plain, fake)]
    for power in (1, 2):
        means = [(side**power).mean(axis=0) for side in sides]
        errors = np.hypot(*((side**power).std(axis=0) for side in sides)) / math.sqrt(count)
        assert (np.abs(means[0] - means[1]) < 6 * errors + 1e-12).all()


def test_numbers_of_any_layout_belong_to_their_trials() -> None:
    for mechanism in (each_trial, across, correlated):
        layout = layout_of(mechanism, (0.0, 1.0), np.random.default_rng(1))
        numbers = np.arange(3.0 * len(layout.laws)).reshape(3, -1)
        changed = numbers.copy()
        changed[1] += 1
        before, after = (layout.outputs(mechanism, 0.0, z) for z in (numbers, changed))
        assert (before != after).all(axis=1).tolist() == [False, True, False]
    with pytest.raises(NoLikelihood):
        layout.outputs(each_trial, 0.0, numbers)


# --- the whole audit ------------------------------------------------------------------------------


def audit(mechanism: Any, claim: Any = CLAIM, **more: Any) -> FunctionAudit:
    given: dict[str, Any] = {"trials": 10_000, "seed": 1, "generator": "recorded"} | more
    return audit_function(mechanism, 0.0, 1.0, claim=claim, **given)


def test_the_result_shows_both_bounds_and_the_assumption() -> None:
    found = audit(gaussian(0.98))
    assert found.recorded is not None
    assert found.verdict is Verdict.REFUTED
    assert "if outputs are one-to-one in the noise" in found.reason
    assert found.lower == found.epsilon_lower == found.recorded.lower
    assert found.p_value == 2 * found.recorded.p_value
    assert (found.confidence, found.refute_at) == (0.95, 1e-4)
    fields = json.loads(json.dumps(found.to_json()))
    assert "one-to-one" in fields["recorded"]["assumption"]
    assert "from likelihoods of 10,000 trials" in found.details
    assert "from likelihoods" in found._repr_html_()
    plain = audit(gaussian(0.98), generator=None)
    assert plain.verdict is Verdict.INCONCLUSIVE
    assert plain.recorded is None
    assert plain.to_json()["recorded"] is None


def test_a_fall_back_is_the_plain_audit_and_says_why() -> None:
    def rounded(d: float, rng: Generator, size: int) -> Any:
        return np.round(d + rng.laplace(0, 0.5, size), 1)

    found, plain = (audit(rounded, PureDP(1), generator=g) for g in ("recorded", None))
    assert found.recorded is not None
    assert "the plain audit stands alone" in found.details
    assert (found.verdict, found.p_value, found.lower) == (
        Verdict.REFUTED,
        plain.p_value,
        plain.lower,
    )


@pytest.mark.quality
def test_half_of_the_error_is_the_plain_audits() -> None:
    """A function that both refute keeps the reason that rests on less."""
    found = audit(lambda d, rng, size: d + rng.laplace(0, 0.5, size), PureDP(1))
    assert found.recorded is not None
    assert 1.9 < found.recorded.lower <= 2
    assert "an event is likelier" in found.reason
    assert "at most 5e-05" in found.reason
    assert "refute_at=0.0001" in found.reproducer or "refute_at" not in found.reproducer


def test_equal_data_and_bad_arguments() -> None:
    same = audit_function(
        gaussian(), 1.0, 1.0, claim=CLAIM, trials=1_000, seed=1, generator="recorded"
    )
    assert same.verdict is Verdict.INCONCLUSIVE
    assert same.recorded is not None
    assert same.recorded.why_not
    with pytest.raises(InvalidParameter, match="generator = 'other'"):
        audit(gaussian(), generator="other")


def test_a_domain_is_audited_so_as_well() -> None:
    found = audit_domain(
        gaussian(0.98),
        [0.0, 1.0],
        lambda data: [1 - data],
        claim=CLAIM,
        trials=10_000,
        seed=1,
        generator="recorded",
    )
    assert found.verdict == "refuted"
