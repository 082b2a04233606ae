"""How much work an examination does in a test: where ``make test`` examines, a share of a user's.

An examination's work is a count of numbers that its queries read, and its stages have shares of it:
with less, each of them runs, and tries fewer data sets.  The bugs that the tests of ``FILES`` plant
are found with ``SHARE`` of the work.  ``@pytest.mark.whole_work`` names the tests of which this is
not true, and tests marked ``quality`` have all of the work, too.  A property draws one of
``EXAMPLES`` of its examples, by the same markers.  ``make quality`` runs those that do less once
more with all of it (``DPAUDIT_WHOLE_WORK=1``).
"""

from __future__ import annotations

import os
from fnmatch import fnmatch
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import settings

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
EXAMPLES = 4  # a property draws one of so many of its examples, in a third of the time
FEWEST = 8  # examples that a property draws at least, if it has so many
ALL = "DPAUDIT_WHOLE_WORK"  # environment variable: "1" runs these tests with all of the work

WALKED, SEARCHED = examination.WORK, examination.WORK_OF_A_SEARCH  # numbers read, of a user's


def examines_less(item: pytest.Item) -> bool:
    """Whether a test's examinations do a share of their work in ``make test``."""
    return not _whole(item) and _in_files(item.path.name)


def draws_fewer(item: pytest.Item) -> bool:
    """Whether a test draws fewer of Hypothesis's examples in ``make test``."""
    return not _whole(item) and _has_examples(item)


def _whole(item: pytest.Item) -> bool:
    return any(map(item.get_closest_marker, ("whole_work", "quality")))


def _has_examples(item: pytest.Item) -> bool:
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


@cache
def _in_files(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in FILES)


def share_of(item: pytest.Item) -> float:
    """The share of an examination's work that a test's examinations do."""
    return SHARE if examines_less(item) and os.environ.get(ALL) != "1" else 1.0


def chosen(items: list[Any]) -> list[Any]:
    """The tests to run, with a number of examples; where all work is asked for, those that do less
    otherwise."""
    if os.environ.get(ALL) == "1":
        return [item for item in items if examines_less(item) or draws_fewer(item)]
    fewer = {item.obj: True for item in items if draws_fewer(item)}
    fewer |= {item.obj: False for item in items if _has_examples(item) and not draws_fewer(item)}
    for test in (test for test, less in fewer.items() if less):
        given = test._hypothesis_internal_use_settings
        most = max(given.max_examples // EXAMPLES, min(FEWEST, given.max_examples))
        test._hypothesis_internal_use_settings = settings(given, max_examples=most)
    return items


def set_share(share: float) -> None:
    """Examinations of this process do this share of the work from now on."""
    examination.Meter = partial(Meter, limit=LIMIT * share)  # type: ignore[misc, assignment]
    examination.WORK = round(WALKED * share)
    examination.WORK_OF_A_SEARCH = steep.WORK_OF_A_SEARCH = round(SEARCHED * share)
