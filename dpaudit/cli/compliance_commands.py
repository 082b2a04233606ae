"""The commands on certificates: ``check``, ``ledger total``, ``report`` and ``sign``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.commands import as_json_option, echo_json, quiet
from dpaudit.cli.release_commands import ledger
from dpaudit.cli.settings import Command, option
from dpaudit.errors import CertificateRejected, DpauditError, InvalidParameter, described
from dpaudit.storage.fields import refuse_unknown

if TYPE_CHECKING:
    from dpaudit.certificate.budget import Total
    from dpaudit.certificate.rendering import Signers
    from dpaudit.check.process import Verified
    from dpaudit.sign import Key

PASSWORD = "DPAUDIT_KEY_PASSWORD"  # noqa: S105  (the name of a variable)


@click.command(cls=Command, example="dpaudit sign reports/noisy_mean.json --key officer.pem")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), help="Your private key, in PEM.")
@click.option("--new-key", type=click.Path(path_type=Path), help="Make a key and its .pub first.")
@click.option(
    "--password",
    is_flag=True,
    help=f"Ask for the key's password; without a terminal it is read from {PASSWORD}.",
)
@click.option(
    "--timestamp",
    type=click.Path(path_type=Path),
    help="Attach a time stamping authority's token (RFC 3161) to this signature.",
)
@click.option(
    "--timestamp-query",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the request for a time stamp: send it to an authority, then use --timestamp.",
)
@as_json_option
def sign(
    files: tuple[Path, ...],
    *,
    key: Path | None,
    new_key: Path | None,
    password: bool,
    timestamp: Path | None,
    timestamp_query: Path | None,
    seconds: float,
    as_json: bool,
) -> None:
    """Sign certificates FILES: you answer for the parts that no checker can confirm.

    Each FILE must verify first.  Signatures of all keys go into FILE.dsse.
    """
    from dpaudit.check.file import read
    from dpaudit.check.process import verify_files
    from dpaudit.sign import (
        envelope_of,
        make_keys,
        private_key,
        read_envelope,
        read_token,
        signature_of,
        write_envelope,
    )
    from dpaudit.sign import sign as signed
    from dpaudit.sign import timestamp_query as query_of
    from dpaudit.storage.files import own_or_absent, write_made

    if (key is None) == (new_key is None) or not (files or new_key):
        raise click.UsageError("give FILES and either --key or --new-key; --new-key needs no FILES")
    if (timestamp or timestamp_query) and len(files) != 1:
        raise click.UsageError("a time stamp covers one signature: give one FILE")
    key_files = [] if new_key is None else [str(path) for path in make_keys(new_key)]
    private = private_key(key or new_key or Path(), _password() if password else None)
    token = b"" if timestamp is None else read_token(timestamp)
    written = []
    for verified in list(verify_files(list(map(read, files)), seconds)):
        certificate, target = verified.certificate, envelope_of(verified.file.path)
        query = query_of(signature_of(certificate, private)) if timestamp_query else b""
        if timestamp_query is not None:
            own_or_absent(timestamp_query, query)
        write_envelope(signed(certificate, private, read_envelope(target), token), target)
        written.append(str(target))
        if timestamp_query is not None:
            write_made({timestamp_query: query})
            written.append(str(timestamp_query))
    if as_json:
        echo_json({"keys": key_files, "signatures": written})
    else:
        click.echo("\n".join([*key_files, *written]))


def _password() -> bytes:
    given = os.environ.get(PASSWORD)
    if given is None:
        given = click.prompt("Password of the key", hide_input=True, err=True)
    return str(given).encode()


# The parts of a certificate that no checker can confirm.
SIGNED_FOR = (
    "that the runs took place, with these counts",
    "environment, revision and dates",
    "metrics and outputs of the run",
    "the fields of dpaudit.toml",
)
key_option = click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="[NAME=]FILE",
    help="A public key that must have signed; repeatable.",
)


def known_signers(
    keys: tuple[str, ...],
    identity: tuple[str, ...],
    trusted_root: Path | None,
    authority: tuple[Path, ...],
) -> Signers:
    """The required signers that the options name, each once."""
    from dpaudit.certificate.rendering import Signers
    from dpaudit.sign import authority as authority_of
    from dpaudit.sign import identity as identity_of
    from dpaudit.sign import public_key

    by_id: dict[str, Key] = {}
    for text in keys:
        name, separator, file = text.rpartition("=")
        key = public_key(Path(file if separator else text), name)
        if key.id in by_id:
            raise InvalidParameter(f"--key {text}: the same key as {by_id[key.id].name}")
        by_id[key.id] = key
    accounts = tuple(dict.fromkeys(map(identity_of, identity)))
    roots = tuple(map(authority_of, authority))
    return Signers(tuple(by_id.values()), accounts, trusted_root, roots)


def signed_row(
    verified: Verified, signers: Signers, threshold: int | None, also: Sequence[Key] = ()
) -> dict[str, Any]:
    """A row of `dpaudit verify` with its signatures; it fails with too few valid ones.

    ``threshold``: the number of required signatures; by default one of each signer.  ``also``: keys
    whose signatures are shown but not required.
    Errors: InvalidParameter for a threshold above the number of signers.
    """
    from dpaudit.certificate.rendering import expired, signed_by

    required_names, row, path = signers.ids, verified.row, verified.file.path
    wanted = len(required_names) if threshold is None else threshold
    if wanted > len(required_names):
        raise InvalidParameter(
            f"threshold = {wanted}: {len(required_names)} keys and accounts were given; name each "
            "with --key or identity="
        )
    if not row["verified"]:
        return row
    try:
        certificate = verified.certificate
        if expired(certificate):
            raise CertificateRejected(f"{path}: expired on {expired(certificate)}; certify again")
        more = [key for key in also if key.id not in required_names]
        all_signers = replace(signers, keys=(*signers.keys, *more))
        signatures = signed_by(verified.file, all_signers, certificate)
    except CertificateRejected as error:
        return {**row, "verified": False, "verdict": "", "reason": str(error)}
    names = (
        ", ".join(verified.name for verified in signatures if verified.state == "valid")
        or "nobody whose key is known"
    )
    row = {
        **row,
        "on_trust": [*row["on_trust"], *(f"{text}: on the word of {names}" for text in SIGNED_FOR)],
        "signatures": [asdict(verified) for verified in signatures],
    }
    valid = {
        verified.key_id
        for verified in signatures
        if verified.state == "valid" and verified.key_id in required_names
    }
    missing = ", ".join(name for verified, name in required_names.items() if verified not in valid)
    if len(valid) >= wanted:
        return row
    reason = f"{len(valid)} of {wanted} wanted signatures: none valid of {missing}"
    return {**row, "verified": False, "verdict": "", "reason": reason}


ARCHIVE, CHANGES = "archive", "changes"  # formats that stand alone


def _wanted(formats: str, files: Sequence[Path]) -> tuple[str, ...]:
    """The names of formats in a text; errors: UsageError, InvalidParameter for no such set."""
    from dpaudit.certificate.rendering import FORMATS

    wanted = tuple(dict.fromkeys(name.strip() for name in formats.split(",") if name.strip()))
    refuse_unknown(wanted, (*FORMATS, ARCHIVE, CHANGES), "--format")
    if not files:
        raise click.UsageError("Missing argument 'FILES...'.")
    if len(wanted) > 1 and {ARCHIVE, CHANGES} & set(wanted):
        raise click.UsageError(f"--format: {ARCHIVE} and {CHANGES} stand alone.")
    if CHANGES in wanted and len(files) != 2:
        raise click.UsageError("--format changes: give two certificates, OLD and NEW.")
    return wanted


def _write_verifier(folder: Path, files: Sequence[Path], *, as_json: bool) -> None:
    from dpaudit.report.verifier import write_verifier

    if files:
        raise click.UsageError("--verifier: the page is of no certificate; give no FILES.")
    page = str(write_verifier(folder))
    echo_json({"files": [page], "faults": []}) if as_json else click.echo(page)


@click.command(cls=Command, example="dpaudit report reports/*.json --format html,md --language de")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reports"),
    show_default=True,
    help="Folder for the files.",
)
@click.option(
    "--format",
    "formats",
    metavar="NAMES",
    default="html",
    show_default=True,
    help="See above; with commas between.",
)
@option("language", metavar="CODE", show_default=True)
@click.option(
    "--verifier",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for verify.html, a page that verifies certificates in a browser; npm and pip "
    "fetch its runtime once.",
)
@key_option
@as_json_option
def report(
    files: tuple[Path, ...],
    *,
    out: Path,
    formats: str,
    language: str,
    verifier: Path | None,
    as_json: bool,
    plan: Path | None,
    published: Path | None,
    seconds: float,
    **given: Any,
) -> None:
    """Verify certificates FILES and write them in formats.

    html, pdf, registry, badge, sbom and coq make a file for each certificate; project, md, csv,
    junit and sarif one for all.  archive: a ZIP file to keep for ten years, with all that belongs
    to a certificate, which `dpaudit verify` checks offline.  changes: print what changed from the
    first of two certificates to the second; exits with 1 if more than the issue did, and with 10 if
    one does not verify.

    Files that fail are named on standard error; the others are still written.
    """
    from dpaudit.certificate.rendering import render_files
    from dpaudit.cli.archive import archived
    from dpaudit.cli.changes import show_changes
    from dpaudit.storage.files import writable

    if verifier is not None:
        _write_verifier(verifier, files, as_json=as_json)
        return
    wanted = _wanted(formats, files)
    if wanted == (CHANGES,):
        sys.exit(show_changes(*files, seconds=seconds, as_json=as_json))
    if wanted != (ARCHIVE,) and (plan or published):
        raise click.UsageError("plan, published: only with --format archive.")
    writable(out)
    signers = known_signers(**given)
    if wanted == (ARCHIVE,):
        archives = [archived(file, out, signers, plan, published, seconds) for file in files]
        echo_json(list(map(vars, archives))) if as_json else click.echo(
            "\n".join(map(str, archives))
        )
        return
    rendered = render_files(files, out, wanted, spoken=language, signers=signers, seconds=seconds)
    for text, _ in rendered.faults:
        click.echo(f"dpaudit: {text}", err=True)
    written = list(map(str, rendered.files))
    if as_json:
        echo_json({"files": written, "faults": [text for text, _ in rendered.faults]})
    elif written:
        click.echo("\n".join(written))
    sys.exit(rendered.exit_code)


@click.command(
    "total",
    settings="ledger total",
    cls=Command,
    example="dpaudit ledger total reports/*.json --figure build",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--figure",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for a timeline of each data set, as SVG.",
)
@as_json_option
def total(
    files: tuple[Path, ...],
    *,
    delta: str | None,
    since: datetime | None,
    until: datetime | None,
    convert: bool,
    seconds: float,
    figure: Path | None,
    as_json: bool,
) -> None:
    """Compose the releases of certificates FILES: one total for each data set.

    Totals are compared with the budgets in dpaudit.toml.  Exits with 1 if a budget is exceeded, or
    a file or data set could not be added.  Accesses outside of the guarantees are named first.
    """
    from dpaudit.certificate.budget import chosen, totals
    from dpaudit.cli import terminal
    from dpaudit.project.project import find_root
    from dpaudit.storage.fields import read_fields

    first, last = (None if day is None else day.date() for day in (since, until))
    entries, failed = [], 0
    for entry in chosen(files, first, last, seconds=seconds):
        if isinstance(entry, DpauditError):
            failed += 1
            click.echo(f"dpaudit: {described(entry)}", err=True)
        else:
            entries.append(entry)
    stated = read_fields(find_root(Path.cwd())).budgets
    composed = totals(entries, stated, delta=delta or "", convert=convert)
    if figure is not None:
        _timelines(composed, figure)
    if as_json:
        echo_json([_total_row(total) for total in composed])
    else:
        terminal.budgets(composed)
    # A sum over all data sets that is refused is told; each of them has a total of its own.
    bad = any(total.over or (total.refused and not total.of_all) for total in composed)
    sys.exit(1 if failed or bad else 0)


def _total_row(total: Total) -> dict[str, Any]:
    """A data set's total as ``ledger total --json`` prints it."""
    return {
        "data": total.data,
        "all_data_sets": total.of_all,
        "outside_of_the_guarantees": list(total.outside),
        "unit": total.unit,
        "adjacency": total.adjacency,
        "delta": total.delta,
        "epsilon_lower": total.epsilon_lower,
        "epsilon_upper": total.epsilon_upper,
        "exact": dict(total.exact or {}),
        "budget": dict(total.budget or {}),
        "left": total.left,
        "over": total.over,
        "refused": total.refused,
        "releases": [
            {
                "file": str(row.entry.file),
                "name": row.entry.name,
                "date": row.entry.day.isoformat(),
                "verdict": row.entry.verdict,
                "epsilon_alone": row.alone,
                "epsilon_together": row.together,
            }
            for row in total.rows
        ],
    }


def _timelines(totals: Sequence[Total], folder: Path) -> None:
    from dpaudit.report.timeline import timeline_svg
    from dpaudit.storage.files import write_made

    for number, total in enumerate(totals, start=1):
        if total.rows:
            points = [(row.entry.day, float(row.together)) for row in total.rows]
            limit = (total.budget or {}).get("epsilon")
            svg = timeline_svg(total.data, points, total.delta, float(limit) if limit else None)
            write_made({folder / f"budget-{number}.svg": svg.encode()})


@click.command(cls=Command, example="dpaudit check reports --set allow=missing")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path("reports"))
@click.option("--sarif", type=click.Path(dir_okay=False, path_type=Path), help="Also as SARIF.")
@as_json_option
def check(folder: Path, *, allow: str, sarif: Path | None, seconds: float, as_json: bool) -> None:
    """Compare the project here with the certificates committed in FOLDER (reports).

    Problems are: a certificate that is broken, expired, stale or refuted; a claim weaker than the
    certified one; a mechanism without a certificate (missing); an exceeded budget.  With a problem
    the exit code is 1.  Nothing is run and no data is read.
    """
    from dpaudit.cli.gate import check_project
    from dpaudit.project.project import find_root, load
    from dpaudit.report.exports import RULES, Finding, render_sarif
    from dpaudit.storage.files import write_made

    allowed = {name.strip() for name in allow.split(",") if name.strip()}
    if unknown := sorted(allowed - set(RULES)):
        raise InvalidParameter(f"allow = {unknown[0][:40]}: expected any of {', '.join(RULES)}")
    if not folder.is_dir():
        raise InvalidParameter(f"{folder}: no such folder; `dpaudit certify --out {folder}` first")
    with quiet():
        project = load(find_root(Path.cwd()))
    checked = check_project(project, folder, seconds)
    if sarif is not None:
        extra = [
            (problem.place, Finding(problem.kind, problem.text)) for problem in checked.of_the_gate
        ]
        write_made({sarif: render_sarif(checked.certificates, extra).encode()})
    failing = [problem for problem in checked.problems if problem.kind not in allowed]
    if as_json:
        echo_json([vars(problem) | {"fails": problem in failing} for problem in checked.problems])
    else:
        for problem in checked.problems:
            click.echo(f"{problem}{'' if problem in failing else ' (allowed)'}")
        count = len(checked.certificates)
        click.echo(f"{count} certificates, {len(failing)} problems", err=True)
    sys.exit(1 if failing else 0)


COMPLIANCE_COMMANDS = (check, report, sign)  # what this module adds to the command line
ledger.add_command(total)
