"""The certificate before: that since which a page says what changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from dpaudit.certificate.certificate import PREDICATE, Json
from dpaudit.check.file import is_empirical, parsed, read
from dpaudit.check.process import verify_files
from dpaudit.errors import CertificateRejected
from dpaudit.report.summary import data_sets_of
from dpaudit.storage.evidence import Evidence


class Opened:
    """The files of certificates that one command has opened: each is opened and verified once."""

    def __init__(self) -> None:
        self._files: dict[Path, Evidence] = {}
        self._verified: dict[str, bool] = {}

    def read(self, path: Path) -> Evidence:
        """A file as it was when the command first opened it, under this name or another."""
        for name in _names(path):
            if name in self._files:
                evidence = self._files[name]
                return evidence if evidence.path == path else replace(evidence, path=path)
        return self.hold(read(path))

    def hold(self, file: Evidence, *, verified: bool | None = None) -> Evidence:
        """Keep a file that was read or written elsewhere; ``verified``: None if nobody checked."""
        self._files.update(dict.fromkeys(_names(file.path), file))
        if verified is not None:
            self._verified[file.sha256] = verified
        return file

    def verifies(self, file: Evidence) -> bool:
        """Whether a file verifies, by the checker's process."""
        if file.sha256 not in self._verified:
            self._verified[file.sha256] = next(verify_files([file])).row["verified"]
        return self._verified[file.sha256]


def _names(path: Path) -> tuple[Path, Path]:
    return path.absolute(), path.resolve()


def previous_of(
    certificate: Json,
    given: Sequence[Json] = (),
    folders: Iterable[Path] = (),
    opened: Opened | None = None,
) -> Json | None:
    """The certificate issued last before this one, of the same mechanism.

    Else that of the last table released from the same data, else of the last whose name differs in
    numbers alone: the names of releases and of their data have years.
    ``given`` have been verified; those in ``folders`` are verified here, from the likeliest on, and
    one that does not verify is passed over.  ``opened``: what the command opens no second time.
    """
    opened = opened or Opened()
    if is_empirical(certificate):
        return None
    candidates: list[tuple[tuple[int, str], int, Json, Evidence | None]] = []
    for other, file in (*((earlier, None) for earlier in given), *_certificates(folders, opened)):
        if not is_empirical(other) and (rank := _rank(certificate, other)):
            candidates.append((rank, -len(candidates), other, file))
    for _, _, other, file in sorted(candidates, reverse=True, key=lambda row: row[:2]):
        if file is None or opened.verifies(file):
            return other
    return None


def _rank(certificate: Json, other: Json) -> tuple[int, str] | None:
    """How near of kin an earlier certificate is, then when it was issued; None: it is not earlier.

    Files that were not verified yet may lack whatever is asked for here: they are no kin.
    """
    try:
        inner, earlier = certificate["predicate"], other["predicate"]
        if not earlier["issued"] < inner["issued"]:
            return None
        if earlier["mechanism"]["name"] == inner["mechanism"]["name"]:
            return 3, earlier["issued"]
        if all((content["run"] or {}).get("published") for content in (inner, earlier)):
            if () != data_sets_of(inner) == data_sets_of(earlier):
                return 2, earlier["issued"]
            names = (
                re.sub(r"\d+", "", content["mechanism"]["name"]) for content in (inner, earlier)
            )
            if len(set(names)) == 1:
                return 1, earlier["issued"]
    except (KeyError, TypeError, AttributeError):
        pass
    return None


def _certificates(folders: Iterable[Path], opened: Opened) -> Iterable[tuple[Json, Evidence]]:
    """The files that say they are certificates, in the folders themselves."""
    for folder in dict.fromkeys(folders):
        for path in sorted(folder.glob("*.json")):
            file = opened.read(path)
            try:
                content = parsed(file)
            except CertificateRejected:
                continue
            if content.get("predicateType") == PREDICATE:
                yield content, file
