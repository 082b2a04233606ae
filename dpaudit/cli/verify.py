"""``dpaudit verify``: certificates derived again in a process of its own, and what is required."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from dpaudit.cli.commands import as_json_option, echo_json
from dpaudit.cli.compliance_commands import (
    known_signers,
    signed_row,
    signers_options,
    threshold_option,
)
from dpaudit.errors import CertificateRejected, InvalidParameter, UnknownTarget

# Weakest first: a certificate passes where its verdict is no weaker than the required one.
VERDICTS = (
    "refuted",
    "alarm",
    "unsupported",
    "empirical",
    "inconclusive",
    "unconfirmed",
    "certified_under_assumptions",
    "certified",
)
# Exit statuses by kind of failure, the gravest first.
EXIT_CODES = {
    "bytes": 10,
    "limits": 11,
    "derivation": 12,
    "signature": 13,
    "unconfirmed": 6,
    "required": 14,
    "policy": 1,
}


@click.command(
    epilog="Exit status: 0 verified, with all that is required; 10 no certificate, or changed "
    "bytes; 11 not within the limits of time and memory; 12 it does not follow; 13 a signature is "
    "missing; 6 a bound that only the accountant computed; 14 another verdict or requirement; 1 a "
    "rule of the policy fails."
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--policy",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file of rules: who may certify what, with which verdict, up to which loss and age. A "
    "certificate of no rule is refused.",
)
@click.option(
    "--require",
    type=click.Choice(VERDICTS),
    help="The weakest verdict that passes; certified_under_assumptions, unless a policy says.",
)
@click.option(
    "--require-audit",
    is_flag=True,
    help="Every claim must have an audit with trials enough to refute it.",
)
@click.option(
    "--max-epsilon",
    metavar="NUMBER",
    help="The largest accounted epsilon that passes; without a claim of one nothing does.",
)
@click.option(
    "--max-delta",
    metavar="NUMBER",
    default="0.001",
    show_default=True,
    help="The largest delta at which --max-epsilon takes an epsilon for one.",
)
@click.option(
    "--no-unconfirmed",
    is_flag=True,
    help="No step may rest on a bound that only the accountant computed.",
)
@click.option(
    "--implementation",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder that must hold the implementation's files, byte for byte.",
)
@click.option(
    "--replay",
    is_flag=True,
    help="Make the audits again from their seed, by the mechanism of that name in this project, "
    "and compare every count. This runs the program, in this process, on no data.",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Make the audits again from a seed drawn now, after the certificate has committed to its "
    "files: a seed that was tried out beforehand hides nothing. Runs the program, as --replay.",
)
@click.option(
    "--plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The plan of a release, for --replay and --fresh: made-up tables are attacked again, and "
    "no private data are needed.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 3600),
    default=20.0,
    show_default=True,
    help="Time for one file.",
)
@signers_options
@threshold_option
@as_json_option
def verify(
    files: tuple[Path, ...],
    *,
    policy: Path | None,
    require: str | None,
    require_audit: bool,
    max_epsilon: str | None,
    max_delta: str,
    no_unconfirmed: bool,
    implementation: Path | None,
    replay: bool,
    fresh: bool,
    plan: Path | None,
    seconds: float,
    threshold: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Re-derive certificates from their witnesses, without the accountant.

    Each file is read in a process of its own that imports neither the accountant nor any rule.
    """
    from dpaudit.certificate.policy import LEAST, read_policy
    from dpaudit.check.file import read
    from dpaudit.check.process import verify_files
    from dpaudit.cli import terminal

    most = _number(max_epsilon, "--max-epsilon")
    largest = _number(max_delta, "--max-delta")
    known = known_signers(**given)
    rules = None if policy is None else read_policy(policy)
    least = require or (LEAST if rules is None else VERDICTS[0])
    rows = []
    for one in verify_files(list(map(read, files)), seconds):
        row = signed_row(one, known, threshold, () if rules is None else rules.keys)
        if not row["verified"]:
            row = {**row, "failure": row["failure"] or "signature"}
        limits = (most, largest)
        missing = _missing(row, least, limits, audit=require_audit, confirmed=no_unconfirmed)
        if row["verified"]:
            other = _otherwise(one.certificate, implementation, plan, replay=replay, fresh=fresh)
            missing += [("required", text) for text in other]
            refused = [] if rules is None else rules.refusals(row, one.certificate)
            missing += [("policy", text) for text in refused]
        rows.append({**row, "missing": [text for _, text in missing], "passed": not missing})
        rows[-1]["failure"] = row["failure"] or next((kind for kind, _ in missing), "")
    echo_json(rows) if as_json else terminal.verified(rows)
    sys.exit(_status(rows))


def _number(text: str | None, name: str) -> Fraction | None:
    from dpaudit.exact.domains import rational

    try:
        return None if text is None else rational(text, name)
    except InvalidParameter as error:
        raise click.BadParameter(str(error)) from None


def _missing(
    row: Mapping[str, Any],
    require: str,
    limits: tuple[Fraction | None, Fraction | None],
    *,
    audit: bool,
    confirmed: bool,
) -> list[tuple[str, str]]:
    """What a row lacks, by kind of failure, the gravest first."""
    if not row["verified"]:
        return [(row["failure"], row["reason"])]
    found = []
    verdict = row["verdict"]
    if VERDICTS.index(verdict) < VERDICTS.index(require):
        kind = "unconfirmed" if verdict == "unconfirmed" else "required"
        found.append((kind, f"the verdict is {verdict}, required: {require}"))
    if confirmed:
        found += [("unconfirmed", text) for text in row["unconfirmed"]]
    if audit:
        found += [("required", text) for text in row["powerless"]]
    most, largest = limits
    if most is not None:
        found += _above(row["epsilons"], most, largest or Fraction(0))
    return sorted(found, key=lambda one: list(EXIT_CODES).index(one[0]))


def _otherwise(
    certificate: Mapping[str, Any],
    folder: Path | None,
    plan: Path | None,
    *,
    replay: bool,
    fresh: bool,
) -> list[str]:
    """What is not as the certificate says: files of a folder, counts of a replay."""
    if folder is None and not (replay or fresh):
        return []
    from dpaudit.certificate.replay import (
        command_of,
        differences,
        implementation_in,
        refuted_afresh,
    )
    from dpaudit.certificate.training import of_shape, read_shape
    from dpaudit.cli.audit_commands import orders_of
    from dpaudit.cli.commands import quiet

    found = [] if folder is None else implementation_in(certificate, folder)
    if replay or fresh:
        try:
            command = command_of(certificate)
            if command.planned != (plan is not None):
                wanted = "of a release: give its --plan" if plan is None else "no release's"
                raise CertificateRejected(f"it is {wanted}")
            with quiet():
                orders = orders_of(command.targets if plan is None else [str(plan)])
                if command.shape is not None:
                    orders = [of_shape(order, *read_shape(command.shape)) for order in orders]
                if replay:
                    found += differences(certificate, orders, command)
                if fresh:
                    found += refuted_afresh(certificate, orders, command, secrets.randbits(128))
        except (CertificateRejected, InvalidParameter, UnknownTarget) as error:
            found.append(f"not replayed: {error}")
    return found


def _above(
    epsilons: Sequence[Sequence[str]], most: Fraction, largest: Fraction
) -> list[tuple[str, str]]:
    if not epsilons:
        return [("required", "no claim of an epsilon, which --max-epsilon asks for")]
    return [
        ("required", f"{claim}: epsilon <= {epsilon} at delta {delta} is all that is shown")
        for claim, epsilon, delta in epsilons
        if "inf" in (epsilon, delta) or Fraction(epsilon) > most or Fraction(delta) > largest
    ]


def _status(rows: Sequence[Mapping[str, Any]]) -> int:
    """The exit status of the gravest failure."""
    kinds = {row["failure"] for row in rows}
    return next((code for kind, code in EXIT_CODES.items() if kind in kinds), 0)
