"""Declarations from and to other libraries' descriptions, and as files.

``dpaudit.crosscheck.interchange.accountant`` needs dp-accounting at import, so it is not imported
here.
"""

from dpaudit.crosscheck.interchange.distributions import from_pld
from dpaudit.crosscheck.interchange.events import from_dp_event, to_dp_event
from dpaudit.crosscheck.interchange.files import load_declaration, save_declaration
from dpaudit.crosscheck.interchange.opacus import (
    HistoryAccountant,
    from_opacus_history,
    to_opacus_history,
)

__all__ = [
    "HistoryAccountant",
    "from_dp_event",
    "from_opacus_history",
    "from_pld",
    "load_declaration",
    "save_declaration",
    "to_dp_event",
    "to_opacus_history",
]
