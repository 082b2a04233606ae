"""Libraries that are loaded at the first question, not at import."""

from __future__ import annotations

from importlib import import_module
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
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)  # the next use finds it without this function
        return value
