"""An empirical certificate as one HTML page, or several side by side; no script, no network."""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from dpaudit.report import empirical, numbers, words
from dpaudit.report.html import environment
from dpaudit.report.say import day, localised, message, say, speaking
from dpaudit.report.svg import drawing, element

Json = Mapping[str, Any]

ATTACK_COLOURS = ("#0b4f9e", "#a8320a", "#1a7f4b", "#7a3fa0", "#9a6700", "#0f7c8a", "#57606a")
MEMBERS, OTHERS, CHANCE = "#a8320a", "#0b4f9e", "#6b7280"
MOST_CURVES = 4  # curves of one figure
_LEAST_RATE = 1e-4  # Smallest rate on the logarithmic axes.
_TRIMMED_SHARE = 0.005  # Share of scores that a histogram leaves out at each end.


def render(
    certificates: Mapping[str, Json] | Json, *, spoken: str = "en", verifier: str = ""
) -> str:
    """The page of one certificate, or of several by name with their curves in one plot.

    The certificates are shown, not verified.  ``spoken``: the language of the page: en, de or fr;
    texts of the certificates are not translated.  ``verifier``: the address of a page that
    verifies certificates, to which this one links.
    """
    with speaking(spoken):
        if "predicate" in certificates:
            shown: Mapping[str, Json] = {"": certificates}
        else:
            shown = certificates
        parts = [
            _part(name, each["predicate"], number)
            for number, (name, each) in enumerate(shown.items())
        ]
        title = (
            parts[0]["title"]
            if len(parts) == 1
            else say("{count} models compared", count=len(parts))
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
        return environment().get_template("membership.html.j2").render(page=page, verifier=verifier)


def summary_html(text: str, predicate: Json) -> str:
    """The display of a result in a notebook: its text and its ROC curves."""
    curves = [(row["attack"], row) for row in _ordered(predicate)]
    drawn = roc_svg(curves, f"roc-{predicate['study']['commitment'][:8]}") if curves else ""
    return f"<div><pre>{html.escape(text)}</pre>{drawn}</div>"


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
        records=predicate["data"]["records"],
        units=study["units"],
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
                        "{models}, {references} of them references: tests are chosen on the "
                        "references, bounds are counted on the others",
                        models=study["models"],
                        references=study["references"],
                    )
                ],
            ),
            (
                say("Issued"),
                [f"{day(predicate['issued'])}, dpaudit {predicate['tool']['version']}"],
            ),
        ],
        "bounds": [_bound(row) for row in predicate["lower_bounds"]],
        "attack_columns": _columns(ordered),
        "attacks": [_attack(row) for row in ordered],
        "figures": _figures(predicate, ordered, number),
        "exposed_said": say(
            "{exposed} of {records} records are fitted differently by models trained with and "
            "without them, by much or little: a guarantee limits such differences and does not "
            "exclude them, and the bound says how large they are at least. The expected share of "
            "false discoveries among them is at most {share}. The {listed} most exposed are "
            "below.",
            exposed=exposure["exposed"],
            records=exposure["records"],
            share=localised(exposure["false_discoveries"]),
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
        "exposed": [[name, *map(localised, values)] for name, *values in exposure["most_exposed"]],
    }


def _sentence(predicate: Json) -> str:
    """The meaning of the verdict, its reason, and the best lower bound."""
    banner, bound = empirical.banner(predicate), empirical.shown(predicate)
    reason = f"{banner.attack}." if predicate["claim"] or not bound else ""
    shown = say("Shown at least: {bound}.", bound=bound) if bound else ""
    return " ".join(filter(None, (banner.sentence, reason, shown)))


def _bound(row: Json) -> tuple[str, ...]:
    methods = {
        "one_run": message("pooled coins, one-run theorem"),
        "independent_coins": message("runs of one record"),
        "independent_runs": message("runs of one record"),
    }
    decides = f" ({say('decides')})" if row["role"] == "decisive" else ""
    return (
        f"{row['attack']}{decides}",
        empirical.measured(row),
        localised(row["error"]),
        say(methods[row["method"]]),
        row["words"],
    )


def _columns(rows: Sequence[Json]) -> list[str]:
    rates = rows[0]["true_positive_rates"] if rows else []
    shown = [say("TPR at FPR {rate}", rate=localised(rate[0])) for rate in rates]
    return [say("Attack"), say("AUC"), say("Advantage"), *shown, say("Source")]


def _attack(row: Json) -> list[str]:
    rates = [_interval(rate[1:]) for rate in row["true_positive_rates"]]
    described = f"{row['attack']}: {row['words']}"
    return [described, _interval(row["auc"]), _interval(row["advantage"]), *rates, row["source"]]


def _interval(values: Sequence[str]) -> str:
    value, low, high = (numbers.estimate(float(text)) for text in values)
    return say("{value} ({low} to {high})", value=value, low=low, high=high)


def _group(row: Sequence[str]) -> list[str]:
    name, count, share, mean, low, high = row
    return [
        name, count, numbers.estimate(float(share)), localised(f"{float(mean):.3f}"),
        localised(say("{low} to {high}", low=f"{float(low):.3f}", high=f"{float(high):.3f}")),
    ]  # fmt: skip


def _figures(predicate: Json, ordered: Sequence[Json], number: int) -> list[dict[str, str]]:
    if not ordered:
        return []
    roc, scores, epochs = (f"{kind}-{number}" for kind in ("roc", "scores", "epochs"))
    figures = [
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
        figures.append(
            {
                "anchor": epochs,
                "svg": epochs_svg(predicate["epochs"], epochs),
                "caption": say(
                    "Lower bounds after each epoch, each at its own error, beside the accounted "
                    "upper bound."
                ),
            }
        )
    return figures


# --- drawings: no script --------------------------------------------------------------------------


def roc_svg(curves: Sequence[tuple[str, Json]], prefix: str) -> str:
    """True against false positive rate, both logarithmic, with bands over resampled models."""
    with drawing() as (figure, axes):
        axes.plot([_LEAST_RATE, 1], [_LEAST_RATE, 1], color=CHANCE, linestyle="-.", linewidth=0.9)
        colours = itertools.cycle(ATTACK_COLOURS)
        for (label, row), colour in zip(curves[:MOST_CURVES], colours, strict=False):
            points = [[float(value) for value in point] for point in row["roc"]]
            shown_points = [point for point in points if point[0] >= _LEAST_RATE]
            x = [point[0] for point in shown_points]
            rates, low, high = (
                [max(point[column], _LEAST_RATE / 2) for point in shown_points]
                for column in (1, 2, 3)
            )
            axes.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
            axes.plot(x, rates, color=colour, label=f"{label} (AUC {float(row['auc'][0]):.3f})")
        axes.set(xscale="log", yscale="log", xlim=(_LEAST_RATE, 1), ylim=(_LEAST_RATE, 1.05))
        axes.set(xlabel=say("false positive rate"), ylabel=say("true positive rate"))
        axes.legend(loc="lower right")
        rates_text = "; ".join(
            say(
                "{attack}: {rate} at a false positive rate of {false}",
                attack=label,
                rate=_rate(row, "0.01"),
                false=numbers.percent("0.01"),
            )
            for label, row in curves[:MOST_CURVES]
        )
        heard = say("True positive rates. {read}.", read=rates_text)
        return element(figure, prefix, say("Receiver operating curves"), heard)


def _rate(row: Json, at: str) -> str:
    return next((str(rate[1]) for rate in row["true_positive_rates"] if rate[0] == at), "none")


def _drawn(bars: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    """The bars without at most 0.5% of members and of non-members at each end."""
    first, last = 0, len(bars)
    while first < last and all(
        sum(b[k] for b in bars[: first + 1]) <= _TRIMMED_SHARE for k in (1, 2)
    ):
        first += 1
    while last > first and all(
        sum(b[k] for b in bars[last - 1 :]) <= _TRIMMED_SHARE for k in (1, 2)
    ):
        last -= 1
    return bars[first:last]


def histogram_svg(row: Json, prefix: str) -> str:
    """A histogram of the scores of members and of non-members, without the extreme scores."""
    with drawing() as (figure, axes):
        bars = [[float(value) for value in point] for point in row["histogram"]]
        width = bars[1][0] - bars[0][0] if len(bars) > 1 else 1.0
        edges, members, others = ([bar[column] for bar in _drawn(bars)] for column in range(3))
        for values, colour, label in (
            (others, OTHERS, say("not members")),
            (members, MEMBERS, say("members")),
        ):
            axes.bar(
                edges, values, width, align="edge", color=colour, alpha=0.45, label=label,
                linewidth=0,
            )  # fmt: skip
        axes.set(xlabel=say("score of {attack}", attack=row["attack"]), ylabel=say("share"))
        axes.legend(loc="upper right")
        words = say(
            "Scores of {attack}, members beside others; AUC {auc}.",
            attack=row["attack"],
            auc=row["auc"][0],
        )
        return element(figure, prefix, say("Scores"), words)


def epochs_svg(rows: Sequence[Json], prefix: str) -> str:
    """Attacked epsilon by epoch, and the accounted one beside it."""
    with drawing() as (figure, axes):
        epochs = [row["epoch"] for row in rows]
        attacked = [float(row["bound"]["value"]) for row in rows]
        axes.plot(epochs, attacked, "^-", color=MEMBERS, label=say("attacked: at least"))
        accounted = [float(row["accounted"]) for row in rows]
        finite = [(x, y) for x, y in zip(epochs, accounted, strict=True) if y < float("inf")]
        if finite:
            axes.plot(
                *zip(*finite, strict=True), "o-", color=OTHERS, label=say("accounted: at most")
            )
        axes.set(xlabel=say("epoch"), ylabel="ε")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")
        values_text = "; ".join(f"{x}: {y:.3g}" for x, y in zip(epochs, attacked, strict=True))
        least = say("At least, by epoch: {read}.", read=values_text)
        return element(figure, prefix, say("Epsilon by epoch"), least)
