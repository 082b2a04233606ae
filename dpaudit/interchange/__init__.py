"""Declarations from and to other libraries' descriptions, and as files.

``dpaudit.interchange.accountant`` needs dp-accounting at import, so it is not imported here.
"""

from dpaudit.interchange.events import from_dp_event, to_dp_event
from dpaudit.interchange.files import load_declaration, save_declaration
from dpaudit.interchange.opacus import HistoryAccountant, from_opacus_history, to_opacus_history

__all__ = [
    "HistoryAccountant",
    "from_dp_event",
    "from_opacus_history",
    "load_declaration",
    "save_declaration",
    "to_dp_event",
    "to_opacus_history",
]
