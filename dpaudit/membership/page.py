"""An empirical certificate as one HTML page, or several side by side; no script, no network."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from dpaudit.membership.plots import epochs_svg, histogram_svg, roc_svg
from dpaudit.report import empirical, numbers, words
from dpaudit.report.say import language, message, say, speaking

if TYPE_CHECKING:
    from jinja2 import Environment

    from dpaudit.membership.results import MembershipAudit

Json = Mapping[str, Any]


def render(certificates: Mapping[str, Json] | Json, *, spoken: str = "en") -> str:
    """The page of a certificate, or of several by name: the same sections, and curves in one plot.

    It says only what the certificates say; they are shown, not verified.  ``spoken``: the language
    of what is not a certificate's own text: en, de or fr.
    """
    with speaking(spoken):
        return _render(certificates)


def _render(certificates: Mapping[str, Json] | Json) -> str:
    if "predicate" in certificates:
        shown: Mapping[str, Json] = {"": certificates}
    else:
        shown = certificates
    parts = [
        _part(name, each["predicate"], number) for number, (name, each) in enumerate(shown.items())
    ]
    title = (
        parts[0]["title"] if len(parts) == 1 else say("{count} models compared", count=len(parts))
    )
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

    environment = Environment(
        loader=ChoiceLoader([PackageLoader("dpaudit.membership"), PackageLoader("dpaudit.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(say=say, language=language)
    return environment


def _ordered(predicate: Json) -> list[Json]:
    """Attacks, the one with the highest true positive rate at 1% first."""

    def rate(row: Json) -> float:
        return max((float(r[1]) for r in row["true_positive_rates"] if r[0] == "0.01"), default=0.0)

    return sorted(predicate["estimates"], key=lambda row: (-rate(row), row["attack"]))


def _best(predicate: Json) -> Json | None:
    ordered = _ordered(predicate)
    return ordered[0] if ordered else None


def _part(name: str, predicate: Json, number: int) -> dict[str, Any]:
    study, ordered = predicate["study"], _ordered(predicate)
    exposure, claim = predicate["exposure"], predicate["claim"]
    listed = len(exposure["most_exposed"])
    word, tone = empirical.verdict(predicate)
    members = say(
        "{records} records in {units} units; each unit was in or out of each model by a fair coin "
        "of the auditor's.",
        records=numbers.grouped(predicate["data"]["records"]),
        units=numbers.grouped(study["units"]),
    )
    return {
        "anchor": f"study-{number}",
        "name": name or say("Verdict"),
        "title": predicate["target"]["training"],
        "word": word,
        "tone": tone,
        "sentence": _sentence(predicate),
        "findings": predicate["findings"],
        "facts": [
            (say("Training"), [predicate["target"]["training"]]),
            (say("The attacker sees"), [words.fixed(predicate["target"]["threat_model"])]),
            (say("Claim"), [claim["words"] if claim else say("none stated")]),
            (
                say("Members"),
                [
                    members,
                    say(
                        "coins committed to before training: SHA-256 {digest}",
                        digest=study["commitment"],
                    ),
                ],
            ),
            (
                say("Models"),
                [
                    say(
                        "{models}, of which {references} are references: choices are made on them, "
                        "bounds are counted on the others",
                        models=study["models"],
                        references=study["references"],
                    )
                ],
            ),
            (say("Issued"), [f"{predicate['issued']}, dpaudit {predicate['tool']['version']}"]),
        ],
        "bounds": [_bound(row) for row in predicate["lower_bounds"]],
        "attack_columns": _columns(ordered),
        "attacks": [_attack(row) for row in ordered],
        "figures": _figures(predicate, ordered, number),
        "exposed_said": say(
            "{exposed} of {records} records are exposed: models with them fit them otherwise than "
            "models without, and at most a share of {share} of those listed is expected to be "
            "listed wrongly. The {listed} most exposed are below.",
            exposed=numbers.grouped(exposure["exposed"]),
            records=numbers.grouped(exposure["records"]),
            share=exposure["false_discoveries"],
            listed=listed,
        ),
        "groups": [
            (caption, [_group(row) for row in exposure[f"by_{kind}"]])
            for kind, caption in (
                ("class", say("Exposure by class")),
                ("group", say("Exposure by group")),
            )
            if exposure[f"by_{kind}"]
        ],
        "exposed": exposure["most_exposed"],
    }


def _sentence(predicate: Json) -> str:
    """What is meant by the verdict, the certificate's reason, and the best bound."""
    banner, bound = empirical.banner(predicate), empirical.shown(predicate)
    reason = f"{banner.attack}." if predicate["claim"] or not bound else ""
    shown = say("Shown at least: {bound}.", bound=bound) if bound else ""
    return " ".join(filter(None, (banner.sentence, reason, shown)))


def _bound(row: Json) -> tuple[str, ...]:
    methods = {
        "one_run": message("pooled coins, one-run theorem"),
        "independent_runs": message("runs of one record"),
    }
    decides = f" ({say('decides')})" if row["role"] == "decisive" else ""
    return (
        f"{row['attack']}{decides}",
        empirical.measured(row),
        row["error"],
        say(methods[row["method"]]),
        row["words"],
    )


def _columns(rows: Sequence[Json]) -> list[str]:
    rates = rows[0]["true_positive_rates"] if rows else []
    shown = [say("TPR at FPR {rate}", rate=rate[0]) for rate in rates]
    return [say("Attack"), say("AUC"), say("Advantage"), *shown, say("Source")]


def _attack(row: Json) -> list[str]:
    rates = [_interval(rate[1:]) for rate in row["true_positive_rates"]]
    described = f"{row['attack']}: {row['words']}"
    return [described, _interval(row["auc"]), _interval(row["advantage"]), *rates, row["source"]]


def _interval(values: Sequence[str]) -> str:
    value, low, high = (f"{float(text):.3g}" for text in values)
    return say("{value} ({low} to {high})", value=value, low=low, high=high)


def _group(row: Sequence[str]) -> list[str]:
    name, count, share, mean, low, high = row
    return [
        name, count, f"{float(share):.3g}", f"{float(mean):.3f}",
        say("{low} to {high}", low=f"{float(low):.3f}", high=f"{float(high):.3f}"),
    ]  # fmt: skip


def _figures(predicate: Json, ordered: Sequence[Json], number: int) -> list[dict[str, str]]:
    if not ordered:
        return []
    roc, scores, epochs = (f"{kind}-{number}" for kind in ("roc", "scores", "epochs"))
    found = [
        {
            "anchor": roc,
            "svg": roc_svg([(row["attack"], row) for row in ordered], roc),
            "caption": say(
                "Both axes are logarithmic. Bands resample whole models, so that records which "
                "share a model stay together. The dash-dotted line is blind guessing."
            ),
        },
        {
            "anchor": scores,
            "svg": histogram_svg(ordered[0], scores),
            "caption": say(
                "Scores of {attack} over all models; at most 0.5\u00a0% of them are left out at "
                "either end.",
                attack=ordered[0]["attack"],
            ),
        },
    ]
    if predicate["epochs"]:
        found.append(
            {
                "anchor": epochs,
                "svg": epochs_svg(predicate["epochs"], epochs),
                "caption": say(
                    "Lower bounds after each epoch, each at its own error, beside the accounted "
                    "upper bound."
                ),
            }
        )
    return found
