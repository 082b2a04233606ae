"""Settings: values with a name, given as ``--set NAME=VALUE`` or in a project's ``dpaudit.toml``.

A command has options for what is given nearly every time, and settings for the rest.  One reader
serves all of them.  Order of precedence: the command line, then ``[settings]`` of the nearest
``dpaudit.toml``, then the default.  The file holds what a project decides once
(``Setting.project``); what weakens a check, or concerns one call, is read from the line alone, so
that a file of somebody else's project changes no verification.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from dpaudit.errors import InvalidParameter
from dpaudit.storage.fields import refuse_unknown, settings_above

Function = TypeVar("Function", bound=Callable[..., Any])
# Keys in click's context: the settings given on the line, and the values of free parameters.
ON_LINE, VALUES = "dpaudit.on_line", "dpaudit.values"
LONGEST_NAME = 40  # characters of a name that an error repeats
PAIR = re.compile(r"[A-Za-z_]\w*=")  # how a further NAME=VALUE after --set begins
# Of click's help: types, and what it adds of ranges.
NUMBERS, RANGES = re.compile(r"(INTEGER|FLOAT)( RANGE)?"), re.compile(r"  \[[^\]]*<=?x[^\]]*\]")
WIDEST = 26  # columns of an option's name in help


@dataclass(frozen=True)
class Setting:
    """One setting.

    ``value``: what stands for the value in a command's help.  ``several``: it may be given
    repeatedly, and is a tuple.  ``project``: ``dpaudit.toml`` may state it.
    """

    name: str
    help: str
    value: str
    type: click.ParamType[Any] | None = None
    default: Any = None
    several: bool = False
    project: bool = False

    def read(self, text: object, place: str) -> Any:
        """A value; errors: InvalidParameter, with the place."""
        if self.type is None:
            return text
        try:
            return self.type.convert(text, None, None)
        except click.BadParameter as error:
            raise InvalidParameter(f"{place}: {error.message} ({self.help})") from None

    @property
    def shown(self) -> str:
        """The setting in a command's help; a star marks one that ``dpaudit.toml`` may state."""
        return f"{self.name}={self.value}{'*' * self.project}"


ADJACENCIES = ("add_remove", "replace_one", "zero_out")

# What a project states once.  An option of the same name takes its default from the file too.
JOBS = Setting("jobs", "Worker processes.", "NUMBER", click.IntRange(1, 1024), 1, project=True)
TRIALS = Setting(
    "trials", "Test trials a side.", "NUMBER", click.IntRange(100, 10**9), project=True
)
LABEL = Setting("label_column", "Column of a table that holds the label.", "NAME", project=True)
UNIT_COLUMN = Setting(
    "unit_column", "Column of a table that names the unit (user) of a row.", "NAME", project=True
)
ROWS = Setting(
    "rows", "With unit_column: the most rows that count for one unit.", "NUMBER", click.IntRange(1)
)
LEDGER = Setting("ledger", "A SQLite file, or a URL.", "FILE|URL", project=True)
DATASET = Setting("dataset", "The account of the ledger to charge.", "NAME", project=True)
ENTITY = Setting("entity", "Whom one unit of the data is: person, row, ...", "NOUN", project=True)
UNIT = Setting(
    "unit",
    "The unit of privacy: record, user or client.",
    "record|user|client",
    click.Choice(["record", "user", "client"]),
    project=True,
)
ADJACENCY = Setting(
    "adjacency",
    "Which data sets are neighbours: add_remove, replace_one or zero_out.",
    "NAME",
    click.Choice(["add_remove", "replace_one", "zero_out"]),
    project=True,
)
COMPOSITION = Setting(
    "composition",
    "How (epsilon, delta) is composed: basic, advanced, zcdp, rdp or gdp.",
    "NAME",
    project=True,
)
POPULATION = Setting(
    "population",
    "An account, opened before, of all data sets of the same persons; it is charged too.",
    "NAME",
    several=True,
    project=True,
)
CHARGE_DELTA = Setting(
    "charge_delta", "The delta of a charge, for accounts that add deltas.", "NUMBER"
)
ALLOW = Setting(
    "allow", "Kinds of problems that do not fail, with commas.", "KINDS", default="", project=True
)
SEED = Setting("seed", "Seed of every draw.", "NUMBER", click.IntRange(0, 2**128 - 1))
CONFIDENCE = Setting("confidence", "Confidence of bounds.", "SHARE", default="0.95", project=True)
REFUTE_AT = Setting(
    "refute_at", "Chance that a true claim is refuted.", "SHARE", default="1e-4", project=True
)
TIME_LIMIT = Setting(
    "time_limit",
    "Seconds for each call of a program, endpoint or query; 60 by default.",
    "SECONDS",
    click.FloatRange(0, 86_400, min_open=True),
    project=True,
)
PROJECT = {
    one.name: one
    for one in (
        JOBS,
        TRIALS,
        LABEL,
        UNIT_COLUMN,
        CONFIDENCE,
        REFUTE_AT,
        TIME_LIMIT,
        LEDGER,
        DATASET,
        ALLOW,
        UNIT,
        ADJACENCY,
        COMPOSITION,
        POPULATION,
        ENTITY,
    )
}


def option(setting: Setting, **given: Any) -> Callable[[Function], Function]:
    """A setting as an option of its own, ``--name``; ``dpaudit.toml`` may state its default."""
    return click.option(
        f"--{setting.name.replace('_', '-')}",
        **{"type": setting.type, "default": setting.default, "help": setting.help} | given,
    )


class Command(click.Command):
    """A command with settings and an example.

    ``settings``: they and their headings, in the order of the help; a function takes each as an
    argument.  ``further``: other names of ``--set`` are free parameters of mechanisms, which the
    function takes as texts ``values``.
    """

    def __init__(
        self,
        *args: Any,
        example: str,
        settings: Mapping[str, Sequence[Setting]] | None = None,
        further: bool = False,
        **given: Any,
    ) -> None:
        super().__init__(*args, **given)
        self.example, self.groups, self.further = example, settings or {}, further
        self.settings = {one.name: one for some in self.groups.values() for one in some}
        if self.settings or further:
            self.params.append(
                click.Option(
                    ["--set", "set_to"],
                    multiple=True,
                    metavar="NAME=VALUE",
                    help="A setting, listed below"
                    + (", or a free parameter (`dpaudit show TARGET`)" if further else "")
                    + "; several may follow.",
                    shell_complete=self._completed,
                )
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, list(_each_with_option(args)))
        except click.NoSuchOption as error:
            self._refuse_moved(error, ctx)
            raise
        if not ctx.resilient_parsing:
            self._read(ctx, ctx.params.pop("set_to", ()))
        return rest

    def _read(self, ctx: click.Context, texts: Sequence[str]) -> None:
        """Add each setting's value to the context's arguments."""
        given, ctx.meta[VALUES] = self._given(texts)
        if self.further:
            ctx.params["values"] = tuple(ctx.meta[VALUES])
        names = PROJECT.keys() & (self.settings.keys() | ctx.params.keys())
        file, stated = settings_above(Path.cwd()) if names else (Path(), {})
        refuse_unknown(stated, PROJECT, f"{file}: [settings]")
        for name, setting in self.settings.items():
            if name in given:
                ctx.params[name] = _value(setting, given[name], f"--set {name}")
            elif setting.project and name in stated:
                ctx.params[name] = _value(setting, stated[name], f"{file}: [settings] {name}")
            else:
                ctx.params[name] = () if setting.several else setting.default
        options = {one.name: one for one in self.params if one.name in stated}
        for name, option in options.items():
            if ctx.get_parameter_source(name) is ParameterSource.DEFAULT:
                own = replace(PROJECT[name], type=option.type)
                ctx.params[name] = _value(own, stated[name], f"{file}: [settings] {name}")
        ctx.meta[ON_LINE] = set(given)

    def _given(self, texts: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
        """The settings on the line, and the values of free parameters, as texts.

        Errors: InvalidParameter for another form, or an unknown name.
        """
        given: dict[str, list[str]] = {}
        values = []
        for text in texts:
            name, separator, value = text.partition("=")
            if not separator:
                known = self.settings.get(name)
                raise InvalidParameter(
                    f"--set {text[:LONGEST_NAME]!r}: expected NAME=VALUE, such as "
                    + (f"{known.name}={known.value}: {known.help}" if known else "epsilon=2")
                )
            if self.further and name not in self.settings:
                values.append(text)
            else:
                given.setdefault(name, []).append(value)
        refuse_unknown(given, self.settings, "--set")
        return given, values

    def _refuse_moved(self, error: click.NoSuchOption, ctx: click.Context) -> None:
        """Errors: UsageError for what was an option once, with what to write now."""
        name = error.option_name.lstrip("-").replace("-", "_")
        now = MOVED_OPTIONS.get(name, name)
        if now in self.settings:
            now = f"--set {now}={self.settings[now].value}"
        if now != name:
            raise click.UsageError(f"{error.option_name} is no option: write {now}", ctx)

    def _completed(self, _ctx: Any, _param: Any, begun: str) -> list[CompletionItem]:
        return [
            CompletionItem(f"{name}=", help=one.help)
            for name, one in self.settings.items()
            if name.startswith(begun)
        ]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        records = filter(None, (one.get_help_record(ctx) for one in options))
        rows = [(NUMBERS.sub("NUMBER", name), RANGES.sub("", text)) for name, text in records]
        with formatter.section("Options"):
            formatter.write_dl(rows, col_max=WIDEST)
        if self.groups:
            some = [
                (name, ", ".join(one.shown for one in group)) for name, group in self.groups.items()
            ]
            with formatter.section("Settings (*: or in dpaudit.toml; --set NAME explains one)"):
                formatter.write_dl(some)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        formatter.write(f"\nExample: {self.example}\n")


def on_line(name: str) -> bool:
    """Whether a setting was given on the line of the running command."""
    return name in click.get_current_context().meta[ON_LINE]


def _each_with_option(args: Sequence[str]) -> Iterator[str]:
    """The words of a line in which each NAME=VALUE that follows ``--set A=B`` has a --set too."""
    following = False
    words = iter(args)
    for word in words:
        if word == "--":
            yield word
            yield from words
            return
        if word == "--set":
            yield word
            yield from [value for value in [next(words, None)] if value is not None]
            following = True
        elif following and PAIR.match(word):
            yield from ("--set", word)
        else:
            following = False
            yield word


def _value(setting: Setting, given: Any, place: str) -> Any:
    """A setting's value: of texts from the line, or of what a file states."""
    several = given if isinstance(given, list) else [given]
    if not setting.several and len(several) != 1:
        raise InvalidParameter(f"{place}: given {len(several)} times; give it one value")
    read = tuple(setting.read(one if one is None else str(one), place) for one in several)
    return read if setting.several else read[0]


# What was an option once, where its name changed: what to write now.
MOVED_OPTIONS = {
    "label": "label_column",
    "unit": "unit_column",
    "column": "score_column",
}
