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
from collections.abc import Iterable, Mapping
from inspect import getsource
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.nine_others import REGIONS, SEXES
from benchmarks.release import BUDGET, largest_rho
from dpaudit.releases.plan import Release
from dpaudit.releases.post import steps_by_default
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import NO_LEDGER, draw, publish, published_rows
from dpaudit.releases.queries import Count, Item, Mean, Quantiles, Sum, Variance, with_counts
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
DIGITS = 4


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
    return Release("Nine items", schema, "add_remove", BUDGET, items, post)  # type: ignore[arg-type]


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


def errors(draws: Iterable[Mapping[str, list[float]]], truth: Mapping[str, list[float]]) -> Any:
    """Of each item the root of the mean square, and about its standard error, over the draws."""
    away: dict[str, list[Any]] = {}
    for values in draws:
        for name, numbers in values.items():
            square = np.mean((np.array(numbers) - np.array(truth[name])) ** 2)
            away.setdefault(name, []).append(square)
    found = {}
    for name, squares in away.items():
        root = float(np.sqrt(np.mean(squares)))
        spread = float(np.std(squares, ddof=1) / len(squares) ** 0.5 / 2 / max(root, 1e-300))
        # Few draws of Laplace noise hold too few large ones: at least the law's own.
        numbers = len(squares) * len(truth[name])
        spread = max(spread, root * (5 / numbers) ** 0.5 / 2)
        found[name] = [float(f"{root:.{DIGITS}g}"), float(f"{spread:.2g}")]
    return found


def measured(tool: str) -> Any:
    """One tool's errors, processor seconds of a draw, and lines, as JSON; a text says why not."""
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
    return {
        "version": found[0]["version"],
        "draws": len(found),
        "errors": errors((row["values"] for row in found), truths(rows)),
        # The first draw loads libraries.
        "seconds": round(float(np.median([row["seconds"] for row in found[1:]])), 2),
        "lines": found[0]["lines"],
    }


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

    found = errors((drawn() for _ in range(OWN_DRAWS)), truth)
    started = time.process_time()
    publish(release.plan(), path, path.parent / "draw", ledger=NO_LEDGER, trials=0)
    took = time.process_time() - started
    return {
        "version": __version__,
        "draws": OWN_DRAWS,
        "errors": found,
        "seconds": round(took, 2),
        "certified": certified(path),
        "lines": len(getsource(own).splitlines()) - 2,
    }


def certified(path: Path) -> float:
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
    return round(float(np.subtract(*both)), 1)


def lines(parts: Mapping[str, Any]) -> list[str]:
    """Errors by item and tool, seconds and lines, and where another tool is better."""
    held = {tool: parts[tool] for tool in TITLES if tool in parts}
    names = list(held["dpaudit"]["errors"])
    table = [["item", *(f"{TITLES[tool]} {row['version']}" for tool, row in held.items())]]
    for name in names:
        cells = [
            f"{row['errors'][name][0]:g} (± {row['errors'][name][1]:g})"
            if name in row["errors"]
            else ""
            for row in held.values()
        ]
        table.append([name, *cells])
    table += [
        ["draws", *(str(row["draws"]) for row in held.values())],
        ["seconds a release", *(f"{row['seconds']:g}" for row in held.values())],
        ["lines of code", *(str(row["lines"]) for row in held.values())],
    ]
    head, *rest = ["| " + " | ".join(row) + " |" for row in table]
    return [
        f"{SIZE:,} generated people, a row each, and (epsilon = 1, delta = 1e-6) for all nine "
        "items together, in equal parts. OpenDP and Tumult add up zero-concentrated privacy, with "
        "the largest rho that the usual conversion turns into that budget; SmartNoise and "
        "diffprivlib add up epsilon. Errors are roots of mean squares over cells and draws, with "
        "their standard errors; seconds are those of processors, of all nine items, without the "
        "time that loading libraries takes. A tool without an item spends its part on the others.",
        "",
        head,
        "|---" * len(table[0]) + "|",
        *rest,
        "",
        f"dpaudit's release with its certificate, attacked on generated tables, and its page takes "
        f"{held['dpaudit']['certified']:g} processor seconds, loading libraries included.",
        "",
        _worse(held),
        "",
        "diffprivlib takes the number of rows for public in means and variances, which rows that "
        "come or go change, and adds noise in floating point; it is not among the tools that are "
        "compared.",
        *(f"\n{TITLES[tool]}: {row['note']}" for tool, row in held.items() if "note" in row),
    ]


def _worse(held: Mapping[str, Any]) -> str:
    """In one sentence, the items of which another tool's error is shown to be smaller."""
    said, own_errors = [], held["dpaudit"]["errors"]
    for name, (error, spread) in own_errors.items():
        others = {
            tool: held[tool]["errors"][name]
            for tool in HONEST
            if tool in held and name in held[tool]["errors"]
        }
        if not others:
            continue
        best = min(others, key=lambda tool: others[tool][0])
        # By two standard errors of the difference.
        sure = 2 * (spread**2 + (WORSE * others[best][1]) ** 2) ** 0.5
        if error - WORSE * others[best][0] > sure:
            said.append(f"{name} ({error / others[best][0]:.2f} times {TITLES[best]}'s)")
    worse = ", ".join(said) or "none"
    return (
        f"Items whose error is more than {WORSE - 1:.0%} above that of the best of "
        f"{', '.join(TITLES[t] for t in HONEST if t in held)}, by two standard errors: {worse}."
    )
