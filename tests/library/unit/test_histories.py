"""Histories of other libraries: known answers, warnings of loaders, bad input."""

from __future__ import annotations

import json
from collections import namedtuple
from enum import Enum, auto
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dpaudit as dp
from dpaudit.cli.main import main
from dpaudit.crosscheck.interchange.histories import (
    READERS,
    from_jax_privacy,
    from_tensorflow_privacy,
    from_tumult,
    loader_warning,
    read_history,
)
from dpaudit.crosscheck.interchange.kinds import NO_NOISE
from dpaudit.crosscheck.interchange.opacus import from_opacus_history
from dpaudit.crosscheck.interchange.opendp import from_opendp
from dpaudit.crosscheck.interchange.stated import Stated
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.batches import TruncatedPoisson
from dpaudit.families.composition import Compose
from dpaudit.families.events import Group

SCOPE = dp.central("add_remove")
Sample = namedtuple("Sample", "population_size selection_probability queries")
Query = namedtuple("Query", "l2_norm_bound noise_stddev")
ABSENT = "add_remove zero_out"
RUN = {"noise_multipliers": 4.0, "batch_size": 1024, "num_samples": 50_000, "num_updates": 10_000}


def test_a_run_of_jax_privacy_has_the_epsilon_that_its_tests_state() -> None:
    """jax-privacy's own test of its PLD accountant: 2.09245 at delta 1e-5, to five digits."""
    for run in (RUN, SimpleNamespace(**RUN, delta=1e-5, is_finite_guarantee=True)):
        bound = dp.account(from_jax_privacy(run), SCOPE).epsilon("1e-5")
        assert float(bound.lower) == pytest.approx(2.09245, rel=1e-4)
        assert float(bound.upper) == pytest.approx(2.09245, rel=1e-4)
    users = from_jax_privacy({**RUN, "examples_per_user": 2})
    found = dp.account(users, SCOPE).epsilon("1e-5")
    # Theirs, 5.00008, is of fixed users in a cruder grid: ours is never above it.
    assert 2.1 < float(found.lower) <= float(found.upper) < 5.0001


class Sampling(Enum):
    """As in jax-privacy 2.0."""

    POISSON = auto()
    FIXED_BATCH_SIZE = auto()


def test_fields_of_jax_privacy_that_change_the_guarantee_are_not_passed_over() -> None:
    """The fields of jax-privacy 2.0's DpParams; a schedule or another sampling was read as none."""
    silent = {
        "delta": 1e-5,
        "batch_size_scale_schedule": None,
        "is_finite_guarantee": True,
        "batch_sizes": 1024,
        "examples_per_user": None,
        "cycle_length": None,
        "sampling_method": Sampling.POISSON,
        "truncated_batch_size": None,
    }
    plain = from_jax_privacy(RUN)
    assert from_jax_privacy(SimpleNamespace(**RUN, **silent)) == plain
    assert from_jax_privacy({**RUN, **silent, "sampling_method": "POISSON"}) == plain
    for changed, named in (
        ({"batch_size_scale_schedule": {100: 4}}, "schedules"),
        ({"batch_sizes": [(0, 1024), (100, 4096)]}, "schedules"),
        ({"sampling_method": Sampling.FIXED_BATCH_SIZE}, "FIXED_BATCH_SIZE: no Poisson"),
        ({"cycle_length": 4}, "cycle_length"),
    ):
        with pytest.raises(Unsupported, match=named):
            from_jax_privacy(SimpleNamespace(**RUN, **{**silent, **changed}))
    cut = from_jax_privacy(SimpleNamespace(**RUN, **{**silent, "truncated_batch_size": 1100}))
    noise = dp.Gaussian("gaussian", 4, ABSENT)
    step = TruncatedPoisson(noise, Fraction(1024, 50_000), 50_000, 1100)
    assert cut == dp.Repeat(step, 10_000)


def test_a_state_of_opacus_is_read_as_it_is_saved() -> None:
    """``accountant.state_dict()`` of Opacus 1.6, through JSON."""
    state = {"history": [(1.1, 0.004, 500), (0.9, 0.004, 250)], "mechanism": "prv"}
    read = READERS["opacus"](json.loads(json.dumps(state)), Stated()).node
    assert read == from_opacus_history(state["history"])
    assert [child.times for child in read.nodes] == [500, 250]


def test_a_ledger_of_tensorflow_privacy_in_either_form() -> None:
    entries = [Sample(1000, 0.01, [Query(2.0, 3.0), Query(1.0, 8.0)]), Sample(1000, 1.0, [])]
    plain = [[1000, 0.01, [[2.0, 3.0], [1.0, 8.0]]]]
    inner = Compose(*(dp.Gaussian("gaussian", noise, ABSENT) for noise in ("1.5", 8)))
    assert from_tensorflow_privacy(entries) == dp.PoissonSampled(inner, "0.01")
    assert from_tensorflow_privacy(plain) == from_tensorflow_privacy(entries)
    # Its buffers are of float32: .01 is stored as .0099999998, which would be read as less.
    stored = Sample(*np.float32([1000, 0.01]), [Query(*np.float32([2, 3]))])
    assert from_tensorflow_privacy([stored]).rate == Fraction(1, 100)


def test_measurements_of_opendp_cost_what_its_maps_say() -> None:
    laplace = {"_type": "constructor", "module": "measurements", "func": "make_laplace"}
    chained = {"_type": "partial_chain", "lhs": {}, "rhs": {**laplace, "func": "then_gaussian",
               "kwargs": {"scale": 4.0}}}  # fmt: skip
    texts = [json.dumps({"version": "0.12", "ast": {**laplace, "kwargs": {"scale": 2.0}}}), chained]
    node = from_opendp(texts, sensitivity=2)
    assert [type(n).__name__ for n in node.children] == ["PureDP", "ZCDP"]
    assert [str(n.parameters.get("epsilon", n.parameters.get("rho"))) for n in node.children] == [
        "1",
        "1/8",
    ]
    with pytest.raises(Unsupported, match="randomized_response"):
        from_opendp({**laplace, "func": "make_randomized_response"})


def test_budgets_of_tumult_are_read_exactly() -> None:
    """As Tumult Analytics 0.21 keeps them: floats outside, ExactNumbers of SymPy inside."""
    import sympy

    third = SimpleNamespace(expr=sympy.Rational(1, 3))
    pure = SimpleNamespace(epsilon=float(third.expr), value=third)
    assert from_tumult([pure]).parameters["epsilon"] == Fraction(1, 3)
    tiny = SimpleNamespace(expr=sympy.Rational(1, 10**6))
    approximate = SimpleNamespace(epsilon=1 / 3, delta=1e-6, value=(third, tiny))
    assert from_tumult([approximate]).parameters["epsilon"] == Fraction(1, 3)
    root = SimpleNamespace(expr=sympy.sqrt(2))
    above = from_tumult([SimpleNamespace(rho=float(root.expr), value=root)])
    assert above.parameters["rho"] ** 2 > 2
    for endless in ({"epsilon": float("inf")}, {"epsilon": 1, "delta": 1}, {"rho": float("inf")}):
        assert from_tumult([endless]) == NO_NOISE


def test_budgets_of_a_tumult_session_are_added() -> None:
    node = from_tumult([{"epsilon": 1}, SimpleNamespace(epsilon=0.5, delta=1e-6), {"rho": 0.1}])
    assert [type(n).__name__ for n in node.children] == ["PureDP", "ApproxDP", "ZCDP"]
    assert dp.account(from_tumult([{"epsilon": 1}] * 3), SCOPE).step("pure").value == 3


@pytest.mark.quality
def test_a_shuffled_loader_is_warned_of_with_both_numbers(tmp_path: Path) -> None:
    """Opacus without Poisson sampling: 100 batches a pass, accounted as Poisson."""
    file = tmp_path / "history.json"
    file.write_text(json.dumps({"history": [[0.6, 0.01, 150]], "mechanism": "prv"}))
    words = ["account", "--history", str(file), "--delta", "1e-5", "--json", "--set"]
    quiet, loud = (
        CliRunner().invoke(main, [*words, f"batches={kind}"]) for kind in ("poisson", "shuffled")
    )
    assert quiet.exit_code == loud.exit_code == 0, loud.output
    assert "WARNING" not in quiet.output
    declaration, _ = read_history(file, "opacus")
    text = loader_warning(declaration, "shuffled", "1e-5")
    assert f"WARNING: {text}" in loud.output
    said = [float(word.rstrip(",")) for word in str(text).split() if word[0].isdigit()]
    _, least, most, assumed = said
    assert assumed < least < most


@pytest.mark.parametrize(
    ("read", "content", "named"),
    [
        (from_jax_privacy, {**RUN, "batch_size": 60_000}, "batch_size = 60000: larger"),
        (from_jax_privacy, {**RUN, "noise": 1}, "'noise' is none"),
        (from_jax_privacy, {"batch_size": 3}, "expected noise_multipliers"),
        (from_jax_privacy, {**RUN, "noise_multipliers": float("nan")}, "run.noise_multipliers"),
        (from_tensorflow_privacy, [[10, 2.0, []]], r"ledger\[0\].selection_probability"),
        (from_tensorflow_privacy, {"a": 1}, "expected a list"),
        (from_tumult, [{"delta": 0.1}], r"budgets\[0\]: expected epsilon"),
        (from_opendp, "{", "not JSON"),
        (from_opendp, {"_type": "partial_chain", "rhs": None}, r"measurements\[0\]: expected"),
        (from_opendp, {"module": "measurements", "args": 3}, "expected a list of arguments"),
        (from_opendp, {"module": "measurements", "kwargs": [1]}, "expected a list of arguments"),
    ],
)
def test_bad_histories_are_named(read: Any, content: Any, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        read(content)


def test_what_cannot_be_read_or_warned_of_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="library = 'other'"):
        read_history(tmp_path / "x", "other")
    with pytest.raises(InvalidParameter, match="cannot be read"):
        read_history(tmp_path / "x", "opacus")
    (tmp_path / "x").write_text("[7]")
    with pytest.raises(InvalidParameter, match=r"history\[0\]: expected"):
        read_history(tmp_path / "x", "opacus")
    with pytest.raises(Unsupported, match="schedules"):
        from_jax_privacy({**RUN, "batch_size": [(0, 8), (10, 16)]})
    with pytest.raises(Unsupported, match="no loader"):
        loader_warning(dp.Gaussian("g", 1), "shuffled", "1e-5")
    for batches, named in (("odd", "'odd'"), (["x"], r"\['x'\]")):
        with pytest.raises(InvalidParameter, match=f"batches = {named}"):
            loader_warning(dp.Gaussian("g", 1), batches, "1e-5")
    with pytest.raises(Unsupported, match=r"sampling_method = 9{80}: no"):
        from_jax_privacy({**RUN, "sampling_method": "9" * 5000})
    endless = {"module": "measurements", "func": "9" * 5000, "kwargs": {"scale": 2.0}}
    for changed, error in (({}, Unsupported), ({"func": "laplace", "k": "9"}, InvalidParameter)):
        with pytest.raises(error) as refused:
            from_opendp({**endless, **changed, "kwargs": {"scale": 2.0, **changed}})
        assert len(str(refused.value)) < 300


def test_what_a_file_leaves_open_is_asked_for(tmp_path: Path) -> None:
    """Budgets say neither whose they are nor who are neighbours; a ledger says no unit."""
    contents = {
        "tumult": ([{"epsilon": 1}], "adjacency unit"),
        "tensorflow_privacy": ([[1000, 0.01, [[2.0, 3.0]]]], "unit"),
        "opacus": ([[1.1, 0.01, 100]], ""),
        "jax_privacy": (RUN, ""),
    }
    said = {"adjacency": "add_remove", "unit": "client"}
    for library, (content, asked) in contents.items():
        file = tmp_path / "x.json"
        file.write_text(json.dumps(content))
        given: dict[str, str] = {}
        for name in asked.split():
            with pytest.raises(InvalidParameter, match=f"{name}: not in the file"):
                read_history(file, library, Stated.of(**given))
            given[name] = said[name]
        scope = read_history(file, library, Stated.of(**given))[1]
        assert scope.unit == given.get("unit", "record")
        with pytest.raises(InvalidParameter, match="sensitivity"):
            read_history(file, library, Stated.of(sensitivity=1, **given))
    with pytest.raises(InvalidParameter, match="the file is of add_remove"):
        read_history(file, "jax_privacy", Stated.of("replace_one"))


def test_a_unit_of_several_records_is_a_group(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps([[1.1, 0.01, 100]]))
    one = read_history(file, "opacus")[0]
    for stated, named in (
        ({"unit": "user"}, "how many records one user has"),
        ({"records": 3}, "unit: not in the file"),
        ({"records": 3, "unit": "record"}, "one record is one"),
        ({"records": 0}, "at least 1"),
    ):
        with pytest.raises(InvalidParameter, match=named):
            read_history(file, "opacus", Stated.of(**stated))
    found, scope = read_history(file, "opacus", Stated.of(unit="user", records=3))
    assert found == Group(one, 3)
    assert scope.unit == "user"
    replaced, scope = read_history(file, "opacus", Stated.of("replace_one"))
    assert scope.adjacency == "replace_one"
    assert replaced == from_opacus_history([(1.1, 0.01, 100)], "replace_one")
    file.write_text(json.dumps({**RUN, "examples_per_user": 2}))
    assert read_history(file, "jax_privacy")[1].unit == "user"
    with pytest.raises(InvalidParameter, match="of one user"):
        read_history(file, "jax_privacy", Stated.of(unit="record"))


def test_a_table_with_one_key_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"history": [], "history": [[1.1, 0.01, 100]]}')
    with pytest.raises(InvalidParameter, match="a key occurs twice"):
        read_history(tmp_path / "x", "opacus")


@pytest.mark.parametrize(
    ("library", "content", "named"),
    [
        ("jax_privacy", {**RUN, "is_finite_guarantee": "false"}, "is_finite_guarantee"),
        ("jax_privacy", {**RUN, "is_finite_guarantee": 0}, "is_finite_guarantee"),
        ("jax_privacy", {**RUN, "examples_per_user": 0}, "examples_per_user = 0"),
        ("jax_privacy", {**RUN, "cycle_length": True}, "cycle_length"),
        ("jax_privacy", {**RUN, "sampling_method": ""}, "sampling_method"),
        ("jax_privacy", {**RUN, "batch_size_scale_schedule": {}}, "schedules"),
        ("opacus", {"history": [], "mechanism": "rdp", "steps": 9}, "'steps' is none"),
        ("opacus", {"history": [], "mechanism": 3}, "mechanism, a name"),
        ("opacus", {"mechanism": "rdp"}, "expected history"),
        ("tumult", [{"epsilon": 1, "detla": 0.1}], "'detla' is none"),
    ],
)
def test_fields_of_another_type_or_name_are_refused(
    tmp_path: Path, library: str, content: Any, named: str
) -> None:
    file = tmp_path / "history.json"
    file.write_text(json.dumps(content))
    stated = Stated.of("add_remove", "record") if library == "tumult" else Stated()
    with pytest.raises((InvalidParameter, Unsupported), match=named):
        read_history(file, library, stated)
