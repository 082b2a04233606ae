"""A certificate issued on 45 November, its digest right, is verified beside another one."""

import json
from pathlib import Path

from shared import SETTINGS, certificate, command

from dpaudit.exact.wire import digest


def probe() -> str:
    """The exit codes of `verify` and `budget`."""
    statement = json.loads(certificate("dp_gd").read_text())
    statement["predicate"]["issued"] = "2026-11-45T00:00:00Z"
    statement["subject"][0]["digest"]["sha256"] = digest(statement["predicate"])
    Path("a.json").write_text(json.dumps(statement))
    verified, budget = (
        command("verify", "a.json"),
        command(*(["ledger", "total"] if SETTINGS else ["budget"]), "a.json"),
    )
    return f"verify exit {verified.returncode}, budget exit {budget.returncode}"
