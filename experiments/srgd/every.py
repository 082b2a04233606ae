"""Every baseline of Table 1 in one figure, and where the accelerated method turns.

Nothing is run here: the results of three experiments are read together, at equal guarantee,
population, step sizes and rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from experiments.lab.fits import Fit, fit_power_law, mean_and_error
from experiments.lab.model import Check, Findings, Panel, Result, Results, Series, Table
from experiments.lab.papers import Together
from experiments.srgd import one_pass, turn
from experiments.srgd.one_pass import BOUNDARY, INSIDE, ROOT, SCALES, SGD, TREE

CITED = "GLZW24"
UNIFORMLY = (
    'Section 1: "our bounds are uniformly better than prior and contemporary works under the '
    'assumption on the unconstrained population risk minimizer being in the interior of C"; '
    "Table 1: ~n^(1/4) batch steps of either"
)
TURNS = (
    "ours: it has turned by the most records that were run; that it had not at 2^16 inside, and "
    "had at 2^14 on the boundary, had been seen"
)


def read(results: Mapping[str, Results]) -> Findings:
    """The race with every cited baseline, GLZW24 among them, and the ratios over n."""
    runs, theirs = results["srgd_one_pass"], results["srgd_localized"]
    sizes = [int(n) for n in theirs.parameters("n")]
    ratios = {place: _ratios(runs, results["srgd_turn"], place) for place in (INSIDE, BOUNDARY)}
    checks = [_no_worse(runs, one_pass.best(theirs, n=n), n) for n in sizes]
    checks += [_turned(place, found) for place, found in ratios.items()]
    races = [(*one_pass._race(runs, name, n),) for name, n in one_pass._races(runs)]
    races += [_race(runs, one_pass.best(theirs, n=n), n) for n in sizes]
    tables = (
        Table(
            "Batch-gradient steps to each cited baseline's least mean risk, minimiser inside",
            ("baseline", "n", "its least risk", "its steps", *(f"steps, {m}" for m in (TREE, ROOT)),
             f"least risk, {TREE}"),
            tuple(races),
        ),
        Table(
            f"Gradients of a run: {CITED} in expectation, and 2 n of the accelerated method",
            ("n", CITED, "accelerated"),
            tuple((n, int(theirs.where(n=n).rows[0].number("gradients")), 2 * n) for n in sizes),
        ),
        Table(
            f"Excess risk of {TREE} over {SGD}, each at its best",
            ("minimiser", "n", "ratio", "two standard errors"),
            tuple((place, n, *one) for place, found in ratios.items() for n, one in found.items()),
        ),
    )  # fmt: skip
    panels = [_panel(runs, one_pass.best(theirs, n=n), n) for n in sizes]
    notes = (
        *(turns(place, found) for place, found in ratios.items()),
        *(said for place in ratios if (said := _at_the_end(results["srgd_turn"], place))),
        "each mean is the best of its method's settings, chosen on the same runs; up to 2^16 "
        "inside and at 2^14 on the boundary runs are those of srgd_one_pass, others of srgd_turn",
    )
    return Findings(tables, tuple(checks), (*panels, _over_sizes(ratios)), notes)


# --- the figure -----------------------------------------------------------------------------------


def _no_worse(runs: Results, theirs: Result, n: int) -> Check:
    """The accelerated tree in no more steps, over the baseline, as ``srgd_one_pass`` asks it."""
    most = theirs.number("batch_steps")
    own = runs.where(method=TREE, n=n, place=INSIDE)
    fewer = Results(tuple(r for r in own if r.number("batch_steps") <= most))
    text = f"{CITED}, n = {n}: excess risk, {TREE} in no more batch steps over the baseline"
    return one_pass._over(text, [one_pass.best(fewer), theirs], -math.inf, 1.0, UNIFORMLY)


def _race(runs: Results, theirs: Result, n: int) -> tuple[str | int | float, ...]:
    mean = mean_and_error(theirs.numbers("excess"))[0]
    firsts = [one_pass.first_steps(runs, method, n, mean) for method in (TREE, ROOT)]
    shown = [int(f) if math.isfinite(f) else "not reached" for f in firsts]
    ours = one_pass.best(runs, method=TREE, n=n, place=INSIDE)
    least = mean_and_error(ours.numbers("excess"))[0]
    return CITED, n, mean, int(theirs.number("batch_steps")), *shown, least


def _panel(runs: Results, theirs: Result, n: int) -> Panel:
    made = one_pass._panel(runs, n, INSIDE)
    point = one_pass._drawn("localised (GLZW24), single point", (theirs,), "")
    return Panel(made.title, made.x, made.y, (*made.series, point))


# --- where it turns -------------------------------------------------------------------------------


def _ratios(runs: Results, more: Results, place: str) -> dict[int, tuple[float, float]]:
    """By n: the ratio to one-pass DP-SGD and two standard errors."""
    found = {}
    for n, where in one_pass._instances(runs):
        if where == place:
            check = one_pass._ratio(runs, n, place)
            found[n] = check.value, check.margin
    for n, where in turn.instances(more):
        if where == place:
            found[n] = turn.ratio(more.where(n=n, place=place))
    return dict(sorted(found.items()))


def _turned(place: str, ratios: Mapping[int, tuple[float, float]]) -> Check:
    value, margin = ratios[max(ratios)]
    name = f"turn, minimiser {place}: excess risk, {TREE} over {SGD}, at most records (n = "
    return Check(f"{name}{max(ratios)})", value, upper=1.0, margin=margin, source=TURNS)


def turns(place: str, ratios: Mapping[int, tuple[float, float]]) -> str:
    """Where the ratio passes 1, in words: surely, where it is further off than its margin."""
    ahead = [n for n, (value, margin) in ratios.items() if value + margin < 1]
    behind = [n for n, (value, margin) in ratios.items() if value - margin > 1]
    sizes = f"n = {', '.join(map(str, ratios))}"
    what = f"minimiser {place}, at {sizes}: {TREE} is"
    last, margin = ratios[max(ratios)]
    if not ahead:
        where = f"surely ahead of {SGD} at none, surely behind at {_listed(behind)}"
        turned = f": it does not turn up to n = {max(ratios)}"
        if last - margin <= 1:
            turned = f": whether it has turned by n = {max(ratios)} is open ({last:.3g} +- "
            turned += f"{margin:.2g})"
    elif not behind:
        where = f"surely behind {SGD} at none, surely ahead at {_listed(ahead)}"
        turned = f": it is not seen to turn from n = {min(ratios)} on"
    else:
        where = f"surely behind {SGD} at {_listed(behind)}, surely ahead at {_listed(ahead)}"
        turned = ""
    return f"{what} {where}{turned}; {_law(ratios)}"


def _at_the_end(more: Results, place: str) -> str:
    """Where one-pass DP-SGD is best at an end of its grid, at most records: more may be better."""
    own = more.where(n=max(n for n, where in turn.instances(more) if where == place), place=place)
    _, steps, scale = turn.best(own, SGD)
    n, most = own.rows[0].cell.count("n"), own.rows[0].cell.count("most")
    ends = [
        *([f"the most steps, {steps}"] if steps == most else []),
        *([f"the largest step size, {scale:g} / M"] if scale == max(SCALES) else []),
    ]
    if not ends:
        return ""
    return f"minimiser {place}, n = {n}: {SGD} is best at {' and '.join(ends)}, of its grid"


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes)) or "none"


def _law(ratios: Mapping[int, tuple[float, float]]) -> str:
    """The power law through the ratios, and where it would pass 1: nothing was run there."""
    fit = _fit(ratios)
    said = f"their ratio goes as n^{fit.slope:.2f} +- {2 * fit.error:.2f}"
    if abs(fit.slope) <= 2 * fit.error:
        return f"{said}, which has no sure sign"
    power = -fit.intercept / fit.slope / math.log(2)
    return f"{said}, and a power law would pass 1 at 2^{power:.1f}"


def _fit(ratios: Mapping[int, tuple[float, float]]) -> Fit:
    values, margins = zip(*ratios.values(), strict=True)
    return fit_power_law(list(ratios), values, [margin / 2 for margin in margins])


def _over_sizes(ratios: Mapping[str, Mapping[int, tuple[float, float]]]) -> Panel:
    series = []
    for place, found in ratios.items():
        values, margins = zip(*found.values(), strict=True)
        x = tuple(map(float, found))
        series.append(Series(f"minimiser {place}", x, values, error=margins))
    ends = sorted({x for one in series for x in one.x})
    series.append(Series("as good", tuple(ends), tuple(np.ones(len(ends))), ":", ""))
    return Panel(f"{TREE} over {SGD}", "records n", "ratio of excess risks", tuple(series))


EVERY = Together(
    name="srgd_every_baseline",
    title="Every baseline of Table 1 in one figure, and where the accelerated method turns",
    source="Choquette-Choo, Ganesh and Thakurta 2024, Section 1 and Table 1",
    of=("srgd_one_pass", "srgd_localized", "srgd_turn"),
    read=read,
)
