"""`dpaudit report --format changes`: what changed between two certificates."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import click

from dpaudit.cli.commands import echo_json
from dpaudit.errors import CertificateRejected, described

NOT_VERIFIED = 10  # Exit status if a certificate does not verify, as of `verify`.
MOST_SHOWN = 12  # changes of one part that are shown in words


def show_changes(old: Path, new: Path, *, seconds: float, as_json: bool) -> int:
    """Print what changed from certificate ``old`` to ``new``, by part; returns the exit status.

    The parts: claim, noise, data, program, attack, fields, checker, and issue (time, command and
    seed).  Exit status: 0 if only the issue differs, 1 if anything else does, ``NOT_VERIFIED`` if a
    certificate does not verify.
    """
    from dpaudit.check.file import read
    from dpaudit.check.process import verify_files
    from dpaudit.report.compared import changes

    files = [read(old), read(new)]
    try:
        before, after = (verified.certificate for verified in verify_files(files, seconds))
    except CertificateRejected as error:
        click.echo(f"dpaudit: {described(error)}", err=True)
        return NOT_VERIFIED
    found_changes = changes(before, after)
    if as_json:
        echo_json([asdict(change) for change in found_changes])
    else:
        for part, group in groupby(found_changes, key=lambda change: change.part):
            lines = list(map(str, group))
            click.echo(f"{part}:")
            click.echo("\n".join(f"  {line}" for line in lines[:MOST_SHOWN]))
            if len(lines) > MOST_SHOWN:
                click.echo(f"  and {len(lines) - MOST_SHOWN} more, which --json lists")
        if not found_changes:
            click.echo("nothing changed")
    return int(any(change.part != "issue" for change in found_changes))
