"""The command ``dpaudit mutate``."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import click

from dpaudit.cli.commands import as_json_option
from dpaudit.cli.settings import Command, option

PROGRESS_SECONDS = 5.0  # Seconds between two lines of progress.


class _Progress:
    """A line on standard error at the start, every few seconds, and at the end."""

    def __init__(self) -> None:
        self.last = -math.inf

    def __call__(self, name: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done in (0, total) or now - self.last > PROGRESS_SECONDS:
            self.last = now
            click.echo(f"mutants of {name}: {done} of {total}", err=True)


@click.command("mutate", cls=Command, example="dpaudit mutate noisy_mean --jobs 2")
@click.argument("target")
@option("seed", default=1, show_default=True)
@option("jobs")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reports"),
    show_default=True,
    help="Folder that keeps finished mutants, for resuming.",
)
@as_json_option
def mutate_command(
    target: str,
    *,
    seed: int,
    limit: int | None,
    jobs: int,
    operator: tuple[str, ...],
    require: float,
    out: Path,
    as_json: bool,
) -> None:
    """Plant bugs in TARGET's source, and count how many certify detects.

    Exits with 1 if it certifies too many.  An interrupted run resumes under the same seed.
    """
    from dpaudit.mutate import report
    from dpaudit.mutate.operators import OPERATORS
    from dpaudit.mutate.run import Order, run

    order = Order(
        target,
        Path.cwd(),
        seed=seed,
        limit=limit,
        operators=operator or OPERATORS,
        store=out / ".mutants",
    )
    ran = run(order, jobs=jobs, progress=_Progress())
    if as_json:
        click.echo(json.dumps(report.as_json(ran), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(report.lines(ran)))
    sys.exit(report.exit_code(ran, require))
