"""Docstrings as Markdown for the page of public names: examples as code, names without roles.

mkdocstrings loads this as an extension of griffe (mkdocs.yml).
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|obj):`~?([^`]+)`")
_PROMPT = ">>> "


def as_markdown(docstring: str) -> str:
    """A docstring with its examples in blocks of code, and cross-references as names in code.

    >>> as_markdown("See :func:`~dpaudit.account`.")
    'See `dpaudit.account`.'
    """
    lines: list[str] = []
    inside = False
    for line in _ROLE.sub(r"`\1`", docstring).splitlines():
        if not inside and line.startswith(_PROMPT):
            lines += ["", "```pycon"] if lines and lines[-1] else ["```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


class Docstrings(griffe.Extension):
    """Rewrites each docstring once it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """The docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
