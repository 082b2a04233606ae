"""One budget of work and memory inside the checker; the worst inputs found end within it."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit.check import check
from dpaudit.check.file import NotDone
from dpaudit.check.process import LIMITS, SECONDS, verify_file, verify_files
from dpaudit.check.profile.conversions import _number
from dpaudit.errors import CertificateRejected
from dpaudit.exact.effort import TooMuch, limited, poll
from tests.cli.bench import Json, forged, held
from tests.cli.test_verify_command import sums


def noise(number: Any) -> Json:
    """Noise of a scale that takes long to compute."""

    def change(predicate: Json) -> None:
        rows = predicate["mechanism"]["declaration"]["nodes"].values()
        row = next(row for row in rows if row["type"] == "Gaussian")
        row["parameters"]["noise_multiplier"] = {"number": number}

    return forged(held(), change)


def test_a_certificate_made_to_hang_ends_in_this_process_too() -> None:
    started = time.process_time()
    with pytest.raises(NotDone, match="it takes more than 1 s"):
        check(noise(sums(10_000)), seconds=1)
    assert time.process_time() - started < 4


def test_a_row_says_that_it_was_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text(json.dumps(noise(sums(10_000))))
    row = verify_file(path, 1)
    assert (row["verified"], row["failure"]) == (False, LIMITS)
    assert "--seconds" in row["reason"]


def for_ever() -> None:
    while True:
        poll()


def test_work_and_memory_are_one_budget() -> None:
    for seconds, memory, why in ((0.05, 2**40, "takes more than"), (60, -1, "more memory")):
        with limited(seconds, memory), pytest.raises(TooMuch, match=why):
            for_ever()
    poll()  # nothing is limited outside


@pytest.mark.parametrize("text", ["1e999999999", "1E-99999", "1/" + "9" * 500, "٣"])
def test_a_number_of_a_witness_is_short(text: str) -> None:
    with pytest.raises(CertificateRejected, match="too long"):
        _number(text)


# --- the worst inputs found -----------------------------------------------------------------------


def witness(**values: str) -> Json:
    from tests.property.test_forger import sampled

    def change(predicate: Json) -> None:
        for step in predicate["derivation"]["steps"]:
            rows = step["witness"].get("upper", [])
            for row in rows if isinstance(rows, list) else ():
                row.update({name: text for name, text in values.items() if name in row})

    return forged(sampled(), change)


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
    "a fine step": lambda: witness(step="1/1048576"),
    "a steep tilt": lambda: witness(tilt="9000000"),
    "long curves": curves,
    "large counts": counts,
    "a binomial": lambda: noise(["binomial", "9" * 900 + "/1", "9" * 400 + "/1"]),
}


@pytest.mark.quality
@pytest.mark.parametrize("name", WORST)
def test_the_worst_inputs_found_end_in_time_and_memory(name: str, tmp_path: Path) -> None:
    """The largest found: 20 s (three nested sums, 45 KB) and 241 MB (a step of 2^-20)."""
    path = tmp_path / "worst.json"
    path.write_text(json.dumps(WORST[name]()))
    started = time.monotonic()
    (row,) = verify_files([path])
    assert time.monotonic() - started < SECONDS + 1
    assert not row["verified"]
    assert "\n" not in row["reason"]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 500 * 2**10
