"""Chains of OpenDP: what one unit moves follows from the file, is asked for, or is refused."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dpaudit as dp
from dpaudit.cli.main import main
from dpaudit.crosscheck.interchange import opendp
from dpaudit.crosscheck.interchange.opendp import from_opendp, read_opendp
from dpaudit.crosscheck.interchange.stated import Stated
from dpaudit.errors import DpauditError, InvalidParameter, Unsupported
from dpaudit.families.opaque import ZCDP, PureDP

Json = dict[str, Any]


def call(name: str, module: str, **given: Any) -> Json:
    """One function call as OpenDP 0.16 serialises it."""
    named = {"__function__": name, "__module__": module, "__kwargs__": given}
    return {**named, "__version__": "0.16.0"}


def metric(name: str) -> Json:
    return call(name, "metrics")


def atom(kind: str) -> Json:
    return call("atom_domain", "domains", bounds=None, nan=False, T=kind)


def rows(kind: str, metric_name: str, size: int | None = None) -> Json:
    domain = call("vector_domain", "domains", atom_domain=atom(kind), size=size)
    return {"input_domain": domain, "input_metric": metric(metric_name)}


def given_by(transformation: Json) -> Json:
    return {
        "input_domain": call("transformation_output_domain", "core", this=transformation),
        "input_metric": call("transformation_output_metric", "core", this=transformation),
    }


def chain(start: Json, *steps: tuple[str, Json], noise: tuple[str, float], **more: Any) -> Json:
    """Transformations in turn, and noise of a scale."""
    before: Json | None = None
    for name, options in steps:
        step = call(
            f"make_{name}", "transformations", **(given_by(before) if before else start), **options
        )
        both = {"transformation1": step, "transformation0": before}
        before = step if before is None else call("make_chain_tt", "combinators", **both)
    assert before is not None
    last = call(f"make_{noise[0]}", "measurements", **given_by(before), scale=noise[1], **more)
    return call("make_chain_mt", "combinators", measurement1=last, transformation0=before)


def clamp(low: float, high: float) -> tuple[str, Json]:
    return "clamp", {"bounds": {"__tuple__": [low, high]}}


def resize(size: int, metric_name: str = "SymmetricDistance") -> tuple[str, Json]:
    return "resize", {"size": size, "constant": 0, "MO": metric_name}


NONE: Json = {}
SUM, MEAN, UNBOUNDED = ("sum", NONE), ("mean", NONE), ("metric_unbounded", NONE)
LAPLACE = ("laplace", 0.5)
SYM, INS, ONE, HAM = "symmetric", "insert_delete", "change_one", "hamming"
NUMBERS = {"TO": "i32"}
CAST = ("cast", {"TOA": "f64"})
# Chains of one data set metric, and what OpenDP 0.16's own map gives to distances of it.
THEIRS: list[tuple[Any, dict[int, float]]] = [
    ((SYM, "f64", None, [clamp(0.0, 10.0), SUM], ("laplace", 5.0)),
     {1: 2.000000018626452, 2: 4.000000018626452, 6: 12.000000018626453}),
    ((SYM, "f64", None, [clamp(-3.0, 10.0), SUM], LAPLACE),
     {1: 26.00000018626452, 2: 52.00000018626452, 6: 156.00000018626454}),
    ((INS, "f64", None, [clamp(-20.0, 10.0), SUM], ("gaussian", 2.0)),
     {1: 112.5000013969839, 2: 450.00000279396784, 6: 4050.0000083819045}),
    ((SYM, "i32", None, [clamp(-3, 10), SUM], LAPLACE), {1: 20, 2: 40, 6: 120}),
    ((SYM, "i32", None, [clamp(2, 10), resize(50, "InsertDeleteDistance"), SUM],
      ("geometric", 0.5)), {1: 16, 2: 32, 6: 96}),
    ((SYM, "f64", 100, [clamp(2.0, 10.0), SUM], LAPLACE),
     {2: 16.0000000000059, 6: 48.000000000005905}),
    ((SYM, "f64", 100, [clamp(-3.0, 10.0), MEAN], ("gaussian", 2.0)),
     {2: 0.0021125000000010168, 6: 0.01901250000000306}),
    ((ONE, "f64", 100, [UNBOUNDED, clamp(0.0, 10.0), SUM], LAPLACE),
     {1: 20.0000000000059, 3: 60.000000000005905}),
    ((HAM, "f64", 100, [UNBOUNDED, clamp(0.0, 10.0), MEAN], LAPLACE),
     {1: 0.20000000000006257, 3: 0.6000000000000627}),
    ((SYM, "i32", None, [("count", NUMBERS)], LAPLACE), {1: 2, 2: 4, 6: 12}),
    ((SYM, "i32", None, [("count_distinct", NUMBERS)], ("gaussian", 2.0)),
     {1: 0.125, 2: 0.5, 6: 4.5}),
    ((SYM, "f64", None, [clamp(-10.0, -2.0), resize(50), MEAN], LAPLACE),
     {1: 0.32000000000005374, 2: 0.6400000000000537, 6: 1.920000000000054}),
    ((SYM, "i32", None, [CAST, ("impute_constant", {"constant": 0.0}), clamp(0.0, 4.0), SUM],
      LAPLACE), {1: 8.000000074505808, 2: 16.00000007450581, 6: 48.00000007450581}),
    ((SYM, "i32", None, [("is_equal", {"value": 1}), ("cast_default", {"TOA": "i32"}),
      clamp(0, 1), SUM], LAPLACE), {1: 2, 2: 4, 6: 12}),
    ((SYM, "i32", 100, [("metric_bounded", {}), UNBOUNDED, clamp(0, 4), SUM], LAPLACE),
     {2: 8, 6: 24}),
    ((SYM, "i32", None, [("ordered_random", {}), clamp(0, 4), SUM], LAPLACE),
     {1: 8, 2: 16, 6: 48}),
]  # fmt: skip


def built(name: str, kind: str, size: int | None, steps: Any, noise: Any, **more: Any) -> Json:
    return chain(rows(kind, f"{name}_distance", size), *steps, noise=noise, **more)


def loss(node: dp.Node) -> Fraction:
    """Epsilon of Laplace noise, rho of Gaussian noise."""
    calculus = "pure" if isinstance(node, dp.PureDP) else "zcdp"
    return Fraction(dp.account(node, dp.central("add_remove")).step(calculus).value)


def read(measurement: Json, adjacency: str) -> Fraction | None:
    """The loss under an adjacency; None where the file's metric says nothing about it."""
    try:
        return loss(from_opendp(json.dumps(measurement), adjacency=adjacency))
    except Unsupported:
        return None


@pytest.mark.parametrize(("made", "maps"), THEIRS)
def test_a_chain_costs_what_opendp_says_at_least(made: Any, maps: dict[int, float]) -> None:
    """One unit is one step of the metric or, replaced, two additions or removals."""
    measurement = built(*made)
    for adjacency, steps in opendp.STEPS.items():
        ours = read(measurement, adjacency)
        distance = steps.get(f"{made[0]}_distance")
        assert (ours is None) == (distance not in maps)
        if ours is not None and distance is not None:
            assert maps[distance] * (1 - 1e-15) <= ours <= maps[distance] * (1 + 1e-7)


@pytest.mark.parametrize(("made", "maps"), THEIRS)
def test_several_records_of_a_unit_cost_what_opendp_says_at_least(
    made: Any, maps: dict[int, float]
) -> None:
    stated = Stated.of("replace_one", unit="user", records=3)
    node, scope = read_opendp(built(*made), stated).scoped(stated)
    assert scope.unit == "user"
    distance = 3 * opendp.STEPS[scope.adjacency][f"{made[0]}_distance"]
    calculus = "zcdp" if made[4][0] == "gaussian" else "pure"
    ours = dp.account(node, scope).step(calculus).value
    assert maps[distance] * (1 - 1e-15) <= ours <= maps[distance] * (1 + 1e-6)


def test_the_comparison_sees_a_map_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that is read as if one row moved it by 1, as every one was."""
    unit = lambda space, given, place: (  # noqa: E731
        opendp.Space("absolute_distance", "atom_domain", space.type),
        lambda d: d,
    )
    monkeypatch.setattr(opendp, "MAPS", {**opendp.MAPS, "sum": unit})
    with pytest.raises(AssertionError):
        test_a_chain_costs_what_opendp_says_at_least(*THEIRS[0])


BARE = call("make_laplace", "measurements", input_domain=atom("f64"),
            input_metric=metric("absolute_distance"), scale=2.0, k=None)  # fmt: skip
VARIANCE = built(SYM, "f64", 100, [clamp(0.0, 4.0), ("variance", {})], LAPLACE)


@pytest.mark.parametrize(
    ("measurement", "why"), [(BARE, "begins at a number"), (VARIANCE, "variance has no map here")]
)
def test_what_the_file_leaves_open_is_asked_for(measurement: Json, why: str) -> None:
    with pytest.raises(InvalidParameter, match=rf"sensitivity: not in the file; .*{why}"):
        from_opendp(measurement)
    scale = 2 if measurement is BARE else Fraction(1, 2)
    assert loss(from_opendp(measurement, sensitivity=3)) == 3 / scale


def test_a_sensitivity_that_the_file_says_itself_is_refused() -> None:
    """A stated 1 would stand against the file's 10."""
    with pytest.raises(InvalidParameter, match="leave it out"):
        from_opendp(built(*THEIRS[0][0]), sensitivity=1)
    both = call("make_composition", "combinators", measurements=[built(*THEIRS[0][0]), VARIANCE])
    found = from_opendp(both, sensitivity=3)
    assert [float(loss(part)) for part in found.children] == pytest.approx([2, 6], rel=1e-7)


def test_the_number_of_rows_that_is_public_has_no_record_added() -> None:
    """OpenDP's own map of one addition is 0 there: there are no such neighbours."""
    with pytest.raises(Unsupported, match="number of rows is public"):
        from_opendp(built(*THEIRS[5][0]))
    with pytest.raises(Unsupported, match="change_one_distance says nothing about add_remove"):
        from_opendp(built(*THEIRS[7][0]))
    with pytest.raises(Unsupported, match="says nothing about zero_out"):
        from_opendp(built(*THEIRS[0][0]), adjacency="zero_out")


def test_compositions_casts_and_grids_are_read_through() -> None:
    count = built(SYM, "i32", None, [("count", NUMBERS)], LAPLACE)
    cast = call("make_pureDP_to_zCDP", "combinators", measurement=count)
    whole = call("make_composition", "combinators", measurements=[cast, count])
    assert [loss(part) for part in from_opendp(whole).children] == [2, 2]
    coarse = built(SYM, "f64", None, [clamp(0.0, 10.0), SUM], ("laplace", 5.0), k=4)
    # OpenDP's own map: 5.200000018626453.
    assert float(loss(from_opendp(coarse))) == pytest.approx(5.2000000186, rel=1e-8)


def broken(**changes: Any) -> Json:
    """A chain whose noise claims to take something else than its transformation gives."""
    whole = built(*THEIRS[0][0])
    whole["__kwargs__"]["measurement1"]["__kwargs__"].update(changes)
    return whole


@pytest.mark.parametrize(
    "measurement",
    [
        broken(input_domain=atom("f32"), input_metric=metric("absolute_distance")),
        broken(input_metric=metric("l2_distance")),
        broken(k=1.5),
        broken(scale=-1.0),
        built(SYM, "i32", None, [SUM], LAPLACE),
        built(SYM, "f64", None, [clamp(0.0, 4.0), MEAN], LAPLACE),
        built(SYM, "f64", None, [clamp(4.0, 0.0), SUM], LAPLACE),
        built(SYM, "String", None, [clamp(0, 4), SUM], LAPLACE),
        built(ONE, "i32", None, [clamp(0, 4), SUM], LAPLACE),
        built("frame", "i32", None, [("count", NUMBERS)], LAPLACE),
        built(SYM, "f64", None, [("count", NUMBERS)], ("laplace_threshold", 2.0), threshold=9),
        call("make_population_amplification", "combinators", measurement=BARE),
        {"_type": "partial_chain", "lhs": {}, "rhs": {"module": "measurements",
         "func": "then_laplace", "kwargs": {"scale": 2.0}}},
    ],
)  # fmt: skip
def test_what_has_no_map_or_does_not_fit_is_refused(measurement: Json) -> None:
    with pytest.raises(DpauditError):
        from_opendp(measurement)


def before_0_14(function: str, *arguments: Any, **named: Any) -> Json:
    listed = {"_type": "list", "_items": list(arguments)}
    call = {"func": function, "module": "measurements", "args": listed, "kwargs": named}
    return {"version": "0.12.0", "ast": {"_type": "constructor", **call}}


def test_arguments_without_names_are_read_by_their_order() -> None:
    """The last one was taken for the scale: a grid of 2^10 made the loss ten times smaller."""
    assert from_opendp(before_0_14("then_laplace", 1.0), sensitivity=1) == PureDP(
        1, "laplace", "OpenDP's map"
    )
    assert from_opendp(before_0_14("then_gaussian", 1.0, None), sensitivity=1) == ZCDP(
        Fraction(1, 2), "gaussian", "OpenDP's map"
    )


@pytest.mark.parametrize(
    "measurement",
    [
        before_0_14("then_laplace", 1.0, 10),
        before_0_14("then_gaussian", 1.0, 10),
        before_0_14("then_laplace", 1.0, None, 3),
        before_0_14("then_laplace", 1.0, scale=2.0),
        before_0_14("then_clamp", [0, 1]),
    ],
)
def test_arguments_without_names_that_do_not_fit_are_refused(measurement: Json) -> None:
    with pytest.raises(Unsupported):
        from_opendp(measurement, sensitivity=1)


def test_nesting_without_end_is_refused() -> None:
    inner: Json = BARE
    for _ in range(100_000):
        inner = call("make_approximate", "combinators", measurement=inner)
    with pytest.raises(InvalidParameter, match="nested too deeply"):
        from_opendp(inner)


def asked(tmp_path: Path, content: Any, *words: str) -> tuple[int, str]:
    file = tmp_path / "chain.json"
    file.write_text(json.dumps(content))
    found = CliRunner().invoke(
        main, ["account", "--history", str(file), "--set", "library=opendp", "--json", *words]
    )
    return found.exit_code, found.output


def test_the_command_asks_for_sensitivity_adjacency_and_unit(tmp_path: Path) -> None:
    answers(0, "2.00001", asked(tmp_path, built(*THEIRS[0][0])))
    words: list[str] = []
    for name, value in (("sensitivity", "3"), ("adjacency", "replace_one"), ("unit", "record")):
        answers(2, f"{name}: not in the file", asked(tmp_path, BARE, *words))
        words += ["--set", f"{name}={value}"]
    answers(0, "1.5", asked(tmp_path, BARE, *words))
    answers(2, "records=", asked(tmp_path, built(*THEIRS[0][0]), "--set", "unit=user"))


def answers(code: int, text: str, found: tuple[int, str]) -> None:
    assert found[0] == code, found
    assert text in found[1], found
