"""``python -m tools``: commands for the developers of dpaudit."""

from __future__ import annotations

from pathlib import Path

import click

from dpaudit.cli.commands import as_json_option, echo_json
from dpaudit.cli.main import Interface
from dpaudit.errors import InvalidParameter


@click.group(cls=Interface, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Commands for the developers of dpaudit."""


@main.command()
@click.option("--markdown", is_flag=True, help="As the page docs/rules.md.")
@as_json_option
def rules(*, markdown: bool, as_json: bool) -> None:
    """Which rule covers which node in which calculus; an empty cell says why."""
    from tools import rules_table as table

    if as_json:
        echo_json([vars(cell) for cell in table.cells()])
    elif markdown:
        click.echo(table.markdown(), nl=False)
    else:
        for cell in table.cells():
            click.echo(f"{cell.node:26} {cell.calculus:8} {cell.source or f'none: {cell.reason}'}")


@main.command()
def commands() -> None:
    """Write docs/commands.md: every setting, and the help of every command."""
    from dpaudit.cli.main import main as users
    from tools.commands_page import page

    Path("docs/commands.md").write_text(page(users), "utf-8")


@main.command()
def proofs() -> None:
    """Let Coq read the catalogue's claims; writes docs/proofs.json and docs/proofs.md; resumes."""
    from tools import proofs_page as page

    rows = page.measured(Path.cwd(), told=lambda line: click.echo(line, err=True))
    Path("docs/proofs.md").write_text(page.markdown(rows), "utf-8")


@main.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
@as_json_option
def corpus(*, out: Path, as_json: bool) -> None:
    """Write the corpus anew: declarations with certified intervals of epsilon, as JSON lines."""
    from tools.corpus import generate, write
    from tools.corpus.declarations import questions

    total = sum(1 for _ in questions())
    rows = list(generate(lambda done: _progress("corpus", done, total)))
    write(rows, out)
    echo_json({"rows": len(rows), "file": str(out)}) if as_json else click.echo(f"{len(rows)} rows")


@main.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@as_json_option
def score(file: Path | None, *, as_json: bool) -> None:
    """Score the installed accountants on the shipped corpus, or on the one in FILE."""
    from tools.corpus import read, shipped
    from tools.corpus.score import ACCOUNTANTS, within_limits
    from tools.corpus.score import score as scored

    rows = shipped() if file is None else read(_text(file))
    found = []
    for done, name in enumerate(ACCOUNTANTS, start=1):
        with within_limits(name) as accountant:
            found.append(scored(name, accountant, rows).table())
        _progress("score", done, len(ACCOUNTANTS))
    if as_json:
        echo_json(found)
        return
    for row in found:
        click.echo(
            f"{row['accountant']:38} {row['answered']:4} answered of {row['rows']}, "
            f"{row['gave_up']} too slow or too large, "
            f"{row['wrong']} below the truth, {row['infinite']} infinite, "
            f"median excess {row['excess']}, {row['seconds']} s"
        )


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidParameter(f"{file}: {type(error).__name__}; give a corpus file") from None


def _progress(name: str, done: int, total: int) -> None:
    click.echo(f"{name}: {done}/{total}", err=True)


if __name__ == "__main__":
    main()
