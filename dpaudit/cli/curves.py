"""Tables and figures: epsilon against the steps of a run, and the noise needed for an epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import decimal_lower, decimal_upper
from dpaudit.storage.files import write_made

if TYPE_CHECKING:
    from dpaudit.nodes import Node
    from dpaudit.scope import Scope

DELTA = "1e-5"  # of the tables, if none is given
RUN = ("n", "batch", "epochs")  # settings that a curve over noise has to state


def curves(
    node: Node | None,
    scope: Scope | None,
    delta: str | None,
    settings: str | None,
    *,
    points: int | None,
    sigma_for: str | None,
    figure: Path | None,
) -> dict[str, Any]:
    """The requested tables; also writes the figure.

    ``points``: rows of the table of epsilon over steps, which needs ``node`` and ``scope``.
    ``sigma_for``: epsilons for the table of sigma, which needs ``settings``.
    Errors: InvalidParameter for a figure with neither or both tables, or a table without its
    inputs; the errors of :mod:`dpaudit.accountant.recipes`.
    """
    if sigma_for is not None and settings is None:
        raise InvalidParameter("--sigma-for: needs the settings of a run, --dp-sgd")
    if figure is not None and (points is None) == (sigma_for is None):
        raise InvalidParameter("--figure: expected one of --points and --sigma-for")
    tables: dict[str, Any] = {}
    at = delta or DELTA
    if points is not None:
        if node is None or scope is None:
            raise InvalidParameter("--points: needs the noise of the run, sigma=, in --dp-sgd")
        tables["over_steps"] = _over_steps(node, scope, at, points)
        axes, keys = ("steps", f"epsilon at delta = {at}"), ("steps", "epsilon_upper")
    if sigma_for is not None:
        tables["sigma"] = _sigmas(str(settings), sigma_for, at)
        axes, keys = (f"epsilon at delta = {at}", "sigma"), ("epsilon", "sigma")
    if figure is not None:
        (rows,) = tables.values()
        _drawn(figure, rows, axes, keys)
    return tables


def _over_steps(node: Node, scope: Scope, delta: str, points: int) -> list[dict[str, Any]]:
    from dpaudit.accountant.recipes import epsilon_over_steps

    return [
        {
            "steps": steps,
            "epsilon_lower": decimal_lower(bound.lower),
            "epsilon_upper": decimal_upper(bound.upper),
        }
        for steps, bound in epsilon_over_steps(node, scope, delta, points)
    ]


def _sigmas(settings: str, epsilons: str, delta: str) -> list[dict[str, Any]]:
    from dpaudit.accountant.recipes import settings_in, sigma_over_epsilon

    run = settings_in(settings, RUN)
    run.pop("sigma", None)
    rows = sigma_over_epsilon(epsilons.split(","), delta=delta, **run)
    return [{"epsilon": decimal_upper(e), "sigma": decimal_upper(s)} for e, s in rows]


def _drawn(path: Path, rows: list[dict[str, Any]], axes: tuple[str, str], keys: Any) -> None:
    from dpaudit.report.plots import curve_svg
    from dpaudit.report.svg import standalone

    upper = [(float(row[keys[0]]), float(row[keys[1]])) for row in rows]
    lower = [(float(r["steps"]), float(r["epsilon_lower"])) for r in rows if "steps" in r]
    svg = curve_svg(lower, upper, axes, f"{axes[1]} over {axes[0]}")
    write_made({path: standalone(svg).encode()})
