"""One report among very many: windows of counts, against sums over all of them, and a checker."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dpaudit as dp
from dpaudit.check import check
from dpaudit.check.profile import conversions
from dpaudit.check.profile.crowd import crowd_at_least, crowd_at_most
from dpaudit.errors import CertificateRejected
from dpaudit.families.opaque import ApproxDP
from dpaudit.pairs import Blanket, Clones, Pair, Polled
from dpaudit.profiles import answers, delta_interval, epsilon_interval
from dpaudit.profiles.closed import crowd
from tests.library.cli.bench import Json, accept, certified, forged, mechanism, rejected

REPLACE = dp.central("replace_one")
DELTA = Fraction(1, 10**9)
F = Fraction
FEW: list[Pair] = [
    Clones(F(1), F(1), F(1, 2), F(2000)),
    Clones(F(2), F(2, 5), F(3, 10), F(3000)),
    Blanket(F(1), F(2, 5), F(1, 2), F(3, 10), F(480)),
]


@cache
def signs(count: int) -> list[Any]:
    """The law of how many of the counted are on the first side: of all, or where the one is."""
    first = np.arange(count + 1)
    fewer = max(count - 1, 0)
    return [stats.binom.pmf(first - i, n, 0.5) for i, n in ((0, count), (1, fewer), (0, fewer))]


def true_delta(pair: Any, epsilon: float) -> float:
    """By the definition: the report's place, the others' and the signs, over all counts seen."""
    n, s, x = int(pair.others), float(pair.told), math.exp(epsilon)
    more = 1 / (1 + math.exp(-float(pair.epsilon)))
    rest = float(pair.rest) if isinstance(pair, Blanket) else 0.0
    own, share, found = int(rest > 0), float(pair.rate) / (1 - rest), 0.0
    t = np.arange(n + 2)
    for seen in range(n + 2) if own else range(1):
        # A report that counts leaves all of the rest to others, else it is one of them.
        told = s * stats.binom.pmf(seen, n, rest) * stats.binom.pmf(t - 1, n - seen, share)
        hidden = (1 - s) * stats.binom.pmf(seen - own, n, rest)
        hidden = hidden * stats.binom.pmf(t, n - seen + own, share)
        for k in np.flatnonzero(told + hidden > 1e-16):
            fair, first, second = signs(int(k))
            p = told[k] * (more * first + (1 - more) * second) + hidden[k] * fair
            q = told[k] * ((1 - more) * first + more * second) + hidden[k] * fair
            found += float(np.maximum(p - x * q, 0).sum())
    return found


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("pair", FEW, ids=lambda pair: type(pair).__name__)
def test_windows_hold_the_true_delta(pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "FEWEST_OTHERS", 0)
    for epsilon in (F(0), F(1, 20)):
        true, found = true_delta(pair, float(epsilon)), crowd.delta_crowd(pair, epsilon)
        assert found is not None
        assert float(found.lower) * (1 - 1e-9) <= true <= float(found.upper) * (1 + 1e-9)
        if true > 1e-12:
            assert not crowd_at_most(pair, epsilon, F(true * (1 - 1e-6)))
            assert not crowd_at_least(pair, epsilon, F(true * (1 + 1e-6)))
    ends = crowd.epsilon_crowd(pair, F(1, 10**6))
    assert ends is not None
    assert true_delta(pair, float(ends.upper)) < 1e-6 < true_delta(pair, float(ends.lower))
    assert crowd_at_most(pair, F(ends.upper), F(1, 10**6))
    assert crowd_at_least(pair, ends.lower, F(1, 10**6))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("others", [10**8, pytest.param(2**40, marks=pytest.mark.quality), 2**50])
@pytest.mark.parametrize("choices", [2, 3])
def test_both_ends_are_near_and_a_checker_agrees(others: int, choices: int) -> None:
    """The checker asks at the epsilon that is shown; a thousandth lower, or higher, is refused."""
    node = dp.Shuffled(dp.RandomizedResponse("report", 1, choices), others + 1)
    pair = dp.account(node, REPLACE).step("profile").value.remove[0]
    pair = pair.clones if isinstance(pair, Polled) else pair
    found = crowd.epsilon_crowd(pair, DELTA)
    assert found is not None
    assert found.upper < found.lower * F(101, 100)
    assert crowd_at_most(pair, F(found.upper), DELTA)
    assert crowd_at_least(pair, found.lower, DELTA)
    assert not crowd_at_most(pair, found.lower * F(999, 1000), DELTA)
    assert not crowd_at_least(pair, F(found.upper) * F(1001, 1000), DELTA)
    if others > 2**30:
        both = delta_interval(pair, found.upper)
        assert both.upper * F(19, 20) <= both.lower < both.upper <= DELTA


@pytest.mark.quality
def test_more_reports_hide_no_less() -> None:
    """Of 10^18 as of 2^50: more are not computed with, and nothing is known from below."""
    pairs = [Clones(F(1), F(1), F(1, 2), F(n)) for n in (2**50, 10**18)]
    one, other = (epsilon_interval(pair, DELTA) for pair in pairs)
    assert one.upper == other.upper
    assert one.lower > 0 == other.lower
    assert not crowd_at_least(pairs[1], F(1, 10**20), DELTA)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("reports", "level"),
    [
        (10**15, 1),
        pytest.param(10**15, 2, marks=pytest.mark.quality),
        (2**30, 1),
        pytest.param(2**30, 2, marks=pytest.mark.quality),
    ],
)
def test_very_many_reports_are_amplified(
    reports: int, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.0 was answered once, a report's own; the amplification is about sqrt(log(1/delta)/n)."""
    node = dp.Shuffled(dp.RandomizedResponse("report", level, 2), reports)
    found = dp.account(node, REPLACE).epsilon(DELTA)
    assert 0 < found.lower < found.upper < 2 * found.lower
    assert found.upper < 4 * math.exp(level / 2) * math.sqrt(math.log(4e9) / reports)
    # Without windows of counts, fewer reports on a grid serve for more than it holds.
    monkeypatch.setattr(answers, "epsilon_crowd", lambda pair, delta: None)
    if (reports, level) == (10**15, 2):
        again = dp.account(dp.Shuffled(node.child, reports - 1), REPLACE).epsilon(DELTA)
        assert again.upper > 100 * found.upper


def certificate(reports: int) -> Json:
    node = dp.Shuffled(dp.RandomizedResponse("report", 2, 3), reports)
    claims = ApproxDP(1, DELTA), ApproxDP(F(1, 10**8), DELTA)
    return certified(mechanism("case", node, *claims)).certificate


@pytest.fixture(scope="module")
def honest() -> Json:
    return certificate(10**15)


def _row(predicate: Json, side: str) -> Any:
    step = predicate["derivation"]["steps"][predicate["claims"][0]["step"]]
    assert step["rule"] == "convert.profile_to_approx"
    return step, step["witness"][side][0]


@pytest.mark.quality
def test_a_certificate_of_very_many_reports_is_confirmed(honest: Json) -> None:
    assert not check(honest).unconfirmed
    assert [c["check"] for c in honest["predicate"]["claims"]] == ["proved", "refuted"]
    assert {_row(honest["predicate"], side)[1]["form"] for side in ("upper", "lower")} == {"crowd"}


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("side", "factor"), [("upper", "0.999"), ("lower", "1.001")])
def test_an_end_that_is_moved_is_refused(
    side: str, factor: str, honest: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(predicate: Json) -> None:
        step, _ = _row(predicate, side)
        for row in step["witness"][side]:
            text = f"{float(F(row['value']) * F(factor)):.12e}".replace("e-0", "e-")
            row.update(value=text, epsilon=text)
        if side == "upper":
            step["conclusion"]["epsilon"] = text
        else:
            step["witness"]["epsilon_lower"] = text

    assert "epsilon does not follow" in rejected(honest, moved)
    forms = conversions.AT_MOST if side == "upper" else conversions.AT_LEAST
    monkeypatch.setitem(forms, "crowd", lambda *arguments: True)
    said = ""
    try:
        accept(forged(honest, moved))
    except CertificateRejected as error:
        said = str(error)
    assert "epsilon does not follow" not in said
