"""`dpaudit fields`: a form for the statements that certificates need and no program can know."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import click

from dpaudit.cli.commands import as_json_option, echo_json
from dpaudit.cli.settings import Command


@click.command("fields", cls=Command, example="dpaudit fields")
@click.argument(
    "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default="."
)
@as_json_option
def fields(folder: Path, *, as_json: bool) -> None:
    """Ask for the facts that certificates need and no program can know; fills FOLDER/dpaudit.toml.

    `certify`, `run` and `release` read the file; a plan's [fields] and --field NAME=TEXT go before
    it.  Only missing fields are asked for; an empty answer leaves one out.  With --json nothing is
    asked or written: each field is listed with its question and what the file states.
    """
    from dpaudit.errors import InvalidParameter
    from dpaudit.storage.fields import FILE, OPTIONAL, QUESTIONS, fields_of, read_fields
    from dpaudit.storage.files import write_atomically

    stated = read_fields(folder).of("")
    if as_json:
        rows = [
            {
                "name": name,
                "question": QUESTIONS[name],
                "required": name not in OPTIONAL,
                "stated": stated.get(name, []),
            }
            for name in QUESTIONS
        ]
        echo_json(rows)
        return
    answers: dict[str, str] = {}
    for name in (name for name in QUESTIONS if name not in stated):
        while True:
            question = f"{name}: {QUESTIONS[name]}" + " (optional)" * (name in OPTIONAL)
            answer = click.prompt(question, default="", show_default=False, err=True).strip()
            try:
                if answer:
                    fields_of({name: answer}, "answer:", folder)
                    answers[name] = answer
                break
            except InvalidParameter as error:
                click.echo(str(error), err=True)
                if not sys.stdin.isatty():
                    raise
    path = folder / FILE
    before = path.read_text("utf-8") if path.exists() else ""
    after = _with(before, answers)
    if not _adds(before, after, answers):
        lines = "; ".join(f"{name} = {answer!r}" for name, answer in answers.items())
        raise InvalidParameter(f"{path}: its [fields] is not a plain table; add to it: {lines}")
    write_atomically(path, after.encode())
    click.echo(path)


def _adds(before: str, after: str, answers: dict[str, str]) -> bool:
    """Whether a text states the answers, and else what it stated before."""
    old = tomllib.loads(before)
    try:
        return tomllib.loads(after) == {**old, "fields": {**old.get("fields", {}), **answers}}
    except tomllib.TOMLDecodeError:
        return False


def _with(text: str, answers: dict[str, str]) -> str:
    """The text of a dpaudit.toml with more fields, which it does not state yet."""
    # JSON's strings are TOML's, but for the character DEL.
    lines = [
        f"{name} = {json.dumps(answer, ensure_ascii=False)}".replace("\x7f", "\\u007f")
        for name, answer in answers.items()
    ]
    before = text.splitlines()
    header = next(
        (i for i, line in enumerate(before) if line.split("#")[0].strip() == "[fields]"), None
    )
    if header is None:
        return "\n".join([*before, *([""] if before else []), "[fields]", *lines, ""])
    return "\n".join([*before[: header + 1], *lines, *before[header + 1 :], ""])
