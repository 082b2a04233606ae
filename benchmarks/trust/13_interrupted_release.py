"""A release whose disk fails after its first file, run again"""

import errno
import warnings
from pathlib import Path

PLAN = """
title = "People"
adjacency = "add_remove"
[budget]
epsilon = 1
[table]
name = "people"
unit = "person"
entity = "person"
rows = 1
[table.columns]
age = { kind = "number", lower = 0, upper = 100 }
[[items]]
name = "persons"
query = "count"
"""


def probe() -> str:
    import dpaudit.releases.publish as publishing
    from dpaudit.releases.plan import load_plan

    warnings.simplefilter("ignore")
    Path("plan.toml").write_text(PLAN)
    Path("people.csv").write_text("person,age\n1,20\n2,30\n")
    nowhere = getattr(publishing, "NO_LEDGER", None)  # earlier revisions have no such name
    plan, real, names = load_plan(Path("plan.toml")).plan(), Path.replace, []

    def failing(path: Path, target: Path) -> Path:
        names.append(target)
        if len(names) == 2:
            raise OSError(errno.EIO, "Input/output error")
        return real(path, target)

    def run() -> str:
        try:
            publishing.publish(plan, "people.csv", Path("out"), ledger=nowhere, trials=0)
        except Exception as error:
            return type(error).__name__
        return "finished"

    Path.replace = failing  # type: ignore[method-assign]
    run()
    Path.replace = real  # type: ignore[method-assign]
    again = run()
    files = sorted(path.suffix for path in Path("out").glob("release.*"))
    return f"run again: {again}; published: {', '.join(files)}"
