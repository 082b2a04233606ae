"""Noise of the operating system's entropy is the same in every run of a test."""

from __future__ import annotations

import multiprocessing
import os
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


def sixteen_bytes(_: int) -> bytes:
    return os.urandom(16)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be copied here")
def test_copies_of_the_process_draw_their_own() -> None:
    with seeded("a"), multiprocessing.get_context("fork").Pool(2) as copies:
        drawn = copies.map(sixteen_bytes, range(4), chunksize=1)
        assert len({*drawn, os.urandom(16)}) == 5
