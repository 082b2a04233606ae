"""One browser for all tests of pages: a start of its own would cost each a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chromium import Chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser; a test that needs one fails without, and make leaves it out."""
    with Chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made
