"""`ledger init --plan` of a plan that names its ledger, and what `plan` says then"""

from pathlib import Path

from shared import SETTINGS, command

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
    cap = ["--budget", "3,1e-5"] if SETTINGS else ["--epsilon", "3", "--delta", "1e-5"]
    command("ledger", "init", "people", "--plan", "plan.toml", *cap)
    planned = command("release" if SETTINGS else "plan", "plan.toml", timeout=60)
    said = planned.stdout + planned.stderr
    if "ledger init" in said:
        return "it advises `dpaudit ledger init` again"
    return next((line for line in said.splitlines() if "left after" in line), said[-90:])
