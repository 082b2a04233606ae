"""The last sections: signatures, how to reproduce, and the appendix with digests and witnesses."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.report import evidence, numbers, words
from dpaudit.report.front import signers
from dpaudit.report.model import Block, Bullets, Fact, Facts, Heading, Paragraph, Section, Table
from dpaudit.report.say import day, localised, message, say
from dpaudit.report.words import Json
from dpaudit.sign import Signed

# Limits of every certificate.
_LIMITS = (
    message(
        "An audit that finds nothing proves nothing; only the derivation proves, and only about "
        "the declared algorithm under its assumptions."
    ),
    message("A lower bound can be wrong by bad luck; its confidence level says how rarely."),
    message(
        "The program was tested against its declaration, not proved to follow "
        "it; see the conformance checks."
    ),
    message(
        "This page is a view of the certificate with rounded numbers. The certificate file is "
        "decisive; check it with ‘dpaudit verify’."
    ),
)
# Facts that a reader takes on the signer's word.
_TRUST = (
    message("The audits were run and gave the counts shown"),
    message("The metrics and outputs of the run on data"),
    message("The environment: versions, platform, revision of the source"),
    message("Everything that the controller states"),
    message("The files of the implementation are the ones that ran"),
)


def trust(predicate: Json, signed: Sequence[Signed]) -> Section:
    """The signatures, and the points that only the signer vouches for."""
    blocks: list[Block] = [
        Bullets(signers(signed)),
        Paragraph(
            say(
                "Anybody can check the derivation again. No checker can confirm the "
                "following points; the signer answers for them, and without a signature "
                "nobody does:"
            )
        ),
        Bullets(tuple(map(say, _TRUST))),
    ]
    if any(signature.timestamp == "unchecked" for signature in signed):
        text = say("A time stamp is attached to a signature; it is not verified here.")
        blocks.append(Paragraph(text, "note"))
    return Section("trust", say("Signatures, and what rests on them"), tuple(blocks))


def reproduce(predicate: Json) -> Section:
    """The command and versions that reproduce the certificate, and the limits of the evidence."""
    environment, mechanism = predicate["environment"], predicate["mechanism"]
    packages = (f"{name} {version}" for name, version in environment["packages"].items())
    versions = (f"dpaudit {environment['dpaudit']}", f"Python {environment['python']}")
    catalogued = mechanism["root"] == "catalogue"
    origin = say("from the catalogue") if catalogued else say("from the project")
    facts = Facts(
        (
            Fact(say("Command"), (predicate["reproduce"]["command"],), "code"),
            Fact(say("Program"), (mechanism["program"], origin), "code"),
            Fact(say("Versions"), versions, "list"),
            Fact(say("Packages"), (", ".join(packages) or say("none listed"),)),
            Fact(say("Platform"), (environment["platform"],)),
            Fact(say("Source revision"), _git(environment["git"]), "code"),
        )
    )
    blocks = (facts, Heading(say("Limits")), Bullets(tuple(map(say, _LIMITS))))
    return Section("reproduce", say("Reproduce, and limits"), blocks)


def section(predicate: Json, subject: list[Json], mismatch: str) -> Section:
    """The appendix: digests, seeds, counts, witnesses, all conformance checks, all reasons."""
    state = mismatch or say("SHA-256 of the content; it matches")
    certificate_digest = subject[0]["digest"]["sha256"]
    facts = [
        Fact(say("Certificate digest"), (certificate_digest, state), "code"),
        Fact(say("Issued"), (day(predicate["issued"]),)),
        Fact(say("Mechanism"), (predicate["mechanism"]["name"],), "code"),
        Fact(say("Declaration digest"), (predicate["mechanism"]["digest"],), "code"),
        Fact(say("Root seed"), (predicate["reproduce"]["root_seed"],), "code"),
        Fact(
            say("Reasons of the verdict"),
            tuple(map(words.fixed, predicate["verdict"]["reasons"])),
            "list",
        ),
    ]
    blocks: list[Block] = [Facts(tuple(facts))]
    for number, audit in enumerate(predicate["audits"], start=1):
        blocks += [Heading(say("Audit {number}", number=number)), _audit(audit)]
    checks = tuple(map(evidence.conformance_row, predicate["conformance"]))
    if checks:
        blocks.append(Table(say("All checks"), evidence.conformance_columns(), checks))
    files = tuple(f"{item['digest']['sha256']}  {item['name']}" for item in subject[1:])
    if files:
        blocks += [Heading(say("Files of the implementation (SHA-256)")), Bullets(files, "code")]
    return Section("appendix", say("Appendix"), tuple(blocks))


def _audit(audit: Json) -> Facts:
    counts, confidence = audit["counts"], audit["confidence"]
    attack = audit["attack"]
    kind = words.ATTACKS.get(attack["type"], attack["type"])
    witness = tuple(f"{key} = {value}" for key, value in audit["witness"].items())
    none = say("none")
    threshold = say("threshold {value}", value=localised(audit["threshold"]) or none)
    return Facts(
        (
            Fact(say("Name"), (audit["id"],), "code"),
            Fact(say("Attack"), (attack["text"], say(kind))),
            Fact(say("Digests of the data sets"), tuple(audit["neighbours"]), "code list"),
            Fact(say("Trials"), (_trials(audit),)),
            Fact(say("Estimator"), (audit["estimator"], threshold)),
            Fact(say("Errors counted"), _errors(counts), "list"),
            Fact(say("Confidence"), _confidence(confidence), "list"),
            Fact(say("Witness"), witness, "list"),
            Fact(say("Seed"), (audit["seed"],), "code"),
        )
    )


def _trials(audit: Json) -> str:
    text = say("{trials} on each data set count towards the bound", trials=audit["trials"])
    training = audit["training_trials"]
    if not training:
        return text
    used = say("{count} others were used to choose the test", count=training)
    return f"{text}; {used}"


def _errors(counts: Json) -> tuple[str, ...]:
    return (
        say(
            "{errors} false positives in {trials}",
            errors=counts["false_positives"],
            trials=counts["trials_null"],
        ),
        say(
            "{errors} false negatives in {trials}",
            errors=counts["false_negatives"],
            trials=counts["trials_alternative"],
        ),
    )


def _confidence(confidence: Json) -> tuple[str, ...]:
    return (
        say(
            "{level} for the printed bounds, shared by {count}",
            level=numbers.percent(confidence["level"]),
            count=confidence["adjusted_for"],
        ),
        say(
            "‘refuted’ needs an error rate of {rate} over the whole run",
            rate=numbers.upper(confidence["decision_error"]),
        ),
    )


def _git(git: Json | None) -> tuple[str, ...]:
    if git is None:
        return (say("not recorded"),)
    state = message("with uncommitted changes") if git["dirty"] else message("as committed")
    return (git["commit"], say(state))
