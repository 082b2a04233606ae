"""Lower ends where there were none: a record replaced in a slot, shuffled values, many clients."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import dpaudit as dp
from dpaudit.check.profile.conversions import _lower
from dpaudit.errors import CertificateRejected
from dpaudit.families.distributed import DistributedGaussianVector, DistributedSkellamVector
from dpaudit.families.distributed import rules as distributed
from dpaudit.families.distributed import theorem as distributed_check
from dpaudit.families.events import EventSlack
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.convert import to_approx
from dpaudit.measures.profile import PROFILE
from dpaudit.nodes import Node
from dpaudit.pairs import Allocated, LaplaceShift, Losses, Mixed, Normal
from dpaudit.profiles import answers
from dpaudit.profiles.fourier import game, profile
from tests.support.sampling import REPLACE_ONE, rederived

F = Fraction
REPLACE = dp.central("replace_one")
DELTA = F(1, 10**5)
Array = np.ndarray[Any, np.dtype[np.float64]]
FALSE_ALARM = 1e-9


def pairs(node: Node) -> Losses:
    found: Losses = PROFILE.fold(node, REPLACE_ONE).value
    return found


def mean_excess(losses: Array, epsilon: float) -> tuple[float, float]:
    """E (1 - e^(epsilon - L))+ over drawn losses, and how far off it is, but for ``FALSE_ALARM``.

    Hoeffding's inequality, of terms in [0, 1].
    """
    found = float(np.maximum(0, -np.expm1(epsilon - losses)).mean())
    return found, math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(losses)))


def normal_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, Theorem 8."""
    low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return float(stats.norm.sf(low) - math.exp(epsilon) * stats.norm.sf(high))


# --- one of some slots ---------------------------------------------------------------------------

SLOTS = dp.RandomAllocation(dp.Gaussian("g", 2), 10)


def test_a_record_replaced_is_as_private_as_its_slot() -> None:
    """It was [0, 2.166], of one slot's Renyi divergences."""
    found = dp.account(SLOTS, REPLACE).epsilon(DELTA)
    assert float(found.upper) == pytest.approx(1.9930914, abs=1e-6)
    assert float(found.upper) == float(
        dp.account(dp.Gaussian("g", 2), REPLACE).epsilon(DELTA).upper
    )
    assert 0.58 < float(found.lower) < 0.6
    assert pairs(SLOTS).reached_remove == (Allocated(F(2), F(10)),)


@pytest.mark.quality
def test_what_is_reached_is_no_more_than_the_slots_show() -> None:
    """10^6 draws of all slots, everybody else at what the record is replaced by."""
    rng = np.random.default_rng(5)
    shown = rng.standard_normal((1_000_000, 10))
    shown[:, 0] += 0.5
    losses = np.log(np.exp(shown / 2 - 0.125).mean(axis=1))
    for epsilon in (0.05, 0.2, 0.4):
        mean, off = mean_excess(losses, epsilon)
        lower = max(
            float(dp.profiles.delta_interval(pair, F(str(epsilon))).lower)
            for pair in pairs(SLOTS).reached_remove
        )
        assert lower <= mean + off
        assert lower >= mean - off
        assert float(dp.account(SLOTS, REPLACE).delta(F(str(epsilon))).upper) >= mean - off


def test_one_record_alone_tells_its_slot() -> None:
    """A query that shows, with weight 30, how many records it has: nothing tighter is true."""
    rng = np.random.default_rng(6)
    slots, weight = 3, 30.0
    shown = rng.standard_normal((1_000_000, slots))
    shown[:, 0] += (weight + 1) / 2

    def density(value: float) -> Array:
        moved = (weight + value) / 2
        found: Array = np.logaddexp.reduce(shown * moved - moved**2 / 2, axis=1)
        return found

    losses = density(1.0) - density(0.0)
    for epsilon in (0.1, 1.0):
        mean, off = mean_excess(losses, epsilon)
        assert abs(mean - normal_delta(0.5, epsilon)) <= off
    told = dp.RandomAllocation(dp.Gaussian("g", 2), slots)
    upper = float(dp.account(told, REPLACE).delta(F(1, 10)).upper)
    assert upper == pytest.approx(normal_delta(0.5, 0.1), rel=1e-9)


def test_other_noise_in_a_slot_is_the_childs_own() -> None:
    laplace = pairs(dp.RandomAllocation(dp.Laplace("l", 2), 7))
    assert laplace == Losses((LaplaceShift(F(1, 2)),), (LaplaceShift(F(1, 2)),))
    mixed = dp.RandomAllocation(dp.Compose(dp.Gaussian("g", 3), dp.Gaussian("h", 4)), 7)
    assert pairs(mixed).remove == (Normal(F(5, 12)),)
    assert pairs(mixed).reached_add == (Allocated(F(12, 5), F(7)).swapped,)
    one = dp.RandomAllocation(dp.Gaussian("g", 2), 1)
    assert pairs(one) == pairs(dp.Gaussian("g", 2))


def test_every_slot_may_meet_its_noise_event() -> None:
    slack = EventSlack(dp.Gaussian("g", 2), "1e-9", "an overflow")
    assert pairs(dp.RandomAllocation(slack, 7)).slack == 7 * pairs(slack).slack > 0


# --- shuffled values -----------------------------------------------------------------------------


@pytest.mark.quality
def test_shuffled_values_have_a_lower_end() -> None:
    """It was 0."""
    found = dp.account(dp.Shuffled(dp.Gaussian("g", 3), 10_000), REPLACE).epsilon(DELTA)
    assert 0.0081 < float(found.lower) < 0.0083
    assert float(found.upper) == pytest.approx(1.2710878, abs=1e-6)


def test_the_multiset_of_values_shows_what_is_said_to_be_reached() -> None:
    """Its densities are sums over all orders; 300,000 draws of three values and noise 1."""
    rng = np.random.default_rng(7)
    shown = rng.standard_normal((300_000, 3))
    shown[:, 0] += 1

    def density(held: tuple[float, ...]) -> Array:
        orders = [
            stats.norm.logpdf(shown - np.array(order)).sum(axis=1)
            for order in itertools.permutations(held)
        ]
        found: Array = np.logaddexp.reduce(np.array(orders), axis=0)
        return found

    losses = density((1.0, 0.0, 0.0)) - density((0.0, 0.0, 0.0))
    shuffled = pairs(dp.Shuffled(dp.Gaussian("g", 1), 3))
    for epsilon in (0.1, 0.5, 1.0):
        mean, off = mean_excess(losses, epsilon)
        (pair,) = shuffled.reached_remove
        found = dp.profiles.delta_interval(pair, F(str(epsilon)))
        assert mean - off <= float(found.lower) <= float(found.upper) <= mean + off


def test_a_batch_of_shuffled_values_without_the_record_is_one_of_equals() -> None:
    sampled = dp.SampledWithoutReplacement(dp.Shuffled(dp.Gaussian("g", 1), 3), 3, 12)
    assert pairs(sampled).reached_remove == (Mixed(Allocated(F(1), F(3)), F(1, 4)),)
    alone = dp.Shuffled(dp.Gaussian("g", 1), 1)
    assert pairs(alone) == pairs(dp.Gaussian("g", 1))


# --- the noise of many clients -------------------------------------------------------------------


def clients_delta(variance: float, clients: int, epsilon: float) -> float:
    """delta of the clients' sum moved by 1: powers of the noise's Fourier transform."""
    far = 2048
    k = np.arange(-far, far)
    law = np.exp(-(k**2) / (2 * variance))
    law /= law.sum()
    transform = np.fft.fft(np.fft.ifftshift(law)) ** clients
    total = np.fft.fftshift(np.fft.ifft(transform).real)
    return float(np.maximum(np.roll(total, 1) - math.exp(epsilon) * total, 0).sum())


@pytest.mark.parametrize(("variance", "clients"), [(100, 101), (2, 6000), (F(7, 4), 9000)])
def test_a_normal_pair_is_below_many_clients_noise(variance: Any, clients: int) -> None:
    """It was 0 above a variance of 10^4 in all."""
    node = DistributedGaussianVector("sums", variance, clients)
    (pair,) = pairs(node).reached_remove
    assert isinstance(pair, Normal)
    found = dp.account(node, REPLACE).epsilon(DELTA)
    true = clients_delta(float(variance), clients, float(found.lower))
    assert true >= float(DELTA) * (1 - 1e-7)
    assert clients_delta(float(variance), clients, float(found.upper)) <= float(DELTA) * (1 + 1e-7)
    assert found.upper - found.lower < found.upper / 400


def test_squares_of_seven_have_a_lower_end() -> None:
    found = dp.account(DistributedGaussianVector("s", 100, 101, 0, 7), REPLACE).epsilon(DELTA)
    assert float(found.lower) == pytest.approx(0.07931, abs=1e-5)
    assert float(found.upper - found.lower) < 1e-5


def test_noise_that_is_not_nearly_normal_is_left_out() -> None:
    for node in (
        DistributedGaussianVector("s", 1, 10_001, 0, 7),
        DistributedGaussianVector("s", 100, 101, 0, 7, modulus=100),
        DistributedSkellamVector("s", 100, 101, 0, 7, modulus=100),
    ):
        assert pairs(node).reached == ()


@pytest.mark.parametrize(
    ("variance", "squared"), [(101, 676), pytest.param(10_000, 70_000, marks=pytest.mark.quality)]
)
def test_many_clients_skellam_noise_has_a_lower_end(variance: int, squared: int) -> None:
    """It was 0 beyond 10^4: next to the normal pair's, and below what SciPy's masses come to."""
    node = DistributedSkellamVector("s", variance, 100, 0, squared)
    found = dp.account(node, REPLACE).epsilon(DELTA)
    assert 0 < float(found.upper - found.lower) < 2e-3 * float(found.upper)
    total, move = 100.0 * variance, math.isqrt(squared)
    reach = int(9 * math.sqrt(total))
    k = np.arange(-reach, reach + move + 1)
    one, zero = special.ive(abs(k - move), total), special.ive(abs(k), total)
    alone = distributed._below(distributed._outcomes(distributed.masses_of(node), move))
    for epsilon in (0.2, 0.9):
        truth = float(np.maximum(one - math.exp(epsilon) * zero, 0).sum())
        own = float(dp.profiles.delta_interval(alone, F(str(epsilon))).lower)
        assert truth * (1 - 0.02) <= own <= truth * (1 + 1e-9)


def test_the_ripple_is_that_of_the_sums() -> None:
    """log of the sums of exp(-(k - c)^2 / (2 w)) at c = 0 over that at c = 1/2."""
    for w in (0.2, 0.7, 1.5):
        k = np.arange(-60, 61)
        sums = [np.exp(-((k - c) ** 2) / (2 * w)).sum() for c in (0.0, 0.5)]
        import flint

        assert float(distributed._ripple(flint.arb(w)).mid()) == pytest.approx(
            math.log(sums[0] / sums[1]), rel=1e-9
        )
        own = distributed_check._comb(flint.arb(w), F(1, 2))
        assert float(own.mid()) == pytest.approx(sums[1], rel=1e-12)


def test_half_a_ripple_may_cost_no_more_than_is_said() -> None:
    """delta of the larger mu, e^-H times and 2 H further on, is above that of the smaller one."""
    for mu, h in itertools.product((0.03, 0.5, 2.0), (1e-6, 1e-4)):
        smaller = mu - h * math.sqrt(2 * math.pi) * (1 + math.exp(mu**2 / 8))
        for epsilon in (0.0, 0.1 * mu, mu, 3 * mu, 6 * mu):
            moved = math.exp(-h) * normal_delta(mu, epsilon + 2 * h)
            assert moved >= normal_delta(smaller, epsilon)


# --- the checker ---------------------------------------------------------------------------------

RESTATED: list[Node] = [
    SLOTS,
    dp.Repeat(dp.RandomAllocation(dp.Compose(dp.Gaussian("g", 2), dp.Gaussian("h", 3)), 10), 3),
    dp.RandomAllocation(dp.Laplace("l", 1), 10),
    dp.RandomAllocation(EventSlack(dp.Gaussian("g", 2), "1e-9", "an overflow"), 7),
    dp.Shuffled(dp.Gaussian("g", 3), 10_000),
    dp.Shuffled(dp.Repeat(dp.Gaussian("g", 3), 4), 100),
    dp.Shuffled(dp.Gaussian("g", 3), 1),
    dp.SampledWithoutReplacement(dp.Shuffled(dp.Gaussian("g", 3), 10), 10, 100),
    DistributedGaussianVector("s", 100, 101, 0, 7),
    DistributedGaussianVector("s", F(3, 2), 10_000, 0, 7),
    DistributedGaussianVector("s", 1, 10_001, 0, 7),
    DistributedGaussianVector("s", 2000, 6, 0, 123456),
]


@pytest.mark.parametrize("node", RESTATED, ids=range(len(RESTATED)))
def test_the_checker_states_the_same(node: Node) -> None:
    step = PROFILE.fold(node, REPLACE_ONE)
    assert rederived(node, "replace_one", step).upper == step.value


def test_another_pair_in_a_slot_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    own = PROFILE._others[dp.RandomAllocation]

    def amplified(node: Any, base: Losses) -> Losses:
        return Losses((Allocated(F(2), node.slots),), (Allocated(F(2), node.slots).swapped,))

    wrong = tuple(replace(rule, function=amplified) for rule in own)
    monkeypatch.setitem(PROFILE._others, dp.RandomAllocation, wrong)
    step = PROFILE.fold(SLOTS, REPLACE_ONE)
    with pytest.raises(CertificateRejected, match="its pairs do not dominate"):
        rederived(SLOTS, "replace_one", step)


def test_a_normal_pair_that_is_too_far_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if sums of small noise were normal."""
    import flint

    monkeypatch.setattr(distributed, "_ripple", lambda w: flint.arb(0))
    node = DistributedGaussianVector("s", 1, 10_001, 0, 7)
    step = PROFILE._rules[DistributedGaussianVector].function(node)
    assert step.reached != ()
    with pytest.raises(CertificateRejected):
        rederived(node, "replace_one", replace(PROFILE.fold(node, REPLACE_ONE), value=step))


def test_rules_of_one_node_hold_under_adjacencies_of_their_own() -> None:
    rules = PROFILE.rules_for(dp.RandomAllocation)
    held = [rule.adjacencies for rule in rules]
    assert len(held) == 2
    assert not held[0] & held[1]
    extended = CALCULI["profile"].extended("copied", dp.Gaussian)
    assert len(extended.rules_for(dp.RandomAllocation)) == 2
    assert extended.rules_for(dp.Gaussian) == ()
    assert (
        len(CALCULI["profile"].extended("less", dp.RandomAllocation).rules_for(dp.RandomAllocation))
        == 0
    )


# --- a few rounds more than are played -----------------------------------------------------------

PLAYED = 60


def drawn(times: int) -> Node:
    return dp.Repeat(dp.SampledWithoutReplacement(dp.Gaussian("g", 1), 600, 60_000), times)


@pytest.fixture
def few_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (answers, game):
        monkeypatch.setattr(module, "MOST_ROUNDS", PLAYED)


@pytest.mark.quality
@pytest.mark.usefixtures("few_are_played")
def test_a_round_more_reaches_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """8,001 rounds were said to reach 5.453, where 8,000 do 5.872."""
    most = dp.account(drawn(PLAYED), REPLACE)
    more = dp.account(drawn(PLAYED + 1), REPLACE)
    other = dp.account(dp.Compose(drawn(PLAYED + 1), dp.Gaussian("h", 50)), REPLACE)
    assert 0 < most.epsilon(DELTA).lower <= more.epsilon(DELTA).lower
    assert more.epsilon(DELTA).lower <= other.epsilon(DELTA).lower
    assert 0 < most.delta(F(1, 2)).lower <= more.delta(F(1, 2)).lower
    with monkeypatch.context() as without:
        without.setattr(answers, "_above_fewer", lambda pair, found, ends: found)
        again = dp.account(drawn(PLAYED + 1), REPLACE)
        assert again.epsilon(DELTA).lower < most.epsilon(DELTA).lower
        assert again.delta(F(1, 2)).lower < most.delta(F(1, 2)).lower


@pytest.mark.quality
@pytest.mark.usefixtures("few_are_played")
def test_the_checker_plays_so_many_rounds_and_no_others() -> None:
    losses = pairs(drawn(PLAYED + 1))
    step = to_approx(PROFILE.fold(drawn(PLAYED + 1), REPLACE_ONE), DELTA)
    (row,) = step.witness["lower"]
    assert row["rounds"] == str(PLAYED)
    assert rederived(drawn(PLAYED + 1), "replace_one", step).reached == F(row["value"])
    doubts: list[Any] = []
    assert _lower(losses, DELTA, [{**row, "rounds": str(PLAYED // 2)}], doubts) is None or doubts
    for rounds in ("0", "-1", "062", str(PLAYED + 2), "", "x", "1.5"):
        with pytest.raises(CertificateRejected, match="rounds of a lower row"):
            _lower(losses, DELTA, [{**row, "rounds": rounds}], [])
    several = pairs(dp.Compose(drawn(PLAYED + 1), dp.Gaussian("h", 50)))
    with pytest.raises(CertificateRejected, match="rounds of a lower row"):
        _lower(several, DELTA, [{**row, "rounds": str(PLAYED)}], [])


# --- delta where errors outgrow it at the best tilt -----------------------------------------------

DISCRETE = dp.Repeat(dp.PoissonSampled(dp.DiscreteGaussian("x", 4), F(1, 100)), 100)
ADD = dp.central("add_remove")


def delta_on_a_grid(epsilon: float, step: float = 1e-5) -> tuple[float, float]:
    """Of the same from below and above: every loss rounded down, or up, and 100-fold powers."""
    k = np.arange(-40, 42)
    noise, moved = (np.exp(-((k - at) ** 2) / 8) for at in (0, 1))
    noise, moved = noise / noise.sum(), moved / moved.sum()
    mixed = 0.99 * noise + 0.01 * moved
    found = []
    for rounded in (np.floor, np.ceil):
        deltas = []
        for p, q in ((mixed, noise), (noise, mixed)):
            size = 2**20
            places = rounded(np.log(p / q) / step).astype(int)
            law = np.bincount(places % size, weights=p, minlength=size)
            whole = np.fft.irfft(np.fft.rfft(law) ** 100, size)
            losses = (np.arange(size) - size * (np.arange(size) >= size // 2)) * step
            deltas.append(float((whole * np.maximum(0, -np.expm1(epsilon - losses))).sum()))
        found.append(max(deltas))
    return found[0], found[1]


@pytest.mark.quality
def test_a_smaller_tilt_is_taken_where_errors_are_larger_than_delta(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was [4.6e-4, 2.4e-3] at 1/10, and [8e-43, 2e-9] at 1/2."""
    account = dp.account(DISCRETE, ADD)
    near, far = account.delta(F(1, 10)), account.delta(F(1, 2))
    below, above = delta_on_a_grid(0.1)
    assert float(near.lower) <= above
    assert float(near.upper) >= below
    assert near.upper < F(11, 10) * near.lower
    assert 1e-17 < float(far.lower) < float(far.upper) < 1e-14
    monkeypatch.setattr(profile, "LESS_TILTED", (0,))
    assert dp.account(DISCRETE, ADD).delta(F(1, 2)).upper > far.upper * 10**4
