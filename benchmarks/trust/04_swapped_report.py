"""A certificate replaced by another after its check, before `report` shows it"""

import shutil
import subprocess
import sys
from pathlib import Path

# Replaced when the checker's process has written what it found.
RUN = """
import os
from dpaudit.check import process
rows = process._rows
def after(*arguments):
    for row in rows(*arguments):
        os.replace("lie.json", "a.json")
        yield row
process._rows = after
from dpaudit.cli.main import main
main(["report", "a.json", "--format", "csv", "--out", "pages"], standalone_mode=False)
"""


def probe() -> str:
    import dpaudit

    kept = Path(dpaudit.__file__).parents[1] / "reports" / "dp_gd.json"
    shutil.copy(kept, "a.json")
    Path("lie.json").write_text(kept.read_text().replace("Proposition 4.1", "forged"))
    subprocess.run([sys.executable, "-c", RUN], capture_output=True, check=False)
    shown = Path("pages", "report.csv").read_text()
    return "the forgery is shown" if "forged" in shown else "shown: the bytes that were checked"
