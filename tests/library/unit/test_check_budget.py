"""One budget of work and memory inside the checker; the worst inputs found end within it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dpaudit as dp
from dpaudit.check import SECONDS, check, page
from dpaudit.check.file import NotDone
from dpaudit.check.profile.conversions import _number
from dpaudit.check.rows import LIMITS, verify_file
from dpaudit.errors import CertificateRejected
from dpaudit.exact.effort import TooMuch, limited, spend
from tests.library.cli.bench import Json, certified, forged, held, mechanism
from tests.library.cli.test_verify_command import sums
from tests.support.verify_page import hostile_files

ROOT = Path(__file__).parents[3]


def noise(number: Any) -> Json:
    """Noise of a scale that takes long to compute."""

    def change(predicate: Json) -> None:
        rows = predicate["mechanism"]["declaration"]["nodes"].values()
        row = next(row for row in rows if row["type"] == "Gaussian")
        row["parameters"]["noise_multiplier"] = {"number": number}

    return forged(held(), change)


def test_a_certificate_made_to_hang_ends_in_this_process_too() -> None:
    started = time.process_time()
    with pytest.raises(NotDone, match="a sum of 10000 terms takes more than the 1 s of work"):
        check(noise(sums(10_000)), seconds=1)
    assert time.process_time() - started < 4


def test_a_row_says_that_it_was_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text(json.dumps(noise(sums(10_000))))
    row = verify_file(path, 1)
    assert (row["verified"], row["failure"]) == (False, LIMITS)
    assert "--set seconds=" in row["reason"]


@pytest.mark.quality
def test_a_page_says_how_its_own_reader_allows_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No refusal of a page names an option of a command; want of memory has no button."""
    monkeypatch.setattr(page, "SECONDS", 1)
    long = json.dumps(noise(sums(10_000))).encode()
    for times, why in ((1, "more than the 1 s of work"), (3, "more than the 3 s of work")):
        reason = json.loads(page.answer("long.json", long, times, "; wait"))["row"]["reason"]
        assert why in reason
        assert reason.endswith("; wait")
    files = hostile_files(ROOT / "reports" / "dp_gd.json", tmp_path)
    rows = [json.loads(page.answer(file.name, file.read_bytes()))["row"] for file in files]
    assert not [row["reason"] for row in rows if "--" in row["reason"]]
    with limited(memory=-1, advice="; wait"), pytest.raises(TooMuch) as refused:
        for_ever()
    assert "wait" not in str(refused.value)


def for_ever() -> None:
    while True:
        spend()


def test_work_and_memory_are_one_budget() -> None:
    for seconds, memory, why in ((0.05, 2**40, "takes more than"), (60, -1, "more memory")):
        with limited(seconds=seconds, memory=memory), pytest.raises(TooMuch, match=why):
            for_ever()
    spend()  # nothing is limited outside


@pytest.mark.parametrize("text", ["1e999999999", "1E-99999", "1/" + "9" * 500, "٣"])
def test_a_number_of_a_witness_is_short(text: str) -> None:
    with pytest.raises(CertificateRejected, match="too long"):
        _number(text)


# --- the worst inputs found -----------------------------------------------------------------------


def witness(noise: dp.Node, **values: str) -> Json:
    """Other values in the rows of a witness of eight sampled rounds."""
    node = dp.Repeat(dp.PoissonSampled(noise, Fraction(1, 10)), 8)
    of = mechanism("case", node, dp.ApproxDP(9, "1e-9"), adjacency="add_remove")

    def change(predicate: Json) -> None:
        for step in predicate["derivation"]["steps"]:
            rows = step["witness"].get("upper", [])
            for row in rows if isinstance(rows, list) else ():
                row.update({name: text for name, text in values.items() if name in row})

    return forged(certified(of).certificate, change)


def curves() -> Json:
    def change(predicate: Json) -> None:
        for bound in predicate["derivation"]["upper_bounds"]:
            if "curve" in bound:
                bound["curve"] = [[f"{i}.5", "0." + "1" * 1000] for i in range(200)]
        prior = "0." + "1" * 900
        predicate["in_plain_words"]["posterior"] = [[f"{prior}{i}", "0.5"] for i in range(20)]

    return forged(held(), change)


def counts() -> Json:
    def change(predicate: Json) -> None:
        for row in predicate["audits"]:
            row["trials"] = 10**9
            row["counts"] = dict.fromkeys(row["counts"], 10**9)
            row["counts"].update(false_positives=4 * 10**8, false_negatives=4 * 10**8)
            row["roc"] = [[f"0.4{i}", "0.4", "0.5", "0.5"] for i in range(100)]

    return forged(held(), change)


WORST: dict[str, Callable[[], Json]] = {
    "three nested sums": lambda: noise(sums(10_000)),
    "a fine step": lambda: witness(dp.DiscreteGaussian("g", 1, 4), step="1/1048576"),
    "a steep tilt": lambda: witness(dp.Gaussian("g", 4), tilt="9000000"),
    "long curves": curves,
    "large counts": counts,
    "a binomial": lambda: noise(["binomial", "9" * 900 + "/1", "9" * 400 + "/1"]),
}


# A process's children count with the memory that they were forked with: one of its own asks.
ASK = """
import json, resource, sys, time
from pathlib import Path
from dpaudit.check.file import read
from dpaudit.check.process import verify_files

started = time.monotonic()
(one,) = verify_files([read(Path(sys.argv[1]))])
row = one.row
row["seconds"] = time.monotonic() - started
row["memory"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps(row))
"""


@pytest.mark.quality
@pytest.mark.parametrize("name", WORST)
def test_the_worst_inputs_found_end_in_time_and_memory(name: str, tmp_path: Path) -> None:
    """The largest found: 20 s (three nested sums, 45 KB) and 329 MB (a step of 2^-20)."""
    path = tmp_path / "worst.json"
    path.write_text(json.dumps(WORST[name]()))
    asked = subprocess.run(
        [sys.executable, "-c", ASK, path], capture_output=True, text=True, check=True
    )
    row = json.loads(asked.stdout)
    assert row["seconds"] < SECONDS + 1
    assert not row["verified"]
    assert "\n" not in row["reason"]
    assert row["memory"] < 500 * 2**10
