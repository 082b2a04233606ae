"""A parameter of a conformance row of kl_spider changed, the digest made right"""

import json
import subprocess
import sys
from pathlib import Path


def probe() -> str:
    import dpaudit
    from dpaudit.exact.wire import digest

    path = Path(dpaudit.__file__).parents[1] / "reports" / "kl_spider.json"
    certificate = json.loads(path.read_text())
    rows = certificate["predicate"]["conformance"]
    row = next(row for row in rows if row["parameter"] and row["p_value"] == "1")
    row["parameter"] = "0.123456"
    own = digest(certificate["predicate"])
    certificate["subject"][0]["digest"]["sha256"] = own
    Path("a.json").write_text(json.dumps(certificate))
    command = [sys.executable, "-m", "dpaudit", "verify", "a.json"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    named = "named as not checked" if "conformance parameter" in said.stdout else "nothing said"
    return f"exit {said.returncode}: {named}"
