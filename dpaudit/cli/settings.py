"""Settings: values with a name, given as ``--set NAME=VALUE`` or in a project's ``dpaudit.toml``.

A command has options for what is given nearly every time, and settings for the rest.  One reader
serves all of them.  Order of precedence: the command line, then ``[settings]`` of the nearest
``dpaudit.toml``, then the default.  The file holds what a project decides once
(``Setting.project``); what weakens a check, or concerns one call, is read from the line alone, so
that a file of somebody else's project changes no verification.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from dpaudit.errors import InvalidParameter
from dpaudit.storage.fields import refuse_unknown, settings_above

Function = TypeVar("Function", bound=Callable[..., Any])
ON_LINE = "dpaudit.on_line"  # key in click's context: the names of the settings on the line
LONGEST_NAME = 40  # characters of a name that an error repeats
PAIR = re.compile(r"[A-Za-z_]\w*=")  # how a further NAME=VALUE after --set begins
# Patterns of click's help: types, and the ranges that it adds.
NUMBERS, RANGES = re.compile(r"(INTEGER|FLOAT)( RANGE)?"), re.compile(r"  \[[^\]]*<=?x[^\]]*\]")
OPTION_COLUMNS = 26  # Columns of an option's name in the help.


@dataclass(frozen=True)
class Setting:
    """One setting; ``settings.toml`` says how a ``value`` is written.

    ``several``: it may be given repeatedly, and is a tuple.  ``project``: ``dpaudit.toml`` may
    state it.
    """

    name: str
    value: str
    help: str
    default: Any = None
    project: bool = field(default=False, kw_only=True)

    @property
    def several(self) -> bool:
        return self.value.endswith("+")

    @property
    def none(self) -> Any:
        """The value where nobody states one."""
        if self.several:
            return ()
        return False if self.value == "true" else self.default

    @property
    def type(self) -> click.ParamType[Any]:
        """The type that reads a text."""
        value = self.value.rstrip("+")
        if limits := RANGE.fullmatch(value):
            low, high = limits.groups()
            if "." in low:
                return click.FloatRange(float(low), float(high))
            return click.IntRange(int(low), None if high is None else int(high))
        choice = click.Choice(value.split("|")) if value.islower() else click.STRING
        return KINDS.get(value, choice)

    def read(self, text: str, place: str, kind: Any = None) -> Any:
        """A value; errors: InvalidParameter, with the place."""
        try:
            value = (kind or self.type).convert(text, None, None)
        except click.BadParameter as error:
            raise InvalidParameter(f"{place}: {error.message} ({self.help})") from None
        if isinstance(value, float) and math.isnan(value):  # click's ranges let it pass
            raise InvalidParameter(f"{place}: {text!r} is no number ({self.help})")
        return value

    @property
    def shown(self) -> str:
        """The setting in a command's help; a star marks one that ``dpaudit.toml`` may state."""
        return f"{self.name}={self.value}{'*' * self.project}"


KINDS: dict[str, click.ParamType[Any]] = {
    "true": click.BOOL,
    "FILE": click.Path(exists=True, dir_okay=False, path_type=Path),
    "FOLDER": click.Path(file_okay=False, path_type=Path),
    "DAY": click.DateTime(["%Y-%m-%d"]),
}
RANGE = re.compile(r"(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)?")
_TABLE = tomllib.loads((Path(__file__).parent / "settings.toml").read_text("utf-8"))
SETTINGS = {
    name: Setting(name, *row, project=section == "project")
    for section in ("project", "line")
    for name, row in _TABLE[section].items()
}
# An option of the same name takes its default from the file too.
PROJECT = {name: setting for name, setting in SETTINGS.items() if setting.project}


def settings_of(command: str) -> dict[str, tuple[Setting, ...]]:
    """The settings of a command, by what they are about, in the order of its help."""
    groups = _TABLE["commands"].get(command, {})
    return {
        about: tuple(SETTINGS[name] for name in names.split()) for about, names in groups.items()
    }


def option(name: str, **given: Any) -> Callable[[Function], Function]:
    """A setting as an option of its own, ``--name``; ``dpaudit.toml`` may state its default."""
    own = SETTINGS[name]
    usual = {"type": own.type, "default": own.default, "help": own.help}
    return click.option(f"--{name.replace('_', '-')}", **usual | given)


class Command(click.Command):
    """A command with settings and an example.

    ``settings``: the command's name in ``settings.toml`` where it is below a group, or the settings
    themselves; a function takes each as an argument.  ``further``: other names of ``--set`` are
    free parameters of mechanisms, which the function takes as texts ``values``.
    """

    def __init__(
        self,
        *args: Any,
        example: str,
        settings: str | Mapping[str, Sequence[Setting]] = "",
        further: bool = False,
        **given: Any,
    ) -> None:
        super().__init__(*args, **given)
        self.example, self.further = example, further
        if isinstance(settings, str):
            settings = settings_of(settings or str(self.name))
        self.groups = settings
        self.settings = {
            setting.name: setting for settings_of in self.groups.values() for setting in settings_of
        }
        if self.settings or further:
            self.params.append(
                click.Option(
                    ["--set", "set_to"],
                    multiple=True,
                    metavar="NAME=VALUE",
                    help=" or ".join(
                        ["A setting, listed below,"] * bool(self.settings)
                        + ["A free parameter (`dpaudit show TARGET`)"] * further
                    )
                    .replace("or A", "or a")
                    .rstrip(",")
                    + "; several may follow.",
                    shell_complete=self._completed,
                )
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            unread = super().parse_args(ctx, list(_each_with_option(args)))
        except click.NoSuchOption as error:
            self._refuse_moved(error, ctx)
            raise
        if not ctx.resilient_parsing:
            self._read(ctx, ctx.params.pop("set_to", ()))
        return unread

    def _read(self, ctx: click.Context, texts: Sequence[str]) -> None:
        """Add each setting's value to the context's arguments."""
        given, values = self._given(texts)
        if self.further:
            ctx.params["values"] = tuple(values)
        names = PROJECT.keys() & (self.settings.keys() | ctx.params.keys())
        file, stated = settings_above(Path.cwd()) if names else (Path(), {})
        refuse_unknown(stated, PROJECT, f"{file}: [settings]")
        for name, setting in self.settings.items():
            if name in given:
                ctx.params[name] = _value(setting, given[name], f"--set {name}")
            elif setting.project and name in stated:
                ctx.params[name] = _value(setting, stated[name], f"{file}: [settings] {name}")
            else:
                ctx.params[name] = setting.none
        options = {option.name: option for option in self.params if option.name in stated}
        for name, option in options.items():
            if ctx.get_parameter_source(name) is ParameterSource.DEFAULT:
                place = f"{file}: [settings] {name}"
                ctx.params[name] = _value(PROJECT[name], stated[name], place, option.type)
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
                setting = self.settings.get(name)
                raise InvalidParameter(
                    f"--set {text[:LONGEST_NAME]!r}: expected NAME=VALUE, such as "
                    + (
                        f"{setting.name}={setting.value}: {setting.help}"
                        if setting
                        else "epsilon=2"
                    )
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
        ways = {name: f"--set {name}={setting.value}" for name, setting in self.settings.items()}
        ways |= {name: name for option in self.params for name in option.opts}
        for now in (name, *MOVED_OPTIONS.get(name, "").split()):
            if now in ways:
                raise click.UsageError(f"{error.option_name} is no option: write {ways[now]}", ctx)

    def _completed(self, _ctx: Any, _param: Any, begun: str) -> list[CompletionItem]:
        return [
            CompletionItem(f"{name}=", help=setting.help)
            for name, setting in self.settings.items()
            if name.startswith(begun)
        ]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        records = filter(None, (option.get_help_record(ctx) for option in options))
        rows = [(NUMBERS.sub("NUMBER", name), RANGES.sub("", text)) for name, text in records]
        with formatter.section("Options"):
            formatter.write_dl(rows, col_max=OPTION_COLUMNS)
        if self.groups:
            listed = [
                (name, ", ".join(option.shown for option in group))
                for name, group in self.groups.items()
            ]
            with formatter.section("Settings (*: or in dpaudit.toml; --set NAME explains one)"):
                formatter.write_dl(listed)

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


def _value(setting: Setting, given: Any, place: str, kind: Any = None) -> Any:
    """A setting's value: of texts from the line, or of what a file states.

    ``kind``: what reads a text, if an option has another type than the setting.
    """
    several = given if isinstance(given, list) else [given]
    if not setting.several and len(several) != 1:
        raise InvalidParameter(f"{place}: given {len(several)} times; give it one value")
    read = tuple(setting.read(str(text), place, kind) for text in several)
    return read if setting.several else read[0]


# Former options whose name changed, and what they are called now, the first that a command has.
MOVED_OPTIONS = {
    "label": "label_column",
    "unit": "unit_column",
    "column": "score_column",
    "method": "composition",
    "population": "populations",
    "no_unconfirmed": "confirmed",
    "delta": "charge_delta --budget",
    **dict.fromkeys(("epsilon", "rho", "mu", "renyi"), "--budget"),
}
