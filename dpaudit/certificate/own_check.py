"""The check of a certificate of ours before it is written or data are touched."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from dpaudit.certificate.certificate import Json, file_bytes
from dpaudit.check import check
from dpaudit.errors import CertificateRejected, InternalError
from dpaudit.storage.files import write_atomically

ANOTHER_SEED = "To go on, certify with another --seed, or with the same one after an upgrade"
DRAWN_ALREADY = (
    "What was drawn stays as it is: do not draw it again, which would spend its privacy twice"
)


def check_own(certificate: Json, store: Path | None = None) -> None:
    """Check a certificate that was just made; one that fails is kept apart and not published.

    ``store``: where the audits' finished batches are, which stay there.
    Errors: InternalError, with where the certificate is kept and how to go on.
    """
    try:
        check(certificate, math.inf)
    except CertificateRejected as error:
        predicate = certificate["predicate"]
        name, drawn = predicate["mechanism"]["name"], (predicate["run"] or {}).get("output")
        places = [_kept(name, certificate)]
        if store is not None and store.exists():
            places.append(f"the finished batches of its audits in {store}")
        if drawn:
            places.append(f"the output that was drawn, {drawn['name']}, where it was written")
        go_on = DRAWN_ALREADY if drawn else ANOTHER_SEED
        raise InternalError(
            f"{name}: its certificate fails dpaudit's own check ({error}). This is a fault of "
            "dpaudit, not of your program or data; no certificate was published. Kept: "
            f"{'; '.join(places)}. {go_on}; please report the certificate's file, which holds no "
            "record"
        ) from error


def _kept(name: str, certificate: Json) -> str:
    try:
        folder = Path(tempfile.mkdtemp(prefix="dpaudit-unpublished-"))
        path = folder / f"{name}.json"
        write_atomically(path, file_bytes(certificate))
    except OSError as error:
        return f"not the certificate, which could be written nowhere ({error.strerror})"
    return f"the unpublished certificate in {path}"
