"""The command `dpaudit attack`: a black-box audit of a function named as MODULE:FUNCTION."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import click

from dpaudit.errors import InvalidParameter, UnknownTarget


@click.command()
@click.argument("function")
@click.argument("d0")
@click.argument("d1")
@click.option("--epsilon", type=float, help="With --delta: (epsilon, delta)-DP; alone: pure DP.")
@click.option("--delta", type=float)
@click.option("--rho", type=float, help="zCDP.")
@click.option("--mu", type=float, help="Gaussian DP.")
@click.option("--trials", type=click.IntRange(8, 10**8), default=100_000, show_default=True)
@click.option(
    "--attack",
    "own",
    metavar="bits|MODULE:FUNCTION",
    help="All digits of the outputs, or the thresholds of a score that FUNCTION gives them.",
)
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Of the lower bounds shown."
)
@click.option(
    "--refute-at", type=float, default=1e-4, show_default=True, help="Error rate of a refutation."
)
@click.option("--seed", type=click.IntRange(0, 2**128 - 1), required=True)
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def attack(function: str, d0: str, d1: str, *, as_json: bool, **given: Any) -> None:
    """Audit FUNCTION (module:name, called with data, rng, size) on JSON data sets D0 and D1."""
    from dpaudit.audit.blackbox.entry import audit_function
    from dpaudit.audit.verdict import EXIT_CODES

    result = audit_function(
        _function(function),
        _data(d0, "D0"),
        _data(d1, "D1"),
        claim=_claim(given),
        trials=given["trials"],
        confidence=given["confidence"],
        refute_at=given["refute_at"],
        seed=given["seed"],
        attack=given["own"] if given["own"] in (None, "bits") else _function(given["own"]),
    )
    click.echo(json.dumps(result.to_json(), indent=2) if as_json else result.details)
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


def _claim(given: dict[str, Any]) -> Any:
    from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP

    epsilon, delta, rho, mu = (given[name] for name in ("epsilon", "delta", "rho", "mu"))
    if sum(value is not None for value in (epsilon, rho, mu)) != 1:
        raise InvalidParameter("claim: give exactly one of --epsilon, --rho and --mu")
    if epsilon is None:
        return ZCDP(rho) if rho is not None else GDP(mu)
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)
