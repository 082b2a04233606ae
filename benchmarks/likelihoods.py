"""The share of the accounted bound that likelihoods of the program's own runs reach.

    python -m benchmarks.likelihoods                # the eight of `make certify`
    python -m benchmarks.likelihoods NAME ... --stand-ins
    python -m benchmarks.evidence likelihoods       # every entry, kept in docs/evidence.json

A row is one claim: what is accounted, the bound from likelihoods, the bound of plain runs, the
share of the accounted one that either reaches, and what both cost.  Every program has draws of its
own, so that bounds above the truth are independent accidents.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpaudit.accountant.account import Account
from dpaudit.audit.attack import attack
from dpaudit.audit.examine import Examination, examine, shape_like
from dpaudit.audit.likelihood import FEWEST_RUNS, RUNS, Likely, likelihood_audit
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import SHOWN_ERROR, DecisionBudget, lens, lower_for, printed_delta, raw
from dpaudit.certificate.certify import stand_in
from dpaudit.certificate.evidence import NUMBERS
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import DpauditError, UnknownTarget
from dpaudit.exact import enclose, is_infinite, unknowns
from dpaudit.project.project import load

EIGHT = (
    "diff2_gd dp_gd diff2_gd_tight dp_gd_tight diff2_gd_network diff2_bvr_local_sgd "
    "accelerated_dp_srgd kl_spider"
).split()
SEED, PLAIN = 1, 500
COLUMNS = ("mechanism", "pair", "claim", "accounted", "likelihood", "plain", "share", "plain share",
           "runs", "seconds", "why not")  # fmt: skip
ATTAINED = " (attained)"  # after an accounted number that some pair of data sets reaches
APART = 10_000  # keeps the draws of one program's pairs apart
HIGH = 0.8  # a share that an audit's pair should reach


def accounted(mechanism: Mechanism) -> list[tuple[float | None, bool]]:
    """The accounted number of each claim, and whether it is attained.

    None where there is none, or it is infinite.
    """
    account = Account(mechanism.declaration, mechanism.scope)
    found: list[tuple[float | None, bool]] = []
    for claim in mechanism.claims:
        step = claim.check_account(account).step
        value = None if step is None else step.value
        value = value[0] if isinstance(value, tuple) else value
        none = value is None or unknowns(value) or is_infinite(value)
        found.append((None if none else float(enclose(value).mid()), bool(step and step.attained)))
    return found


def likely(
    mechanism: Mechanism, program: Program, neighbours: Neighbours, work: int, index: int
) -> tuple[Likely, float]:
    """The likelihood audit of a program on a pair, and its processor seconds."""
    began = time.process_time()
    found = likelihood_audit(
        program,
        mechanism.declaration,
        mechanism.scope,
        neighbours,
        mechanism.claims,
        seed=SEED,
        index=index,
        runs=max(FEWEST_RUNS, min(RUNS, NUMBERS // max(1, work))),
        shown_error=SHOWN_ERROR,
        decisive_error=DecisionBudget(1, 1).likelihood,
    )
    return found, time.process_time() - began


def plain(
    mechanism: Mechanism, program: Program, neighbours: Neighbours, index: int
) -> tuple[list[float | None], float]:
    """The bound of each claim from plain runs on the same pair, and processor seconds."""
    began = time.process_time()
    suite = Suite(mechanism.name, program, neighbours, trials=PLAIN)
    seen = attack(mechanism, suite, seed=SEED, index=index, error=1e-6)
    budget = DecisionBudget(1, 1)
    found: list[float | None] = []
    for claim in mechanism.claims:
        delta = printed_delta(claim)
        bound = lower_for(
            claim, lens(seen, budget), None if delta is None else raw(seen, budget, delta)
        )
        found.append(None if bound is None else bound.shown)
    return found, time.process_time() - began


def rows_of(
    mechanism: Mechanism, suite: Suite | None, index: int, *, stand_ins: bool = False
) -> Iterator[list[str]]:
    """One row a claim and pair: the examiner's, and the suite's where it is asked for.

    ``index``: keeps the draws of programs apart.
    """
    shape = None if suite is None else shape_like(suite.neighbours.first)
    examination: Examination = examine(mechanism, seed=SEED, likely=shape)
    tried: list[tuple[str, Program, Neighbours]] = []
    if suite is not None and not suite.kernels and (stand_ins or not stand_in(mechanism, suite)):
        kind = "stand-in" if stand_in(mechanism, suite) else "suite"
        tried.append((kind, suite.program, suite.neighbours))
    if examination.pair is not None:
        tried.append(("found", mechanism.program, examination.pair))
    if not tried:
        yield [mechanism.name, *[""] * 9, examination.not_examined or "no pair"]
    uppers = accounted(mechanism)
    for number_of, (kind, program, neighbours) in enumerate(tried):
        apart = number_of * APART + index
        found, seconds = likely(mechanism, program, neighbours, examination.work, apart)
        try:
            plainly, more = plain(mechanism, program, neighbours, apart)
        except DpauditError:
            plainly, more = [None] * len(uppers), 0.0
        for claim, (upper, attained), seen in zip(mechanism.claims, uppers, plainly, strict=True):
            bound = found.lower(claim)
            shown = None if bound is None else bound.shown
            runs = "" if found.counted is None else str(len(found.counted))
            yield [
                mechanism.name, kind, claim.text, number(upper) + ATTAINED * attained,
                number(shown), number(seen),
                share(shown, upper), share(seen, upper), runs, f"{seconds:.1f}+{more:.1f}",
                found.why_not,
            ]  # fmt: skip


def number(value: float | None) -> str:
    """Five digits, or nothing."""
    return "" if value is None else f"{value:.5g}"


def share(value: float | None, upper: float | None) -> str:
    """A bound over the accounted one."""
    return "" if value is None or not upper else f"{value / upper:.3f}"


def names() -> list[str]:
    """The eight of `make certify`, then every other entry of the catalogue."""
    return [*EIGHT, *sorted(set(load(Path.cwd()).mechanisms) - set(EIGHT))]


def entry(name: str, *, stand_ins: bool = False) -> list[list[str]]:
    """The rows of one entry; one that only says why, where it cannot be run.

    Errors: UnknownTarget for another name.
    """
    project = load(Path.cwd())
    if name not in project.mechanisms:
        raise UnknownTarget(f"{name}: no mechanism of the catalogue")
    index = sorted(project.mechanisms).index(name)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            mechanism, suite = project.mechanisms[name], project.suites.get(name)
            return [*rows_of(mechanism, suite, index, stand_ins=stand_ins)]
    except DpauditError as error:
        return [[name, *[""] * 9, str(error)[:100]]]


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """The table, and how much of the accounted bounds is reached on pairs that were found."""
    shares, attained = (
        [float(r[6]) for r in rows if r[1] == "found" and r[6] and r[3].endswith(ending)]
        for ending in ("", ATTAINED)
    )
    table = [
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]
    for kind, some in (("accounted bounds", shares), ("attained bounds", attained)):
        if some:
            high = sum(share > HIGH for share in some)
            table.append(
                f"On pairs that the tool found, the median share of {len(some)} {kind} is "
                f"{statistics.median(some):.3f}; {high} shares are above {HIGH}."
            )
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--stand-ins", action="store_true", help="the suites of stand-ins too")
    given = parser.parse_args(arguments)
    rows = []
    for name in given.names or EIGHT:
        sys.stderr.write(f"{name}\n")
        rows += entry(name, stand_ins=given.stand_ins)
    print("\n".join(lines(rows)))


if __name__ == "__main__":
    main()
