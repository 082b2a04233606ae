"""How much work an examination does in a test: where ``make test`` examines, a share of a user's.

An examination's work is a count of numbers that its queries read, and its stages have shares of it:
with less, each of them runs, and tries fewer data sets.  The bugs that the tests of ``FILES`` plant
are found with ``SHARE`` of the work.  ``@pytest.mark.whole_work`` names the tests of which this is
not true, and tests marked ``quality`` have all of the work, too.  ``make quality`` runs those
that do less once more with all of it (``DPAUDIT_WHOLE_WORK=1``).
"""

from __future__ import annotations

import os
from fnmatch import fnmatch
from functools import cache, partial

import pytest

from dpaudit.audit.examine import examination, steep
from dpaudit.audit.examine.meter import LIMIT, Meter

SHARE = 1 / 16  # of the work; the bugs of most tests are found with it in a third of the time
# Files of tests that do it, as patterns of their names.
FILES = tuple(
    f"test_{name}.py"
    for name in (
        "examine*", "unseen_bugs", "pair_search", "shape_of_data", "loaders", "undrawn",
        "statistic", "certify", "certify_all", "publish", "run_command", "commands",
        "compare_command", "verify_command", "batch_curators", "distributed_vectors",
        "individual_family",
    )
)  # fmt: skip
ALL = "DPAUDIT_WHOLE_WORK"  # environment variable: "1" runs these tests with all of the work

WALKED, SEARCHED = examination.WORK, examination.WORK_OF_A_SEARCH  # numbers read, of a user's


def works_less(item: pytest.Item) -> bool:
    """Whether a test's examinations do a share of their work in ``make test``."""
    if any(map(item.get_closest_marker, ("whole_work", "quality"))):
        return False
    return _in_files(item.path.name)


@cache
def _in_files(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in FILES)


def share_of(item: pytest.Item) -> float:
    """The share of an examination's work that a test's examinations do."""
    return SHARE if works_less(item) and os.environ.get(ALL) != "1" else 1.0


def chosen(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests to run: where all work is asked for, those that do less otherwise."""
    return [item for item in items if os.environ.get(ALL) != "1" or works_less(item)]


def set_share(share: float) -> None:
    """Examinations of this process do this share of the work from now on."""
    examination.Meter = partial(Meter, limit=LIMIT * share)  # type: ignore[misc, assignment]
    examination.WORK = round(WALKED * share)
    examination.WORK_OF_A_SEARCH = steep.WORK_OF_A_SEARCH = round(SEARCHED * share)
