"""Docstrings on the page of public names: examples are code, and roles are names."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest

import dpaudit as dp
from tools import docstrings
from tools.docstrings import as_markdown

ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|obj):`")


def outside_code(text: str) -> str:
    return re.sub(r"^```pycon$.*?^```$", "", text, flags=re.M | re.S)


@pytest.mark.parametrize("name", [name for name in dp.__all__ if name != "__version__"])
def test_a_public_name_is_shown_with_its_example_as_code(name: str) -> None:
    docstring = inspect.getdoc(getattr(dp, name)) or ""
    shown = as_markdown(docstring)
    assert "```pycon" in shown
    assert ">>>" not in outside_code(shown)
    assert not ROLE.search(shown)


def test_a_text_after_an_example_is_text_again() -> None:
    shown = as_markdown("First.\n\n>>> 1\n1\n\nThen :class:`~dpaudit.Claim`.\n>>> 2\n2")
    assert outside_code(shown).split() == ["First.", "Then", "`dpaudit.Claim`."]
    assert shown.count("```pycon") == shown.count("\n```\n") + shown.endswith("\n```") == 2


def test_its_own_example_runs() -> None:
    assert doctest.testmod(docstrings).failed == 0
