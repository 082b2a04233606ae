"""Random declarations and random runs: a curator grants what a list of remaining uses would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from dpaudit.curator.curator import Sampler
from dpaudit.errors import Undeclared
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Records
from dpaudit.nodes import Node
from tests.support.kernels import REPLACE_ONE, NoNoise, Ruler, Stated, replayer, sampled

TRIALS = 3
LABELS = ("a", "b")
DATA = Records(np.zeros((2, 1)))
UNIT = Stated(lambda records: np.zeros((1, 1)))
Uses = list[tuple[str, int]]


@st.composite
def declarations(draw: Callable[..., Any], depth: int = 3) -> tuple[Node, Uses]:
    """A declaration, and the (label, noise multiplier) of its releases in order."""
    kind = draw(st.sampled_from(["leaf", "compose", "repeat"] if depth else ["leaf"]))
    if kind == "leaf":
        label, noise = draw(st.sampled_from(LABELS)), draw(st.integers(1, 9))
        return Gaussian(label, noise), [(label, noise)]
    if kind == "repeat":
        times = draw(st.integers(0, 3))
        node, uses = draw(declarations(depth - 1))
        return Repeat(node, times), uses * times
    children = [draw(declarations(depth - 1)) for _ in range(draw(st.integers(1, 3)))]
    return Compose(*(node for node, _ in children)), [u for _, uses in children for u in uses]


requests = st.lists(
    st.tuples(st.sampled_from(LABELS), st.lists(st.booleans(), min_size=TRIALS, max_size=TRIALS)),
    max_size=12,
)


@given(declarations(), requests)
def test_every_trial_gets_its_declared_noises_in_order(
    declared: tuple[Node, Uses], asked: list[tuple[str, list[bool]]]
) -> None:
    node, uses = declared
    left = [{k: [z for label, z in uses if label == k] for k in LABELS} for _ in range(TRIALS)]
    curator = Sampler(
        node,
        REPLACE_ONE,
        DATA,
        rng=np.random.default_rng(0),
        trials=TRIALS,
        kernels={Gaussian: Ruler},
    )
    for label, on in asked:
        charged = [trial for trial in range(TRIALS) if on[trial]]
        allowed = bool(charged) and all(left[trial][label] for trial in charged)
        before = curator.entitlements.counts()
        try:
            released = curator.release(label, UNIT, on=np.array(on))
        except Undeclared:
            assert not allowed
            assert curator.entitlements.counts() == before
            continue
        assert allowed
        expected = [left[t][label].pop(0) if on[t] else np.nan for t in range(TRIALS)]
        np.testing.assert_array_equal(released[:, 0], expected)
    assert len(curator.transcript) <= len(asked)


@given(declarations(), requests)
def test_a_run_replays_on_its_own_data_with_score_zero(
    declared: tuple[Node, Uses], asked: list[tuple[str, list[bool]]]
) -> None:
    class Tries:
        """Asks, and goes on where it is refused."""

        def declaration(self, scope: Any) -> Node:
            return declared[0]

        def run(self, curator: Any) -> list[Any]:
            found = []
            for label, on in asked:
                try:
                    found.append(curator.release(label, UNIT, on=np.array(on)))
                except Undeclared as refused:
                    found.append(str(refused))
            return found

    transcript = sampled(Tries(), DATA, REPLACE_ONE, seed=1, trials=TRIALS).transcript
    assume(transcript)
    replay = replayer(Tries(), (DATA, DATA), REPLACE_ONE).inspect(transcript, own=0)
    assert not replay.scores.any()
    assert replay.violations == ()


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(LABELS), st.integers(1, 9)), min_size=1, max_size=4),
    st.lists(st.lists(st.sampled_from(LABELS), max_size=4), max_size=5),
)
def test_every_batch_gets_one_round_of_what_is_below_its_sampling(
    rounds: int, below: Uses, asked: list[list[str]]
) -> None:
    inside = Compose(*(Gaussian(label, noise) for label, noise in below))
    node = Repeat(PoissonSampled(inside, 0.5), rounds)
    curator = Sampler(
        node, REPLACE_ONE, DATA, rng=np.random.default_rng(0), kernels={Gaussian: NoNoise}
    )
    first = below[0][0]
    for drawn, labels in enumerate(asked):
        if drawn == rounds:
            with np.testing.assert_raises(Undeclared), curator.batch(first):
                pass
            break
        left = {k: [z for label, z in below if label == k] for k in LABELS}
        with curator.batch(first) as batch:
            for label in labels:
                try:
                    curator.release(label, UNIT, rows=batch)
                except Undeclared:
                    assert not left[label]
                else:
                    left[label].pop(0)
