"""The checker's answer to a page in a browser: a file's row, and what to compare its files with."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpaudit.check import SECONDS
from dpaudit.check.file import LARGEST_FILE, parsed
from dpaudit.check.rows import row_of
from dpaudit.exact.wire import canonical_bytes
from dpaudit.storage.evidence import Evidence


def answer(name: str, content: bytes, times: int = 1, advice: str = "") -> str:
    """JSON of the row that ``dpaudit verify`` makes of these bytes, and of what the file names.

    ``payload``: what a signature is over, in base64.  ``files``: names and SHA-256 of the
    implementation and of the output.  ``figure``: what is drawn of it.  The page ends a check that
    takes too long, so that the work alone is limited here, as natively or to so many ``times``; a
    refusal ends in ``advice``.
    """
    fault = f"{name}: larger than {LARGEST_FILE} bytes, as no certificate is"
    file = Evidence(Path(name), content, fault=fault if len(content) > LARGEST_FILE else "")
    row = row_of(file, SECONDS * times, clock=math.inf, advice=advice)
    stated: dict[str, Any] = {"row": row, "payload": "", "files": [], "claims": []}
    if row["verified"]:
        certificate = parsed(file)
        predicate = certificate["predicate"]
        run = predicate.get("run") or {}
        outputs = [run["output"]] if run.get("output") else []
        stated["payload"] = base64.b64encode(canonical_bytes(certificate)).decode()
        stated["files"] = [
            {"name": file["name"], "sha256": file["digest"]["sha256"]}
            for file in (*certificate["subject"][1:], *outputs)
        ]
        stated["claims"] = [claim["stated_text"] for claim in predicate.get("claims", ())]
        stated["figure"] = _figure(predicate)
    return json.dumps(stated)


def _figure(predicate: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Points (epsilon, delta): accounted, claimed, and the band of each likelihood audit."""
    curves = predicate.get("derivation", {}).get("upper_bounds", ())
    stated = [claim["stated"] for claim in predicate.get("claims", ())]
    return {
        "accounted": _points(
            *(curve["curve"] for curve in curves if curve["measure"] == "profile")
        ),
        "claimed": _points(
            [
                (bound["epsilon"], bound["delta"])
                for bound in stated
                if bound["measure"] == "approx_dp"
            ]
        ),
        "bands": [
            _points([(p["epsilon"], p["delta"]) for p in row.get("band", ())])
            for row in predicate.get("likelihoods", ())
        ],
    }


def _points(*lines: Iterable[Sequence[str]]) -> list[tuple[float, float]]:
    """The finite points of curves; a delta of 0 has no place on the page's logarithmic axis."""
    points = [(float(x), float(y)) for line in lines for x, y in line]
    return sorted({(x, y) for x, y in points if math.isfinite(x) and 0 < y <= 1})
