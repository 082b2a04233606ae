"""One protocol for every comparison of methods: equal searches, judged on seeds of their own.

A method is searched over all its free parameters in at most ``Protocol.budget`` settings, each run
on the same choosing seeds; the setting of the least mean is judged on other seeds, of other data.
Nothing private is read by the choice: its data sets are drawn anew and judge nothing.  Doing
nothing, the non-private optimum, one-pass DP-SGD and full-batch DP-GD stand in every table.  A
parameter whose best value has no tried value on one of its sides is *at the end of its grid*: more
search could still help that method, so its comparisons are marked and decide nothing.

A comparison that was made otherwise is withheld: :func:`judged` marks each check of a result that
was not run under the protocol that its experiment declares, unless it speaks of one method alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpaudit.compare.search import Axis, Protocol, search
from dpaudit.errors import InvalidParameter
from experiments.lab.fits import mean_and_error
from experiments.lab.learning import BAND
from experiments.lab.model import (
    Check,
    Experiment,
    Findings,
    Parameter,
    Result,
    Results,
    Table,
    Values,
)

NOTHING, OPTIMUM = "doing nothing", "non-private optimum"
ONE_PASS, FULL_BATCH = "one-pass DP-SGD", "full-batch DP-GD"
REQUIRED = (NOTHING, OPTIMUM, ONE_PASS, FULL_BATCH)
PREDATES = (
    "this comparison predates the protocol: its methods were not searched with equal budgets and "
    "judged on other seeds, so it is not fair and decides nothing"
)
SET, END = "setting of ", "at the end: "


def tuned(
    protocol: Protocol,
    free: Sequence[Axis],
    loss: Callable[[Mapping[str, float], np.random.Generator], float],
    rng: np.random.Generator,
) -> Values:
    """A method's search on the choosing seeds, and its losses on the judging ones.

    ``loss`` draws a data set and a run from its generator.  A setting that the method refuses
    (InvalidParameter) counts as infinitely bad; every setting meets the same choosing seeds.
    """
    sequences = rng.bit_generator.seed_seq.spawn(protocol.choosing + protocol.judging)  # type: ignore[attr-defined]
    choosing, judging = sequences[: protocol.choosing], sequences[protocol.choosing :]

    def named(setting: tuple[float, ...]) -> dict[str, float]:
        return {one.name: value for one, value in zip(free, setting, strict=True)}

    def mean(setting: tuple[float, ...]) -> float:
        try:
            losses = [loss(named(setting), np.random.default_rng(one)) for one in choosing]
        except InvalidParameter:
            return math.inf
        return float(np.mean(losses))

    made = search(free, mean, protocol.budget)
    best = named(made.best)
    return {
        "judged": [loss(best, np.random.default_rng(one)) for one in judging],
        "chosen": made.tried[made.best],
        "tried": len(made.tried),
        **{SET + name: value for name, value in best.items()},
        **{END + one.name: int(made.at_end(index)) for index, one in enumerate(free)},
    }


def at_ends(result: Result) -> list[str]:
    """The parameters of a searched method that are at the end of their grids."""
    names = (name for name, value in result.values.items() if name.startswith(END) and value)
    return [name.removeprefix(END) for name in names]


def beside(
    name: str,
    protocol: Protocol,
    instance: Results,
    methods: tuple[str, str],
    source: str,
    upper: float = 1.0,
    within: Mapping[str, str] | None = None,
) -> Check:
    """The judged mean of the first method over that of the second, of one instance's results.

    It decides nothing (``withheld``) where a required row is missing, a parameter of either method
    is at the end of its grid, or its search failed: ``within`` names a method whose settings are
    among another's, so that the wider search missed what the narrower one found where it ends
    above it by more than two standard errors.  The margin is two standard errors, to first order.
    """
    pair = [instance.one(method=method) for method in methods]
    (top, error), (bottom, spread) = (mean_and_error(r.numbers("judged")) for r in pair)
    margin = 2 * abs(top / bottom) * math.hypot(error / top, spread / bottom)
    missing = [row for row in REQUIRED if not instance.where(method=row).rows]
    why = [f"no row of {row}" for row in missing]
    why += [f"{r.cell.text('method')}: {one} at the end" for r in pair for one in at_ends(r)]
    why += [
        f"{r.cell.text('method')}: {len(r.numbers('judged'))} judging seeds"
        for r in pair
        if len(r.numbers("judged")) != protocol.judging or r.number("tried") > protocol.budget
    ]
    why += [
        f"{method}: its search missed what {narrower} found"
        for narrower, method in (within or {}).items()
        if method in methods and _beaten(instance, method, narrower)
    ]
    return Check(
        name, top / bottom, upper=upper, margin=margin, source=source,
        by=protocol, withheld="; ".join(why),
    )  # fmt: skip


def _beaten(instance: Results, method: str, other: str) -> bool:
    """Whether a method's judged mean is above another's by more than two standard errors."""
    if not instance.where(method=other).rows:
        return False
    pairs = [mean_and_error(instance.one(method=m).numbers("judged")) for m in (method, other)]
    (own, error), (less, spread) = pairs
    return own - less > 2 * math.hypot(error, spread)


def contest_table(title: str, instance: Results) -> Table:
    """Every method of an instance: judged mean, what is left of doing nothing, search, ends."""
    start = mean_and_error(instance.one(method=NOTHING).numbers("judged"))[0]
    rows: list[tuple[Parameter, ...]] = []
    for result in instance:
        mean, error = mean_and_error(result.numbers("judged"))
        chosen = ", ".join(
            f"{name.removeprefix(SET)} {result.number(name):.3g}"
            for name in result.values
            if name.startswith(SET)
        )
        rows.append(
            (
                result.cell.text("method"),
                mean,
                error,
                mean / start,
                int(result.number("tried")),
                chosen,
                ", ".join(at_ends(result)) or "none",
            )
        )
    columns = (
        "method", "judged mean", "standard error", "of doing nothing", "settings tried", "chosen",
        "at the end of its grid",
    )  # fmt: skip
    return Table(title, columns, tuple(rows))


def protocol_note(protocol: Protocol) -> str:
    """The protocol in a sentence."""
    return (
        f"protocol: at most {protocol.budget} settings of all free parameters for each method, "
        f"chosen on {protocol.choosing} seeds, judged on {protocol.judging} others with data sets "
        "of their own; a comparison with a parameter at the end of its grid decides nothing"
    )


def judged(findings: Findings, alone: Sequence[str], protocol: Protocol | None) -> Findings:
    """The findings, with each comparison withheld that was not run under ``protocol``.

    ``alone``: how the names of checks begin that speak of one method alone.  ``protocol``: that
    which the result records, if it is the one that the experiment now declares.
    """

    def mark(check: Check) -> Check:
        if check.source == BAND or (alone and check.name.startswith(tuple(alone))):
            return check
        if check.by is not None and check.by == protocol:
            return check
        return replace(check, withheld=PREDATES)

    return replace(findings, checks=tuple(map(mark, findings.checks)))


def of_result(experiment: Experiment, findings: Findings, stamp: object) -> Findings:
    """An experiment's findings beside the protocol that its result records (``stamp``)."""
    own = experiment.protocol
    return judged(findings, experiment.alone, own if own and own.stamp == stamp else None)
