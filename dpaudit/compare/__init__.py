"""Algorithms side by side on one data set: equal searches, judged on rows and seeds of their own.

``dpaudit compare`` prints what this package finds.  A :class:`Comparison` is a module-level object
of a project, like a mechanism: methods, and the objective by which their models are judged.
"""

from __future__ import annotations

from dpaudit.compare.comparison import Comparison, Method, Objective, Outcome, Row, compare
from dpaudit.compare.search import Axis, Protocol, Search, search

__all__ = [
    "Axis",
    "Comparison",
    "Method",
    "Objective",
    "Outcome",
    "Protocol",
    "Row",
    "Search",
    "compare",
    "search",
]
