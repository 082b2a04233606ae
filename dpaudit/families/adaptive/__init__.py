"""Adaptive composition under a cap: a filter, and a choice among measures."""

from dpaudit.families.adaptive.node import Filter, FilterMeasure, Select

__all__ = ["Filter", "FilterMeasure", "Select"]
