"""Assurance: for each building block of a private release, its status and the evidence for it.

The blocks follow the pyramid of NIST SP 800-226 (2025): the guarantee on top; algorithm, trust and
accounting in the middle; the handling of the raw data below.  The hazards are those of the same
publication.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpaudit.report import words
from dpaudit.report.say import message, say
from dpaudit.report.words import Json


@dataclass(frozen=True)
class Assurance:
    """One row: a layer of the pyramid, a statement that has to hold, its status and evidence."""

    layer: str
    statement: str
    status: str
    evidence: str


def rows(predicate: Json) -> list[Assurance]:
    """All blocks of the pyramid, from the top layer down."""
    return [*_top(predicate), *_middle(predicate), *_bottom(predicate)]


def hazards(predicate: Json) -> list[Assurance]:
    """The known ways in which a guarantee silently fails, each with the certificate's answer."""
    fields, scope = predicate.get("fields", {}), predicate["scope"]
    statuses = {item["id"]: item for item in predicate["assumptions"]}
    unit = scope["unit"]

    def assumed(hazard: str, name: str) -> Assurance:
        item = statuses.get(name)
        if item is None:
            return Assurance("", hazard, "unknown", say("The certificate does not speak of it."))
        evidence = words.fixed(item["evidence"]) or words.fixed(item["statement"])
        return Assurance("", hazard, item["status"], evidence)

    def stated(hazard: str, name: str, otherwise: str) -> Assurance:
        lines = fields.get(name)
        if lines:
            return Assurance("", hazard, "declared", "; ".join(lines))
        return Assurance("", hazard, "unknown", otherwise)

    bound = words.embedded(words.fixed(unit["bound"]))
    of_unit = say("one {entity}", entity=words.embedded(words.unit(scope))) + (
        f"; {bound}" if bound else ""
    )
    uncovered = scope["data_accesses"]["uncovered"]
    nothing = say("Nothing is stated.")
    return [
        Assurance("", say("The wrong unit is protected"), "declared", of_unit),
        assumed(say("A query changes by more than its declared sensitivity"), "bounded_queries"),
        assumed(say("The program does not do what is declared"), "declared_noise"),
        assumed(say("Rounding of floating-point noise reveals the data"), "real_arithmetic"),
        _randomness(predicate, assumed),
        stated(say("Parameters were chosen after looking at the data"), "tuning", nothing),
        stated(
            say("The data were looked at outside the guarantee"),
            "exploratory_accesses",
            "; ".join(map(words.fixed, uncovered)) if uncovered else nothing,
        ),
        _exact_releases(predicate),
        Assurance(
            "",
            say("Other releases from the same data add up"),
            "unknown",
            say("One certificate cannot tell; ‘dpaudit ledger total’ adds the certificates up."),
        ),
        Assurance(
            "",
            say("Time, memory or size of an answer reveals the data"),
            "unknown",
            say("The proofs and attacks here do not cover side channels."),
        ),
        stated(say("Post-processing uses the raw data"), "post_processing", nothing),
        stated(
            say("The raw data are kept longer, or by more people, than needed"),
            "retention",
            nothing,
        ),
    ]


def _randomness(predicate: Json, assumed: object) -> Assurance:
    hazard = say("The noise can be predicted")
    body = predicate["run"]
    if body and body["entropy"] != "operating system":
        text = say("This run's noise came from a stored seed; its outputs must not be published.")
        return Assurance("", hazard, "violated", text)
    row = assumed(hazard, "random_bits")  # type: ignore[operator]
    assert isinstance(row, Assurance)  # noqa: S101
    return row


def _exact_releases(predicate: Json) -> Assurance:
    hazard = say("Something is released exactly, or outside the guarantee")
    body = predicate["run"]
    open_metrics = [m["name"] for m in body["metrics"] if not m["covered"]] if body else []
    unprotected = [*predicate["scope"]["invariants"], *open_metrics]
    if unprotected:
        return Assurance("", hazard, "violated", "; ".join(unprotected))
    return Assurance("", hazard, "declared", say("None is listed."))


def _top(predicate: Json) -> Iterator[Assurance]:
    layer = say("Guarantee and unit")
    for claim in predicate["claims"]:
        status = {"proved": "proved", "refuted": "violated"}.get(claim["check"], "unknown")
        if claim["verdict"] in ("refuted", "alarm"):
            status = "violated"
        by = words.fixed(claim["by"]) or say("not stated by whom")
        yield Assurance(layer, words.stated(claim), status, by)
    scope = predicate["scope"]
    yield Assurance(
        layer,
        words.adjacency(scope),
        "declared",
        words.embedded(words.fixed(str(scope["unit"]["bound"] or ""))),
    )


def _middle(predicate: Json) -> Iterator[Assurance]:
    layer = say("Algorithm, trust and accounting")
    for item in predicate["assumptions"]:
        yield Assurance(
            layer,
            words.fixed(item["statement"]),
            item["status"],
            words.fixed(item["evidence"]),
        )
    model = say(words.MODELS[predicate["scope"]["model"]])
    yield Assurance(layer, model, "declared", "")
    steps = len(predicate["derivation"]["steps"])
    if steps:
        text = say(
            "{steps} steps, each with its theorem, checked again without the accountant",
            steps=steps,
        )
        yield Assurance(
            layer, say("The accounting follows from published theorems"), "proved", text
        )
    else:
        yield Assurance(layer, say("The accounting follows from published theorems"), "unknown", "")
    yield Assurance(layer, say("No side channel: time, memory, size"), "unknown", "")


def _bottom(predicate: Json) -> Iterator[Assurance]:
    layer = say("Raw data")
    fields = predicate.get("fields", {})
    texts = {
        "legal_basis": message("The data may be processed for this purpose"),
        "retention": message("The raw data are kept securely and no longer than needed"),
        "data_source": message("The data come from the stated source"),
    }
    for name, text in texts.items():
        lines = fields.get(name, ())
        yield Assurance(layer, say(text), "declared" if lines else "unknown", "; ".join(lines))
