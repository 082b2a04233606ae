"""Poisson samples in which a record that is not drawn adds zero, under replace_one."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from itertools import product as every
from typing import Any

import flint
import numpy as np
import pytest
import sympy
from numpy.typing import NDArray

import dpaudit as dp
from dpaudit.audit.examine import examine, study
from dpaudit.audit.examine.examination import MOVED
from dpaudit.certificate.certificate import statement
from dpaudit.check.derivation import own_bound
from dpaudit.check.profile import closed, conversions, opposed
from dpaudit.check.profile.conversions import confirm_conversion
from dpaudit.crosscheck.consensus import cross_check
from dpaudit.curator import curator as curator_module
from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.exact import decimal_upper
from dpaudit.families.events import EventSlack
from dpaudit.families.sampling import profile_theorem
from dpaudit.kernels.query import Array, Records
from dpaudit.measures.profile import PROFILE
from dpaudit.nodes import Status, rests_on
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.pairs import Losses, Normal, Opposed
from dpaudit.scope import Adjacency, central
from tests.support.examined import mechanism
from tests.support.sampling import rederived

F = Fraction
REPLACE, DELTA = central("replace_one"), F(1, 10**5)
G = dp.Gaussian("g", "0.5")


def sampled(child: dp.Node = G, rate: object = "0.01") -> dp.Node:
    return dp.PoissonSampled(child, rate, undrawn="zero")


def bare(node: dp.Node) -> dp.Node:
    """The same declaration, which says nothing of records that are not drawn."""
    return node.with_parameters(undrawn=None)


def losses(node: dp.Node) -> Losses:
    found: Losses = PROFILE.fold(node, REPLACE).value
    return found


# --- the account ----------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.parametrize(
    ("sigma", "rate", "rounds", "bare_ends"),
    [
        pytest.param(1, "0.01", 1000, ("13.36", "67.89"), marks=pytest.mark.quality),
        (2, "0.1", 100, ("7.05", "22.90")),
        pytest.param("0.8", "0.001", 10_000, ("12.98", "99.12"), marks=pytest.mark.quality),
    ],
)
def test_dp_sgd_is_as_dp_accounting_says(
    sigma: Any, rate: str, rounds: int, bare_ends: tuple[str, str]
) -> None:
    """Noise over the clip.  A bare declaration keeps its answer, and says what to declare."""
    from dp_accounting import dp_event
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
    from dp_accounting.privacy_accountant import NeighboringRelation

    run = dp.dp_sgd(sigma=sigma, rate=rate, steps=rounds, adjacency="replace_one")
    bound = dp.account(run, REPLACE).epsilon(DELTA)
    theirs = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    gaussian = dp_event.GaussianDpEvent(float(F(sigma)))
    theirs.compose(dp_event.PoissonSampledDpEvent(float(rate), gaussian), rounds)
    epsilon = theirs.get_epsilon(1e-5)
    assert float(bound.lower) <= epsilon
    assert abs(float(bound) - epsilon) < 1e-3
    assert bound.upper - bound.lower < F(1, 1000)
    assert not bound.shortfall
    before = dp.account(dp.Repeat(bare(run.children[0]), rounds), REPLACE).epsilon(DELTA)
    assert [f"{float(end):.2f}" for end in (before.lower, before.upper)] == [*bare_ends]
    assert "undrawn='zero'" in before.shortfall


def test_the_hint_is_given_where_it_helps() -> None:
    laplace = dp.Repeat(dp.PoissonSampled(dp.Laplace("l", 2), "0.1"), 10)
    assert "undrawn" not in dp.account(laplace, REPLACE).epsilon(DELTA).shortfall
    assert "undrawn" not in dp.account(bare(sampled()), "add_remove").epsilon(DELTA).shortfall


@pytest.mark.quality
def test_independent_routes_meet_where_records_are_neutral() -> None:
    """dp-accounting takes them to be: of a bare declaration it says less than is true."""
    names = {route.name for route in cross_check(dp.Repeat(sampled(), 9), REPLACE, DELTA).routes}
    assert "dp-accounting pld" in names
    other = cross_check(dp.Repeat(bare(sampled()), 9), REPLACE, DELTA)
    assert any("undrawn" in reason for _, reason in other.skipped)


def test_releases_that_choose_records_by_those_before_are_dominated() -> None:
    """Two rounds, the records of the second chosen by the first answer: every choice of 5 records.

    delta by quadrature over both answers, right to 1e-5.
    """
    mu, q, x = 1.5, 0.2, 1.7
    grid = np.linspace(-7, 7, 561)
    step = grid[1] - grid[0]

    def law(at: float) -> NDArray[np.float64]:
        density = (1 - q) * np.exp(-(grid**2) / 2) + q * np.exp(-((grid - at) ** 2) / 2)
        return np.asarray(density / np.sqrt(2 * np.pi))

    records = np.linspace(-mu, mu, 5)
    laws = {at: law(at) for at in records}
    pairs = [(laws[a], laws[b]) for a, b in every(records, records)]
    # The best record of the second round is chosen for each first answer apart.
    weights = np.exp(np.linspace(-14, 14, 1401))
    second = np.max(
        [[np.maximum(p - w * r, 0).sum() * step for w in weights] for p, r in pairs], axis=0
    )
    best = 0.0
    for p, r in pairs:
        gained = np.interp(np.log(x * r / p), np.log(weights), second)
        best = max(best, float((p * gained).sum() * step))
    node = dp.Repeat(sampled(dp.Gaussian("g", F(1, 3)), F(1, 5)), 2)
    bound = dp.account(node, REPLACE).delta(flint_log(x))
    assert best <= float(bound.upper) + 1e-5
    assert best >= float(bound.lower) - 1e-4


def flint_log(value: float) -> Fraction:
    return F(float(flint.arb(value).log().mid()))


def test_several_gaussian_releases_of_one_sample_are_one() -> None:
    three = dp.Compose(dp.Repeat(dp.Gaussian("a", 2), 3), dp.Gaussian("b", 1))
    mu = (F(3, 4) + 1) / 4
    (pair,) = losses(sampled(three)).remove
    assert isinstance(pair, Opposed)
    assert float(pair.mu) ** 2 == pytest.approx(float(mu))
    assert losses(sampled(G, 1)).remove == (Normal(F(2)),)


def test_rounds_may_have_rates_and_noise_of_their_own() -> None:
    """The first at rate 1, where every record is drawn."""
    k = sympy.Symbol("k", integer=True, positive=True)
    run = dp.Repeat(sampled(dp.Gaussian("g", k), 1 / k), 3, k)
    factors = {pair for pair, _ in losses(run).remove[0].factors}
    halves = {Opposed(F(1, 4), F(1, 2)), Opposed(F(1, 6), F(1, 3))}
    assert factors == {Normal(F(1)), *halves}
    assert own_bound(run, "profile", "replace_one") == losses(run)


NOT_PROVED: list[dp.Node] = [
    dp.Laplace("l", 2),
    dp.GDP(1, source="somebody"),
    dp.Compose(G, dp.Laplace("l", 2)),
    dp.Parallel(G, dp.Gaussian("h", 1)),
    dp.PoissonSampled(G, "0.5"),
    dp.Assuming(G, dp.Assumption("a", "b", Status.DECLARED)),
    EventSlack(G, "1/1000", "the noise is large"),
    dp.DiscreteGaussian("d", 4, 2),
]


@pytest.mark.parametrize("child", NOT_PROVED, ids=lambda child: type(child).__name__)
@pytest.mark.parametrize("around", [lambda n: n, lambda n: dp.Repeat(n, 3)], ids=["one", "three"])
def test_what_is_not_proved_is_accounted_for_as_if_nothing_were_declared(
    child: dp.Node, around: Callable[[dp.Node], dp.Node]
) -> None:
    assert losses(around(sampled(child))) == losses(around(bare(sampled(child))))
    own = own_bound(around(sampled(child)), "profile", "replace_one")
    assert own == own_bound(around(bare(sampled(child))), "profile", "replace_one")


@pytest.mark.parametrize("adjacency", ["add_remove", "zero_out"])
def test_other_adjacencies_do_not_depend_on_it(adjacency: str) -> None:
    for name in ("profile", "rdp"):
        with_it, without = (own_bound(n, name, adjacency) for n in (sampled(), bare(sampled())))
        assert with_it == without or with_it(F(3)) == without(F(3))
    epsilons = [dp.account(n, adjacency).epsilon(DELTA) for n in (sampled(), bare(sampled()))]
    assert epsilons[0].upper == epsilons[1].upper


def test_a_group_tells_its_coins_as_without_the_declaration() -> None:
    run = dp.Repeat(sampled(), 20)
    group, other = (dp.Group(n, 3) for n in (run, dp.Repeat(bare(sampled()), 20)))
    assert losses(group).remove == losses(other).remove
    assert losses(group).reached == losses(run).reached
    assert own_bound(group, "profile", "replace_one") == losses(group)
    assert losses(dp.Group(run, 1)) == losses(run)


OUTER = [
    lambda n: dp.PoissonSampled(n, "0.5"),
    lambda n: dp.SampledWithoutReplacement(n, 2, 10),
    lambda n: sampled(n, "0.5"),
]


@pytest.mark.parametrize("around", OUTER)
def test_below_another_sample_nothing_is_said_to_be_reached(
    around: Callable[[dp.Node], dp.Node],
) -> None:
    """A batch without the record is neither of the two runs: all others add zero."""
    found = losses(around(sampled()))
    assert found.remove
    assert not found.reached
    assert own_bound(around(sampled()), "profile", "replace_one") == found


def test_one_sample_inside_another_is_bounded_by_the_product_of_their_rates() -> None:
    """The truth is one sample at rate 1/40; the outer coin is told, which costs something."""
    nested = dp.account(dp.PoissonSampled(sampled(G, "0.05"), "0.5"), REPLACE).delta("0.5")
    truth = dp.account(sampled(G, "0.025"), REPLACE).delta("0.5")
    assert truth.lower <= nested.upper < F(1, 10)


# --- forms ----------------------------------------------------------------------------------------


def test_it_is_written_and_read_and_a_bare_declaration_is_as_before() -> None:
    table = to_table(sampled())
    assert from_table(json.loads(json.dumps(table))) == sampled() != bare(sampled())
    assert table["nodes"][table["root"]]["parameters"]["undrawn"] == {"text": "zero"}
    assert "undrawn" not in json.dumps(to_table(bare(sampled())))
    assert "undrawn='zero'" in repr(sampled())


@pytest.mark.parametrize("value", ["one", "", 0, True, "ZERO"])
def test_another_text_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="undrawn"):
        dp.PoissonSampled(G, "0.01", undrawn=value)


# --- the checker ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("mu", "rate"), [(1, "0.01"), ("1.25", "0.001"), (3, "0.5"), (1, 1)])
def test_the_checker_s_own_delta_is_the_pair_s(mu: Any, rate: Any) -> None:
    pair = Opposed(F(mu), F(rate))
    with flint.ctx.workprec(192):
        for x in (1e-3, 0.2, 0.9, 1, 1 + 1e-9, 1.5, 20, 1e4):
            own, theirs = closed.delta_by(pair, flint.arb(x)), pair.delta(flint.arb(x))
            assert own.overlaps(theirs)
            assert float(own.rad()) <= 1e-12 * float(own.mid())


def test_the_checker_confirms_both_ends_and_no_smaller_epsilon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = dp.Repeat(sampled(rate="0.1"), 30)
    step = dp.account(run, REPLACE).converted("profile", F(1, 1000))
    value, epsilon = step.premises[0].value, step.value[0]

    def confirmed(at: Fraction) -> Any:
        return confirm_conversion(value, F(1, 1000), decimal_upper(at), step.witness)

    found = confirmed(epsilon)
    assert (found.epsilon, found.reached, found.doubt) == (epsilon, step.lower, None)
    smaller = confirmed(epsilon * F(99, 100))
    assert smaller is None or smaller.doubt is not None
    folded = PROFILE.fold(run, REPLACE)
    assert rederived(run, "replace_one", folded).upper == value
    monkeypatch.setattr(profile_theorem, "Opposed", lambda mu, rate: Opposed(2 * mu, rate))
    with pytest.raises(CertificateRejected):
        rederived(run, "replace_one", folded)


@pytest.mark.quality
def test_rare_large_losses_are_confirmed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their tilt is large: what is left out has to be about as much as may be."""
    run = dp.Repeat(sampled(dp.Gaussian("g", F(359, 500)), F(173, 25000)), 27)
    step = dp.account(run, REPLACE).converted("profile", F(1, 10**6))

    def confirmed() -> Any:
        text = decimal_upper(step.value[0])
        return confirm_conversion(step.premises[0].value, F(1, 10**6), text, step.witness)

    assert confirmed().epsilon == step.value[0]
    assert not confirmed().reached_doubted
    conversions._cells.cache_clear()
    monkeypatch.setattr(opposed._Cells, "reach", lambda cells, tail: 30.0)
    assert confirmed() is None or confirmed().doubt
    conversions._cells.cache_clear()


# --- who runs it ----------------------------------------------------------------------------------


class Own:
    """A query of one's own: a clipped sum, and ``more`` for every record that was drawn."""

    norm = "l2"

    def __init__(self, neutral: object, factor: float = 2.0, more: float = 0.0) -> None:
        self.neutral, self.factor, self.more = neutral, factor, more

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.asarray(self.factor if adjacency is Adjacency.REPLACE_ONE else 1.0)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        rows = np.clip(np.nan_to_num(records.values[:, :1]), -1, 1) * records.present[:, None]
        batch = np.ones((1, len(rows)), bool) if chosen is None else chosen
        return np.asarray(batch @ (rows + self.more))


class Program:
    """One release of a query on a secret batch."""

    def __init__(self, query: Any, node: dp.Node | None = None) -> None:
        self.query, self.node = query, node or sampled(dp.Gaussian("g", 2), "0.5")

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return self.node

    def run(self, curator: dp.Curator) -> Array:
        with curator.batch("g") as batch:
            return curator.release("g", self.query, rows=batch)


def released(query: Any, node: dp.Node | None = None, adjacency: str = "replace_one") -> Array:
    program, scope = Program(query, node), central(adjacency)
    data = dp.Records(np.ones((5, 1)))
    sampler = dp.Sampler(program.declaration(scope), scope, data, rng=np.random.default_rng(0))
    return program.run(sampler)


CLIPPED = dp.clipped_sum(lambda values: values[None], 1)


@pytest.mark.parametrize(
    "query",
    [CLIPPED, dp.ClippedMean(lambda values: values[None], 1, divisor=10), Own(True)],
    ids=["sum", "mean", "own"],
)
def test_neutral_queries_are_released(query: Any) -> None:
    assert released(query).shape == (1, 1)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (Own(False), "does not state that a record that is not drawn adds zero"),
        (Own("yes"), "does not state that a record that is not drawn adds zero"),
        (Own(True, factor=1.5), "more than half of its query's sensitivity"),
        (Own(True, factor=float("nan")), "more than half of its query's sensitivity"),
    ],
)
def test_a_query_that_is_not_shown_to_be_neutral_is_refused_before_data_is_touched(
    query: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidParameter, match=said):
        released(query)
    # Nothing rests on it elsewhere.
    assert released(Own(False), adjacency="zero_out").shape == (1, 1)
    assert released(Own(False), bare(sampled(dp.Gaussian("g", 2)))).shape == (1, 1)
    monkeypatch.setattr(curator_module, "require_neutral", lambda *given: None)
    if np.isfinite(query.factor):
        assert released(query).shape == (1, 1)


def displacements(query: Any) -> list[str]:
    seen = examine(mechanism("undrawn", Program(query), "replace_one"), seed=2)
    return [f.detail for f in seen.broken if f.check == MOVED]


@pytest.mark.quality
def test_an_examination_finds_a_query_that_says_it_is_neutral_and_is_not() -> None:
    """The size of its batch: no replaced record moves it, and one that is not drawn does."""
    assert any("by more than half" in detail for detail in displacements(Own(True, more=3)))


@pytest.mark.quality
def test_it_compares_with_absent_records_and_leaves_neutral_queries_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not displacements(Own(True))
    monkeypatch.setattr(study.Studied, "_without", lambda *given: None)
    assert not displacements(Own(True, more=3))


@pytest.mark.quality
def test_a_certificate_says_that_it_rests_on_absent_records_adding_zero() -> None:
    """The checker refuses one that leaves it out."""
    zero = mechanism("undrawn", Program(Own(True)), "replace_one")
    certificate = dp.certify(zero, seed=1).content
    rows = {row["id"]: row for row in certificate["predicate"]["assumptions"]}
    assert rows["undrawn_records"]["status"] == "declared"
    assert dp.verify(certificate).on_trust.count("undrawn_records (declared)") == 1
    predicate = json.loads(json.dumps(certificate["predicate"]))
    predicate["assumptions"] = [row for name, row in rows.items() if name != "undrawn_records"]
    with pytest.raises(CertificateRejected):
        dp.verify(statement(predicate))
    assert rests_on(bare(sampled(G))) is None
