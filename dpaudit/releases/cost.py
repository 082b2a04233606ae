"""The cost of a release and its accuracy: tables of texts, made without data."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpaudit.errors import InvalidParameter

if TYPE_CHECKING:
    from dpaudit.ledger import Costs, Ledger, State
    from dpaudit.releases.plan import Plan

MEASURES = ("pure", "zcdp", "gdp")  # in which a release's cost is shown
DELTAS = ("1e-5", "1e-6", "1e-9")  # at which epsilon is said, beside the plan's own


def cost_table(planned: Plan) -> dict[str, Any]:
    """Noise and errors of each part, errors at other budgets, and the guarantee in every measure.

    ``ledger`` is None; :func:`ledger_row` says what it would be.
    """
    release = planned.release
    return {
        "title": release.title,
        "release": release.digest,
        "table": release.schema.name,
        "unit": release.schema.entity,
        "rows_a_unit": release.schema.rows,
        "bounded": release.schema.unit is not None,
        "adjacency": str(release.adjacency),
        "budget": planned.claim.text,
        "not_private": list(release.schema.read_off_data),
        "parts": _parts(planned),
        "not_covered": {
            item.name: list(item.not_covered(release.schema)) for item in release.items
        },
        "error_95_published": _published(planned),
        "error_95_by_budget": _by_budget(planned),
        "guarantee": _guarantee(planned),
        "accounts": release.accounts,
        "ledger": None,
    }


def _guarantee(planned: Plan) -> dict[str, str]:
    """The plan's guarantee in every measure, in words."""
    from dpaudit.exact import decimal_upper

    account, bounds = planned.account, {}
    routes = account.routes()
    names = {"pure": "epsilon", "zcdp": "rho", "gdp": "mu"}
    for name in MEASURES:
        if name in routes:
            bounds[f"{names[name]} ({name})"] = decimal_upper(account.step(name).value, 6)
    if "rdp" in routes:
        from dpaudit.certificate.certificate import conclusion

        rows = conclusion(account.step("rdp"))["curve"]
        upper = [v if v == "inf" else decimal_upper(Fraction(v), 6) for _, v in rows]
        orders = [order for order, _ in rows]
        bounds["renyi"] = ", ".join(
            f"{value} at order {order}" for value, order in zip(upper, orders, strict=True)
        )
    planned_delta = [f"{float(planned.delta):g}"] if planned.delta else []
    named = {Fraction(text): text for text in (*planned_delta, *DELTAS)}
    for text in named.values():
        if planned.delta and Fraction(text) < planned.delta:
            continue
        bound = account.epsilon(Fraction(text))
        bounds[f"epsilon at delta {text}"] = decimal_upper(bound.upper, 6)
    return bounds


def ledger_row(ledger: Ledger, planned: Plan) -> dict[str, Any]:
    """The accounts of a ledger before and after a release; errors: as its charge."""
    from dpaudit.releases.publish import admitted, costs_of

    costs, row = costs_of(ledger, planned), {"place": ledger.place}
    admitted(ledger, planned)
    schema = planned.release.schema
    first, *others = ledger.accounts(schema.name, schema.charged)
    return (
        row
        | _costs_row(first, costs)
        | {
            f"{'data set' if state.name in schema.charged else 'population'} {state.name}": [
                f"{name} {', '.join(values)}" for name, values in _costs_row(state, costs).items()
            ]
            for state in others
        }
    )


def _costs_row(state: State, costs: Costs) -> dict[str, Any]:
    """An account before and after a charge that it admits."""
    after = [a + b for a, b in zip(state.spent, costs[state.name], strict=True)]
    amounts_left = tuple(cap - sum_ for cap, sum_ in zip(state.terms.caps, after, strict=True))
    return {
        "cost": state.terms.shown(costs[state.name]),
        "spent": state.terms.shown(state.spent),
        "cap": state.terms.shown(state.terms.caps),
        "left_after": state.terms.shown(amounts_left, left=True),
    }


def _parts(planned: Plan) -> list[dict[str, str]]:
    """A row for each part of a plan: noise, scale, and error at 95%."""
    from dpaudit.releases.items.item import Choice, Declared, Vector
    from dpaudit.tabular.schema import text_of

    shown, least = [], planned.thresholds
    for label, part in planned.parts.items():
        leaf = planned.leaves[label]
        row = {"part": label, "noise": type(leaf).__name__, "error_95": "", "survives": ""}
        row["error_95_all"] = ""
        if isinstance(part, Declared):
            row |= {"scale": f"its own: {part.program.mechanism.name}", "cells": "a program"}
        elif isinstance(part, Choice):
            row["scale"] = f"epsilon {float(leaf.parameters['epsilon']):.6g}"
            row["cells"] = f"{part.times} of {part.candidates}"
            row["error_95"] = f"{part.within(planned.margins)} rows behind"
        else:
            step = getattr(part, "step", Fraction(1))
            deviation = planned.margins.deviation(label) * float(step)
            row["scale"] = f"standard deviation {deviation:.6g}"
            row["error_95"] = text_of(planned.margins.half(label) * step)[0]
            row["cells"] = str(getattr(part, "cells", "unknown keys"))
            if isinstance(part, Vector):
                together = planned.margins.half_of_all(label, part.cells)
                row["error_95_all"] = text_of(together * step)[0]
        if label in least:
            row["survives"] = f"threshold {least[label][0]}, groups of {least[label][1]} at 95%"
        shown.append(row)
    return shown


def _published(planned: Plan) -> dict[str, str]:
    """The margins after post-processing, by item; empty where no plan knows them."""
    from dpaudit.releases.targets import published_margin
    from dpaudit.tabular.schema import text_of

    items = {item.name: item for item in planned.release.items}
    shown = {}
    for name in dict.fromkeys(name for step in planned.release.post for name in step.items):
        try:
            shown[name] = text_of(published_margin(planned, items[name]))[0]
        except InvalidParameter:
            shown[name] = ""
    return shown


def _by_budget(planned: Plan) -> dict[str, Any]:
    """About the errors at other budgets, by epsilon, rho or mu: by part, and the largest ratio."""
    from dpaudit.releases.targets import errors_by_budget

    name, value = next(iter(planned.release.budget.parameters.items()))
    by_epsilon = errors_by_budget(planned)
    own = by_epsilon.get(Fraction(value), {})
    return {
        f"{name} = {float(at):g}": {
            "largest_ratio": max((errors[k] / own[k] for k in errors if own.get(k)), default=0.0),
            "error_95": errors,
        }
        for at, errors in by_epsilon.items()
    }
