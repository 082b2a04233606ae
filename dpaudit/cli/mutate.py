"""The command ``dpaudit mutate``."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import click

from dpaudit.cli.commands import as_json_option

SECONDS = 5.0  # between two lines of progress


class _Progress:
    """A line on standard error at the start, every few seconds, and at the end."""

    def __init__(self) -> None:
        self.last = -math.inf

    def __call__(self, name: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done in (0, total) or now - self.last > SECONDS:
            self.last = now
            click.echo(f"mutants of {name}: {done} of {total}", err=True)


@click.command("mutate")
@click.argument("target")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**128 - 1),
    default=1,
    show_default=True,
    help="Seed of every draw; an interrupted run resumes under the same seed.",
)
@click.option("--limit", type=click.IntRange(1, 10**6), help="The largest number of mutants.")
@click.option("--jobs", type=click.IntRange(1, 1024), default=1, help="Worker processes.")
@click.option("--operator", "operators", multiple=True, help="Only mutants of this operator.")
@click.option(
    "--require",
    type=click.FloatRange(0.0, 1.0),
    default=0.95,
    show_default=True,
    help="Exit with 1 if the share of mutants that are not certified is smaller.",
)
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
    operators: tuple[str, ...],
    require: float,
    out: Path,
    as_json: bool,
) -> None:
    """Plant bugs in TARGET's source, and count how many certify detects."""
    from dpaudit.mutate import report
    from dpaudit.mutate.operators import OPERATORS
    from dpaudit.mutate.run import Order, run

    order = Order(
        target,
        Path.cwd(),
        seed=seed,
        limit=limit,
        operators=operators or OPERATORS,
        store=out / ".mutants",
    )
    ran = run(order, jobs=jobs, progress=_Progress())
    if as_json:
        click.echo(json.dumps(report.as_json(ran), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(report.lines(ran)))
    sys.exit(report.exit_code(ran, require))
