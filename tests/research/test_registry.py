"""The registry demonstration: the page is what the records give, and a wrong number is seen."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from experiments.lab.registry import derived, interval, page, records


def test_the_page_is_what_the_records_give(checkout: Path) -> None:
    assert (checkout / "docs" / "registry.md").read_text("utf-8") == page()


def test_every_numeric_record_has_an_outcome() -> None:
    found = records()
    assert len(found) == 35
    assert Counter(record.outcome for record in found) == {
        "agrees": 7,
        "within rounding": 3,
        "disagrees": 3,
        "cannot be derived": 22,
    }


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("17.14", (Fraction("17.135"), Fraction("17.145"))),
        ("5.06e-9", (Fraction("5.055e-9"), Fraction("5.065e-9"))),
        ("0.10", (Fraction("0.095"), Fraction("0.105"))),
        ("10", (Fraction(10), Fraction(10))),
        ("1e-10", (Fraction("1e-10"), Fraction("1e-10"))),
    ],
)
def test_a_printed_number_is_the_interval_of_its_last_digit(
    text: str, ends: tuple[Fraction, Fraction]
) -> None:
    assert interval(text) == ends


CENSUS: dict[str, Any] = {"what": "", "zcdp": ["2.56"], "delta": "1e-10", "result": "epsilon"}


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        # 17.158 by the best conversion: Canonne, Kamath and Steinke 2020; 17.92 by the simple one.
        (CENSUS | {"printed": "17.14"}, "within rounding"),
        (CENSUS | {"printed": "17.20"}, "disagrees"),
        (CENSUS | {"printed": "17.92", "simple": True}, "within rounding"),
        ({"what": "", "pure": ["0.1", "0.2"], "printed": "0.3", "result": "epsilon"}, "agrees"),
        ({"what": "", "pure": ["1", "2"], "printed": "4", "result": "epsilon"}, "disagrees"),
        (CENSUS | {"printed": "20", "at_most": True}, "agrees"),
        (CENSUS | {"printed": "15", "at_most": True}, "disagrees"),
    ],
)
def test_a_wrong_number_is_seen(check: dict[str, Any], outcome: str) -> None:
    assert derived(check).outcome == outcome
