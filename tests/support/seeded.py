"""The operating system's entropy in a test: bytes that follow from the test's name.

A release draws its noise from `os.urandom`.  A test of one is therefore right or wrong by chance,
and would fail once in many runs: with these bytes it has the same outcome in each of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock
from zlib import crc32

from numpy.random import Generator, default_rng


@contextmanager
def seeded(name: str) -> Iterator[None]:
    """Makes `os.urandom` follow from a name, in this process alone: copies of it draw their own."""
    real, process = os.urandom, os.getpid()
    streams: list[Generator] = []  # one, made for the first draw: few tests draw any

    def drawn(count: int, /) -> bytes:
        if os.getpid() != process:
            return real(count)
        if not streams:
            streams.append(default_rng(crc32(name.encode())))
        return streams[0].bytes(count)

    with mock.patch.object(os, "urandom", drawn):
        yield
