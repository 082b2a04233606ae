"""What the walls measure, where numbers are promises: `python -m benchmarks.house` prints all."""

from __future__ import annotations

import re
from pathlib import Path

import grimp
import pytest

from benchmarks import house


@pytest.fixture(scope="module")
def measured() -> dict[str, object]:
    return house.table()


def test_the_walls_stand(measured: dict[str, object]) -> None:
    assert measured["rooms that import each other"] == 0
    assert measured["circles of modules"] == 0
    assert int(str(measured["loose modules at the top"])) <= 5
    assert int(str(measured["layers of imports"])) <= 12
    assert int(str(measured["function lines, ninth decile"])) <= 17


def test_a_circle_would_be_noticed() -> None:
    graph = grimp.ImportGraph()
    for module in ("dpaudit.exact.a", "dpaudit.nodes.b", "dpaudit.nodes.c"):
        graph.add_module(module)
    graph.add_import(importer="dpaudit.exact.a", imported="dpaudit.nodes.b")
    assert house.circles(graph) == 0
    graph.add_import(importer="dpaudit.nodes.b", imported="dpaudit.nodes.c")
    graph.add_import(importer="dpaudit.nodes.c", imported="dpaudit.exact.a")
    assert house.circles(graph) == 3
    assert house.rooms(graph) == (2, [("exact", "nodes")])


def test_importing_the_front_door_is_nothing(measured: dict[str, object]) -> None:
    """Its modules, not its time: a busy machine would fail it, a heavier import always does."""
    assert measured["`import dpaudit` loads"] == "dpaudit, dpaudit.version"


def test_a_claim_passes_five_rooms_and_climbs_once() -> None:
    rooms, climbs = house.walk_of_a_claim()
    assert set(rooms) == {"accountant", "measures", "families", "nodes", "exact"}
    assert climbs == ["measures to families"]


def test_noise_is_followed_from_declaration_to_sample() -> None:
    held = house.walk_of_noise()
    assert {"curator/curator", "curator/entitlement", "families/additive/kernel"} <= set(held)
    assert len(held) <= 9


def test_the_page_says_what_is_measured(measured: dict[str, object], checkout: Path) -> None:
    """Numbers of the page that no commit of an afternoon changes."""
    page = (checkout / "docs" / "architecture.md").read_text("utf-8")
    (row,) = re.findall(r"\| layers of imports \| \d+ \| (\d+)", page)
    assert int(row) == measured["layers of imports"]
    (row,) = re.findall(r"\| function lines, ninth decile \| \d+ \| (\d+) \|", page)
    assert int(row) == measured["function lines, ninth decile"]
    assert (
        f"**`noise_multiplier`, from declaration to sample**: {len(house.walk_of_noise())}" in page
    )
