"""Excess risk against batch-gradient steps: the baselines in one figure, one grid of step sizes.

Every method is (1, 1e-6)-DP with its least noise and gets the same five step sizes, two methods in
phases the smaller ones of them; the best mean over seeds is shown, of each alike.  The minimiser is
inside the ball, or on its boundary.  Every method stands at the adaptive batch-gradient steps that
its run takes: FKT20 and ZTC22 read a record a step and have no other number, ZTOH22's solver takes
as many as its step size asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit

from dpaudit.curator.curator import Sampler
from dpaudit.families.correlated.node import Factorisation
from dpaudit.kernels.query import Array, Records
from dpaudit.measures.convert import gaussian_mu
from experiments.lab.fits import mean_and_error
from experiments.lab.learning import Learnt, learning_checks, learning_table
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Result,
    Results,
    Series,
    Size,
    Table,
    Values,
)
from experiments.srgd import problem
from mechanisms.papers.srgd.accelerated import DPSRGD, AcceleratedDPSRGD
from mechanisms.papers.srgd.baselines import AcceleratedDPSGD, DPSGDOnePass
from mechanisms.papers.srgd.baselines_catalogue import tree_noise
from mechanisms.papers.srgd.constants import least_multiplier, noised
from mechanisms.papers.srgd.gradient import of_constants
from mechanisms.papers.srgd.online import DPFTRL, DPOnlineToBatch, online_to_batch_clip
from mechanisms.papers.srgd.phased_erm import PhasedERM
from mechanisms.papers.srgd.phased_sgd import PhasedSGD
from mechanisms.papers.srgd.phases import all_phases
from mechanisms.papers.srgd.problem import Problem, Work

LIPSCHITZ, SMOOTHNESS = float(problem.LIPSCHITZ), float(problem.SMOOTHNESS)
SCALES = (0.0625, 0.25, 1.0, 4.0, 16.0)  # of the step size 1 / M
INSIDE, BOUNDARY = "inside", "boundary"
STRENGTHS = {INSIDE: problem.STRENGTH, BOUNDARY: 3.0}  # the norm of w*; the ball's radius is 2
STEPS = (8, 32, 128, 512)
SIZES = {Size.QUICK: (2**12,), Size.FULL: (2**12, 2**14, 2**16)}
MIDDLE = 2**14
SEEDS = {Size.QUICK: 2, Size.FULL: 10}
TREE, ROOT, PLAIN = "accelerated, tree", "accelerated, square root", "not accelerated, tree"
SGD, FRESH = "one-pass DP-SGD", "accelerated, fresh noise"
STEPPED = (TREE, ROOT, PLAIN, SGD, FRESH)
FTRL, BATCHED = "DP-FTRL, tree", "online to batch in batches (ZTC22, batches ours)"
ONLINE = "online to batch, a record a step (ZTC22)"
PHASED, ERM = "phased SGD, all phases (FKT20)", "phased ERM, all phases (ZTOH22)"
BY_STEPS = (FTRL, BATCHED)
OWN_STEPS = (PHASED, ONLINE, ERM)  # the number of steps is the method's own, and not ours to choose
OTHERS = (*BY_STEPS, *OWN_STEPS)
CITED = {"FKT20": PHASED, "ZTC22": ONLINE, "ZTC22 in batches": BATCHED, "ZTOH22": ERM}
# Step sizes, from the smallest: FKT20's first may be 8 / M at most, ZTOH22's solver grows with it.
FEWER = {PHASED: 4, ERM: 3}
# Records of the runs of a baseline; a run of ZTC22 takes n steps, each as long as n.
SIZES_OF = {FTRL: (2**14,), BATCHED: (2**14,), ONLINE: (2**12,)}
IMPROVES = (
    'Section 1, "our work improves [...] batch gradient steps to T = ~n^(1/4)"; Table 1 has ~n '
    "(FKT20), n (ZTC22), ~n^(1/2) (ZTOH22)"
)
BESIDE = "ours, no worse; set after an outside run had it 1.8 to 3.4 times worse"
NECESSARY = (
    'Section 3, "it is necessary to have an accelerated SGD algorithm to achieve a single epoch '
    'optimal DP-SCO algorithm with batch size omega(1)"'
)


def cells(size: Size) -> list[Cell]:
    """Every method by steps, at every n; the boundary and the other baselines at fewer."""
    found, seeds = [], SEEDS[size]
    steps = (8, 64) if size is Size.QUICK else STEPS
    middle = SIZES[size][0] if size is Size.QUICK else MIDDLE

    def add(method: str, n: int, count: int, place: str) -> None:
        scales = SCALES if size is Size.FULL else SCALES[1:3]
        for scale in scales[: FEWER.get(method)]:
            found.append(
                Cell.of(
                    n + 100 * count,
                    method=method,
                    n=n,
                    steps=count,
                    place=place,
                    scale=scale,
                    seeds=seeds,
                )
            )

    for place in STRENGTHS:
        for n in SIZES[size] if place == INSIDE else (middle,):
            for method in STEPPED:
                for count in steps:
                    add(method, n, count, place)
    for method in OTHERS:
        for n in SIZES_OF.get(method, (2**12, 2**14)) if size is Size.FULL else (middle,):
            for count in steps if method in BY_STEPS else (0,):
                add(method, n, count, INSIDE)
    return found


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The excess risk of each seed, which has a data set of its own."""
    n, place, scale = cell.count("n"), cell.text("place"), cell.number("scale")
    program = _programs()[cell.text("method")](n, cell.count("steps"), scale / SMOOTHNESS)
    declared = program.declaration(problem.SCOPE)
    found = []
    for _ in range(cell.count("seeds")):
        curator = Sampler(declared, problem.SCOPE, _sample(n, place, rng), rng=rng)
        found.append(risk(program.run(curator).output[0], place) - least(place))
    start = risk(np.zeros(problem.FEATURES), place) - least(place)
    return {"excess": found, "start": start, "batch_steps": taken(program)}


def taken(program: Any) -> int:
    """The adaptive batch-gradient steps of a run."""
    recursive = isinstance(program, (AcceleratedDPSRGD, DPSRGD))
    work: Work = (program.gradient if recursive else program).work
    return work.batch_steps


@lru_cache(maxsize=1)
def _programs() -> dict[str, Callable[[int, int, float], Any]]:
    """A method's program of n records, so many steps, and a step size."""
    one = 1 / gaussian_mu(problem.EPSILON, problem.DELTA)

    def on(n: int) -> Problem:
        return Problem(problem.LOSS, problem.FEATURES, n, problem.RADIUS, LIPSCHITZ)

    def recursive(kind: Any, strategy: Factorisation) -> Callable[[int, int, float], Any]:
        def make(n: int, steps: int, step: float) -> Any:
            beta = Fraction(1 / step).limit_denominator(10**6)
            spread = least_multiplier(problem.EPSILON, problem.DELTA, steps, strategy)
            made = noised(steps, n // steps, beta, problem.CLIP, spread)
            gradient = of_constants(made, problem.LOSS, problem.FEATURES, n, strategy=strategy)
            return kind(gradient, radius=problem.RADIUS)

        return make

    def online(n: int, steps: int, step: float) -> DPOnlineToBatch:
        clip = online_to_batch_clip(steps, LIPSCHITZ, SMOOTHNESS, 2 * problem.RADIUS)
        return DPOnlineToBatch(on(n), steps, step / steps, tree_noise(steps), clip)

    return {
        TREE: recursive(AcceleratedDPSRGD, Factorisation.TREE),
        ROOT: recursive(AcceleratedDPSRGD, Factorisation.SQRT_TOEPLITZ),
        PLAIN: recursive(DPSRGD, Factorisation.TREE),
        SGD: lambda n, steps, step: DPSGDOnePass(on(n), steps, step, one),
        FRESH: lambda n, steps, step: AcceleratedDPSGD(on(n), steps, 1 / step, one),
        FTRL: lambda n, steps, step: DPFTRL(on(n), steps, step, tree_noise(steps)),
        BATCHED: online,
        ONLINE: lambda n, _, step: online(n, n, step),
        PHASED: lambda n, _, step: PhasedSGD(on(n), all_phases(n), step, SMOOTHNESS, one),
        ERM: lambda n, _, step: PhasedERM(
            on(n), all_phases(n), step, SMOOTHNESS, one * Fraction(101, 100)
        ),
    }


# --- the population -------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _population(place: str) -> tuple[Array, Array]:
    """Fixed points, and the chance of label 1 at each."""
    x, _ = problem.population()
    return x, np.asarray(expit(x @ _direction() * STRENGTHS[place]))


def _direction() -> Array:
    return problem.optimum() / problem.STRENGTH


def _sample(n: int, place: str, rng: np.random.Generator) -> Records:
    x = problem.sphere(n, rng)
    return Records(np.column_stack([x, rng.random(n) < expit(x @ _direction() * STRENGTHS[place])]))


def risk(w: Array, place: str) -> float:
    """Population risk, the exact conditional mean of the loss on the fixed points."""
    x, chance = _population(place)
    margin = x @ w
    return float(np.mean(np.logaddexp(0.0, margin) - chance * margin))


@lru_cache(maxsize=2)
def least(place: str) -> float:
    """The least risk in the ball: at w*, or where projected descent on the points ends."""
    if place == INSIDE:
        return risk(problem.optimum(), place)
    x, chance = _population(place)
    w = problem.RADIUS * _direction()
    for _ in range(60):
        gradient = x.T @ (expit(x @ w) - chance) / len(x)
        w = w - 40 * gradient  # the risk is 1/40 smooth: M times the features' second moment
        w *= min(1.0, problem.RADIUS / float(np.linalg.norm(w)))
    return risk(w, place)


# --- what the grid says ---------------------------------------------------------------------------


def best(results: Results, **where: Any) -> Result:
    """The cell of the least mean: of all step sizes, and of what else is not given."""
    return min(results.where(**where), key=lambda r: mean_and_error(r.numbers("excess"))[0])


def read(results: Results) -> Findings:
    """Risk at no more steps than each baseline takes, ratios to one-pass DP-SGD, who learns."""
    learnt = [
        _learnt(results, method, n, place)
        for n, place in _instances(results)
        for method in (*STEPPED, *OTHERS)
        if results.where(method=method, n=n, place=place).rows
    ]
    enough = results.rows[0].cell.count("seeds") >= SEEDS[Size.FULL]
    races = _races(results)
    checks = [_no_worse(results, name, n) for name, n in races if enough]
    checks += [_ratio(results, *instance) for instance in _instances(results) if enough]
    checks += [_acceleration(results, *instance) for instance in _instances(results) if enough]
    checks += learning_checks(learnt)
    turns = [(n, place, *_turn(results, n, place)) for n, place in _instances(results)]
    tables = (
        Table(
            "Batch-gradient steps to each cited baseline's least mean risk, minimiser inside",
            ("baseline", "n", "its least risk", "its steps", *(f"steps, {m}" for m in (TREE, ROOT)),
             f"least risk, {TREE}"),
            tuple(_race(results, name, n) for name, n in races),
        ),
        _by_steps(results),
        Table(
            "Where the accelerated method with a tree is ahead of one-pass DP-SGD",
            ("n", "minimiser", "at steps", "behind at steps"),
            tuple(turns),
        ),
        learning_table(learnt, "excess risk, best step size and steps"),
    )  # fmt: skip
    notes = (
        "each mean is the best of five step sizes (and of all numbers of steps, where none is "
        "given), chosen on the same runs: a little too good, for all methods alike; "
        f"{ERM} has the three smallest, since its solver's work grows with the step, and "
        f"{PHASED} the four that its theorem admits",
        f"{PHASED} and {ONLINE} are one point of the figure each, since they read a record a step; "
        f"{ERM} is a point for each step size, and every other method a curve by steps",
        f"{ONLINE} runs at the least n alone, where a run takes as many steps as there are records",
        "GLZW24, our reconstruction of it, is a curve of the figure of every baseline, which reads "
        "these runs too, and is not one of this figure's",
    )
    panels = tuple(_panel(results, n, place) for n, place in _instances(results))
    return Findings(tables, tuple(checks), panels, notes)


def _races(results: Results) -> list[tuple[str, int]]:
    """The cited baselines, each at every n at which it ran."""
    return [
        (name, int(n))
        for name, method in CITED.items()
        for n in results.where(method=method).parameters("n")
    ]


def first_steps(results: Results, method: str, n: int, target: float) -> float:
    """The fewest batch steps at which a method's best mean is at most ``target``; or infinity."""
    for steps in sorted(_steps(results, n, INSIDE)):
        found = best(results, method=method, n=n, place=INSIDE, steps=steps)
        if mean_and_error(found.numbers("excess"))[0] <= target:
            return steps
    return float("inf")


def _race(results: Results, name: str, n: int) -> tuple[str | int | float, ...]:
    theirs = best(results, method=CITED[name], n=n)
    mean = mean_and_error(theirs.numbers("excess"))[0]
    firsts = [first_steps(results, method, n, mean) for method in (TREE, ROOT)]
    shown = [int(f) if np.isfinite(f) else "not reached" for f in firsts]
    ours = mean_and_error(best(results, method=TREE, n=n, place=INSIDE).numbers("excess"))[0]
    return name, n, mean, int(theirs.number("batch_steps")), *shown, ours


def _no_worse(results: Results, name: str, n: int) -> Check:
    """The accelerated tree in no more steps, over a baseline: at most 1 where that is reached."""
    theirs = best(results, method=CITED[name], n=n)
    most = theirs.number("batch_steps")
    own = results.where(method=TREE, n=n, place=INSIDE)
    fewer = Results(tuple(r for r in own if r.number("batch_steps") <= most))
    text = f"{name}, n = {n}: excess risk, {TREE} in no more batch steps over the baseline"
    return _over(text, [best(fewer), theirs], -np.inf, 1.0, IMPROVES)


def _instances(results: Results) -> list[tuple[int, str]]:
    found = ((r.cell.count("n"), r.cell.text("place")) for r in results)
    return list(dict.fromkeys(found))


def _learnt(results: Results, method: str, n: int, place: str) -> Learnt:
    found = best(results, method=method, n=n, place=place)
    mean, error = mean_and_error(found.numbers("excess"))
    return Learnt(f"{method}, n = {n}, {place}", mean, found.number("start"), error)


def _ratio(results: Results, n: int, place: str) -> Check:
    """The accelerated method over one-pass DP-SGD, each at its best number of steps."""
    found = [best(results, method=m, n=n, place=place) for m in (TREE, SGD)]
    name = f"minimiser {place}, n = {n}: excess risk, {TREE} over {SGD}"
    return _over(name, found, -np.inf, 1.0, BESIDE)


def _acceleration(results: Results, n: int, place: str) -> Check:
    """With acceleration over without, at the fewest steps."""
    steps = min(int(t) for t in results.where(method=TREE).parameters("steps"))
    found = [best(results, method=m, n=n, place=place, steps=steps) for m in (TREE, PLAIN)]
    name = f"acceleration in {steps} steps, n = {n}, {place}: excess risk with over without"
    return _over(name, found, -np.inf, 1.0, NECESSARY)


def _over(name: str, found: Sequence[Result], lower: float, upper: float, source: str) -> Check:
    (top, error), (bottom, spread) = (mean_and_error(r.numbers("excess")) for r in found)
    margin = 2 * top / bottom * float(np.hypot(error / top, spread / bottom))
    return Check(name, top / bottom, lower, upper, margin, source)


def _turn(results: Results, n: int, place: str) -> tuple[str, str]:
    """The numbers of steps at which the accelerated method is ahead, and behind."""
    ahead: list[str] = []
    behind: list[str] = []
    for steps in _steps(results, n, place):
        means = [
            mean_and_error(
                best(results, method=m, n=n, place=place, steps=steps).numbers("excess")
            )[0]
            for m in (TREE, SGD)
        ]
        (ahead if means[0] < means[1] else behind).append(str(steps))
    return ", ".join(ahead) or "none", ", ".join(behind) or "none"


def _steps(results: Results, n: int, place: str) -> list[int]:
    return [int(s) for s in results.where(method=SGD, n=n, place=place).parameters("steps")]


def _by_steps(results: Results) -> Table:
    steps = sorted({r.cell.count("steps") for r in results.where(method=SGD)})
    rows: list[tuple[str | int | float, ...]] = []
    for n, place in _instances(results):
        for method in (*STEPPED, *BY_STEPS):
            if not results.where(method=method, n=n, place=place).rows:
                continue
            found = [
                mean_and_error(
                    best(results, method=method, n=n, place=place, steps=count).numbers("excess")
                )[0]
                for count in steps
            ]
            rows.append((n, place, method, *found))
    columns = ("n", "minimiser", "method", *(f"{count} steps" for count in steps))
    return Table("Mean excess risk by batch-gradient steps", columns, tuple(rows))


def _panel(results: Results, n: int, place: str) -> Panel:
    series = []
    for method in (*STEPPED, *BY_STEPS):
        if results.where(method=method, n=n, place=place).rows:
            found = [
                best(results, method=method, n=n, place=place, steps=s)
                for s in _steps(results, n, place)
            ]
            series.append(_drawn(method, found, "--" if method in BY_STEPS else "-"))
    for method in OWN_STEPS:
        own = results.where(method=method, n=n, place=place)
        if own.rows:
            points = own.rows if method == ERM else (best(own),)
            series.append(_drawn(f"{method}, single points", points, ""))
    x = tuple(sorted({value for one in series for value in one.x}))
    start = results.where(n=n, place=place).rows[0].number("start")
    series.append(Series("the start", x, (start,) * len(x), ":", ""))
    return Panel(
        f"n = {n}, minimiser {place}", "batch-gradient steps", "excess risk", tuple(series)
    )


def _drawn(label: str, found: Sequence[Result], style: str) -> Series:
    means, errors = zip(*(mean_and_error(r.numbers("excess")) for r in found), strict=True)
    x = tuple(r.number("batch_steps") for r in found)
    return Series(label, x, means, style, error=tuple(2 * e for e in errors))


srgd_one_pass = Experiment(
    name="srgd_one_pass",
    title="Accelerated-DP-SRGD beside every baseline, plain one-pass DP-SGD among them",
    source="Choquette-Choo, Ganesh and Thakurta 2024, Table 1 and Sections 2.1, 4.3 and 5.5",
    cells=cells,
    run=run,
    read=read,
)
