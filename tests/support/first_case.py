"""One case of each kind runs in ``make test``, the others in ``make quality``: two markers.

``@pytest.mark.first_case`` leaves the first case of a parametrised test in ``make test``, and its
further cases to ``make quality``.  ``@pytest.mark.first_case("rule")`` leaves the first case of
each value of the parameter ``rule``; of several parameters, of each combination.  With
``by=type``, or another function of a value, the first case of each of its results.

``@pytest.mark.long_cases("gaussian", "laplace")`` leaves the cases of these ids to ``make
quality``.  The first case is then the first of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest


def cases_of_quality(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases that the two markers leave to ``make quality``.

    Errors: UsageError where ``first_case`` names what is no parameter of its test.
    """
    seen: set[tuple[str, ...]] = set()
    for item in items:
        case = getattr(item, "callspec", None)
        if case is None or item.get_closest_marker("quality") is not None:
            continue
        if any(case.id in marker.args for marker in item.iter_markers("long_cases")):
            yield item
        elif marker := item.get_closest_marker("first_case"):
            kind = _kind(item, marker, case.params)
            if kind in seen:
                yield item
            seen.add(kind)


def _kind(item: pytest.Item, marker: pytest.Mark, values: dict[str, Any]) -> tuple[str, ...]:
    test = item.nodeid.partition("[")[0]
    for name in marker.args:
        if name not in values:
            raise pytest.UsageError(f"{test}: first_case({name!r}): the test has no such parameter")
    kind_of = marker.kwargs.get("by", repr)
    return (test, *(str(kind_of(values[name])) for name in marker.args))
