"""What rules, checker, curator and estimators hand out cannot be changed afterwards."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.support.mutants import ROOT, group_of, modules

# They count as they go, add up densities, or are opened once.
CHANGING = {"Entitlement", "Participations", "Sealed", "_Mixture"}


def value_types(module: Path) -> list[Any]:
    """The dataclasses that a module defines."""
    name = ".".join(module.with_suffix("").parts).removesuffix(".__init__")
    found = vars(importlib.import_module(name)).values()
    return [v for v in found if dataclasses.is_dataclass(v) and vars(v).get("__module__") == name]


@pytest.mark.parametrize("module", modules(ROOT), ids=str)
def test_a_value_is_frozen_and_one_of_arrays_is_equal_to_itself_alone(module: Path) -> None:
    """Comparing arrays raises, so that an equality made of theirs would too."""
    for kind in value_types(module):
        told = kind.__dataclass_params__
        assert told.frozen or kind.__name__ in CHANGING, kind
        arrays = any("Array" in str(field.type) for field in dataclasses.fields(kind))
        if arrays and told.frozen and group_of(str(module)) in ("estimators", "replayer"):
            assert not told.eq, kind
