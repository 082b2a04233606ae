"""A certificate replaced by another after its check, before `report` shows it"""

import shutil
from pathlib import Path

from shared import certificate, swapped


def probe() -> str:
    kept = certificate("dp_gd")
    shutil.copy(kept, "a.json")
    Path("lie.json").write_text(kept.read_text().replace("Proposition 4.1", "forged"))
    swapped("report", "a.json", "--format", "csv", "--out", "pages")
    shown = Path("pages", "report.csv").read_text()
    return "the forgery is shown" if "forged" in shown else "shown: the bytes that were checked"
