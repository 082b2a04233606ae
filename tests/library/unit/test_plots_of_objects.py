"""Figures of accounts and of audits: they draw the scalars, or say why they cannot."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.errors import InvalidParameter, Unsupported

ADD_REMOVE = dp.central("add_remove")


def ends(figure: Any, axes: int) -> Any:
    """Rows (argument, drawn bound) of the solid curve."""
    lines = [line for line in figure.axes[axes].lines if line.get_linestyle() == "-"]
    return np.column_stack([lines[0].get_xdata(), lines[0].get_ydata()])


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "node",
    [dp.Gaussian("sum", 1), dp.Laplace("count", 1), dp.PoissonSampled(dp.Gaussian("g", 1), "0.1")],
    ids=lambda node: type(node).__name__,
)
def test_an_account_draws_its_scalars(node: dp.Node) -> None:
    opened = dp.account(node, ADD_REMOVE)
    figure = opened.plot([0, "0.5", 1], ["0.1", "0.5"])
    profile, tradeoff = ends(figure, 0), ends(figure, 1)
    assert profile[:, 1].tolist() == [float(opened.delta(e).upper) for e in (0, "0.5", 1)]
    scalars = [float(opened.tradeoff(alpha).lower) for alpha in ("0.1", "0.5")]
    assert tradeoff[:, 1].tolist() == pytest.approx(scalars, abs=1e-4)
    target = io.BytesIO()
    figure.savefig(target, format="png")
    assert target.getvalue().startswith(b"\x89PNG")


def test_a_profile_is_drawn_to_a_small_delta_unless_told() -> None:
    opened = dp.account(dp.Gaussian("sum", 2), ADD_REMOVE)
    profile = ends(opened.plot(), 0)
    assert len(profile) == 21
    assert profile[-1, 0] == pytest.approx(float(opened.epsilon("1e-9").upper))
    with pytest.raises(Unsupported, match=r"give plot\(\) the epsilons"):
        dp.account(dp.NonPrivate("raw"), ADD_REMOVE).plot()


def test_an_audit_draws_its_event_above_what_the_claim_allows() -> None:
    def flip(data: int, rng: np.random.Generator, size: int) -> Any:
        return rng.random(size) < (0.9 if data else 0.1)

    found = dp.audit_function(flip, 0, 1, claim=dp.PureDP(1), trials=2_000, seed=1)
    (axes,) = found.plot().axes
    edge = next(line for line in axes.lines if line.get_linestyle() == ":")
    (q,), (p,) = (values for values in axes.containers[0].lines[0].get_data())
    assert p > np.interp(q, edge.get_xdata(), edge.get_ydata())
    assert q == pytest.approx(found.tally.other_hits / found.tally.other_trials)
    with pytest.raises(InvalidParameter, match="without its claim's region"):
        replace(found, region=None).plot()
