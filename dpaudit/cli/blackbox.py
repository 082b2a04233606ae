"""`dpaudit audit MODULE:FUNCTION D0 D1`: a black-box audit of any function that draws."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import click

from dpaudit.cli.commands import echo_json
from dpaudit.cli.membership import claim_of
from dpaudit.errors import InvalidParameter
from dpaudit.storage.roots import attribute_of

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
    return attribute_of(name)[1]


def _data(text: str, place: str) -> Any:
    """A number, a text or an object as JSON gives it; lists as arrays, each of one type of cell.

    Errors: InvalidParameter for text that is no JSON, for lists of different lengths, for cells of
    several types, and for numbers that are not finite.
    """
    import numpy as np

    from dpaudit.tabular.columns import json_value

    value = json_value(text, place)
    try:
        array = np.array(value)
    except ValueError:
        raise InvalidParameter(f"{place}: its lists are of different lengths") from None
    cells = np.array(value, dtype=object).ravel().tolist()
    types = {type(cell) for cell in cells}
    numbers = types <= {int, float}
    if numbers and not (array.dtype.kind in "iuf" and np.isfinite(array).all()):
        raise InvalidParameter(f"{place}: expected finite numbers, integers of at most 64 bits")
    if isinstance(value, list) and not numbers and types not in ({bool}, {str}, {dict}):
        raise InvalidParameter(
            f"{place}: its lists mix numbers, texts, true and false, or hold null; give one of them"
        )
    return array if isinstance(value, list) else value
