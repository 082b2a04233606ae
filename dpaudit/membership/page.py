"""An empirical certificate as one HTML page, or several side by side; no script, no network."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from dpaudit.membership.plots import epochs_svg, histogram_svg, roc_svg

if TYPE_CHECKING:
    from jinja2 import Environment

    from dpaudit.membership.results import MembershipAudit

Json = Mapping[str, Any]
_TONES = {"refuted": "bad", "inconclusive": "caution", "empirical": "neutral"}
_WORDS = {"refuted": "Refuted", "inconclusive": "Inconclusive", "empirical": "No verdict"}


def render(certificates: Mapping[str, Json] | Json) -> str:
    """The page of a certificate, or of several by name: the same sections, and curves in one plot.

    It says only what the certificates say; they are shown, not verified.
    """
    if "predicate" in certificates:
        shown: Mapping[str, Json] = {"": certificates}
    else:
        shown = certificates
    parts = [
        _part(name, each["predicate"], number) for number, (name, each) in enumerate(shown.items())
    ]
    title = parts[0]["title"] if len(parts) == 1 else f"{len(parts)} models compared"
    together = ""
    if len(parts) > 1:
        curves = [
            (name, best)
            for name, each in shown.items()
            if (best := _best(each["predicate"])) is not None
        ]
        together = roc_svg(curves, "together")
    page = {"title": title, "word": parts[0]["word"], "parts": parts, "together": together}
    return _environment().get_template("membership.html.j2").render(page=page)


def summary_html(audit: MembershipAudit) -> str:
    """What a notebook shows of a result: its lines, and the curves."""
    from dpaudit.membership.certificate import predicate

    content = predicate(audit)
    curves = [(row["attack"], row) for row in _ordered(content)]
    drawn = roc_svg(curves, f"roc-{audit.commitment[:8]}") if curves else ""
    return f"<div><pre>{html.escape(str(audit))}</pre>{drawn}</div>"


@cache
def _environment() -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader("dpaudit.membership"), PackageLoader("dpaudit.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _ordered(predicate: Json) -> list[Json]:
    """Attacks, the one with the highest true positive rate at 1% first."""

    def rate(row: Json) -> float:
        return max((float(r[1]) for r in row["true_positive_rates"] if r[0] == "0.01"), default=0.0)

    return sorted(predicate["estimates"], key=lambda row: (-rate(row), row["attack"]))


def _best(predicate: Json) -> Json | None:
    ordered = _ordered(predicate)
    return ordered[0] if ordered else None


def _part(name: str, predicate: Json, number: int) -> dict[str, Any]:
    verdict, study, ordered = predicate["verdict"], predicate["study"], _ordered(predicate)
    exposure, claim = predicate["exposure"], predicate["claim"]
    listed = len(exposure["most_exposed"])
    return {
        "anchor": f"study-{number}",
        "name": name or "Verdict",
        "title": predicate["target"]["training"],
        "word": _WORDS[verdict["status"]],
        "tone": _TONES[verdict["status"]],
        "sentence": _sentence(predicate),
        "findings": predicate["findings"],
        "facts": [
            ("Training", [predicate["target"]["training"]]),
            ("The attacker sees", [predicate["target"]["threat_model"]]),
            ("Claim", [claim["words"] if claim else "none was given"]),
            (
                "Members",
                [
                    f"{predicate['data']['records']:,} records in {study['units']:,} units, each "
                    "in or out of each model by a fair coin of the auditor's",
                    f"coins committed to before training: SHA-256 {study['commitment']}",
                ],
            ),
            (
                "Models",
                [
                    f"{study['models']}, of which {study['references']} are references: choices "
                    "are made on them, bounds are counted on the others",
                ],
            ),
            ("Made", [f"{predicate['issued']} by dpaudit {predicate['tool']['version']}"]),
        ],
        "bounds": [_bound(row) for row in predicate["lower_bounds"]],
        "attack_columns": _columns(ordered),
        "attacks": [_attack(row) for row in ordered],
        "figures": _figures(predicate, ordered, number),
        "exposed_said": (
            f"{exposure['exposed']:,} of {exposure['records']:,} records are exposed: models with "
            "them fit them otherwise than models without, and at most a share of "
            f"{exposure['false_discoveries']} of those listed is expected to be listed wrongly"
            f"{f'; the first {listed} are below' if listed else ''}."
        ),
        "groups": [
            (f"Exposure by {kind}", [_group(row) for row in exposure[f"by_{kind}"]])
            for kind in ("class", "group")
            if exposure[f"by_{kind}"]
        ],
        "exposed": exposure["most_exposed"],
    }


def _sentence(predicate: Json) -> str:
    shown = next(
        (
            row
            for row in predicate["lower_bounds"]
            if row["attack"] == predicate["best"] and row["role"] == "shown"
        ),
        None,
    )
    reason = f"{predicate['verdict']['reason']}."
    if shown is None:
        return reason
    at = (
        f" at δ = {shown['delta']}"
        if shown["measure"] == "epsilon" and shown["delta"] != "0"
        else ""
    )
    symbol = "ε" if shown["measure"] == "epsilon" else "μ"
    return (
        f"{reason[0].upper()}{reason[1:]} {symbol} is at least {shown['value']}{at}, at a "
        f"confidence of {predicate['confidence']['level']}, by {shown['attack']}."
    )


def _symbol(row: Json) -> tuple[str, str]:
    if row["measure"] == "mu":
        return "μ", ""
    return "ε", f" at δ = {row['delta']}" if row["delta"] != "0" else ""


def _bound(row: Json) -> tuple[str, ...]:
    symbol, at = _symbol(row)
    decides = " (decides)" if row["role"] == "decisive" else ""
    methods = {"one_run": "pooled coins, one-run theorem", "independent_runs": "runs of one record"}
    return (
        f"{row['attack']}{decides}",
        f"{symbol} ≥ {row['value']}{at}",
        row["error"],
        methods[row["method"]],
        row["words"],
    )


def _columns(rows: Sequence[Json]) -> list[str]:
    rates = rows[0]["true_positive_rates"] if rows else []
    return ["Attack", "AUC", "Advantage", *(f"TPR at FPR {rate[0]}" for rate in rates), "Source"]


def _attack(row: Json) -> list[str]:
    rates = [_interval(rate[1:]) for rate in row["true_positive_rates"]]
    words = f"{row['attack']}: {row['words']}"
    return [words, _interval(row["auc"]), _interval(row["advantage"]), *rates, row["source"]]


def _interval(values: Sequence[str]) -> str:
    value, low, high = (f"{float(text):.3g}" for text in values)
    return f"{value} ({low} to {high})"


def _group(row: Sequence[str]) -> list[str]:
    name, count, share, mean, low, high = row
    return [
        name, count, f"{float(share):.3g}", f"{float(mean):.3f}",
        f"{float(low):.3f} to {float(high):.3f}",
    ]  # fmt: skip


def _figures(predicate: Json, ordered: Sequence[Json], number: int) -> list[dict[str, str]]:
    if not ordered:
        return []
    roc, scores, epochs = (f"{kind}-{number}" for kind in ("roc", "scores", "epochs"))
    found = [
        {
            "anchor": roc,
            "svg": roc_svg([(row["attack"], row) for row in ordered], roc),
            "caption": "Both axes are logarithmic. Bands resample whole models, so that records "
            "which share a model stay together. The dash-dotted line is blind guessing.",
        },
        {
            "anchor": scores,
            "svg": histogram_svg(ordered[0], scores),
            "caption": f"Scores of {ordered[0]['attack']} over all models; at most 0.5% of "
            "them are left out at either end.",
        },
    ]
    if predicate["epochs"]:
        found.append(
            {
                "anchor": epochs,
                "svg": epochs_svg(predicate["epochs"], epochs),
                "caption": "Lower bounds after each epoch, each at its own error, beside the "
                "accounted upper bound.",
            }
        )
    return found
