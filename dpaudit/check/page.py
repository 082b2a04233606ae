"""The checker's answer to a page in a browser: a file's row, and what to compare its files with."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

from dpaudit.check import SECONDS
from dpaudit.check.file import LARGEST_FILE, parsed
from dpaudit.check.rows import row_of
from dpaudit.exact.wire import canonical_bytes
from dpaudit.storage.evidence import Evidence


def answer(name: str, content: bytes) -> str:
    """JSON of the row that ``dpaudit verify`` makes of these bytes, and of what the file names.

    ``payload``: what a signature is over, in base64.  ``files``: names and SHA-256 of the
    implementation and of the output.  The page ends a check that takes too long, so that the work
    alone is limited here, as natively.
    """
    fault = f"{name}: larger than {LARGEST_FILE} bytes, as no certificate is"
    file = Evidence(Path(name), content, fault=fault if len(content) > LARGEST_FILE else "")
    row = row_of(file, SECONDS, clock=math.inf)
    stated: dict[str, Any] = {"row": row, "payload": "", "files": [], "claims": []}
    if row["verified"]:
        certificate = parsed(file)
        predicate = certificate["predicate"]
        run = predicate.get("run") or {}
        outputs = [run["output"]] if run.get("output") else []
        stated["payload"] = base64.b64encode(canonical_bytes(certificate)).decode()
        stated["files"] = [
            {"name": one["name"], "sha256": one["digest"]["sha256"]}
            for one in (*certificate["subject"][1:], *outputs)
        ]
        stated["claims"] = [claim["stated_text"] for claim in predicate.get("claims", ())]
    return json.dumps(stated)
