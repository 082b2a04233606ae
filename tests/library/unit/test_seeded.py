"""Noise of the operating system's entropy is the same in every run of a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from dpaudit.kernels.random_bits import bits_of
from tests.support.seeded import seeded


def test_a_test_draws_what_follows_from_its_name(request: pytest.FixtureRequest) -> None:
    expected = np.random.default_rng(crc32(request.node.nodeid.encode())).bytes(32)
    assert bits_of(None)(4).tobytes() == expected


def test_two_names_draw_different_bytes_and_one_name_the_same() -> None:
    drawn = []
    for name in ("a", "b", "a"):
        with seeded(name):
            drawn.append((os.urandom(16), os.urandom(16)))
    assert drawn[0] == drawn[2]
    assert len({*drawn[0], *drawn[1]}) == 4


# In a process of its own: a copy of one in which other tests' libraries have threads may crash.
COPIES = """
import os
from tests.support.seeded import seeded

with seeded("a"):
    drawn = set()
    for _ in range(4):
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, os.urandom(16))
            os._exit(0)
        drawn.add(os.read(read, 16))
    print(len({*drawn, os.urandom(16)}))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be copied here")
def test_copies_of_the_process_draw_their_own(checkout: Path) -> None:
    command = [sys.executable, "-c", COPIES]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
    assert done.stdout == "5\n"
