"""The examiner: a mechanism's own program, on records that the tool makes, with no suite."""

from dpaudit.audit.examine.examination import (
    Examination,
    Reached,
    examine,
    read_by_others,
    shape_like,
)
from dpaudit.audit.examine.held import held_by
from dpaudit.audit.examine.lines import Ran
from dpaudit.audit.examine.loader import mixing
from dpaudit.audit.examine.shapes import Shape, Unknown, shape_of

__all__ = [
    "Examination",
    "Ran",
    "Reached",
    "Shape",
    "Unknown",
    "examine",
    "held_by",
    "mixing",
    "read_by_others",
    "shape_like",
    "shape_of",
]
