"""`dpaudit audit MECHANISM D0 D1`: black-box audits of functions, programs, endpoints, queries."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dpaudit.cli.commands import echo_json
from dpaudit.cli.membership import claim_of
from dpaudit.errors import InvalidParameter
from dpaudit.storage.roots import attribute_of

DEFAULT_TRIALS = 100_000  # Trials of a function's audit, unless the caller asks for others.
QUERY = ".sql"  # a file that holds a query


def is_function(target: str) -> bool:
    """Whether a target draws: MODULE:FUNCTION, an address or a query, not a declared mechanism."""
    module, colon, _ = target.partition(":")
    function = bool(colon) and "::" not in target and module != "catalogue"
    return function or target.endswith(QUERY)


def audit_named(arguments: tuple[str, ...], given: Mapping[str, Any], *, as_json: bool) -> None:
    """Audit what draws on two data sets, and exit by the verdict.

    Errors: UsageError unless the arguments are D0 and D1, after what draws where no --command is
    given, with --claim; the errors of ``audit_function``.
    """
    from dpaudit.audit.blackbox.entry import audit_function
    from dpaudit.audit.verdict import EXIT_CODES

    command = given["command"]
    if len(arguments) != (3 if command is None else 2) or given["claim"] is None:
        raise click.UsageError(
            "a function needs two data sets and a claim: dpaudit audit MODULE:FUNCTION D0 D1 "
            "--claim EPSILON; a program: dpaudit audit --command PROGRAM D0 D1 --claim EPSILON"
        )
    *named, first, second = arguments
    seed, attack = given["seed"], given["attack"]
    mechanism = _mechanism(named[0] if named else None, command, given["time_limit"])
    query = bool(named) and named[0].endswith(QUERY)
    result = audit_function(
        mechanism,
        first if query else _data(first, "D0"),
        second if query else _data(second, "D1"),
        claim=claim_of(given["claim"]),
        trials=given["trials"] or DEFAULT_TRIALS,
        confidence=given["confidence"],
        refute_at=given["refute_at"],
        seed=secrets.randbits(64) if seed is None else seed,
        generator=given["generator"],
        attack=attack if attack in (None, "bits") else _function(attack),
    )
    echo_json(result.to_json()) if as_json else click.echo(result.details)
    click.get_current_context().exit(EXIT_CODES[result.verdict])


def _mechanism(name: str | None, command: str | None, time_limit: float | None) -> Any:
    """A function by its name, an endpoint by its address, a query by its file, or a program.

    Errors: UsageError for a time limit of a function, which runs in this process.
    """
    from dpaudit.audit.blackbox.foreign import TIME_LIMIT, Command, Endpoint, is_url

    limit = TIME_LIMIT if time_limit is None else time_limit
    if command is not None:
        return Command(command, time_limit=limit)
    name = str(name)
    if is_url(name):
        return Endpoint(name, time_limit=limit)
    if name.endswith(QUERY):
        from dpaudit.audit.blackbox.sql import Database

        return Database(_query(name), time_limit=limit)
    if time_limit is not None:
        raise click.UsageError("time_limit: only for a --command, an address or a .sql file.")
    return _function(name)


def _query(path: str) -> str:
    """Errors: InvalidParameter for a file that cannot be read as text."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(
            f"{path}: the query cannot be read ({type(error).__name__}); give a text file in UTF-8"
        ) from None


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
