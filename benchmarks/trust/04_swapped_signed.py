"""A certificate replaced while its checker runs: which one `sign` signs"""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

# Replaced when the checker's process has written what it found.
RUN = """
import os, sys
from dpaudit.check import process
rows = process._rows
def after(*arguments):
    for row in rows(*arguments):
        os.replace("lie.json", "a.json")
        yield row
process._rows = after
from dpaudit.cli.main import main
main(["sign", "a.json", "--new-key", "k.pem"], standalone_mode=False)
"""


def probe() -> str:
    import dpaudit

    kept = Path(dpaudit.__file__).parents[1] / "reports" / "dp_gd.json"
    shutil.copy(kept, "a.json")
    lie = json.loads(kept.read_text())
    lie["predicate"]["claims"][0]["verdict"] = "certified"
    Path("lie.json").write_text(json.dumps(lie))
    subprocess.run([sys.executable, "-c", RUN], capture_output=True, check=False)
    if not Path("a.json.dsse").exists():
        return "nothing signed"
    payload = json.loads(base64.b64decode(json.loads(Path("a.json.dsse").read_text())["payload"]))
    return "the forgery is signed" if payload == lie else "signed: the bytes that were checked"
