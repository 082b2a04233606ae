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

TRIALS = 100_000  # of a function, by default


def is_function(target: str) -> bool:
    """Whether a target is MODULE:FUNCTION, as opposed to FILE::NAME or catalogue:NAME."""
    module, colon, _ = target.partition(":")
    return bool(colon) and "::" not in target and module != "catalogue"


def audit_named(arguments: tuple[str, ...], given: Mapping[str, Any], *, as_json: bool) -> None:
    """Audit a function on two data sets, and exit by the verdict.

    Errors: UsageError unless the arguments are FUNCTION, D0 and D1 with --claim; the errors of
    ``audit_function``.
    """
    from dpaudit.audit.blackbox.entry import audit_function
    from dpaudit.audit.verdict import EXIT_CODES

    if len(arguments) != 3 or given["claim"] is None:
        raise click.UsageError(
            "a function needs two data sets and a claim: dpaudit audit MODULE:FUNCTION D0 D1 "
            "--claim EPSILON"
        )
    name, first, second = arguments
    seed, attack = given["seed"], given["attack"]
    result = audit_function(
        _function(name),
        _data(first, "D0"),
        _data(second, "D1"),
        claim=claim_of(given["claim"]),
        trials=given["trials"] or TRIALS,
        confidence=given["confidence"],
        refute_at=given["refute_at"],
        seed=secrets.randbits(64) if seed is None else seed,
        generator=given["generator"],
        attack=attack if attack in (None, "bits") else _function(attack),
    )
    echo_json(result.to_json()) if as_json else click.echo(result.details)
    click.get_current_context().exit(EXIT_CODES[result.verdict])


def _function(name: str) -> Any:
    """Errors: UnknownTarget where the module does not import or lacks the function."""
    return attribute_of(name)[1]


def _data(text: str, place: str) -> Any:
    """A data set from JSON: a number, text or object, or a list as an array of one type.

    Errors: InvalidParameter for text that is not JSON, lists of different lengths, mixed types, and
    numbers that are not finite.
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
