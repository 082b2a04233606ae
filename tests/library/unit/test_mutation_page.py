"""The page of mutation testing is what its files say, and these are of one shape."""

from __future__ import annotations

import json

from benchmarks import mutation


def test_the_page_is_made_of_its_files() -> None:
    assert mutation.PAGE.read_text("utf-8") == mutation.page()


def test_whoever_is_called_equivalent_has_a_reason_and_survived() -> None:
    named = json.loads(mutation.EQUIVALENT.read_text("utf-8"))
    found = json.loads(mutation.TESTS.read_text("utf-8"))
    assert all(len(reason.split()) > 4 for some in named.values() for reason in some.values())
    assert found["equivalent"].items() <= named["tests"].items()
    left = {
        f"{name.partition(':')[0]}: {' '.join(' '.join(change).split())}"
        for name, (_, *change) in found["survivors"].items()
    }
    assert not left & set(named["tests"])
    groups = found["groups"].values()
    assert sum(sum(count.values()) for count in groups) == found["run"] <= found["drawn"]
