"""``dpaudit verify``: re-derive certificates in a separate process, and check requirements."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.commands import as_json_option, echo_json
from dpaudit.cli.compliance_commands import key_option, known_signers, signed_row
from dpaudit.cli.settings import Command
from dpaudit.errors import CertificateRejected, InvalidParameter, UnknownTarget

if TYPE_CHECKING:
    from dpaudit.certificate.archive import Archive
    from dpaudit.certificate.rendering import Signers
    from dpaudit.check.process import Verified

# Weakest first: a certificate passes if its verdict is at least as strong as the required one.
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
NOT_WITHDRAWN = (
    "that nobody withdrew or corrected the release: errata stand beside the certificate that its "
    "publisher keeps, as NAME.errata.txt, and in the ledger"
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
    cls=Command,
    example="dpaudit verify reports/noisy_mean.json --max-epsilon 2",
    epilog="Exit status: 0 verified and as required; 10 not a certificate, or changed bytes; 11 "
    "limit of time or memory; 12 wrong derivation; 13 signature missing; 6 a bound that only the "
    "accountant computed; 14 requirement not met; 1 a rule of the policy fails.",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--policy",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Your rules; what matches none is refused.",
)
@click.option(
    "--require",
    type=click.Choice(VERDICTS),
    metavar="VERDICT",
    help="The weakest verdict that passes.",
)
@click.option("--max-epsilon", metavar="NUMBER", help="The largest epsilon that passes.")
@click.option(
    "--implementation",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder that must hold the program's files.",
)
@click.option("--replay", is_flag=True, help="Repeat the audits here; runs the program.")
@click.option("--fresh", is_flag=True, help="The same from a seed drawn now.")
@click.option(
    "--published",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of a release or run, to be compared.",
)
@key_option
@as_json_option
def verify(
    files: tuple[Path, ...],
    *,
    policy: Path | None,
    require: str | None,
    require_audit: bool,
    max_epsilon: str | None,
    max_delta: str,
    confirmed: bool,
    implementation: Path | None,
    replay: bool,
    fresh: bool,
    plan: Path | None,
    published: Path | None,
    seconds: float,
    threshold: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Re-derive certificates from their witnesses, without the accountant.

    A separate process reads each file; it imports neither the accountant nor any rule.  An archive
    of `dpaudit report --format archive` is verified with every file in it, and so is the folder of
    a release.
    """
    from dpaudit.certificate.errata import errata_of
    from dpaudit.certificate.policy import LEAST, read_policy
    from dpaudit.check.file import read
    from dpaudit.check.process import verify_files
    from dpaudit.cli import terminal

    if published is not None and len(files) != 1:
        raise click.UsageError("--published: give the one certificate of that folder.")
    most = _number(max_epsilon, "--max-epsilon")
    largest = _number(max_delta, "max_delta")
    signers = known_signers(**given)
    rules = None if policy is None else read_policy(policy)
    least = require or (LEAST if rules is None else VERDICTS[0])
    rows = []
    unpacked = click.get_current_context().with_resource(ExitStack())
    folders = {inner: folder for folder in files for inner in _certificates_in(folder)}
    files = tuple(inner for path in files for inner in _certificates_in(path) or (path,))
    archives = {path: _archive(path, unpacked) for path in files}
    places = {
        archive_found.certificate: path
        for path, archive_found in archives.items()
        if archive_found is not None
    }
    paths = [
        path if archive_found is None else archive_found.certificate
        for path, archive_found in archives.items()
    ]
    for verified in verify_files(list(map(read, paths)), seconds):
        archive = archives.get(places.get(verified.file.path, verified.file.path))
        row = signed_row(verified, signers, threshold, () if rules is None else rules.keys)
        if not row["verified"]:
            row = {**row, "failure": row["failure"] or "signature"}
        limits = (most, largest)
        missing = _missing(row, least, limits, audit=require_audit, confirmed=confirmed)
        if archive is not None:
            row = {**row, "file": f"{places[verified.file.path]}: {verified.file.path.name}"}
            missing += [("bytes", text) for text in archive.faults]
        in_archive = None if archive is None else archive.published
        folder = published or folders.get(verified.file.path) or in_archive
        if row["verified"]:
            errata = errata_of(verified.file.path)
            missing += [("required", f"an erratum stands beside it: {text}") for text in errata]
            if (verified.certificate["predicate"].get("run") or {}).get("published") and not errata:
                row = {**row, "on_trust": [*row["on_trust"], NOT_WITHDRAWN]}
            if (issued := verified.certificate["predicate"]["issued"]) > tomorrow():
                missing.append(("required", f"issued on {issued[:10]}, a day that is to come"))
            other = _otherwise(
                verified.certificate, implementation, plan, replay=replay, fresh=fresh
            )
            missing += [("required", text) for text in other]
            if folder is not None:
                from dpaudit.releases.published import differences

                archive_found = differences(verified.certificate, verified.file.path, folder)
                missing += [("required", text) for text in archive_found]
            if archive is not None:
                row, lacking = _of_archive(
                    row, archive, verified, signers, compared=folder is not None
                )
                missing += [("required", text) for text in lacking]
            refused = [] if rules is None else rules.refusals(row, verified.certificate)
            missing += [("policy", text) for text in refused]
        rows.append({**row, "missing": [text for _, text in missing], "passed": not missing})
        kinds = {row["failure"], *(kind for kind, _ in missing)} - {""}
        rows[-1]["failure"] = min(kinds, key=list(EXIT_CODES).index, default="")
    echo_json(rows) if as_json else terminal.verified(rows)
    sys.exit(_status(rows))


def tomorrow() -> str:
    """The time in a day, as certificates write theirs: clocks of other places may be ahead."""
    return (datetime.now(UTC) + timedelta(days=1)).isoformat()


def _certificates_in(folder: Path) -> tuple[Path, ...]:
    """The certificates of a release in its folder, ``certificate/NAME.json``; none elsewhere."""
    from dpaudit.certificate.archive import is_archive

    return () if is_archive(folder) else tuple(sorted(folder.glob("certificate/*.json")))


def _archive(path: Path, unpacked: ExitStack) -> Archive | None:
    """The archive in a file or folder, unpacked until the command ends; None for a certificate."""
    from dpaudit.certificate.archive import is_archive, opened

    return unpacked.enter_context(opened(path)) if is_archive(path) else None


def _of_archive(
    row: Mapping[str, Any],
    archive: Archive,
    verified: Verified,
    signers: Signers,
    *,
    compared: bool,
) -> tuple[dict[str, Any], list[str]]:
    """The row with what an archive's other files are worth, and the files that it lacks.

    ``compared``: whether published files were compared.
    """
    from dpaudit.certificate.rendering import signed_by

    run = verified.certificate["predicate"]["run"]
    output = None if run is None else run["output"]
    lacking = [] if output is None or compared else [f"{output['name'][:80]!r}: not in the archive"]
    same, other = archive.compared(
        verified.certificate, signed_by(verified.file, signers, verified.certificate)
    )
    confirmed = [*row["confirmed"], *([f"made of the certificate: {', '.join(same)}"] * bool(same))]
    trusted = [
        f"{name}: by its digest in the archive alone, which whoever made the archive chose"
        for name in other
    ]
    return {**row, "confirmed": confirmed, "on_trust": [*row["on_trust"], *trusted]}, lacking


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
    """The requirements that a row does not meet, as (kind of failure, text), the gravest first."""
    if not row["verified"]:
        return [(row["failure"], row["reason"])]
    unmet = []
    verdict = row["verdict"]
    if VERDICTS.index(verdict) < VERDICTS.index(require):
        kind = "unconfirmed" if verdict == "unconfirmed" else "required"
        unmet.append((kind, f"the verdict is {verdict}, required: {require}"))
    if confirmed:
        unmet += [("unconfirmed", text) for text in row["unconfirmed"]]
    if audit:
        unmet += [("required", text) for text in row["powerless"]]
    most, largest = limits
    if most is not None:
        unmet += _above(row["epsilons"], most, largest or Fraction(0))
    return sorted(unmet, key=lambda requirement: list(EXIT_CODES).index(requirement[0]))


def _otherwise(
    certificate: Mapping[str, Any],
    folder: Path | None,
    plan: Path | None,
    *,
    replay: bool,
    fresh: bool,
) -> list[str]:
    """The differences from the certificate: files of a folder, counts of repeated audits."""
    if folder is None and not (replay or fresh):
        return []
    from dpaudit.certificate.replay import (
        command_of,
        differences,
        implementation_in,
        refuted_afresh,
    )
    from dpaudit.cli.audit_commands import orders_of, shaped
    from dpaudit.cli.commands import quiet

    differing = [] if folder is None else implementation_in(certificate, folder)
    if replay or fresh:
        try:
            command = command_of(certificate)
            if command.planned != (plan is not None):
                wanted = "of a release: give --set plan=" if plan is None else "no release's"
                raise CertificateRejected(f"it is {wanted}")
            with quiet():
                orders = orders_of(command.targets if plan is None else [str(plan)])
                if command.shape is not None:
                    orders = [shaped(order, command.shape, command.values) for order in orders]
                if replay:
                    differing += differences(certificate, orders, command)
                if fresh:
                    differing += refuted_afresh(certificate, orders, command, secrets.randbits(128))
        except (CertificateRejected, InvalidParameter, UnknownTarget) as error:
            differing.append(f"not replayed: {error}")
    return differing


def _above(
    epsilons: Sequence[Sequence[str]], most: Fraction, largest: Fraction
) -> list[tuple[str, str]]:
    if not epsilons:
        return [("required", "no claim of an epsilon, which --max-epsilon requires")]
    return [
        ("required", f"{claim}: shows only epsilon <= {epsilon} at delta {delta}")
        for claim, epsilon, delta in epsilons
        if "inf" in (epsilon, delta) or Fraction(epsilon) > most or Fraction(delta) > largest
    ]


def _status(rows: Sequence[Mapping[str, Any]]) -> int:
    """The exit status of the gravest failure."""
    kinds = {row["failure"] for row in rows}
    return next((code for kind, code in EXIT_CODES.items() if kind in kinds), 0)
