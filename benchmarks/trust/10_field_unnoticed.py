"""A parameter of a conformance row of kl_spider changed, the digest made right"""

import json
from pathlib import Path

from shared import certificate, command


def probe() -> str:
    from dpaudit.exact.wire import digest

    changed = json.loads(certificate("kl_spider").read_text())
    rows = changed["predicate"]["conformance"]
    row = next(row for row in rows if row["parameter"] and row["p_value"] == "1")
    row["parameter"] = "0.123456"
    changed["subject"][0]["digest"]["sha256"] = digest(changed["predicate"])
    Path("a.json").write_text(json.dumps(changed))
    said = command("verify", "a.json")
    named = "named as not checked" if "conformance parameter" in said.stdout else "nothing said"
    return f"exit {said.returncode}: {named}"
