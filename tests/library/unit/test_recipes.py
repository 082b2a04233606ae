"""Training runs in one line, against declarations written out and known numbers."""

from __future__ import annotations

import json
import math
import re
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sympy
from click.testing import CliRunner
from scipy.stats import norm

import dpaudit as dp
from dpaudit.accountant import recipes
from dpaudit.accountant.calibrate import NoValue
from dpaudit.accountant.recipes import (
    epsilon_over_steps,
    from_settings,
    sampling_warning,
    scope_of,
)
from dpaudit.cli.main import main
from dpaudit.errors import InvalidParameter
from dpaudit.families.batches import ShuffledBatches, TruncatedPoisson

ABSENT = "add_remove zero_out"


def test_poisson_batches_have_the_known_epsilon() -> None:
    run = dp.dp_sgd(n=60_000, batch=600, epochs=100, sigma=1)
    bound = dp.account(run, scope_of("poisson")).epsilon("1e-5")
    assert 6.1876 < bound.lower <= bound.upper < 6.1878  # shared recipe, 40-digit masses


def test_a_rate_and_steps_say_what_records_and_batches_say() -> None:
    by_rate = dp.dp_sgd(sigma=1, rate="0.01", steps=1000, layers=2)
    assert by_rate == dp.dp_sgd(n=60_000, batch=600, epochs=10, sigma=1, layers=2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rate": 0.1}, "steps: missing"),
        ({"n": 5}, "batch, epochs: missing"),
        ({"rate": 0.1, "steps": 3, "n": 4}, "not both"),
        ({"rate": 0.1, "steps": 3, "sampling": "fixed"}, "the number of records"),
        ({"rate": 0.1, "steps": 3, "microbatch": 2}, "the number of records"),
        ({"rate": 2, "steps": 3}, "at most 1"),
    ],
)
def test_a_run_is_described_in_one_way(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        dp.dp_sgd(sigma=1, **settings)


def test_sigma_is_over_the_clipping_norm() -> None:
    """Replacing a record moves a clipped sum by twice the norm: half the noise multiplier."""
    run = dp.dp_sgd(n=1000, batch=10, epochs=1, sigma=2, sampling="fixed")
    inner = dp.SampledWithoutReplacement(dp.Gaussian("gradient", 1, "replace_one"), 10, 1000)
    assert run == dp.Repeat(inner, 100)
    assert scope_of("fixed") == dp.central("replace_one")


def test_the_other_samplings() -> None:
    noise = dp.Gaussian("gradient", 2, ABSENT)
    allocated = dp.dp_sgd(n=1000, batch=10, epochs=3, sigma=2, sampling="allocation")
    assert allocated == dp.Repeat(dp.RandomAllocation(noise, 100), 3)
    shuffled = dp.dp_sgd(n=1000, batch=10, epochs=3, sigma=2, sampling="shuffled")
    assert shuffled == dp.Repeat(ShuffledBatches(noise, 1000, 10), 3)
    kept = dp.dp_sgd(n=1000, batch=10, epochs=3, sigma=2, sampling="kept")
    assert kept == ShuffledBatches(dp.Repeat(noise, 3), 1000, 10)
    assert dp.dp_sgd(n=1000, batch=300, epochs="0.5", sigma=2).times == 2


def test_prefix_sums_of_several_passes() -> None:
    run = dp.dp_ftrl(steps=64, sigma=4, epochs=4)
    assert (run.participation.at_most, run.participation.separation) == (4, 16)
    assert run.strategy == "tree"


@pytest.mark.quality
def test_noise_for_meets_its_target_and_a_little_less_does_not() -> None:
    settings = {"n": 10_000, "batch": 100, "epochs": 2}
    sigma = dp.noise_for(epsilon=1, delta="1e-5", **settings)
    scope = scope_of("poisson")
    held, shaved = (
        dp.account(dp.dp_sgd(sigma=s, **settings), scope).epsilon("1e-5")
        for s in (sigma, sigma * Fraction(999, 1000))
    )
    assert held.upper <= 1 < shaved.lower


@pytest.mark.parametrize(
    "settings", [{"steps": 1024}, {"steps": 512, "epochs": 4, "strategy": "sqrt_toeplitz"}]
)
def test_noise_for_prefix_sums_meets_its_target_and_a_little_less_does_not(
    settings: dict[str, Any],
) -> None:
    sigma = dp.ftrl_noise_for(epsilon=1, delta="1e-5", **settings)
    held, shaved = (
        dp.account(dp.dp_ftrl(sigma=s, **settings), dp.central("zero_out")).epsilon("1e-5")
        for s in (sigma, sigma * Fraction(9999, 10_000))
    )
    assert held.upper <= 1 < shaved.lower


@pytest.mark.parametrize(("epsilon", "steps"), [(0, 64), (1, 1024), (8, 1024)])
def test_noise_for_prefix_sums_is_that_of_the_gaussian_mechanism(epsilon: int, steps: int) -> None:
    """A record is in a leaf and all nodes above it; the profile is Balle and Wang's, by scipy."""
    moved = math.sqrt(1 + math.log2(steps))
    sigma = float(dp.ftrl_noise_for(epsilon=epsilon, delta="1e-5", steps=steps))

    def delta(noise: float) -> float:
        mu = moved / noise
        over, under = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return float(norm.cdf(over) - math.exp(epsilon) * norm.cdf(under))

    assert delta(sigma) <= 1e-5 * (1 + 1e-9) < delta(sigma * 0.9999)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"steps": 10, "epochs": 3}, "steps = 10"),
        ({"steps": 8, "strategy": "square"}, "strategy = 'square'"),
        ({"steps": 8, "epsilon": -1}, "epsilon = -1"),
        ({"steps": 8, "delta": 0}, "delta = 0: expected a number in"),
        ({"steps": 8, "delta": 1}, "delta = 1: expected a number in"),
        ({"steps": 0}, "steps = 0"),
    ],
)
def test_noise_for_prefix_sums_refuses_what_is_no_run(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(said)):
        dp.ftrl_noise_for(**{"epsilon": 1, "delta": "1e-5", **asked})


@pytest.mark.quality
def test_a_warning_names_both_numbers() -> None:
    settings = {"n": 1_000, "batch": 100, "epochs": 1, "sigma": "0.6", "delta": "1e-5"}
    assert sampling_warning(used="poisson", accounted="poisson", **settings) is None
    text = sampling_warning(used="shuffled", accounted="poisson", **settings)
    assert text is not None
    run = dp.dp_sgd(n=1_000, batch=100, epochs=1, sigma="0.6")
    assert repr(dp.account(run, scope_of("poisson")).epsilon("1e-5")) in text
    for place in ("used", "accounted"):
        with pytest.raises(dp.InvalidParameter, match=f"^{place} = .*: expected one of poisson"):
            sampling_warning(**{"used": "poisson", "accounted": "fixed", place: ["x"]}, **settings)
    with pytest.raises(dp.InvalidParameter, match="use unit='user'"):
        sampling_warning(used="users", accounted="poisson", **settings)
    users: dict[str, Any] = {"unit": "user", "contributions": 2}
    told = sampling_warning(used="users", accounted="poisson", **settings, **users)
    assert told is not None
    for name in ("users", "poisson"):
        run = dp.dp_sgd(n=1_000, batch=100, epochs=1, sigma="0.6", sampling=name, **users)
        assert repr(dp.account(run, scope_of(name, "user")).epsilon("1e-5")) in told
    passed = dp.dp_sgd(n=1_000, batch=100, epochs=1, sigma="0.6", sampling="shuffled")
    assert repr(dp.account(passed, scope_of("shuffled")).epsilon("1e-5")) in text


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"n": 10, "batch": 11, "epochs": 1, "sigma": 1}, "batch = 11"),
        ({"n": 10, "batch": 5, "epochs": 0, "sigma": 1}, "epochs = 0"),
        ({"n": 10.5, "batch": 5, "epochs": 1, "sigma": 1}, "n = 10.5"),
        ({"n": 10, "batch": 5, "epochs": 1, "sigma": 0}, "noise_multiplier"),
        ({"n": 10, "batch": 5, "epochs": 1, "sigma": 1, "sampling": "none"}, "sampling"),
        ({"n": 9, "batch": 3, "epochs": 1.5, "sigma": 1, "sampling": "shuffled"}, "epochs = 3/2"),
        ({"n": 9, "batch": 2, "epochs": 1, "sigma": 1, "sampling": "cyclic"}, "partial batch of 1"),
        ({"n": 9, "batch": 4, "epochs": 1, "sigma": 1, "microbatch": 2}, "shifts the others"),
        (
            {"n": 9, "batch": 3, "epochs": 1, "sigma": 1, "sampling": "cyclic", "microbatch": 2},
            "divisor of batch = 3",
        ),
        (
            {"n": 9, "batch": 3, "epochs": 1, "sigma": 1, "sampling": "cyclic", "largest": 3},
            "only Poisson",
        ),
        ({"n": 9, "batch": 3, "epochs": 1, "sigma": 1, "largest": 10}, "largest = 10: more than"),
        (
            {"n": 9, "batch": 3, "epochs": 1, "sigma": 1, "clipped_share": -1},
            "^clipped_share = -1: expected a positive",
        ),
        # Lists have no hash, and long names are cut.
        (
            {"n": 9, "batch": 3, "epochs": 1, "sigma": 1, "sampling": []},
            r"sampling = \[\]: expected",
        ),
        (
            {"n": 9, "batch": 3, "epochs": 1, "sigma": 1, "sampling": "9" * 5000},
            r"^sampling = '9{79}\.\.\.: expected",
        ),
        (
            {"n": 9, "batch": 3, "epochs": 1, "sigma": 1, "unit": "9" * 5000},
            r"^unit = '9{79}\.\.\.: expected",
        ),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], named: str) -> None:
    with pytest.raises(dp.InvalidParameter, match=named):
        dp.dp_sgd(**settings)  # type: ignore[arg-type]


def test_what_training_does_besides() -> None:
    settings = {"n": 1000, "batch": 10, "epochs": 1, "sigma": 2}
    layers = dp.dp_sgd(**settings, layers=4)
    single = dp.dp_sgd(**{**settings, "sigma": 1})
    scope = scope_of("poisson")
    found, known = (dp.account(run, scope).epsilon("1e-5") for run in (layers, single))
    assert (found.lower, found.upper) == (known.lower, known.upper)
    adaptive = dp.dp_sgd(**settings, clipped_share=5)
    inner = dp.Compose(dp.Gaussian("gradient", 2, ABSENT), dp.Gaussian("clipped share", 10, ABSENT))
    assert adaptive == dp.Repeat(dp.PoissonSampled(inner, Fraction(1, 100)), 100)
    # Where a record is replaced, or is one of a microbatch, its bit of the count flips: by 1.
    for flipped, under in (
        ({"sampling": "fixed"}, "replace_one"),
        ({"sampling": "cyclic", "microbatch": 5}, "replace_one zero_out"),
    ):
        run = dp.dp_sgd(**settings, **flipped, clipped_share=5)
        assert run.child.child.nodes == (
            dp.Gaussian("gradient", 1, under),
            dp.Gaussian("clipped share", 5, under),
        )
    small = dp.dp_sgd(**settings, sampling="cyclic", microbatch=5)
    assert dp.account(small, scope_of("cyclic")).step("gdp").value == 1
    cut = dp.dp_sgd(**settings, largest=40)
    step = TruncatedPoisson(dp.Gaussian("gradient", 2, ABSENT), Fraction(1, 100), 1000, 40)
    assert cut == dp.Repeat(step, 100)


def test_users_have_several_records() -> None:
    """Of drawn records a binomial number is one user's; of drawn users all that they have."""
    settings: dict[str, Any] = {"n": 1000, "batch": 10, "epochs": 1, "sigma": 2}
    of_records = dp.dp_sgd(**settings, unit="user", contributions=3)
    assert of_records == dp.Group(dp.dp_sgd(**settings), 3)
    of_users = dp.dp_sgd(**settings, sampling="users", unit="user", contributions=3)
    assert of_users == dp.dp_sgd(**{**settings, "sigma": Fraction(2, 3)})
    scope = scope_of("users", "user")
    assert scope == dp.Scope("add_remove", "user", "central", "transcript")
    single = dp.account(dp.dp_sgd(**settings), scope_of("poisson")).epsilon("1e-5")
    grouped, drawn = (dp.account(run, scope).epsilon("1e-5") for run in (of_records, of_users))
    # A user's records, drawn apart, show at three times the rate but seldom together.
    assert single.upper < grouped.lower <= grouped.upper < drawn.lower
    counted = dp.dp_sgd(**settings, sampling="users", unit="user", contributions=3, clipped_share=6)
    assert counted.child.child.nodes[1] == dp.Gaussian("clipped share", 4, ABSENT)


@pytest.mark.quality
def test_a_users_records_drawn_one_by_one_are_a_mixture_of_gaussians() -> None:
    """As dp-accounting has it: sensitivities j = 0..k with binomial(k, q) weights."""
    from dp_accounting.dp_event import MixtureOfGaussiansDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    k, rate = 5, 0.01
    run = dp.dp_sgd(n=1000, batch=10, epochs=1, sigma=2, unit="user", contributions=k)
    found = dp.account(run, scope_of("poisson", "user")).epsilon("1e-5")
    weights = [math.comb(k, j) * rate**j * (1 - rate) ** (k - j) for j in range(k + 1)]
    event = MixtureOfGaussiansDpEvent(2.0, list(range(k + 1)), weights)
    theirs = (
        PLDAccountant(value_discretization_interval=1e-3)
        .compose(SelfComposedDpEvent(event, 100))
        .get_epsilon(1e-5)
    )
    assert float(found.lower) == pytest.approx(theirs, rel=2e-3)
    assert found.lower <= theirs * (1 + 1e-9)


@pytest.mark.long_cases("shuffled")
@pytest.mark.first_case
@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param("allocation", marks=pytest.mark.quality),
        pytest.param("kept", marks=pytest.mark.quality),
        "shuffled",
        "cyclic",
    ],
)
def test_users_under_other_samplings_are_answered_or_refused(sampling: str) -> None:
    """Never by the number of one record."""
    settings: dict[str, Any] = {"n": 40, "batch": 4, "epochs": 1, "sigma": 4, "sampling": sampling}
    scope = scope_of(sampling, "user")
    one = dp.account(dp.dp_sgd(**settings), scope).epsilon("1e-5")
    run = dp.dp_sgd(**settings, unit="user", contributions=2)
    try:
        two = dp.account(run, scope).epsilon("1e-5")
    except dp.Unsupported:
        return
    assert two.upper > one.lower


@pytest.mark.quality
def test_noise_for_users_is_more() -> None:
    settings: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "n": 1000, "batch": 10, "epochs": 1}
    one = dp.noise_for(**settings)
    drawn = dp.noise_for(**settings, sampling="users", unit="user", contributions=2)
    assert drawn == pytest.approx(float(2 * one), rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"unit": "user"}, "give contributions=k"),
        ({"contributions": 3}, "use unit='user'"),
        ({"sampling": "users"}, "use unit='user'"),
        ({"unit": "client", "contributions": 3}, "expected record or user"),
        ({"unit": "person", "contributions": 3}, "unit = 'person'"),
        ({"unit": "user", "contributions": 0}, "contributions = 0"),
        ({"unit": "user", "contributions": 2, "sampling": "users", "largest": 20}, "only Poisson"),
        ({"unit": "user", "contributions": 2, "sampling": "users", "microbatch": 2}, "shifts"),
    ],
)
def test_users_without_a_bound_are_refused(settings: dict[str, object], named: str) -> None:
    with pytest.raises(dp.InvalidParameter, match=named):
        dp.dp_sgd(n=100, batch=10, epochs=1, sigma=1, **settings)  # type: ignore[arg-type]


def test_contributions_above_all_records_are_refused() -> None:
    settings: dict[str, Any] = {"batch": 9, "epochs": 1, "sigma": 1, "unit": "user"}
    with pytest.raises(dp.InvalidParameter, match="contributions = 100: more than all n = 90"):
        dp.dp_sgd(n=90, contributions=100, **settings)
    assert dp.dp_sgd(n=90, contributions=90, **settings).head.startswith("Group")
    assert dp.dp_sgd(n=90, contributions=100, sampling="users", **settings).times == 10


def test_the_noise_for_an_epsilon_of_0() -> None:
    """The total variation of one batch is q (2 Phi(1 / (2 sigma)) - 1)."""
    one: dict[str, Any] = {"epsilon": 0, "delta": "1e-3", "n": 10, "batch": 1}
    drawn = dp.noise_for(**one, epochs="0.1")
    known = 1 / (2 * norm.ppf((1e-3 / 0.1 + 1) / 2))
    assert known <= float(drawn) <= known * (1 + 1e-5)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"epsilon": sympy.Symbol("e", positive=True)},
            "epsilon = e: expected a number, not a sym",
        ),
        ({"epsilon": -1}, "^epsilon = -1"),
        (
            {"epsilon": 1e9},
            r"epsilon = 1000000000: at most 100 is expected .* e\^100 bounds nothing",
        ),
        ({"epsilon": "1e6", "delta": "1e-300"}, "epsilon = 1000000: at most 100 is expected"),
        ({"delta": sympy.Symbol("d", positive=True)}, "delta = d: expected a number, not a symbol"),
        ({"delta": 0}, r"delta = 0: expected a number in \(0, 1\): at 0 no Gaussian noise"),
        ({"delta": 1}, r"delta = 1: expected a number in \(0, 1\)"),
        ({"delta": 0.99}, "delta = 0.99: of 200 batches at rate 100/10000 .* every sigma will do"),
        ({"delta": 0.99, "sampling": "fixed"}, "every sigma will do"),
        ({"n": sympy.Symbol("n")}, "n = n: expected a whole number of at least 1, not a symbol"),
        ({"layers": 0}, "layers = 0"),
    ],
)
def test_noise_that_cannot_be_found_is_refused_at_once(asked: dict[str, Any], said: str) -> None:
    settings = {"epsilon": 1, "delta": "1e-5", "n": 10_000, "batch": 100, "epochs": 2}
    start = time.process_time()
    with pytest.raises(dp.InvalidParameter, match=said):
        dp.noise_for(**{**settings, **asked})
    assert time.process_time() - start < 1


def test_every_sigma_will_do_only_above_the_chance_of_being_drawn() -> None:
    """One batch at rate 1/10: delta is at most 1/10, and with little noise nearly so."""
    one: dict[str, Any] = {"epsilon": 1, "n": 10, "batch": 1, "epochs": "0.1"}
    with pytest.raises(dp.InvalidParameter, match="every sigma will do"):
        dp.noise_for(delta="0.1", **one)
    assert dp.noise_for(delta="0.09", **one) > 0


def test_the_noise_of_passes_in_an_order_is_found_in_seconds() -> None:
    """What is reached was asked for at every sigma: most of a minute, for the number of one pass.

    From above each pass is one Gaussian release: sigma is that of two of them.
    """
    passes: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "n": 1000, "batch": 10, "epochs": 2}
    start = time.process_time()
    found = {s: dp.noise_for(**passes, sampling=s) for s in ("kept", "cyclic")}
    assert time.process_time() - start < 10
    assert set(found.values()) == {Fraction("5.27591")}


@pytest.mark.quality
def test_the_noise_for_a_tiny_epsilon_is_found_in_seconds() -> None:
    """Of batches of one size, near 10750: a curve of long sums was searched at every sigma."""
    start = time.process_time()
    fixed: dict[str, Any] = {"delta": "1e-5", "n": 1000, "batch": 10, "epochs": 2}
    found = dp.noise_for(epsilon="1e-6", sampling="fixed", **fixed)
    assert time.process_time() - start < 15
    assert 10750 < found < 12200
    cyclic = [dp.noise_for(epsilon=e, sampling="cyclic", **fixed) for e in (0, "1e-320")]
    assert cyclic[0] == pytest.approx(float(cyclic[1]), rel=1e-5)


@pytest.mark.quality
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"epsilon": 0, "delta": "1e-300"}, r"shown of no sigma .* to 2\^128: ask for a larger"),
        ({"epsilon": "1e30"}, "shown of every sigma that was tried.* ask for a smaller epsilon"),
    ],
)
def test_what_no_sigma_has_is_refused_with_a_way_out_that_works(
    asked: dict[str, Any], said: str
) -> None:
    """A bracket was named, which only dpaudit.calibrate takes."""
    passes: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "n": 1000, "batch": 10, "epochs": 2}
    with pytest.raises(dp.Unsupported, match=said) as refused:
        dp.noise_for(**{**passes, "sampling": "cyclic", **asked})
    assert "bracket" not in str(refused.value)
    larger = {**asked, **({"delta": "1e-30"} if "delta" in asked else {"epsilon": "1e6"})}
    assert dp.noise_for(**{**passes, "sampling": "cyclic", **larger}) > 0


@pytest.mark.first_case
@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_noise_whose_losses_have_no_squares_in_floats_is_answered(sampling: str) -> None:
    """It was Python's ValueError, of the logarithm of 0."""
    run = dp.dp_sgd(n=1000, batch=10, epochs=2, sigma="1e200", sampling=sampling)
    bound = dp.account(run, scope_of(sampling)).epsilon("1e-30")
    assert 0 <= bound.lower <= bound.upper < Fraction(1, 1000)


def test_passes_in_one_order_are_counted_too() -> None:
    """What is repeated is inside the batches, and was not looked for there."""
    run = dp.dp_sgd(n=100, batch=10, epochs=4, sigma=2, sampling="cyclic")
    rows = epsilon_over_steps(run, scope_of("cyclic"), "1e-5", points=2)
    known = [dp.account(dp.Repeat(dp.Gaussian("a", 2), k), scope_of("cyclic")) for k in (2, 4)]
    assert [(k, bound.upper) for k, bound in rows] == [
        (k, one.epsilon("1e-5").upper) for k, one in zip((2, 4), known, strict=True)
    ]


@pytest.mark.quality
def test_noise_for_takes_what_dp_sgd_takes() -> None:
    """Four layers, each with noise of its own, need twice the noise; microbatches twice as well."""
    settings: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "n": 1000, "batch": 10, "epochs": 1}
    one = float(dp.noise_for(**settings))
    assert float(dp.noise_for(**settings, layers=4)) == pytest.approx(2 * one, rel=1e-5)
    turns = float(dp.noise_for(**settings, sampling="cyclic"))
    halves = dp.noise_for(**settings, sampling="cyclic", microbatch=5)
    assert float(halves) == pytest.approx(2 * turns, rel=1e-5)
    assert float(dp.noise_for(**settings, clipped_share=20)) > one
    assert float(dp.noise_for(**settings, largest=40)) >= one * (1 - 1e-5)


@pytest.mark.quality
def test_the_command_for_sigma_takes_all_settings_and_needs_no_sigma() -> None:
    asked = "n=1000 batch=10 epochs=1 sampling=users unit=user contributions=2"
    words = ["account", "--dp-sgd", asked, "--delta", "1e-5", "--sigma-for", "1"]
    shown = CliRunner().invoke(main, [*words, "--json"])
    assert shown.exit_code == 0, shown.output
    (row,) = json.loads(shown.output)["sigma"]
    users: dict[str, Any] = {"sampling": "users", "unit": "user", "contributions": 2}
    known = dp.noise_for(epsilon=1, delta="1e-5", n=1000, batch=10, epochs=1, **users)
    assert Fraction(row["sigma"]) == known
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 0, shown.output
    assert row["sigma"] in shown.output
    shown = CliRunner().invoke(main, [*words, "--points", "3"])
    assert shown.exit_code != 0
    assert "--points: needs the noise of the run, sigma=" in shown.output
    shown = CliRunner().invoke(main, words[:-2])
    assert "sigma missing" in shown.output


@pytest.mark.quality
def test_tables_of_epsilon_and_of_sigma(tmp_path: Path) -> None:
    asked = "n=10000 batch=100 epochs=2 sigma=2"
    words = ["account", "--dp-sgd", asked, "--delta", "1e-5", "--points", "2", "--json"]
    figure = tmp_path / "steps.svg"
    shown = CliRunner().invoke(main, [*words, "--figure", str(figure)])
    assert shown.exit_code == 0, shown.output
    rows = json.loads(shown.output)["over_steps"]
    assert [row["steps"] for row in rows] == [100, 200]
    half = dp.account(dp.dp_sgd(n=10_000, batch=100, epochs=1, sigma=2), scope_of("poisson"))
    assert Fraction(rows[0]["epsilon_upper"]) == half.epsilon("1e-5").upper
    assert figure.read_text("utf-8").startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    shown = CliRunner().invoke(main, [*words[:-3], "--sigma-for", "1,4", "--json"])
    assert shown.exit_code == 0, shown.output
    first, second = (Fraction(row["sigma"]) for row in json.loads(shown.output)["sigma"])
    assert first == dp.noise_for(epsilon=1, delta="1e-5", n=10_000, batch=100, epochs=2) > second


def test_steps_are_whole_passes() -> None:
    with pytest.raises(dp.InvalidParameter, match="multiple of epochs = 3"):
        dp.dp_ftrl(steps=64, sigma=4, epochs=3)


def test_the_command() -> None:
    asked = "n=10000, batch=100, epochs=1, sigma=2"
    shown = CliRunner().invoke(main, ["account", "--dp-sgd", asked, "--delta", "1e-5", "--json"])
    assert shown.exit_code == 0, shown.output
    declaration, scope = from_settings(asked)
    expected = dp.account(declaration, scope).epsilon("1e-5")
    (row,) = json.loads(shown.output)["epsilon"]
    assert Fraction(row["epsilon_upper"]) == expected.upper


@pytest.mark.parametrize("words", [["--dp-sgd", "n=10"], ["--dp-sgd", "n=1 m=2"], []])
def test_a_command_that_cannot_be_answered(words: list[str]) -> None:
    shown = CliRunner().invoke(main, ["account", *words])
    assert shown.exit_code != 0


def test_powers_are_named_only_where_all_of_them_were_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search may end beside a power of two at which the guarantee holds."""

    def ended(*_: Any) -> None:
        raise NoValue("no value near 3 could be proved", holds=None)

    monkeypatch.setattr(recipes, "calibrate", ended)
    with pytest.raises(dp.Unsupported, match=r"is shown of no sigma: ask for a larger epsilon"):
        dp.noise_for(epsilon=1, delta="1e-5", n=100, batch=10, epochs=1)
