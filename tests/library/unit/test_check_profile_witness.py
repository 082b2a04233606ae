"""Rows of a witness: confirmed where honest, refused where anything was moved."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from flint import arb

from dpaudit.check.profile import conversions, fourier
from dpaudit.check.profile.cells import Cells, Grid, NotConfirmed
from dpaudit.check.profile.conversions import (
    OWN_PARAMETERS,
    confirm_conversion,
    confirm_lower,
    confirm_upper,
    is_computed,
)
from dpaudit.check.profile.nodes import Nodes
from dpaudit.check.profile.noise import aligned
from dpaudit.check.profile.onestep import cells
from dpaudit.check.profile.transforms import FEW_INTEGRALS, smooth_bound
from dpaudit.check.profile.values import value_nodes
from dpaudit.errors import CertificateRejected
from dpaudit.pairs import (
    Allocated,
    Atoms,
    Drawn,
    LaplaceShift,
    Losses,
    Mixed,
    Normal,
    Pair,
    Spliced,
    largest,
    opaque,
    product,
)
from dpaudit.profiles import epsilon_interval

F = Fraction


SUBSAMPLED = Mixed(Normal(F(1)), F(1, 100))


COIN = Atoms(((F(3, 4), F(1, 4)), (F(1, 4), F(3, 4))))


TELLING = Atoms(((F(1, 1000), F(0)), (F(0), F(1, 1000)), (F(999, 1000), F(999, 1000))))


PAIRS: dict[str, Pair] = {
    "normal": Normal(F(1, 3)),
    "large normal": Normal(F(2)),
    "subsampled": SUBSAMPLED,
    "subsampled away": SUBSAMPLED.swapped,
    "rarely sampled": Mixed(Normal(F(5, 3)), F(1, 1000)),
    "often sampled": Mixed(Normal(F(1, 2)), F(9, 10)),
    "Laplace": LaplaceShift(F(1, 2)),
    "subsampled Laplace": Mixed(LaplaceShift(F(1)), F(1, 7)),
    "subsampled Laplace away": Mixed(LaplaceShift(F(1)), F(1, 7)).swapped,
    "coin": COIN,
    "subsampled coin": Mixed(COIN, F(1, 3)),
    "telling": TELLING,
    "a batch": Spliced(SUBSAMPLED, SUBSAMPLED.swapped),
}


STEP = F(1, 2048)


def value(nodes: Nodes, epsilon: float) -> float:
    losses = (nodes.first + np.arange(len(nodes.masses))) * float(STEP)
    return float(nodes.infinite + nodes.masses @ np.maximum(0, -np.expm1(epsilon - losses)))


# --- rows of a witness ---------------------------------------------------------------------------

COMPOSED = product([(Mixed(LaplaceShift(F(1)), F(1, 20)), F(100))])
DELTA = F(1, 10**5)


@pytest.fixture(scope="module")
def rows() -> tuple[dict[str, str], dict[str, str]]:
    """Honest rows of a subsampled Laplace pair, 100 times, from the accountant."""
    found = epsilon_interval(COMPOSED, DELTA)
    upper = {"pair": "0", "value": str(float(found.upper)), **found.upper_witness}
    lower = {"pair": "0", "value": str(float(found.lower)), **found.lower_witness}
    return upper, lower


def test_honest_rows_are_confirmed_and_shaved_ones_are_not(rows: Any) -> None:
    upper, lower = rows
    top, bottom = F(upper["value"]), F(lower["value"])
    assert confirm_upper(COMPOSED, top, DELTA, upper)
    assert confirm_lower(COMPOSED, bottom, DELTA, lower)
    assert not confirm_upper(COMPOSED, top - F(1, 10**4), DELTA, upper)
    assert not confirm_lower(COMPOSED, bottom + F(1, 10**4), DELTA, lower)
    assert not confirm_upper(COMPOSED, top, DELTA * F(999, 1000), upper)
    assert not confirm_lower(COMPOSED, bottom, DELTA * F(1001, 1000), lower)


# Laplace noise, a rate, rounds and delta whose lower ends were refused: an atom between two nodes.
BETWEEN_NODES = [("1", "1/10000", 10**5, "1/100000"), ("1/10", "1/100", 10**6, "1/1000000")]


@pytest.mark.quality
@pytest.mark.parametrize(("epsilon", "rate", "rounds", "delta"), BETWEEN_NODES)
def test_atoms_of_rare_noise_are_put_next_to_nodes(
    epsilon: str, rate: str, rounds: int, delta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends are confirmed, none that is a thousandth better, and none without the other step."""
    pair = product([(Mixed(LaplaceShift(F(epsilon)), F(rate)), F(rounds))])
    found = epsilon_interval(pair, F(delta))
    assert confirm_upper(pair, found.upper, F(delta), found.upper_witness)
    assert confirm_lower(pair, found.lower, F(delta), found.lower_witness)
    assert not confirm_lower(pair, found.upper * F(1001, 1000), F(delta), found.lower_witness)
    bounds = [
        conversions._at_its_step(pair, found.lower, F(delta), row, sign, on_atoms=on_atoms)
        for row, sign, on_atoms in (
            (found.lower_witness, -1, False),
            (found.lower_witness, -1, True),
            (found.upper_witness, 1, False),
        )
    ]
    assert bounds == sorted(bounds)
    monkeypatch.setattr(conversions, "aligned", lambda factors, step: step)
    assert not confirm_lower(pair, found.lower, F(delta), found.lower_witness)


def test_steps_below_a_billionth_are_computed_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of a millionth need them: without them the lower end is refused."""
    pair, delta = product([(Mixed(LaplaceShift(F(10, 103)), F("3.29e-6")), F(8202))]), F(1, 10**8)
    found = epsilon_interval(pair, delta)
    assert confirm_upper(pair, found.upper, delta, found.upper_witness)
    assert confirm_lower(pair, found.lower, delta, found.lower_witness)
    assert not confirm_lower(pair, found.upper * F(1001, 1000), delta, found.lower_witness)
    monkeypatch.setattr(conversions, "SMALLEST_STEP", 1e-9)
    assert not confirm_lower(pair, found.lower, delta, found.lower_witness)


def test_sums_that_only_direct_ones_reach_are_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of ten million nodes, of which 158 frequencies matter: no transform is made."""
    pair, delta = (
        product([(Mixed(LaplaceShift(F(250, 197)), F("0.0467")), F(923_663))]),
        F(1, 10**7),
    )
    found = epsilon_interval(pair, delta)
    assert confirm_upper(pair, found.upper, delta, found.upper_witness)
    assert confirm_lower(pair, found.lower, delta, found.lower_witness)
    assert not confirm_lower(pair, found.upper * F(1001, 1000), delta, found.lower_witness)
    monkeypatch.setattr(conversions, "aligned", lambda factors, step: step)
    assert confirm_lower(pair, found.lower, delta, found.lower_witness)
    monkeypatch.setattr(fourier, "LONGEST_PERIOD", fourier.LARGEST_PERIOD)
    assert not confirm_lower(pair, found.lower, delta, found.lower_witness)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_step_of_atoms_is_a_little_smaller_and_loses_less(swapped: bool) -> None:
    """In either direction the losses of atoms lie beyond their nodes by less of a cell."""
    pair = Mixed(LaplaceShift(F(1)), F(1, 1000))
    losses = [abs(math.log1p(math.expm1(side) / 1000)) for side in (1, -1)]
    masses = [0.999 * math.exp(-1) / 2 + 0.001 / 2, 0.999 / 2 + 0.001 * math.exp(-1) / 2]

    def lost(step: float) -> float:
        return step * sum(m * (loss / step % 1) for m, loss in zip(masses, losses, strict=True))

    for step in (F(1, 10**5), F(7, 10**6), F(1, 12_345)):
        factors = [(pair.swapped if swapped else pair, 10)]
        smaller = aligned(factors, step)
        assert F(4, 5) * step <= smaller <= step
        assert lost(float(smaller) * (1 - 2**-40)) < lost(float(step)) / 4
    assert aligned([(SUBSAMPLED, 10)], F(1, 1000)) == F(1, 1000)


GROUP = product([(Drawn(F(1, 4), F(1, 2), F(4)), F(3))])
# As an accountant wrote it whose end from below needed a step of 1.5e-5.
FINE = {"tilt": "0.9683976629512762", "step": "4059/268435456", "form": "fourier"}
NEAR = F("0.33118768067429083")  # delta at 2.4651561678e-5, right to 1e-15


@pytest.mark.quality
def test_a_tiny_step_is_tried_coarser_first_and_proves_no_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fewer than 2,000 nodes of a profile, not 864,276; what is too little stays too little."""
    seen: list[int] = []
    own = value_nodes

    def counted(pair: Pair, grid: Grid) -> Nodes:
        found = own(pair, grid)
        seen.append(len(found.masses))
        return found

    monkeypatch.setattr(conversions, "value_nodes", counted)
    conversions._values.cache_clear()
    epsilon, delta = F("0.000024651561677905675"), NEAR * F(10001, 10000)
    assert confirm_upper(GROUP, epsilon, delta, FINE)
    assert 0 < sum(seen) < 2_000
    # At a step at which the finest takes no time, a delta below the true one.
    coarse = {**FINE, "step": "1/1024"}
    assert not confirm_upper(GROUP, epsilon, NEAR * F(999999, 1000000), coarse)
    monkeypatch.setattr(conversions, "COARSENINGS", ())
    assert not confirm_upper(GROUP, epsilon, NEAR * F(999999, 1000000), coarse)
    assert confirm_upper(GROUP, epsilon, delta, coarse)
    seen.clear()
    conversions._values.cache_clear()
    # Without the coarser tries a fine step is paid for: 1/200 of it is enough to see that.
    assert confirm_upper(GROUP, epsilon, delta, {**FINE, "step": "4059/1342177"})
    assert sum(seen) > 4_000


def test_a_step_that_a_fourfold_one_replaces_is_not_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each try costs a quarter of the next, so that all together cost a third of the last."""
    tried: list[F] = []

    def composed(pair: Pair, epsilon: F, delta: F, row: Any, sign: int) -> F:
        tried.append(F(row["step"]) / F(FINE["step"]))
        return delta if tried[-1] <= 4 else delta + 1

    monkeypatch.setattr(conversions, "_composed", composed)
    assert confirm_upper(GROUP, F(1), NEAR, FINE)
    assert tried[-1] == 4
    assert all(last == 4 * following for last, following in pairwise(tried))


def test_questions_of_several_deltas_share_the_nodes_of_a_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No more is left out than each allows."""
    left_out: list[float] = []

    def made(pair: Pair, grid: Grid) -> Nodes:
        left_out.append(grid.tail)
        return value_nodes(pair, grid)

    monkeypatch.setattr(conversions, "value_nodes", made)
    group = Drawn(F(1, 4), F(1, 2), F(41, 10))
    tails = [2.0**-power for power in range(27, 40)]
    nodes = [conversions._nodes(group, Grid(F(1, 8), tail), 1, 0.0) for tail in tails]
    assert all(own is nodes[0] for own in nodes)
    assert left_out == [min(tails)]


def test_a_spliced_profile_is_asked_on_the_side_that_is_meant() -> None:
    above, below = Normal(F(1)), Normal(F(2))
    asked: list[Pair] = []

    def delta(pair: Pair, x: Any) -> Any:
        asked.append(pair)
        return pair.delta(x)

    for x, of in ((arb(2), [above]), (arb(1), [above]), (arb(1) / 2, [below])):
        asked.clear()
        Spliced(above, below).delta(x, delta)
        assert asked == of
    asked.clear()
    both = Spliced(above, below).delta(arb(1, 0.001), delta)
    assert asked == [above, below]
    assert both.contains(above.delta(arb(1)))
    assert both.contains(below.delta(arb(1)))


@pytest.mark.quality
def test_what_the_rule_in_floats_leaves_open_integrals_confirm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rule is quicker, and 4e-9 off here: a delta between the two is confirmed as before."""
    row, pair, epsilon = {"tilt": "3", "step": "0"}, product([(SUBSAMPLED, F(2_000))]), F(3)
    near, quick = (
        smooth_bound([(SUBSAMPLED, 2_000)], 3.0, epsilon, 1, integrals=most)
        for most in (500, FEW_INTEGRALS)
    )
    assert near < quick < near * (1 + F(1, 10**8))
    assert confirm_upper(pair, epsilon, near, row)
    assert not confirm_upper(pair, epsilon, near * (1 - F(1, 10**12)), row)
    monkeypatch.setattr(conversions, "smooth_bound", lambda *arguments: quick)
    assert not confirm_upper(pair, epsilon, near, row)


def test_the_errors_that_a_witness_states_do_not_matter(rows: Any) -> None:
    """The checker finds its own: stating none makes no epsilon smaller."""
    shaved = F(rows[0]["value"]) - F(1, 10**4)
    stated = dict.fromkeys(("round_off", "aliasing", "truncation", "masses", "infinite"), "0")
    assert not confirm_upper(COMPOSED, shaved, DELTA, {**rows[0], **stated})


@pytest.mark.parametrize("field", ["step", "tilt"])
@pytest.mark.parametrize("factor", ["1e-12", "0.2", "10", "1e12"])
def test_no_step_or_tilt_makes_an_epsilon_smaller(rows: Any, field: str, factor: str) -> None:
    shaved = F(rows[0]["value"]) - F(1, 10**4)
    tampered = {**rows[0], field: str(F(rows[0][field]) * F(factor))}
    assert not confirm_upper(COMPOSED, shaved, DELTA, tampered)
    raised = F(rows[1]["value"]) + F(1, 10**4)
    tampered = {**rows[1], field: str(F(rows[1][field]) * F(factor))}
    assert not confirm_lower(COMPOSED, raised, DELTA, tampered)


@pytest.mark.parametrize("tampered", ["0", "-1", "-0.001"])
@pytest.mark.parametrize("field", ["step", "tilt"])
def test_a_step_or_tilt_that_is_no_positive_number_is_refused(
    rows: Any, field: str, tampered: str
) -> None:
    assert not confirm_upper(COMPOSED, F(5), DELTA, {**rows[0], field: tampered})


@pytest.mark.parametrize("form", ["closed", "largest loss", "anything"])
def test_the_form_does_not_make_an_epsilon_smaller(rows: Any, form: str) -> None:
    shaved = F(rows[0]["value"]) - F(1, 10**4)
    assert not confirm_upper(COMPOSED, shaved, DELTA, {**rows[0], "form": form})


def test_a_number_without_end_is_refused(rows: Any) -> None:
    with pytest.raises(CertificateRejected, match="too long"):
        confirm_upper(COMPOSED, F(5), DELTA, {**rows[0], "step": "1" * 10_000})


def witness(rows: Any) -> dict[str, Any]:
    return {"upper": [rows[0]], "lower": [rows[1]]}


LOSSES = Losses((COMPOSED,), (COMPOSED,), (COMPOSED,), (COMPOSED,))


def test_a_conversion_is_what_its_rows_show(rows: Any) -> None:
    text = rows[0]["value"]
    found = confirm_conversion(LOSSES, DELTA, text, witness(rows))
    assert found is not None
    assert (found.epsilon, found.reached) == (F(text), F(rows[1]["value"]))
    assert found.trusted == (OWN_PARAMETERS,)
    assert confirm_conversion(LOSSES, DELTA, str(float(text) * 0.9), witness(rows)) is None
    assert confirm_conversion(LOSSES, DELTA, text, {**witness(rows), "upper": []}) is None
    other = [{**rows[0], "pair": "1"}]
    assert confirm_conversion(LOSSES, DELTA, text, {**witness(rows), "upper": other}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"side": "lower"},
        {"form": "closed"},
        {"form": "somehow"},
        {"form": ""},
        {"epsilon": "99"},
        {"pair": "1"},
        {"surprise": "1"},
    ],
    ids=str,
)
def test_a_row_that_does_not_say_one_thing_is_refused(rows: Any, change: dict[str, str]) -> None:
    shown = {"upper": [{**rows[0], **change}], "lower": []}
    assert confirm_conversion(LOSSES, DELTA, rows[0]["value"], shown) is None
    shown = {"upper": [{k: v for k, v in rows[0].items() if k != "window_first"}], "lower": []}
    assert confirm_conversion(LOSSES, DELTA, rows[0]["value"], shown) is None


def test_every_pair_needs_its_row(rows: Any) -> None:
    both = replace(LOSSES, add=(COMPOSED.swapped,))
    assert confirm_conversion(both, DELTA, rows[0]["value"], witness(rows)) is None


def test_a_slack_is_paid_for(rows: Any) -> None:
    """A slack of 1e-8 takes (1 + e^epsilon) 1e-8 off delta, and nothing is known to be reached."""
    slack = replace(LOSSES, slack=F(1, 10**8))
    shown = {"upper": [rows[0]], "lower": []}
    assert confirm_conversion(slack, DELTA, rows[0]["value"], shown) is None
    later = {**rows[0], "value": "4"}
    found = confirm_conversion(slack, DELTA, "4", {"upper": [later], "lower": []})
    assert found is not None
    assert found.reached is None
    assert confirm_conversion(slack, DELTA, "4", {"upper": [later], "lower": [rows[1]]}) is None


# Of several rounds, of which some pair has numbers from the accountant only.
PARTLY = product([(largest([Allocated(F(1), F(9)), COIN]), F(2))])


@pytest.mark.parametrize(
    "pair",
    [Allocated(F(1), F(100)), PARTLY, Mixed(COMPOSED, F(1, 2))],
    ids=str,
)
def test_what_cannot_be_confirmed_is_listed_and_nothing_else(pair: Pair, rows: Any) -> None:
    row = {**rows[0], "value": "0.125", "epsilon": "0.125"}
    assert not is_computed(pair)
    assert not confirm_upper(pair, F(1, 8), DELTA, row)
    losses, shown = Losses((pair,), (pair,)), {"upper": [row], "lower": []}
    found = confirm_conversion(losses, DELTA, "0.125", shown)
    assert found is not None
    assert found.doubt is not None
    assert "only the accountant" in found.trusted[0]
    assert found.trusted[1:] == (OWN_PARAMETERS,)
    for name, known in PAIRS.items():
        assert is_computed(known), name


def test_delta_zero_is_the_largest_loss() -> None:
    pair = product([(LaplaceShift(F(1, 10)), F(100))])
    assert confirm_upper(pair, F(10), F(0), {"form": "largest loss"})
    assert not confirm_upper(pair, F(10) - F(1, 10**12), F(0), {"form": "largest loss"})
    assert confirm_lower(pair, F(10), F(0), {})
    assert not confirm_lower(pair, F(10) + F(1, 10**12), F(0), {})
    unbounded = product([(SUBSAMPLED, F(100))])
    assert not confirm_upper(unbounded, F(50), F(0), {"form": "largest loss"})


def test_one_pair_is_confirmed_in_closed_form() -> None:
    """delta of Normal(1) at 4.377178 is 1e-5 to seven digits (50-digit arithmetic)."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        root = mpmath.findroot(
            lambda e: (
                mpmath.ncdf(mpmath.mpf(1) / 2 - e)
                - mpmath.exp(e) * mpmath.ncdf(-mpmath.mpf(1) / 2 - e)
                - mpmath.mpf(10) ** -5
            ),
            4.4,
        )
    losses = opaque(Normal(F(1)))
    for shift, holds in (("1e-12", True), ("-1e-12", False)):
        text = str(mpmath.nstr(root + mpmath.mpf(shift), 20))
        row = {"pair": "0", "value": text, "form": "closed", "epsilon": text}
        found = confirm_conversion(losses, DELTA, text, {"upper": [row], "lower": []})
        assert (found is not None) == holds


def test_cells_of_absurd_sizes_are_refused() -> None:
    for pair, step in ((Normal(F(10**6)), F(1, 10)), (SUBSAMPLED, F(1, 10**9))):
        with pytest.raises(NotConfirmed):
            cells(pair, Grid(step, 1e-20))
    assert isinstance(cells(SUBSAMPLED, Grid(F(1, 10), 1e-20)), Cells)
