"""`dpaudit audit MODULE:FUNCTION D0 D1`: a black-box audit of any function that draws."""

from __future__ import annotations

import importlib
import json
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dpaudit.cli.commands import echo_json
from dpaudit.cli.membership import claim_of
from dpaudit.errors import InvalidParameter, UnknownTarget

TRIALS = 100_000


def is_function(target: str) -> bool:
    """Whether a target is MODULE:FUNCTION: neither FILE::NAME nor catalogue:NAME."""
    module, colon, _ = target.partition(":")
    return bool(colon) and "::" not in target and module != "catalogue"


def audit_named(arguments: tuple[str, ...], given: Mapping[str, Any], *, as_json: bool) -> None:
    """Audit a function on two data sets, and exit by the verdict.

    Errors: UsageError for other arguments than FUNCTION, D0 and D1; as ``audit_function``.
    """
    from dpaudit.audit.blackbox.entry import audit_function
    from dpaudit.audit.verdict import EXIT_CODES

    if len(arguments) != 3 or given["claim"] is None:
        raise click.UsageError(
            "a function needs two data sets and a claim: dpaudit audit MODULE:FUNCTION D0 D1 "
            "--claim EPSILON"
        )
    name, first, second = arguments
    seed, own = given["seed"], given["attack"]
    result = audit_function(
        _function(name),
        _data(first, "D0"),
        _data(second, "D1"),
        claim=claim_of(given["claim"]),
        trials=given["trials"] or TRIALS,
        confidence=given["confidence"],
        refute_at=given["refute_at"],
        seed=secrets.randbits(64) if seed is None else seed,
        attack=own if own in (None, "bits") else _function(own),
    )
    echo_json(result.to_json()) if as_json else click.echo(result.details)
    click.get_current_context().exit(EXIT_CODES[result.verdict])


def _function(name: str) -> Any:
    """Errors: UnknownTarget where the module does not import or lacks the function."""
    module, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        raise UnknownTarget(f"{name}: expected MODULE:FUNCTION that can be imported") from None


def _data(text: str, place: str) -> Any:
    """Numbers and lists of numbers as arrays; errors: InvalidParameter for text that is no JSON."""
    import numpy as np

    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        raise InvalidParameter(f"{place}: expected JSON, for example 0 or [1, 2, 3]") from None
    return np.array(value) if isinstance(value, list) else value
