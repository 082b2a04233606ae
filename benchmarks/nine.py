"""Nine items of one table by dpaudit, OpenDP, Tumult Analytics, SmartNoise and diffprivlib.

``python -m benchmarks.evidence nine``: 50,000 generated people, (epsilon = 1, delta = 1e-6) for all
nine, 20 draws of each tool within its time, and more of dpaudit's, whose sums are taken once.  An
error is the root of the mean square of what the cells of an item are off, over all draws.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from inspect import getsource
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.nine_others import REGIONS, SEXES
from benchmarks.release import BUDGET, largest_rho
from dpaudit.releases.items.averages import Mean, Variance
from dpaudit.releases.items.by_name import with_counts
from dpaudit.releases.items.choices import Quantiles
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.item import Item
from dpaudit.releases.plan import Release
from dpaudit.releases.post import steps_by_default
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import NO_LEDGER, draw, publish, published_rows
from dpaudit.tabular import Category, Number, Schema, Table
from dpaudit.version import __version__

HERE = Path(__file__).parent
SIZE, DRAWS, OWN_DRAWS = 50_000, 20, 400
WORSE = 1.05  # times the best of the others, from which an item counts as worse
LIMIT = 5400  # seconds of one tool's draws
TITLES = {
    "dpaudit": "dpaudit",
    "opendp": "OpenDP",
    "tumult": "Tumult Analytics",
    "smartnoise": "SmartNoise SQL",
    "diffprivlib": "diffprivlib",
}
# Guarantees that hold for the release that is compared, under rows that come or go.
HONEST = ("opendp", "tumult", "smartnoise")
DIGITS = 3
# The items, and how many numbers each has.
SIZES = {
    "count": 1, "by sex": 2, "by region": 10, "by both": 20, "sum": 1, "mean": 1,
    "mean by sex": 2, "variance": 1, "quantile": 1,
}  # fmt: skip


def own() -> Release:
    """The release; the source lines of this function are counted."""
    columns = {
        "sex": Category(tuple(SEXES)),
        "region": Category(tuple(REGIONS)),
        "age": Number(0, 100),
        "income": Number(0, 100_000),
    }
    items: list[Item] = [
        Count(name="count"),
        Count(name="by sex", by="sex"),
        Count(name="by region", by="region"),
        Count(name="by both", by=("sex", "region")),
        Sum(name="sum", column="income"),
        Mean(name="mean", column="age"),
        Mean(name="mean by sex", column="income", by="sex"),
        Variance(name="variance", column="age"),
        Quantiles(name="quantile", column="income"),
    ]
    schema = Schema("people", columns)
    items, post = with_counts(schema, items), steps_by_default(schema, items)
    return Release("Nine items", schema, "add_remove", BUDGET, tuple(items), tuple(post))


def people(seed: int = 1) -> dict[str, Any]:
    """People with incomes of which some lie above the bound."""
    rng = np.random.default_rng(seed)
    income = np.minimum(rng.lognormal(10, 0.8, SIZE), 10**6).astype(np.int64)
    return {
        "sex": np.where(rng.random(SIZE) < 0.51, "f", "m"),
        "region": np.array(REGIONS)[rng.integers(0, 10, SIZE)],
        "age": np.clip(rng.normal(45, 20, SIZE), 0, 100).astype(np.int64),
        "income": income,
    }


def truths(rows: Mapping[str, Any]) -> dict[str, list[float]]:
    """The items without noise, with incomes up to the bound that all tools are given."""
    income = np.minimum(rows["income"], 100_000)
    sexes, regions = ([rows[c] == k for k in ks] for c, ks in (("sex", SEXES), ("region", REGIONS)))
    return {
        "count": [float(SIZE)],
        "by sex": [float(inside.sum()) for inside in sexes],
        "by region": [float(inside.sum()) for inside in regions],
        "by both": [float((a & b).sum()) for a in sexes for b in regions],
        "sum": [float(income.sum())],
        "mean": [float(rows["age"].mean())],
        "mean by sex": [float(income[inside].mean()) for inside in sexes],
        "variance": [float(rows["age"].var())],
        "quantile": [float(np.median(income))],
    }


def errors(draws: Sequence[Mapping[str, list[float]]], truth: Mapping[str, list[float]]) -> Any:
    """The root mean square error of each item over the draws; None where a tool has none."""
    found: list[float | None] = []
    for name, numbers in truth.items():
        if name not in draws[0]:
            found.append(None)
            continue
        away = np.array([row[name] for row in draws]) - np.array(numbers)
        root = float(f"{float(np.sqrt(np.mean(away**2))):.{DIGITS}g}")
        found.append(int(root) if root.is_integer() else root)
    return found


def spread(error: float, draws: int, cells: int) -> float:
    """The standard error of an error, of Laplace noise: few draws hold too few large ones."""
    return float(error * (5 / (draws * cells)) ** 0.5 / 2)


def measured(tool: str) -> Any:
    """One tool's errors, processor seconds of a draw, and lines, as JSON; a text says why not.

    A list: version, draws, seconds, lines, an error of each item; dpaudit's with a certificate.
    """
    from benchmarks.evidence import interpreter

    rows = people()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv"
        pyarrow.csv.write_csv(pa.table(rows), path)
        if tool == "dpaudit":
            return _own(path, truths(rows))
        run = subprocess.Popen(
            [
                interpreter("smartnoise" if tool == "diffprivlib" else tool),
                *(str(HERE / "nine_others.py"), tool, str(path), repr(largest_rho()), str(DRAWS)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            told, said = run.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            run.kill()
            told, said = run.communicate()
    found = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    if len(found) < 2:
        return (said.strip().splitlines() or ["failed"])[-1][:200]
    # The first draw loads libraries.
    seconds = round(float(np.median([row["seconds"] for row in found[1:]])), 1)
    roots = errors([row["values"] for row in found], truths(rows))
    return [found[0]["version"], len(found), seconds, found[0]["lines"], *roots]


def _own(path: Path, truth: Mapping[str, list[float]]) -> Any:
    release = own()
    plan = release.plan()
    exact = exact_values(release, Table(release.schema, path).opened(release.digest))
    names = [item.name for item in release.items]

    def drawn() -> dict[str, list[float]]:
        rows = published_rows(plan, draw(plan, exact))
        return {
            name: [float(row.value) for row in rows if row.item == name and row.value is not None]
            for name in names
        }

    found = errors([drawn() for _ in range(OWN_DRAWS)], truth)
    started = time.process_time()
    publish(release.plan(), path, path.parent / "draw", ledger=NO_LEDGER, trials=0)
    took = time.process_time() - started
    lines_of_own = len(getsource(own).splitlines()) - 2
    return [__version__, OWN_DRAWS, round(took, 1), lines_of_own, *found, certified(path)]


def certified(path: Path) -> int:
    """Processor seconds of the release with its certificate and page, in a process of its own."""
    code = (
        "from pathlib import Path; from benchmarks.nine import own, publish, NO_LEDGER; import sys;"
        "publish(own().plan(), sys.argv[1], Path(sys.argv[1]).parent / 'whole', ledger=NO_LEDGER)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = [sys.executable, "-c", code, str(path)]
    subprocess.run(run, check=True, capture_output=True, cwd=HERE.parent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    both = (use.ru_utime + use.ru_stime for use in (after, before))
    return round(float(np.subtract(*both)))


def lines(parts: Mapping[str, Any]) -> list[str]:
    """Errors by item and tool, seconds and lines, and where another tool is better."""
    held = {tool: parts[tool] for tool in TITLES if tool in parts}
    table = [["item", *(f"{TITLES[tool]} {row[0]}" for tool, row in held.items())]]
    for place, (name, cells) in enumerate(SIZES.items()):
        numbers = [(row[1], row[4 + place]) for row in held.values()]
        table.append(
            [
                name,
                *("" if e is None else f"{e:g} (± {spread(e, n, cells):.2g})" for n, e in numbers),
            ]
        )
    table += [
        [title, *(f"{row[place]:g}" for row in held.values())]
        for place, title in ((1, "draws"), (2, "seconds a release"), (3, "lines of code"))
    ]
    head, *rest = ["| " + " | ".join(row) + " |" for row in table]
    return [
        f"{SIZE:,} generated people, a row each, and (epsilon = 1, delta = 1e-6) for all nine "
        "items together, in equal parts. OpenDP and Tumult add up zero-concentrated privacy, with "
        "the largest rho that the usual conversion turns into that budget; SmartNoise and "
        "diffprivlib add up epsilon. Errors are roots of mean squares over cells and draws, with "
        "standard errors as of Laplace noise: of a single number, 20 draws show differences of "
        "half its size. Seconds are those of processors, of all nine items, without the time that "
        "loading libraries takes. A tool without an item spends its part on the others.",
        "",
        head,
        "|---" * len(table[0]) + "|",
        *rest,
        "",
        f"dpaudit's release with its certificate, attacked on generated tables, and its page takes "
        f"{held['dpaudit'][-1]:g} processor seconds, loading libraries included.",
        "",
        _worse(held),
        "",
        "diffprivlib takes the number of rows for public in means and variances, which rows that "
        "come or go change, and adds noise in floating point; it is not among the tools that are "
        "compared.",
    ]


def _worse(held: Mapping[str, Any]) -> str:
    """In one sentence, the items of which another tool's error is shown to be smaller."""
    said = []
    for place, (name, cells) in enumerate(SIZES.items(), start=4):
        others = {t: held[t] for t in HONEST if t in held and held[t][place] is not None}
        best = min(others, key=lambda tool: others[tool][place])
        (error, own_draws), (other, draws) = (
            (held[tool][place], held[tool][1]) for tool in ("dpaudit", best)
        )
        # By two standard errors of the difference.
        both = spread(error, own_draws, cells), WORSE * spread(other, draws, cells)
        if error - WORSE * other > 2 * (both[0] ** 2 + both[1] ** 2) ** 0.5:
            said.append(f"{name} ({error / other:.2f} times {TITLES[best]}'s)")
    worse = ", ".join(said) or "none"
    return (
        f"Items whose error is more than {WORSE - 1:.0%} above that of the best of "
        f"{', '.join(TITLES[t] for t in HONEST if t in held)}, by two standard errors: {worse}."
    )
