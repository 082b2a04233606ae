"""Certificates whose lower end is a part's, forged by hand: each says something false, or unclear.

A forger makes the digests again after each change.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

import dpaudit as dp
from dpaudit.certificate import certificate as certificates
from dpaudit.check import check, declared_digest
from dpaudit.check.file import load
from dpaudit.errors import CertificateRejected
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from tests.library.cli.bench import Json, certified, forged, mechanism, rejected

DELTA = Fraction(1, 10**5)
ROUNDS = dp.Repeat(dp.SampledWithoutReplacement(dp.Gaussian("g", 1), 1, 100), 100)
GROUP = dp.Group(dp.CyclicBatches(dp.Gaussian("g", 4), 10, 5), 3)


@cache
def in_parts() -> Json:
    """Its lower end is that of the rounds, without the little noise beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "PROFILE_DELTAS", ())
        node = dp.Compose(ROUNDS, dp.Gaussian("h", 100))
        claims = ApproxDP(9, DELTA), ApproxDP(Fraction(1, 10), DELTA)
        return certified(mechanism("case", node, *claims)).certificate


@cache
def grouped() -> Json:
    """A group in batches of a public order: k times the shift without sampling."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "PROFILE_DELTAS", ())
        claims = GDP(Fraction(3, 4)), ApproxDP(4, DELTA)
        made = mechanism("case", GROUP, *claims, adjacency="zero_out")
        return certified(made).certificate


def conversion(predicate: Json) -> Any:
    step = predicate["derivation"]["steps"][predicate["claims"][0]["step"]]
    assert step["rule"] == "convert.profile_to_approx"
    return step


def lower(name: str, value: Any) -> Callable[[Json], None]:
    def change(predicate: Json) -> None:
        conversion(predicate)["witness"]["lower"][0][name] = value

    return change


def reaching(text: str, **row: str) -> Callable[[Json], None]:
    """Another epsilon that is said to be reached, wherever it stands."""

    def change(predicate: Json) -> None:
        witness = conversion(predicate)["witness"]
        shown = {**witness["lower"][0], "epsilon": text} if not row else {"pair": "1", **row}
        witness["lower"] = [{**shown, "value": text}]
        witness["epsilon_lower"] = text

    return change


@pytest.mark.quality
def test_the_honest_ones_are_confirmed() -> None:
    row = conversion(in_parts()["predicate"])["witness"]["lower"][0]
    assert (row["factors"], row["form"]) == ("1", "game")
    assert not check(in_parts()).unconfirmed
    assert not check(grouped()).unconfirmed


PLACES = ["", "0", "0 1", "1 1", "1 0", "01", "2", "-1", "+1", " 1", "1 ", "\u0661", 1, None, ["1"]]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("kept", PLACES)
def test_factors_are_places_of_the_own_pair_each_once(kept: Any) -> None:
    """Those of another, one counted twice, and what another reader would read otherwise."""
    assert rejected(in_parts(), lower("factors", kept))


@pytest.mark.long("makes the certificate that all forgeries of parts start from")
@pytest.mark.first_case
@pytest.mark.parametrize(
    "pair", ["0", "2", "3", "-1", "-2", "+1", " 1", "1.0", "\uff11", "1e0", 1, True, None, []]
)
def test_a_lower_row_is_of_the_pair_it_is_shown_for(pair: Any) -> None:
    assert rejected(in_parts(), lower("pair", pair))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "change",
    [
        reaching("0.725"),
        reaching("9"),
        reaching("0.75", factors="1"),
        reaching("0.75", factors="1", form="closed", epsilon="0.75"),
        reaching("0.75", factors="1", form="told apart", epsilon="0.75"),
        reaching("0.75", factors="1", form="crowd", epsilon="0.75"),
        reaching("0.75", factors="1", form="corner", nodes="64"),
        reaching("0.75", factors="0", form="closed", epsilon="0.75"),
    ],
)
def test_no_more_is_reached_by_a_part_than_it_reaches(change: Any) -> None:
    assert "epsilon does not follow" in rejected(in_parts(), change)


@pytest.mark.quality
def test_an_upper_row_is_of_all_factors() -> None:
    def change(predicate: Json) -> None:
        conversion(predicate)["witness"]["upper"][0]["factors"] = "0"

    assert "epsilon does not follow" in rejected(in_parts(), change)


@pytest.mark.first_case
@pytest.mark.parametrize("number", ["NaN", "1/0", "1e99999", "1_0", "1 ", []])
@pytest.mark.parametrize("name", ["value", "epsilon", "delta", "nodes", "tilt", "tail"])
def test_a_witness_holds_numbers(name: str, number: Any) -> None:
    """A refusal, and nothing but that."""
    with pytest.raises(CertificateRejected):
        check(forged(in_parts(), lower(name, number)))


@pytest.mark.parametrize(
    "delta", ["1/100001", "100001/10000000000", "-1/100000", "0/1", "1/0", "2/1", ["Infinity"], []]
)
def test_a_delta_is_the_one_that_is_shown(delta: Any) -> None:
    def change(predicate: Json) -> None:
        conversion(predicate)["witness"]["delta"] = delta

    assert rejected(in_parts(), change)


# --- other declarations below the same derivation -------------------------------------------------


def declaring(node: Node, adjacency: str | None = None) -> Callable[[Json], None]:
    def change(predicate: Json) -> None:
        own = from_table(predicate["mechanism"]["declaration"])
        predicate["scope"]["adjacency"] = adjacency or predicate["scope"]["adjacency"]
        predicate["mechanism"].update(
            declaration=to_table(node),
            digest=declared_digest(node, predicate["scope"]),
            declaration_text=repr(node),
        )
        names = dict(zip(_nodes(own), _nodes(node), strict=False))
        for step in predicate["derivation"]["steps"]:
            step["node"], step["node_text"] = names[step["node"], step["node_text"]]

    return change


def _nodes(node: Node) -> list[tuple[str, str]]:
    found = [pair for child in node.children for pair in _nodes(child)]
    return [*found, (node.digest, node.head)]


@pytest.mark.parametrize(
    "node",
    [
        dp.Group(dp.CyclicBatches(dp.Gaussian("g", 4), 10, 5), 4),
        dp.Group(dp.CyclicBatches(dp.Gaussian("g", 3), 10, 5), 3),
        dp.Group(dp.CyclicBatches(dp.Laplace("g", 4), 10, 5), 3),
        dp.Group(dp.PoissonSampled(dp.Gaussian("g", 4), "1/2"), 3),
        dp.Group(dp.Repeat(dp.Gaussian("g", 4), 2), 3),
    ],
    ids=["more members", "less noise", "other noise", "drawn by coins", "twice"],
)
def test_a_group_is_as_far_apart_as_its_own_members(node: Node) -> None:
    assert rejected(grouped(), declaring(node))


def test_batches_of_a_public_order_are_of_records_that_stay() -> None:
    assert "under add_remove is None" in rejected(grouped(), declaring(GROUP, "add_remove"))


def test_a_group_below_what_draws_its_members_is_no_declaration() -> None:
    """Its table is made by hand, as the declaration language has none."""

    def change(predicate: Json) -> None:
        table = predicate["mechanism"]["declaration"]
        root = table["nodes"][table["root"]]
        inner = table["nodes"][root["children"][0]]
        root["children"], inner["children"] = inner["children"], [table["root"]]

    assert rejected(grouped(), change)


def test_no_key_is_read_twice(tmp_path: Any) -> None:
    path = tmp_path / "case.json"
    path.write_text('{"predicate": {"a": "1", "a": "2"}}', "utf-8")
    with pytest.raises(CertificateRejected, match="a key occurs twice"):
        load(path)
