"""`dpaudit audit` of training and of scores: membership-inference audits from the command line."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpaudit.cli.commands import echo_json, quiet
from dpaudit.errors import InvalidParameter

if TYPE_CHECKING:
    from dpaudit.membership.data import Data

Command = TypeVar("Command", bound=Callable[..., Any])
_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)
OWN = (
    "data", "scores", "attack", "models", "claim", "released", "population", "label", "unit",
    "folder", "out", "origin", "labels", "commitment", "confidence", "refute_at",
)  # fmt: skip


def membership_options(command: Command) -> Command:
    """Options of `dpaudit audit` that make it an audit of training or of given scores."""
    options = (
        click.option("--data", type=_PATH, help="Training: .npz, .csv or .parquet."),
        click.option(
            "--scores",
            nargs=2,
            type=_PATH,
            metavar="IN OUT",
            help="Scores of members and of non-members, one a line; no TARGET.",
        ),
        click.option(
            "--attack",
            help="Of training: names, as in lira,rmia, all that apply by default. Of a function: "
            "bits, or MODULE:FUNCTION, a score of its outputs.",
        ),
        click.option("--models", type=click.IntRange(4), default=64, show_default=True),
        click.option("--claim", help="EPSILON, or EPSILON,DELTA, or rho=RHO, or mu=MU."),
        click.option("--released", help="labels, scores, logits, parameters or iterates."),
        click.option(
            "--population",
            type=click.FloatRange(0, 0.9),
            default=0.2,
            show_default=True,
            help="Share of the records kept out of all training, for attacks that need it.",
        ),
        click.option("--label", help="Column of a table that holds the label."),
        click.option("--unit", help="Column of a table that holds the unit (user)."),
        click.option(
            "--folder",
            type=click.Path(file_okay=False, path_type=Path),
            help="Keeps coins and finished trainings; the same command goes on where it stopped.",
        ),
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            help="Folder for membership.json and membership.html.",
        ),
        click.option(
            "--origin",
            type=click.Choice(["independent_runs", "one_run", "neither"]),
            default="neither",
            show_default=True,
            help="How the scores came about; neither gives an estimate and no bound.",
        ),
        click.option("--labels", type=_PATH, help="one_run: the labels that commit() drew."),
        click.option("--commitment", type=_PATH, help="one_run: the commitment to them."),
        click.option("--confidence", default="0.95", show_default=True),
        click.option("--refute-at", default="1e-4", show_default=True),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


def audit_membership(targets: tuple[str, ...], given: Mapping[str, Any], *, as_json: bool) -> None:
    """Run the audit that ``--data`` or ``--scores`` asks for, and exit by its verdict.

    Errors: UsageError for options that do not go together.
    """
    if given["scores"]:
        if targets or given["data"]:
            raise click.UsageError("--scores excludes targets and --data.")
        _scores(given, as_json=as_json)
    if len(targets) != 1:
        raise click.UsageError("--data needs one TARGET, as in mypackage.train:fit.")
    _training(targets[0], given, as_json=as_json)


def _exit(verdict: Any, *, asked: bool) -> None:
    """By the verdict; without one, 0 only if none was ``asked`` for."""
    from dpaudit.audit.verdict import EXIT_CODES, Verdict

    if verdict is None and not asked:
        sys.exit(0)
    sys.exit(EXIT_CODES[Verdict(verdict or Verdict.INCONCLUSIVE)])


def claim_of(text: str | None) -> Any:
    """The guarantee that ``--claim`` spells; None for none.

    Errors: InvalidParameter for text that spells none.
    """
    from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP

    if text is None:
        return None
    kinds: dict[str, Any] = {"rho": ZCDP, "mu": GDP}
    measure, named, value = text.partition("=")
    numbers = text.split(",")
    if named and measure in kinds:
        return kinds[measure](value)
    if named or len(numbers) > 2:
        raise InvalidParameter(
            f"claim = {text[:80]!r}: expected EPSILON or EPSILON,DELTA, as in 8,1e-5, or rho=RHO "
            "or mu=MU"
        )
    return PureDP(numbers[0]) if len(numbers) == 1 else ApproxDP(*numbers)


# --- scores --------------------------------------------------------------------------------------


def _scores(given: Mapping[str, Any], *, as_json: bool) -> None:
    from dpaudit.audit.canaries.commitment import load_labels
    from dpaudit.audit.canaries.scores import audit_scores

    labels = None
    members, others = given["scores"]
    if members.samefile(others):
        raise click.UsageError("--scores: one file for both; members are no non-members.")
    if given["origin"] != "neither" and given["claim"] is None:
        raise click.UsageError(f"--origin {given['origin']} needs --claim.")
    if given["origin"] == "one_run":
        if given["labels"] is None or given["commitment"] is None:
            raise click.UsageError("--origin one_run needs --labels and --commitment.")
        labels = load_labels(given["labels"], given["commitment"])
    found: Any = audit_scores(
        _numbers(members),
        _numbers(others),
        origin=given["origin"],
        claim=claim_of(given["claim"]),
        labels=labels,
        confidence=given["confidence"],
        refute_at=given["refute_at"],
        seed=given["seed"] or 0,
    )
    echo_json(found.to_json()) if as_json else click.echo(found.details)
    _exit(getattr(found, "verdict", None), asked=given["claim"] is not None)


def _numbers(path: Path) -> Any:
    """The last column of a text file of numbers, one line a score; a header is passed over."""
    import numpy as np

    rows = [line.split(",")[-1].strip() for line in path.read_text("utf-8").splitlines()]
    rows = [row for row in rows if row]
    try:
        start = 0 if rows and _is_number(rows[0]) else 1
        return np.array([float(row) for row in rows[start:]])
    except ValueError:
        raise InvalidParameter(f"{path}: expected one number a line") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- training ------------------------------------------------------------------------------------


def _training(target: str, given: Mapping[str, Any], *, as_json: bool) -> None:
    from dpaudit.cli.terminal import progress
    from dpaudit.membership.certificate import save, statement
    from dpaudit.membership.study import Study
    from dpaudit.membership.targets import named_target
    from dpaudit.report.membership import render
    from dpaudit.storage.files import writable, write_atomically

    if given["out"] is not None:
        writable(given["out"])
    with quiet():
        trained = named_target(target)
        audited, population = _split(_read(given), given["population"], given["seed"])
        study = Study(
            trained,
            audited,
            given["models"],
            population=population,
            released=given["released"],
            folder=given["folder"],
            seed=given["seed"],
        )
        with progress() as report:
            found = study.run(
                claim=claim_of(given["claim"]),
                attacks=given["attack"],
                confidence=given["confidence"],
                refute_at=given["refute_at"],
                jobs=given["jobs"],
                progress=lambda done, total: report(target, done, total),
            )
    certificate = statement(found)
    if given["out"] is not None:
        save(certificate, given["out"] / "membership.json")
        write_atomically(given["out"] / "membership.html", render(certificate).encode())
    echo_json(certificate["predicate"]) if as_json else click.echo(str(found))
    _exit(found.verdict, asked=given["claim"] is not None or found.bound is None)


def _read(given: Mapping[str, Any]) -> Data:
    """Errors: InvalidParameter for a file that holds no records."""
    import numpy as np

    from dpaudit.curator.files import columns_of, numbers_of
    from dpaudit.membership.data import Data

    path: Path = given["data"]
    label, unit = given["label"], given["unit"]
    if path.suffix == ".npz":
        if label is not None or unit is not None:
            raise InvalidParameter(
                f"{path}: its arrays are features, labels and units; --label and --unit name "
                "columns of a .csv or .parquet file"
            )
        return _archive(path)
    if path.suffix not in (".csv", ".parquet"):
        raise InvalidParameter(f"{path}: expected .npz, or .csv or .parquet, a header and rows")
    columns = columns_of(path, label=label, unit=unit)
    kept = [name for name in columns if name not in (label, unit)]
    features = np.column_stack([numbers_of(path, name, columns[name]) for name in kept])
    labels = None if label is None else _labels(columns[label])
    return Data(features, labels, None if unit is None else np.asarray(columns[unit], dtype=str))


def _labels(column: Any) -> Any:
    """Numbers where all are, whole ones where all are whole, as classes are; else as they stand."""
    import numpy as np

    try:
        numbers = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return np.asarray(column)
    whole = bool(np.isfinite(numbers).all() and (numbers == np.round(numbers)).all())
    return numbers.astype(np.int64) if whole else numbers


def _archive(path: Path) -> Data:
    """Arrays ``features`` (or ``X``), ``labels`` (or ``y``) and ``units`` of a .npz file."""
    import zipfile

    import numpy as np

    from dpaudit.membership.data import Data

    names = {"features": ("features", "X"), "labels": ("labels", "y"), "units": ("units",)}
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = {
                part: next((arrays[name] for name in known if name in arrays), None)
                for part, known in names.items()
            }
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile):
        found = None
    if found is None:
        raise InvalidParameter(f"{path}: cannot be read as arrays of numbers, a .npz file")
    if found["features"] is None:
        raise InvalidParameter(f"{path}: no array 'features' (or 'X'); found none to train on")
    return Data(found["features"], found["labels"], found["units"])


def _split(data: Data, share: float, seed: int | None) -> tuple[Data, Data | None]:
    """Records under audit, and a population of whole units kept out of all training.

    A record of the population that is also under audit may be in training, and is left out.
    """
    import numpy as np

    from dpaudit.membership.data import shared, without_duplicates

    kept_out = int(data.unit_count * share)
    if kept_out == 0:
        return data, None
    stream = None if seed is None else [seed, 0x73706C69]  # not that of the coins
    order = np.random.default_rng(stream).permutation(data.unit_count)
    outside = np.isin(data.unit_of, order[:kept_out])
    audited, population = data.take(~outside), data.take(outside)
    if shared(population, audited) == len(population):
        return audited, None
    return audited, without_duplicates(population, audited)
