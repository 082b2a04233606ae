"""`dpaudit audit` with --data or --scores: membership-inference audits of training or of scores."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dpaudit.cli.commands import echo_json, quiet
from dpaudit.cli.guarantee import guarantee_in
from dpaudit.cli.settings import on_line, settings_of
from dpaudit.errors import InvalidParameter

if TYPE_CHECKING:
    from dpaudit.membership.data import Data, FloatArray

_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)
# Options of `dpaudit audit` for targets other than declared mechanisms.
OPTIONS = (
    click.option("--data", type=_PATH, help="Training: a table, or arrays, .npy or .npz."),
    click.option(
        "--step",
        metavar="MODULE:FUNCTION",
        help="Check one optimiser step, of FUNCTION(records, rng).",
    ),
    click.option(
        "--scores",
        nargs=2,
        type=_PATH,
        metavar="IN OUT",
        help="Scores of members and of others, a table each.",
    ),
    click.option(
        "--command", metavar="PROGRAM", help="A program that draws, as in 'node draw.js'."
    ),
    click.option(
        "--reproduce", metavar="NAME", help="Repeat a published audit, such as annamalai-2024."
    ),
    click.option("--claim", help="EPSILON, or EPSILON,DELTA, or rho=, or mu=."),
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Training: folder for certificate and page.",
    ),
)
# All of them, by the names of a function's arguments.
OWN = (
    *("data", "step", "scores", "command", "reproduce", "claim", "out"),
    *(setting.name for some in settings_of("audit").values() for setting in some),
)
_OF_REPRODUCE = ("reproduce", "data", "label_column")  # options that go with --reproduce
_OF_STEP = ("noise_multiplier", "sampling_rate", "sampling")  # settings that go with --step


def membership_options(command: Any) -> Any:
    """Add the options of audits of training, of functions and of given scores."""
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(OPTIONS), command)


def refuse_others(names: Sequence[str], why: str) -> None:
    """Errors: UsageError for an option or setting of these that was given nevertheless."""
    context = click.get_current_context()
    for name in names:
        if on_line(name):
            raise click.UsageError(f"{name}: {why}")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')}: {why}")


def audit_membership(targets: tuple[str, ...], given: Mapping[str, Any], *, as_json: bool) -> None:
    """Run the audit that one of the options above asks for, and exit by its verdict.

    Errors: UsageError for options that do not go together.
    """
    if given["reproduce"]:
        _reproduce(targets, given, as_json=as_json)
    if given["step"]:
        if targets or given["scores"] or given["data"] is None or not given["noise_multiplier"]:
            raise click.UsageError(
                "--step takes no TARGET and needs --data and noise_multiplier, as in dpaudit "
                "audit --step mypackage.train:make --data FILE --set noise_multiplier=1.1"
            )
        _step(given, as_json=as_json)
    refuse_others(_OF_STEP, "only with --step.")
    if given["scores"]:
        if targets or given["data"]:
            raise click.UsageError("--scores excludes targets and --data.")
        _scores(given, as_json=as_json)
    if len(targets) != 1:
        raise click.UsageError("--data needs one TARGET, as in mypackage.train:fit.")
    _training(targets[0], given, as_json=as_json)


def _exit(verdict: Any, *, asked: bool) -> None:
    """Exit by the verdict; without one by 0 if none was ``asked`` for, else as inconclusive."""
    from dpaudit.audit.verdict import EXIT_CODES, Verdict

    if verdict is None and not asked:
        sys.exit(0)
    sys.exit(EXIT_CODES[Verdict(verdict or Verdict.INCONCLUSIVE)])


def claim_of(text: str | None) -> Any:
    """The guarantee in the text of ``--claim``; None for no text.

    Errors: InvalidParameter for text that is not a guarantee.
    """
    return None if text is None else guarantee_in(text, "--claim")


# --- scores --------------------------------------------------------------------------------------


def _scores(given: Mapping[str, Any], *, as_json: bool) -> None:
    """Audit scores from two files."""
    from dpaudit.audit.canaries.commitment import load_labels
    from dpaudit.audit.canaries.scores import audit_scores

    labels = None
    members, others = given["scores"]
    if members.samefile(others):
        raise click.UsageError(
            "--scores: members and non-members are the same file; give two files."
        )
    if given["origin"] != "neither" and given["claim"] is None:
        raise click.UsageError(f"origin={given['origin']} needs --claim.")
    if given["origin"] == "one_run":
        if given["labels"] is None or given["commitment"] is None:
            raise click.UsageError("origin=one_run needs labels and commitment.")
        labels = load_labels(given["labels"], given["commitment"])
    result: Any = audit_scores(
        *_samples(members, others, given["score_column"]),
        origin=given["origin"],
        claim=claim_of(given["claim"]),
        labels=labels,
        confidence=given["confidence"],
        refute_at=given["refute_at"],
        seed=given["seed"] or 0,
    )
    echo_json(result.to_json()) if as_json else click.echo(result.details)
    _exit(getattr(result, "verdict", None), asked=given["claim"] is not None)


def _samples(members: Path, others: Path, column: str | None) -> tuple[FloatArray, FloatArray]:
    """The scores of members and of non-members, from the same column of both files.

    Errors: InvalidParameter if the column names of the two files differ.
    """
    from dpaudit.tabular.columns import read_columns

    tables = read_columns(members), read_columns(others)
    (first, inside), (second, outside) = (table.only(column, "score_column") for table in tables)
    if first != second and all(table.named for table in tables):
        raise InvalidParameter(
            f"--scores: {members} holds numbers in column {first!r}, {others} in {second!r}; give "
            "both columns the same name"
        )
    return inside, outside


# --- published audits ----------------------------------------------------------------------------


def _reproduce(targets: tuple[str, ...], given: Mapping[str, Any], *, as_json: bool) -> None:
    from dpaudit.membership.papers import reproduce

    refuse_others(
        [name for name in ("trials", "method", *OWN) if name not in _OF_REPRODUCE],
        "--reproduce takes --data, label_column, --seed, --jobs and --json.",
    )
    if targets:
        raise click.UsageError(f"--reproduce takes no TARGET: {targets[0]}")
    with quiet():
        reproduction = reproduce(
            given["reproduce"],
            None if given["data"] is None else _read(given),
            seed=1 if given["seed"] is None else given["seed"],
            jobs=given["jobs"],
        )
    echo_json(reproduction.to_json()) if as_json else click.echo(str(reproduction))
    sys.exit(0)


# --- one step ------------------------------------------------------------------------------------


def _step(given: Mapping[str, Any], *, as_json: bool) -> None:
    from dpaudit.membership.step.entry import audit_step
    from dpaudit.storage.roots import attribute_of

    with quiet():
        step_audit = audit_step(
            attribute_of(given["step"])[1],
            _read(given),
            noise_multiplier=given["noise_multiplier"],
            sampling_rate=given["sampling_rate"],
            sampling=given["sampling"] or "poisson",
            seed=given["seed"] or 0,
        )
    echo_json(step_audit.to_json()) if as_json else click.echo(str(step_audit))
    _exit(step_audit.verdict, asked=True)


# --- training ------------------------------------------------------------------------------------


def _training(target: str, given: Mapping[str, Any], *, as_json: bool) -> None:
    """Audit a training function on records."""
    from dpaudit.cli.terminal import progress
    from dpaudit.membership.certificate import save, statement
    from dpaudit.membership.entry import NONE, POPULATION, audit_training
    from dpaudit.membership.targets import named_target
    from dpaudit.report.membership import render
    from dpaudit.report.verifier import beside
    from dpaudit.storage.files import writable, write_made

    if given["out"] is not None:
        writable(given["out"], ("membership.json", "membership.html"))
    with quiet():
        trained = named_target(target)
        claim, population = claim_of(given["claim"]), given["population"]
        if population is None and (claim is None or given["canaries"] == NONE):
            population = POPULATION
        passed = ("models", "canaries", "background", "references", "released", "folder", "seed")
        with progress() as report:
            result = audit_training(
                trained,
                _read(given),
                claim=claim,
                population=population,
                attacks=given["attack"],
                confidence=given["confidence"],
                refute_at=given["refute_at"],
                jobs=given["jobs"],
                progress=lambda done, total: report(target, done, total),
                **{name: given[name] for name in passed},
            )
    certificate = statement(result)
    if given["out"] is not None:
        save(certificate, given["out"] / "membership.json")
        page = render(certificate, verifier=beside(given["out"]))
        write_made({given["out"] / "membership.html": page.encode()})
    echo_json(certificate["predicate"]) if as_json else click.echo(str(result))
    _exit(result.verdict, asked=given["claim"] is not None or result.bound is None)


def _read(given: Mapping[str, Any]) -> Data:
    """The records in the file of --data.  Errors: InvalidParameter for a file without records."""
    import numpy as np

    from dpaudit.curator.files import read_parts
    from dpaudit.membership.data import Data
    from dpaudit.tabular.columns import ARRAYS, array_columns, read_columns

    path, label, unit = given["data"], given["label_column"], given["unit_column"]
    if path.suffix.lower() in ARRAYS and label is None and unit is None:
        parts = read_parts(path)
        beside = array_columns(str(path), {k: v for k, v in parts.items() if k != "features"})
        return Data(
            parts["features"],
            beside.classes("labels") if "labels" in parts else None,
            np.array(beside.texts("units", unit=True)) if "units" in parts else None,
        )
    return Data.of_columns(read_columns(path), label, unit)
