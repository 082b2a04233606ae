"""The commands on finished certificates: ``budget``, ``check``, ``report`` and ``sign``."""

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
from dpaudit.errors import CertificateRejected, DpauditError, InvalidParameter, described

if TYPE_CHECKING:
    from dpaudit.certificate.budget import Total
    from dpaudit.certificate.rendering import Signers
    from dpaudit.check.process import Verified
    from dpaudit.sign import Key

PASSWORD = "DPAUDIT_KEY_PASSWORD"  # noqa: S105  (the name of a variable)


@click.command()
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
    made = [] if new_key is None else [str(path) for path in make_keys(new_key)]
    private = private_key(key or new_key or Path(), _password() if password else None)
    token = b"" if timestamp is None else read_token(timestamp)
    written = []
    for verified in list(verify_files(list(map(read, files)))):
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
        echo_json({"keys": made, "signatures": written})
    else:
        click.echo("\n".join([*made, *written]))


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
threshold_option = click.option(
    "--threshold",
    type=click.IntRange(1, 64),
    help="How many of the keys and accounts must have signed; by default all.",
)
_SIGNERS = (
    click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="[NAME=]FILE",
        help="A public key that must have signed; may be repeated.",
    ),
    click.option(
        "--identity",
        "identities",
        multiple=True,
        metavar="ACCOUNT@ISSUER",
        help="An account that must have signed by sigstore; may be repeated.",
    ),
    click.option(
        "--trusted-root",
        type=click.Path(dir_okay=False, path_type=Path),
        help="sigstore's roots of trust; by default those that it fetched last.",
    ),
    click.option(
        "--authority",
        "authorities",
        multiple=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="Root certificate of a time stamping authority; each key's signature must carry one "
        "of its tokens; may be repeated.",
    ),
)


def signers_options(command: Any) -> Any:
    """Add the options for required signers: ``keys``, ``identities`` and so on."""
    for option in reversed(_SIGNERS):
        command = option(command)
    return command


def known_signers(
    keys: tuple[str, ...],
    identities: tuple[str, ...],
    trusted_root: Path | None,
    authorities: tuple[Path, ...],
) -> Signers:
    """The required signers that the options name, each once."""
    from dpaudit.certificate.rendering import Signers
    from dpaudit.sign import authority, identity, public_key

    by_id: dict[str, Key] = {}
    for text in keys:
        name, separator, file = text.rpartition("=")
        key = public_key(Path(file if separator else text), name)
        if key.id in by_id:
            raise InvalidParameter(f"--key {text}: the same key as {by_id[key.id].name}")
        by_id[key.id] = key
    accounts = tuple(dict.fromkeys(map(identity, identities)))
    roots = tuple(map(authority, authorities))
    return Signers(tuple(by_id.values()), accounts, trusted_root, roots)


def signed_row(
    one: Verified, signers: Signers, threshold: int | None, also: Sequence[Key] = ()
) -> dict[str, Any]:
    """A row of `dpaudit verify` with its signatures; it fails with too few valid ones.

    ``threshold``: the number of required signatures; by default one of each signer.  ``also``: keys
    whose signatures are shown but not required.
    Errors: InvalidParameter for a threshold above the number of signers.
    """
    from dpaudit.certificate.rendering import expired, signed_by

    required_names, row, path = signers.ids, one.row, one.file.path
    wanted = len(required_names) if threshold is None else threshold
    if wanted > len(required_names):
        raise InvalidParameter(
            f"--threshold {wanted}: {len(required_names)} keys and accounts were given; name each "
            "with --key or --identity"
        )
    if not row["verified"]:
        return row
    try:
        certificate = one.certificate
        if expired(certificate):
            raise CertificateRejected(f"{path}: expired on {expired(certificate)}; certify again")
        more = [key for key in also if key.id not in required_names]
        asked = replace(signers, keys=(*signers.keys, *more))
        signatures = signed_by(one.file, asked, certificate)
    except CertificateRejected as error:
        return {**row, "verified": False, "verdict": "", "reason": str(error)}
    names = (
        ", ".join(one.name for one in signatures if one.state == "valid")
        or "nobody whose key is known"
    )
    row = {
        **row,
        "on_trust": [*row["on_trust"], *(f"{text}: on the word of {names}" for text in SIGNED_FOR)],
        "signatures": [asdict(one) for one in signatures],
    }
    valid = {
        one.key_id for one in signatures if one.state == "valid" and one.key_id in required_names
    }
    missing = ", ".join(name for one, name in required_names.items() if one not in valid)
    if len(valid) >= wanted:
        return row
    reason = f"{len(valid)} of {wanted} wanted signatures: none valid of {missing}"
    return {**row, "verified": False, "verdict": "", "reason": reason}


@click.command()
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
    default="html",
    show_default=True,
    help="Any of html, pdf, registry, badge, sbom, coq (a file a certificate), project, md, csv, "
    "junit and sarif (one file over all), with commas between.",
)
@click.option("--language", default="en", show_default=True, help="en, de or fr.")
@click.option(
    "--verifier",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write verify.html into this folder: a page that verifies certificates in a browser, "
    "without a network. Its runtime is fetched once, by npm and pip.",
)
@signers_options
@as_json_option
def report(
    files: tuple[Path, ...],
    *,
    out: Path,
    formats: str,
    language: str,
    verifier: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Verify certificates FILES and write them as pages or in other formats.

    With last year's certificate among FILES or in their folders, the page of this year's says what
    changed.  Files that fail are named on standard error; the others are still written.
    """
    if verifier is not None:
        from dpaudit.report.verifier import write_verifier

        if files:
            raise click.UsageError("--verifier: the page is of no certificate; give no FILES.")
        page = str(write_verifier(verifier))
        echo_json({"files": [page], "faults": []}) if as_json else click.echo(page)
        return
    if not files:
        raise click.UsageError("Missing argument 'FILES...'.")
    from dpaudit.certificate.rendering import render_files
    from dpaudit.storage.files import writable

    writable(out)
    wanted = tuple(dict.fromkeys(name.strip() for name in formats.split(",") if name.strip()))
    rendered = render_files(files, out, wanted, spoken=language, signers=known_signers(**given))
    for text, _ in rendered.faults:
        click.echo(f"dpaudit: {text}", err=True)
    written = list(map(str, rendered.files))
    if as_json:
        echo_json({"files": written, "faults": [text for text, _ in rendered.faults]})
    elif written:
        click.echo("\n".join(written))
    sys.exit(rendered.exit_code)


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--ledger", "url", help="A ledger's SQLite file or URL, in place of FILES.")
@click.option(
    "--delta", default="", help="The delta of every epsilon; by default the budget's, or 1e-6."
)
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="The first day that counts.")
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), help="The last day that counts.")
@click.option(
    "--convert",
    is_flag=True,
    help="Add up add_remove and replace_one, counting a replacement as a group of two.",
)
@click.option(
    "--figure",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for a timeline of each data set, as SVG.",
)
@as_json_option
def budget(
    files: tuple[Path, ...],
    *,
    url: str | None,
    delta: str,
    since: datetime | None,
    until: datetime | None,
    convert: bool,
    figure: Path | None,
    as_json: bool,
) -> None:
    """Compose the releases of certificates FILES: one total for each data set.

    Totals are compared with the budgets in dpaudit.toml.  With --ledger: the charges of a ledger
    and the rest of its budget, after verifying its chain.  Exits with 1 if a budget is exceeded, or
    a file or data set could not be added.  Accesses outside of the guarantees are named first.
    """
    if bool(files) == (url is not None):
        raise click.UsageError("give either FILES or --ledger")
    if url is not None:
        _show_ledger(url, as_json=as_json)
        return
    from dpaudit.certificate.budget import chosen, totals
    from dpaudit.cli import terminal
    from dpaudit.project.project import find_root
    from dpaudit.storage.fields import read_fields

    first, last = (None if day is None else day.date() for day in (since, until))
    entries, failed = [], 0
    for entry in chosen(files, first, last):
        if isinstance(entry, DpauditError):
            failed += 1
            click.echo(f"dpaudit: {described(entry)}", err=True)
        else:
            entries.append(entry)
    stated = read_fields(find_root(Path.cwd())).budgets
    composed = totals(entries, stated, delta=delta, convert=convert)
    if figure is not None:
        _timelines(composed, figure)
    if as_json:
        echo_json([_total_row(total) for total in composed])
    else:
        terminal.budgets(composed)
    # A sum over all data sets that is refused is told; each of them has a total of its own.
    bad = any(total.over or (total.refused and not total.of_all) for total in composed)
    sys.exit(1 if failed or bad else 0)


def _show_ledger(url: str, *, as_json: bool) -> None:
    from dpaudit.cli import terminal
    from dpaudit.exact import decimal_lower
    from dpaudit.ledger import open_ledger
    from dpaudit.ledger.book import CHARGED

    ledger = open_ledger(url)
    books = []
    for name in ledger.names():
        state, entries = ledger.verify(name), ledger.entries(name)
        # Another process may have charged since the chain was verified.
        verified_entries = entries[: state.length]
        charges = [entry.body for entry in verified_entries if entry.body["kind"] == CHARGED]
        books.append(
            {
                "data": name,
                "unit": state.terms.entity,
                "adjacency": str(state.terms.scope.adjacency),
                "measures": list(state.terms.units),
                "charges": [
                    {
                        "date": body["at"][:10],
                        "name": body["title"],
                        "cost": _uppers(body["cost"]),
                        "together": _uppers(body["spent"]),
                    }
                    for body in charges
                ],
                "caps": [decimal_lower(cap, 6) for cap in state.terms.caps],
                "left": [decimal_lower(left, 6) for left in state.remaining],
                "unfinished": list(state.unfinished),
            }
        )
    echo_json(books) if as_json else terminal.ledger(books)


def _uppers(numbers: Sequence[Any]) -> list[str]:
    from dpaudit.exact import decimal_upper
    from dpaudit.exact.wire import decode_number

    return [decimal_upper(decode_number(number), 6) for number in numbers]


def _total_row(total: Total) -> dict[str, Any]:
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


def _timelines(found: Sequence[Total], folder: Path) -> None:
    from dpaudit.report.timeline import timeline_svg
    from dpaudit.storage.files import write_made

    for number, total in enumerate(found, start=1):
        if total.rows:
            points = [(row.entry.day, float(row.together)) for row in total.rows]
            limit = (total.budget or {}).get("epsilon")
            svg = timeline_svg(total.data, points, total.delta, float(limit) if limit else None)
            write_made({folder / f"budget-{number}.svg": svg.encode()})


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path("reports"))
@click.option(
    "--allow", default="", help="Kinds of problems that do not fail, separated by commas."
)
@click.option("--sarif", type=click.Path(dir_okay=False, path_type=Path), help="Also as SARIF.")
@as_json_option
def check(folder: Path, *, allow: str, sarif: Path | None, as_json: bool) -> None:
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
        raise InvalidParameter(f"--allow {unknown[0][:40]}: expected any of {', '.join(RULES)}")
    if not folder.is_dir():
        raise InvalidParameter(f"{folder}: no such folder; `dpaudit certify --out {folder}` first")
    with quiet():
        project = load(find_root(Path.cwd()))
    checked = check_project(project, folder)
    if sarif is not None:
        extra = [(one.place, Finding(one.kind, one.text)) for one in checked.of_the_gate]
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


COMPLIANCE_COMMANDS = (budget, check, report, sign)
