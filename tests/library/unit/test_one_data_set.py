"""Sizes that contradict each other anywhere in a declaration, and noise of another adjacency.

Every node speaks of the one data set that reaches it.  What hides a record among more records than
there are is refused when it is declared, and by the checker, which reads it on its own.
"""

from __future__ import annotations

from typing import Any

import pytest
import sympy

import dpaudit as dp
import dpaudit.check.derivation as derivation
import dpaudit.measures.calculus as calculus
import dpaudit.nodes.core as core
import dpaudit.nodes.records as records
from dpaudit.accountant.account import account
from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.check.derivation import rederive
from dpaudit.check.sizes import require_one_data_set
from dpaudit.crosscheck.interchange.histories import loader_warning
from dpaudit.crosscheck.interchange.opacus import from_opacus_history
from dpaudit.errors import CertificateRejected, DpauditError, InvalidParameter
from dpaudit.exact.domains import known_sign
from dpaudit.families.adaptive import Select
from dpaudit.families.distributed import DistributedGaussian
from dpaudit.families.events import EventSlack, ProposeTestRelease
from dpaudit.families.tuning import Tuned
from dpaudit.nodes import Node, free_unknowns
from dpaudit.nodes.records import NOTHING
from tests.support import wire_fuzz
from tests.support.every_node import EVERY_TYPE

REPLACE = dp.central("replace_one")
POLL, NOISE = dp.RandomizedResponse("poll", 1), dp.Gaussian("g", 1)
MILLION = 10**6
t = sympy.Symbol("t", integer=True, positive=True)


def drawn(batch: Any, population: Any, child: Node = NOISE) -> Node:
    return dp.SampledWithoutReplacement(child, batch, population)


def crowd(population: Any = MILLION) -> Node:
    return dp.Shuffled(POLL, population)


# By name: the declaration, and words of its refusal.
CONTRADICTIONS: dict[str, tuple[Any, str]] = {
    "a crowd in a part of a public batch": (
        lambda: dp.CyclicBatches(dp.Parallel(crowd()), 20, 10),
        "1000000 records, and runs on the 10",
    ),
    "a crowd in a part of a secret batch": (
        lambda: dp.ShuffledBatches(dp.Parallel(crowd()), 20, 10),
        "1000000 records, and runs on the 10",
    ),
    "a crowd in a part of a sample": (
        lambda: drawn(10, 10, dp.Parallel(crowd())),
        "1000000 records, and runs on the 10",
    ),
    "a sample of many in a part of a batch": (
        lambda: dp.CyclicBatches(dp.Parallel(drawn(1, MILLION)), 20, 10),
        "1000000 records, and runs on the 10",
    ),
    "parts that hold more than the batch": (
        lambda: drawn(10, 100, dp.Parallel(crowd(6), crowd(5))),
        "11 records in its parts, and runs on the 10",
    ),
    "noise of more clients than a coin draws": (
        lambda: dp.PoissonSampled(DistributedGaussian("sum", "1/10", 1000), "0.01"),
        "noise of 1000 clients, and how many",
    ),
    "noise of more clients than are drawn": (
        lambda: drawn(10, 20, DistributedGaussian("sum", "1/10", 1000)),
        "noise of 1000 clients, and runs on the 10 .* only clients who are drawn",
    ),
    "vectors of more clients than a batch has": (
        lambda: dp.CyclicBatches(dp.DistributedGaussianVector("sums", 1, 1000), 20, 10),
        "noise of 1000 clients",
    ),
    "Skellam vectors of more clients than a batch has": (
        lambda: dp.CyclicBatches(dp.DistributedSkellamVector("sums", 1, 1000), 2, 1),
        "noise of 1000 clients",
    ),
    "one report with the noise of many clients": (
        lambda: dp.Shuffled(DistributedGaussian("sum", 1, 100), 1000),
        "noise of 100 clients, and runs on the 1 ",
    ),
    "two sizes of one data set": (
        lambda: dp.Compose(drawn(1, 100), drawn(1, 10**9)),
        "one data set that reaches Compose",
    ),
    "two sizes of one data set, further down": (
        lambda: dp.Compose(
            dp.Repeat(drawn(1, 100), 3), EventSlack(drawn(1, 101), "1e-9", "an accident")
        ),
        "one data set that reaches Compose",
    ),
    "two sizes, of which one is chosen": (
        lambda: Select(drawn(1, 100), dp.CyclicBatches(NOISE, 200, 1)),
        "one data set that reaches Select",
    ),
    "two sizes of a test and a release": (
        lambda: ProposeTestRelease(drawn(1, 100), drawn(1, 101), "1/10"),
        "one data set that reaches ProposeTestRelease",
    ),
    "two sizes of every run of a search": (
        lambda: Tuned(dp.Compose(drawn(1, 100), drawn(2, 101)), "1/10"),
        "one data set",
    ),
    "parts that hold more than all": (
        lambda: dp.Compose(dp.Parallel(drawn(1, 50), drawn(1, 51)), drawn(1, 100)),
        "101 records in its parts; .* 100 records",
    ),
    "more clients than records": (
        lambda: dp.Compose(DistributedGaussian("sum", 1, 101), drawn(1, 100)),
        "noise of 101 clients; .* 100 records",
    ),
    "more records than at most": (
        lambda: dp.Compose(dp.TruncatedPoisson(NOISE, "0.1", 100, 10), drawn(1, 101)),
        "at most 100",
    ),
    "a coin's sample of more than at most": (
        lambda: dp.Compose(
            dp.PoissonSampled(dp.TruncatedPoisson(NOISE, "0.1", 100, 10), "0.1"), drawn(1, 101)
        ),
        "at most 100",
    ),
    "a cut batch of more than at most": (
        lambda: dp.TruncatedPoisson(dp.TruncatedPoisson(NOISE, "0.1", 5, 5), "0.1", 100, 10),
        "at most 5 records, and TruncatedPoisson draws up to 10",
    ),
    "a size that grows by the round": (
        lambda: dp.Repeat(drawn(1, t * MILLION), 100, t),
        "cannot depend on the round t",
    ),
    "a crowd that is smaller than the round's batch": (
        lambda: dp.Repeat(drawn(t + 1, 50, crowd(t)), 10, t),
        r"declared for t records, and runs on the t \+ 1",
    ),
    "a size below another round's batch": (
        lambda: dp.Repeat(dp.Compose(drawn(t, 50, crowd(t)), drawn(1, 51)), 10, t),
        "one data set that reaches Compose",
    ),
    "a group of whom each is drawn by itself": (
        lambda: dp.Shuffled(dp.Group(POLL, 2), 5),
        "put Group around",
    ),
}
contradictions = pytest.mark.parametrize("name", CONTRADICTIONS)


@pytest.fixture
def no_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks whether sizes contradict each other when a node is made."""
    monkeypatch.setattr(core, "reaching", lambda node: NOTHING)


@contradictions
def test_sizes_that_contradict_each_other_are_refused(name: str) -> None:
    made, words = CONTRADICTIONS[name]
    with pytest.raises(InvalidParameter, match=words):
        made()


@contradictions
def test_the_checker_refuses_them_by_itself(name: str, no_sizes: None) -> None:
    """The declaration is made without the guard, and read by the checker's own rule."""
    node = CONTRADICTIONS[name][0]()
    with pytest.raises(CertificateRejected):
        require_one_data_set(node)


@pytest.mark.parametrize(
    ("name", "calculus_"),
    [
        ("a crowd in a part of a public batch", "pure"),
        ("two sizes of one data set", "profile"),
        ("vectors of more clients than a batch has", "gdp"),
    ],
)
def test_a_forged_derivation_is_refused_by_that_rule_alone(
    name: str, calculus_: str, no_sizes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = CONTRADICTIONS[name][0]()
    step = account(node, REPLACE).step(calculus_)
    predicate = {
        "derivation": {"steps": step_rows(steps_of([step]))},
        "scope": {"adjacency": "replace_one"},
    }
    with pytest.raises(CertificateRejected, match="records"):
        rederive(predicate, node)
    monkeypatch.setattr(derivation, "require_one_data_set", lambda root: None)
    assert rederive(predicate, node)


@pytest.mark.quality
def test_without_the_guard_ten_records_hide_like_a_million(no_sizes: None) -> None:
    """Ten shuffled answers of epsilon 1 lose 1 at delta 1e-5; a million lose next to nothing."""
    node = dp.CyclicBatches(dp.Parallel(crowd()), 20, 10)
    assert account(node, REPLACE).epsilon("1e-5").upper < 0.01
    honest = dp.CyclicBatches(dp.Parallel(crowd(10)), 20, 10)
    assert account(honest, REPLACE).epsilon("1e-5").upper > 0.99


HONEST: dict[str, Any] = {
    "parts that fill the data set": lambda: dp.Compose(
        dp.Parallel(drawn(1, 50), drawn(1, 50)), drawn(1, 100)
    ),
    "one part of the data set": lambda: dp.Compose(dp.Parallel(drawn(1, 50)), drawn(1, 100)),
    "a batch that grows by the round": lambda: dp.Repeat(drawn(t, 50, crowd(t)), 10, t),
    "clients who are drawn": lambda: drawn(10, 20, DistributedGaussian("sum", 1, 10)),
    "fewer clients than records": lambda: dp.Compose(
        DistributedGaussian("sum", 1, 10), drawn(1, 100)
    ),
    "a larger limit": lambda: dp.Compose(dp.TruncatedPoisson(NOISE, "0.1", 100, 10), drawn(1, 99)),
    "a sample of a sample": lambda: drawn(10, 100, drawn(1, 10)),
}


@pytest.mark.parametrize("name", HONEST)
def test_sizes_of_one_data_set_are_accepted_by_both(name: str) -> None:
    require_one_data_set(HONEST[name]())


def test_every_node_of_numbers_is_accepted_by_the_checker() -> None:
    for node in EVERY_TYPE:
        if not free_unknowns(node):
            require_one_data_set(node)


def test_many_releases_of_one_data_set_are_compared_in_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is compared with the largest and the smallest size, not with each other one."""
    asked: list[Any] = []

    def counted(value: Any, *, strict: bool) -> bool | None:
        asked.append(value)
        return known_sign(value, strict=strict)

    several = [drawn(1, 100, dp.Gaussian("g", z)) for z in range(1, 301)]
    monkeypatch.setattr(records, "known_sign", counted)
    dp.Compose(*several)
    assert len(asked) < 5 * len(several)


def test_a_free_size_is_judged_once_it_is_bound() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    both = dp.Compose(drawn(1, n), drawn(1, 100))
    assert both.bind({n: 100}) == dp.Compose(drawn(1, 100), drawn(1, 100))
    with pytest.raises(InvalidParameter, match="one data set"):
        both.bind({n: 101})


def test_a_node_that_counts_records_says_so_in_one_place() -> None:
    """A parameter that is named like a size is declared as one."""
    for kind in core.Node.types.values():
        if kind.__module__.startswith("dpaudit.families."):
            counted = {"population", "clients"} & set(getattr(kind, "__annotations__", {}))
            counts = kind.counts
            assert counted <= {counts.exactly, counts.at_most, counts.at_least}


# Seeds of drawn declarations whose sizes contradict each other, by the oracle's own reading.
FORGED_SIZES = (76, 155, 464, 983, 1093, 2334, 2464, 6653)


def test_the_oracle_reports_contradicting_sizes_that_are_accepted(no_sizes: None) -> None:
    found = wire_fuzz.block(FORGED_SIZES)["violations"]
    assert len(found) == len(FORGED_SIZES)
    assert all("sizes.together" in text for text in found)


def test_drawn_declarations_of_contradicting_sizes_are_refused() -> None:
    found = wire_fuzz.block(FORGED_SIZES)
    assert found["violations"] == []
    assert all(outcome.startswith("refused") for outcome in found["outcomes"])


# --- noise over the sensitivity of one adjacency --------------------------------------------------

RUN: dict[str, Any] = {"n": 100, "batch": 100, "epochs": 1, "sigma": 2}


@pytest.mark.parametrize("sampling", ["poisson", "allocation", "cyclic", "shuffled", "kept"])
def test_a_recipe_is_accounted_for_under_its_own_adjacency_alone(sampling: str) -> None:
    """A replaced record moves a clipped sum by two norms: mu is 1 and not 1/2, epsilon 4.377."""
    own = dp.dp_sgd(**RUN, sampling=sampling)
    with pytest.raises(InvalidParameter, match="adjacency='replace_one'"):
        account(own, REPLACE).epsilon("1e-5")
    replaced = dp.dp_sgd(**RUN, sampling=sampling, adjacency="replace_one")
    assert 4.377 < account(replaced, REPLACE).epsilon("1e-5").upper < 4.378


def test_prefix_sums_are_accounted_for_under_their_own_adjacency_alone() -> None:
    own = dp.dp_ftrl(steps=8, sigma=4)
    with pytest.raises(InvalidParameter, match="under add_remove or zero_out"):
        account(own, REPLACE).epsilon("1e-5")
    replaced = dp.dp_ftrl(steps=8, sigma=4, adjacency="replace_one")
    mu = account(own, dp.central("zero_out")).step("gdp").value
    assert account(replaced, REPLACE).step("gdp").value == 2 * mu
    assert dp.ftrl_noise_for(
        epsilon=1, delta="1e-5", steps=8, adjacency="replace_one"
    ) == pytest.approx(2 * dp.ftrl_noise_for(epsilon=1, delta="1e-5", steps=8), rel=1e-5)


def test_layers_clipped_shares_and_cut_batches_remember_the_adjacency_too() -> None:
    settings: tuple[dict[str, Any], ...] = (
        {"layers": 2, "clipped_share": 10},
        {"unit": "user", "contributions": 2},
    )
    for more in settings:
        with pytest.raises(InvalidParameter, match="under add_remove or zero_out"):
            account(dp.dp_sgd(**RUN, **more), REPLACE).step("rdp")
    assert "under='add_remove zero_out'" in repr(dp.dp_sgd(**RUN, largest=50))


def test_without_the_guard_a_recipe_loses_half_of_mu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker refuses what the accountant lets pass."""
    own = dp.dp_sgd(**RUN, sampling="cyclic")
    monkeypatch.setattr(calculus, "require_stated", lambda root, adjacency: None)
    step = account(own, REPLACE).step("gdp")
    predicate = {
        "derivation": {"steps": step_rows(steps_of([step]))},
        "scope": {"adjacency": "replace_one"},
    }
    assert step.value == sympy.Rational(1, 2)
    with pytest.raises(CertificateRejected, match="not replace_one"):
        rederive(predicate, own)


def test_settings_of_the_command_line_name_the_adjacency() -> None:
    from dpaudit.accountant.recipes import from_settings

    node, scope = from_settings("n=100 batch=100 epochs=1 sigma=2 adjacency=replace_one")
    assert scope.adjacency == "replace_one"
    assert node == dp.dp_sgd(**RUN, adjacency="replace_one")


def test_a_history_is_accounted_for_under_its_own_adjacency_alone() -> None:
    history = [(2.0, 1.0, 1)]
    with pytest.raises(InvalidParameter, match="under add_remove or zero_out"):
        account(from_opacus_history(history), REPLACE).epsilon("1e-5")
    replaced = from_opacus_history(history, "replace_one")
    assert account(replaced, REPLACE).step("gdp").value == 1


@pytest.mark.parametrize("under", ["", "replaced", "add_remove, zero_out", 3])
def test_an_adjacency_that_is_none_is_refused(under: Any) -> None:
    with pytest.raises(DpauditError, match="under"):
        dp.Gaussian("g", 1, under)


def test_loaders_of_several_rates_are_of_one_data_set() -> None:
    rows = from_opacus_history([(1.0, 0.5, 4), (2.0, "1/3", 3)])
    said = loader_warning(rows, "cyclic", "1e-5")
    assert said is not None
    assert "accounted for as Poisson" in said
