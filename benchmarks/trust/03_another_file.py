"""A release of people[1].csv, beside people1.csv of other rows."""

from pathlib import Path

from shared import release


def probe() -> str:
    """How many rows were counted: 1000 are in the file that was named, 9000 in the other."""
    for name, rows in (("people[1].csv", 1000), ("people1.csv", 9000)):
        Path(name).write_text("x\n" + "1\n" * rows)
    (row,) = release("people[1].csv").rows
    return f"about {round(float(row.value or 0), -2):.0f} rows counted where the file has 1000"
