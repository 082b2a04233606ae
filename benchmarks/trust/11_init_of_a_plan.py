"""`ledger init --plan` of a plan that names its ledger, and what `plan` says then"""

import subprocess
import sys
from pathlib import Path

PLAN = """title = "People"
adjacency = "add_remove"
ledger = "kept/ours.sqlite"
[budget]
epsilon = 1
delta = 1e-6
[table]
name = "people"
unit = "person"
entity = "person"
rows = 1
[table.columns]
sex = { kind = "category", keys = ["f", "m"] }
[[items]]
name = "by sex"
query = "count"
by = "sex"
"""


def probe() -> str:
    Path("plan.toml").write_text(PLAN)
    run(*"ledger init people --plan plan.toml --epsilon 3 --delta 1e-5".split())
    said = run("plan", "plan.toml")
    if "ledger init" in said:
        return "it advises `dpaudit ledger init` again"
    return next((line for line in said.splitlines() if "left after" in line), said[-90:])


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "dpaudit", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return ran.stdout + ran.stderr
