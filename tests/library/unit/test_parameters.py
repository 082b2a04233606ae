"""Free parameters of a mechanism: read from its ``for_shape``, refused in words, stated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.certificate import training
from dpaudit.certificate.order import Options, Order
from dpaudit.certificate.replay import command_of
from dpaudit.certificate.training import of_shape, train
from dpaudit.curator.parameters import Cost, Free, in_words, parameters, read_values
from dpaudit.errors import CertificateRejected, InvalidParameter, Undeclared

ROWS = dp.Records(np.linspace(-1, 1, 36).reshape(12, 3))


@dataclass(frozen=True)
class Mean:
    mu: Fraction
    clip: float

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("mean", noise_multiplier=1 / self.mu)

    def run(self, curator: dp.Curator) -> Any:
        return curator.release("mean", dp.ClippedMean(lambda v: v[None], self.clip))


def mean(
    title: str,
    count: int | None,
    row: tuple[int, ...],
    *,
    mu: Annotated[Fraction, Free("mu of the claim", Cost.CLAIM)] = Fraction(1, 2),
    clip: Annotated[float | None, Free("l2 norm", Cost.SCALE, default="the columns")] = None,
    steps: Annotated[int, Free("steps", Cost.NOTHING)] = 3,
    fixed: int = 7,
) -> dp.Mechanism:
    del fixed, steps, count
    program = Mean(mu, float(row[0]) if clip is None else clip)
    claim = dp.Claim(dp.GDP(mu), by="this test")
    return dp.Mechanism("mean", title, "this test", program, dp.central("replace_one"), [claim])


HOOK = partial(mean, "A mean")
MEAN = replace(HOOK(5, (3,)), for_shape=HOOK)


def order() -> Order:
    return Order(MEAN, None, "project", {})


def test_keyword_arguments_annotated_as_free_are_the_parameters() -> None:
    found = {one.name: (one.kind, one.default_text) for one in parameters(HOOK)}
    assert found == {"mu": (Fraction, "0.5"), "clip": (float, "the columns"), "steps": (int, "3")}
    assert parameters(None) == ()


def test_values_are_read_exactly() -> None:
    values = read_values("mean", HOOK, ["mu=0.1", "clip=2.5", "steps=4"])
    assert values == {"mu": Fraction(1, 10), "clip": 2.5, "steps": 4}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nu=1", "no free parameter 'nu'; it has mu, clip, steps"),
        ("fixed=1", "no free parameter 'fixed'"),
        ("mu=0", "mean: mu = 0: expected a number above 0"),
        ("mu=x", "mu"),
        ("clip=1e400", "clip: expected a number of"),
        ("steps=2.5", "steps = 2.5: expected a whole number"),
        ("steps=0", "steps = 0: expected a whole number"),
        ("mu", "expected KEY=VALUE"),
    ],
)
def test_other_values_are_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        read_values("mean", HOOK, [text])


def test_a_value_is_given_once() -> None:
    with pytest.raises(InvalidParameter, match="given twice"):
        read_values("mean", HOOK, ["mu=1", "mu=2"])


def test_a_mechanism_without_free_parameters_says_so() -> None:
    with pytest.raises(InvalidParameter, match="it has none"):
        read_values("mean", None, ["mu=1"])


@pytest.mark.quality
def test_the_claim_is_made_of_the_values_and_the_certificate_states_them(tmp_path: Path) -> None:
    values = read_values("mean", HOOK, ["mu=0.25"])
    written = train(order(), ROWS, tmp_path / "m.npz", Options(trials=200), values=values)
    predicate = written.certificate["predicate"]
    assert predicate["claims"][0]["stated_text"] == "GDP(mu=0.25)"
    assert predicate["claims"][0]["check"] == "proved"
    said = "parameters: mu = 0.25 (set; 0.5 by default), clip = the columns, steps = 3"
    assert said in str(predicate)
    command = command_of(written.certificate)
    assert (command.shape, command.values) == ("12,3", ("mu=0.25",))
    again = of_shape(order(), 12, (3,), read_values("mean", HOOK, command.values))
    assert again.mechanism.claims[0].text == "GDP(mu=0.25)"


def test_a_run_that_was_begun_at_other_values_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values are part of what is run, also those that no declaration holds."""

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "plan", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(order(), ROWS, tmp_path / "m.npz", Options(trials=200), values={"steps": 4})
    with pytest.raises(Undeclared, match="another mechanism, or data of another shape"):
        train(order(), ROWS, tmp_path / "m.npz", Options(trials=200), values={"steps": 5})


@pytest.mark.parametrize("words", ["--shape", "--shape 12,3 --set", "--shape 12,3 --sat mu=1"])
def test_a_command_of_another_form_is_not_replayed(words: str) -> None:
    text = f"dpaudit certify mean {words} --seed 1"
    with pytest.raises(CertificateRejected, match="cannot be replayed"):
        command_of({"predicate": {"reproduce": {"command": text}}})


def test_every_parameter_is_in_words() -> None:
    assert in_words(None, {}) == ""
    assert in_words(HOOK, {"clip": 2.0}) == (
        "parameters: mu = 0.5, clip = 2 (set; the columns by default), steps = 3"
    )
