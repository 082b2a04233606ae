"""Libraries that are loaded at the first question, not at import."""

from __future__ import annotations

from importlib import import_module
from sys import modules
from types import ModuleType
from typing import Any


class Later(ModuleType):
    """A module that is imported when something of it is first used.

    Names stand for their modules until then::

        if TYPE_CHECKING:
            import numpy as np
        else:
            np = Later("numpy")
    """

    def __getattr__(self, name: str) -> Any:
        # Looked up each time, so that a name that is replaced in the module is replaced here too.
        return getattr(modules.get(self.__name__) or import_module(self.__name__), name)
