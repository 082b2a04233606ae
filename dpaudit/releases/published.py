"""Published files against the certificate of their run: by digest, and of tables by value.

A certificate names the output's file by its SHA-256.  A release's output is its JSON, from which
its CSV, the metadata of that, and its Parquet are made; each of their cells is compared with the
value in the JSON.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from dpaudit.certificate.errata import errata_of
from dpaudit.releases.publish import (
    CERTIFICATE,
    files_of,
    metadata_file,
    shown_of,
    synthetic_file,
    targets_of,
)
from dpaudit.releases.synthetic import NAME
from dpaudit.storage.evidence import strict_json

Table: TypeAlias = list[dict[str, Any]]
MOST_SHOWN = 20  # differing cells of one file that are named; their number is said too
LONGEST = 60  # characters of a cell in a message
INDEX = "index.html"  # of certificates, beside them


def differences(certificate: Mapping[str, Any], file: Path, folder: Path) -> list[str]:
    """The files of a folder that are not as the certificate says, one line each.

    ``file``: the certificate's own.  Changed, missing and additional files are named, and of a
    release's tables each changed cell by its file, row and column, with both values.
    """
    run = certificate["predicate"]["run"]
    output = None if run is None else run["output"]
    if output is None:
        return ["nothing was published with it: the certificate names no output"]
    name = output["name"]
    if Path(name).name != name:
        return [f"{name[:LONGEST]!r}: the certificate names no plain file"]
    targets = {"output": folder / name}
    certified, tables = _certified(targets["output"], output["digest"]["sha256"]), []
    if _is_release(certificate):
        kinds = targets_of(folder, Path(name).stem)
        targets = {kind: kinds[kind] for kind in ("json", "csv", "parquet")}
        targets |= _others(targets)
        if targets["json"].is_file():
            tables = list(_changed_cells(targets, certified=certified))
            tables += _misstated(run.get("published"), targets["json"])
    missing = [f"{path.name}: missing" for path in targets.values() if not path.is_file()]
    changed = [] if certified else [f"{name}: not the certified file (another SHA-256)"]
    if missing and missing[0].startswith(f"{name}:"):
        changed = []
    others = _additional(folder, set(targets.values()), file)
    return [*missing, *changed, *tables, *others, *_told_beside(folder, file)]


def names_of(certificate: Mapping[str, Any], folder: Path) -> list[str]:
    """The files of an output: the one that the certificate names, and those made from it."""
    name = str(certificate["predicate"]["run"]["output"]["name"])
    if not _is_release(certificate):
        return [name]
    kinds = targets_of(folder, Path(name).stem)
    targets = {kind: kinds[kind] for kind in ("json", "csv", "parquet")}
    return [path.name for path in (targets | _others(targets)).values()]


def _others(targets: Mapping[str, Path]) -> dict[str, Path]:
    """The files of a release that not every one has, by what its JSON holds."""
    others = {NAME: synthetic_file(targets["json"]), "rules": metadata_file(targets["csv"])}
    try:
        content = strict_json(targets["json"].read_bytes())
        return {kind: path for kind, path in others.items() if kind in content}
    except (OSError, ValueError, TypeError):  # of which a line of its own tells
        return {kind: path for kind, path in others.items() if path.is_file()}


def _certified(path: Path, digest: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == digest


def _is_release(certificate: Mapping[str, Any]) -> bool:
    """Whether a certificate is of a release plan."""
    files = certificate["predicate"]["mechanism"]["implementation"]
    return [file["name"] for file in files] == ["plan"]


def _changed_cells(targets: Mapping[str, Path], *, certified: bool) -> Iterator[str]:
    """The cells of the CSV and the Parquet that differ from the JSON, one line each."""
    source = targets["json"].name
    try:
        remade = files_of(strict_json(targets["json"].read_bytes()), {**targets})
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        yield f"{source}: not the JSON of a release ({type(error).__name__})"
        return
    readers = {"csv": _csv, "parquet": _parquet, NAME: _csv, "rules": _json}
    for kind, read in ((kind, readers[kind]) for kind in targets if kind in readers):
        path = targets[kind]
        if not path.is_file():
            continue
        try:
            table = read(path.read_bytes())
        except (ValueError, TypeError, OSError, csv.Error) as error:
            yield f"{path.name}: not a table ({type(error).__name__})"
            continue
        expected = read(remade[path])
        cells = list(_cells(table, expected))
        owner = "certified" if certified else f"in {source}"
        for place, own, wanted in cells[:MOST_SHOWN]:
            yield f"{path.name}, {place}: {_shown(own)} is published, {_shown(wanted)} {owner}"
        if len(cells) > MOST_SHOWN:
            yield f"{path.name}: {len(cells) - MOST_SHOWN} more cells differ"
        if len(table) != len(expected):
            yield f"{path.name}: {len(table)} rows, {len(expected)} {owner}"


def _misstated(stated: Mapping[str, Any] | None, file: Path) -> Iterator[str]:
    """The numbers on the certificate that are not those of the release's JSON, one line each."""
    try:
        remade = shown_of(strict_json(file.read_bytes())["values"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return  # that it is no release's JSON is said of the file itself
    if stated is None:
        return
    if stated["count"] != remade["count"] or len(stated["rows"]) != len(remade["rows"]):
        yield f"the certificate counts {stated['count']} numbers, {file.name} {remade['count']}"
    for place, own, other in _cells(stated["rows"], remade["rows"]):
        yield f"the certificate's {place}: {_shown(own)}, and {_shown(other)} in {file.name}"


def _cells(table: Table, expected: Table) -> Iterator[tuple[str, Any, Any]]:
    for number, (row, other) in enumerate(zip(table, expected, strict=False), start=1):
        texts = (other.get(name) for name in ("item", "keys", "statistic"))
        label = ", ".join(str(value) for value in texts if value) or "record"
        for column in dict.fromkeys([*other, *row]):
            if row.get(column) != other.get(column):
                place = f"row {number} ({label[:LONGEST]}), column {column}"
                yield place, row.get(column), other.get(column)


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(str(value)[:LONGEST])


def _csv(content: bytes) -> Table:
    rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline=""), strict=True))
    longest = max(map(len, rows), default=0)
    names = _distinct((rows[0] if rows else []), longest)
    return [dict(zip(names, row, strict=False)) for row in rows[1:]]


def _parquet(content: bytes) -> Table:
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    names = _distinct(table.column_names, table.num_columns)
    rows: Table = table.rename_columns(names).to_pylist()
    return rows


def _json(content: bytes) -> Table:
    return [dict(strict_json(content))]


def _distinct(names: Sequence[str], count: int) -> list[str]:
    """Names of ``count`` columns; one that is missing or repeated is named by its place."""
    padded = [*names, *[""] * (count - len(names))]
    return [
        name if name and name not in padded[:place] else f"column {place + 1} {name}".strip()
        for place, name in enumerate(padded)
    ]


def _additional(folder: Path, named: set[Path], certificate: Path) -> list[str]:
    """The files of a folder that are strangers to a certificate.

    A file is known if the certificate names it.  So are the index and files that bear the
    certificate's name, beside it and where a release writes its own (this one may be a copy).
    """
    beside = certificate.resolve().parent, (folder / CERTIFICATE).resolve()
    stem = f"{certificate.name.removesuffix('.json')}."
    return [
        f"{path.relative_to(folder)}: not named by the certificate"
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
        and path not in named
        and not (
            path.resolve().parent in beside and (path.name == INDEX or path.name.startswith(stem))
        )
    ]


def _told_beside(folder: Path, certificate: Path) -> Iterator[str]:
    """Where a certificate is a copy: the published one, if it is another, and its errata."""
    own = folder / CERTIFICATE / certificate.name
    if own.resolve() == certificate.resolve():
        return
    if own.is_file() and own.read_bytes() != certificate.read_bytes():
        yield f"{own.relative_to(folder)}: another certificate than the one verified"
    for text in errata_of(own):
        yield f"an erratum stands beside the published certificate: {text}"
