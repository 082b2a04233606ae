"""The share of the accounted bound that likelihoods of the program's own runs reach.

    python -m benchmarks.likelihoods                # the eight of `make certify`
    python -m benchmarks.likelihoods NAME ... --seconds 60
    python -m benchmarks.evidence likelihoods       # every entry, kept in docs/evidence.json

A row is one accounted bound, of the claims in its measure: what is accounted, the bound from
likelihoods, the bound of plain runs, the share of the accounted one that either reaches, and what
both cost.  Every program has draws of its
own, so that bounds above the truth are independent accidents.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Claim
from dpaudit.audit.attack import attack
from dpaudit.audit.examine import Examination, examine, shape_like
from dpaudit.audit.examine.steep import steeper
from dpaudit.audit.likelihood import FEWEST_RUNS, Likely, Wanted, likelihood_audit
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import SHOWN_ERROR, DecisionBudget, lens, lower_for, printed_delta, raw
from dpaudit.certificate.attempts import own_pairs, stand_in
from dpaudit.certificate.evidence import likelihood_runs
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
FOUND, SUITE, STAND_IN, STEEPER = "found", "suite", "stand-in", "steeper loss"
OWN = FOUND, SUITE  # pairs on which the program itself runs
ATTAINED = " (attained)"  # after an accounted number that some pair of data sets reaches
APART = 10_000  # keeps the draws of one program's pairs apart
SMALL = 1e-12  # no bound is divided by less
HIGH = 0.8  # a share that an audit's pair should reach
LIMIT = 40.0  # processor seconds that one entry may take
NEARLY = 0.9  # of a stand-in's bound, from which the program's own bound says as much
FULL_CLIP = 0.95  # of what is declared, below which the program's own queries limit an attack
# Why a program's suite attacks a stand-in that no search for a pair, or a loss, replaces.
PHASES = "a suite attacks a record of every phase, and a search finds one pair"
STOPPED = (
    "its rounds stop by what was released: a search for a loss shows less than 90% of its suite"
)
LIPSCHITZ = (
    "nothing is clipped: its guarantee is of Lipschitz losses, and no other loss is searched"
)
OPPOSED = (
    "a secret batch shows most where all fellow records are opposed, and a logistic gradient is "
    "flat on one of two opposed records as soon as the iterate leaves its start"
)
SUBSETS = "its search tries every set of users to delete, which ends for a few users only"
STABLE = "its score is 0 on any data at these constants, so that no threshold is ever near"
WIDE = (
    "its test's radius is larger than clipped gradients can put any two points apart, so that the "
    "score is the same on any data of its own loss"
)
HIDDEN = (
    "its score is 0 on any data, and its noise hides the whole domain: no pair of data sets shows "
    "a fifth of the claim"
)
HUB = (
    "who is near to whom decides; gradients are known at the public start alone, where a pair made "
    "by hand shows at most 40% of its suite, and later ones follow the noise"
)
NOT_FOUND: Mapping[str, Sequence[str]] = {
    PHASES: ("localized_accelerated_dp_sgd", "item_phased_erm", "user_level_phased_sgd_baseline",
             "user_level_phased_sgd_plain"),
    STOPPED: ("adaptive_noisy_gd_proof", "adaptive_noisy_gd_paper",
              "adaptive_noisy_gd_paper_iterates", "adaptive_noisy_gd_paper_signed_zero_out"),
    LIPSCHITZ: ("accelerated_dp_srgd_theorem_5_12_unclipped", "phased_erm",
                "phased_erm_in_batches", "phased_sgd"),
    OPPOSED: ("diff2_bvr_local_sgd_tight", "dp_sgd", "dp_srm"),
    SUBSETS: ("deletion_stable_output_perturbation",
              "deletion_stable_output_perturbation_calibrated", "stable_phased_erm",
              "stable_phased_sco", "strongly_convex_erm", "strongly_convex_sco",
              "strongly_convex_output_perturbation_printed"),
    HIDDEN: ("stable_phased_erm_rows", "stable_phased_sco_rows", "strongly_convex_erm_rows",
             "strongly_convex_sco_rows"),
    STABLE: ("deletion_stable_output_perturbation_laplace", "ladder_stable_output_perturbation",
             "window_mean_score"),
    WIDE: ("full_batch_outlier_removed_dpsgd", "smoothed_user_level_phased_erm",
           "strongly_convex_reduction", "user_level_phased_erm",
           "user_level_phased_erm_sampled_tests", "user_level_phased_sgd",
           "user_level_phased_sgd_public_order"),
    HUB: ("user_level_accelerated_sgd", "user_level_accelerated_sgd_sampled_tests"),
    "its first test is wider than its ball of parameters, and later phases start at noise":
        ("user_level_phased_sgd_random",),
    "its runs go on for as long as the noise lets them, and its suite cuts them at 60 rounds":
        ("adaptive_noisy_gd_paper_vector",),
    "gradients and their differences exceed both clips only where a gradient turns: the search "
    "for a loss shows less than 90% of its suite": ("kl_spider", "private_spider"),
    "features are scaled, and a logistic slope is below 1: the own gradients leave a part of the "
    "clip": ("user_level_dp_gd",),
    "one user of a linear loss moves all rotated coordinates at once, and a batch may miss it":
        ("winsorized_mean_dpsgd",),
}  # fmt: skip
FEW_RUNS = 200  # below which a bound is a tenth or more below what its pair shows


class Late(BaseException):
    """One entry took its time; no program is to stop it."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """So many processor seconds for what is inside.  Errors: Late after them."""

    def late(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


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
    mechanism: Mechanism,
    program: Program,
    neighbours: Neighbours,
    runs: int,
    index: int,
    error: float,
) -> tuple[Likely, float]:
    """The likelihood audit of a program on a pair, at an error, and its processor seconds."""
    began = time.process_time()
    found = likelihood_audit(
        program,
        mechanism.declaration,
        mechanism.scope,
        neighbours,
        mechanism.claims,
        seed=SEED,
        index=index,
        runs=runs,
        shown_error=error,
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


def targets(
    mechanism: Mechanism, suite: Suite | None, examination: Examination
) -> Iterator[tuple[str, Program, Neighbours]]:
    """The programs and pairs that are attacked, each with its kind."""
    found = None if examination.pair is None else examination.pair.digests
    for pair in own_pairs(mechanism, suite, examination):
        yield FOUND if pair.digests == found else SUITE, mechanism.program, pair
    if suite is not None and stand_in(mechanism, suite):
        yield STAND_IN, suite.program, suite.neighbours
    made = steeper(mechanism, examination, SEED) if suite is None else None
    if made is not None:
        yield STEEPER, made.program, made.neighbours


def rows_of(mechanism: Mechanism, suite: Suite | None, index: int) -> Iterator[list[str]]:
    """One row a claim and pair: of the program itself, of a stand-in, or on a steeper loss.

    The pairs of the program itself share the error of 5%, as the largest of their bounds counts.
    ``index``: keeps the draws of programs apart.
    """
    shape = None if suite is None else shape_like(suite.neighbours.first)
    examination: Examination = examine(mechanism, seed=SEED, likely=shape)
    tried = [*targets(mechanism, suite, examination)]
    runs_of_one = likelihood_runs(examination)
    if examination.pair is None:
        yield [mechanism.name, *[""] * 9, examination.not_examined or "no pair was found"]
    elif not runs_of_one:
        tried = [one for one in tried if one[0] == STAND_IN]
        why = f"one of its runs reads {examination.work:,} numbers"
        yield [mechanism.name, *[""] * 9, why]
    shared = SHOWN_ERROR / max(sum(kind in OWN for kind, *_ in tried), 1)
    uppers = accounted(mechanism)
    for number_of, (kind, program, neighbours) in enumerate(tried):
        apart = number_of * APART + index
        count, error = runs_of_one or FEWEST_RUNS, shared if kind in OWN else SHOWN_ERROR
        found, seconds = likely(mechanism, program, neighbours, count, apart, error)
        try:
            plainly, more = plain(mechanism, program, neighbours, apart)
        except DpauditError:
            plainly, more = [None] * len(uppers), 0.0
        runs = 0 if found.counted is None else len(found.counted)
        for places in alike(mechanism.claims, uppers):
            claims = [mechanism.claims[k] for k in places]
            (upper, attained), seen = uppers[places[0]], plainly[places[0]]
            bound = found.lower(claims[0])
            shown = None if bound is None else bound.shown
            why = found.why_not
            wrong = [] if shown is None else [c for c in claims if refuted(c, shown)]
            if wrong:
                why = f"the bound refutes {wrong[0].text}"
            elif not why and kind in OWN and (not upper or (shown or 0.0) < HIGH * upper):
                why = reason(examination, upper, runs, attained=attained)
            yield [
                mechanism.name, kind, text_of(claims), number(upper) + ATTAINED * attained,
                number(shown), number(seen),
                share(shown, upper), share(seen, upper), str(runs or ""),
                f"{seconds:.1f}+{more:.1f}", why,
            ]  # fmt: skip


def alike(claims: Sequence[Claim], uppers: Sequence[object]) -> list[list[int]]:
    """Places of claims, those together whose one accounted bound is in one measure."""
    found: dict[object, list[int]] = {}
    for place, (claim, upper) in enumerate(zip(claims, uppers, strict=True)):
        found.setdefault((upper, *(Wanted.of([claim]) or [claim.text])), []).append(place)
    return list(found.values())


def text_of(claims: Sequence[Claim]) -> str:
    """The first claim, and how many share its bound."""
    more = len(claims) - 1
    return claims[0].text + (f" and {more} more" if more else "")


def refuted(claim: Claim, shown: float) -> bool:
    """Whether a bound is above the number that is claimed."""
    value = claim.value
    return not unknowns(value) and shown > float(enclose(value).mid())


def reason(examination: Examination, upper: float | None, runs: int, *, attained: bool) -> str:
    """The likeliest cause of a small share: the account, the program's own queries, or few runs."""
    if not upper:
        return "nothing finite is accounted"
    if not attained:
        return "the accounted bound is not known to be attained"
    least = min(examination.reached, key=lambda one: one.displacement, default=None)
    if least is not None and least.displacement < FULL_CLIP:
        moved = max(least.displacement, 0)
        return f"examined records moved {least.label!r} by {moved:.0%} of what is declared"
    return f"{runs} runs" if runs < FEW_RUNS else "no better pair of data sets was found"


def number(value: float | None) -> str:
    """Five digits, or nothing."""
    return "" if value is None else f"{value:.5g}"


def share(value: float | None, upper: float | None) -> str:
    """A bound over the accounted one."""
    return "" if value is None or not upper else f"{value / upper:.3f}"


def names() -> list[str]:
    """The eight of `make certify`, then every other entry of the catalogue."""
    return [*EIGHT, *sorted(set(load(Path.cwd()).mechanisms) - set(EIGHT))]


def entry(name: str, *, seconds: float = LIMIT) -> list[list[str]]:
    """The rows of one entry, as many as can be made in so many processor seconds.

    One row says why there are no more.  Errors: UnknownTarget for another name.
    """
    project = load(Path.cwd())
    if name not in project.mechanisms:
        raise UnknownTarget(f"{name}: no mechanism of the catalogue")
    index = sorted(project.mechanisms).index(name)
    rows: list[list[str]] = []
    try:
        with contextlib.redirect_stdout(sys.stderr), at_most(seconds):
            mechanism, suite = project.mechanisms[name], project.suites.get(name)
            for row in rows_of(mechanism, suite, index):
                rows.append(row)
    except DpauditError as error:
        rows.append([name, *[""] * 9, str(error)[:100]])
    except Late:
        rows.append([name, *[""] * 9, f"more took longer than {seconds:g} s"])
    return rows


def lines(rows: Sequence[Sequence[str]], kept: Sequence[str] = ()) -> list[str]:
    """How much of the accounted bounds is reached on pairs that were found, and the table.

    ``kept``: programs with a stand-in, each of which is listed with the reason.
    """
    shown = [row for row in rows if row[1] in OWN and row[6]]
    # By program and claim, the row with the largest share.
    best = {(row[0], row[2]): row for row in sorted(shown, key=lambda row: float(row[6]))}
    own = list(best.values())
    found: list[str] = []
    for some, pairs in (
        (own, "On the better of a program's pairs"),
        ([row for row in shown if row[1] == FOUND], "On pairs that the tool found"),
    ):
        for kind, end in (("accounted bounds", ""), ("attained bounds", ATTAINED)):
            shares = [float(row[6]) for row in some if row[3].endswith(end)]
            if shares:
                high = sum(share > HIGH for share in shares)
                found.append(
                    f"{pairs}, the median share of {len(shares)} {kind} is "
                    f"{statistics.median(shares):.3f}; {high} shares are above {HIGH}."
                )
    smallest: dict[str, Sequence[str]] = {}
    for row in sorted(own, key=lambda row: float(row[6])):
        smallest.setdefault(row[0], row)
    low = [row for row in smallest.values() if float(row[6]) < HIGH]
    return [
        *found,
        *(["", f"Programs with a share below {HIGH}, and its likeliest cause:", ""] if low else []),
        *(f"- {row[0]}, {row[2]}: {row[6]}; {row[10]}" for row in low),
        "",
        *of_stand_ins(rows, kept),
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def stand_ins() -> list[str]:
    """Entries of the catalogue whose suite attacks another program with the same declaration."""
    project = load(Path.cwd())
    return [
        name
        for name, suite in sorted(project.suites.items())
        if any(stand_in(project.mechanisms[name], one) for one in suite.all)
    ]


def of_stand_ins(rows: Sequence[Sequence[str]], kept: Sequence[str]) -> list[str]:
    """Why each program whose suite attacks a stand-in keeps it."""
    if not kept:
        return []
    reasons = {name: reason for reason, names in NOT_FOUND.items() for name in names}
    return [
        f"The suites of {len(kept)} programs attack a stand-in. A suite is deleted where the "
        f"program's own bound, or that on a steeper loss, reaches {NEARLY:.0%} of its; these are "
        "kept:",
        "",
        *(
            f"- {name}: {'; '.join(filter(None, (reasons.get(name), why_kept(name, rows))))}"
            for name in kept
        ),
        "",
    ]


def why_kept(name: str, rows: Sequence[Sequence[str]]) -> str:
    """Why a program keeps its stand-in; empty where nothing keeps it.

    The program's share of the stand-in's bound is the smallest of its claims'.
    """
    here = [row for row in rows if row[0] == name]
    shown = [row for row in here if row[1] == STAND_IN and row[4]]
    own = {row[2]: row for row in here if row[1] == FOUND and row[4]}
    parts = [
        (float(own[row[2]][4]) / max(float(row[4]), SMALL), own[row[2]][10])
        for row in shown
        if row[2] in own
    ]
    if not parts:
        why = next((row[10].partition(";")[0] for row in here if row[10]), "")
        return why and f"the two bounds are not both known: {why}"
    part, why = min(parts)
    return "" if part >= NEARLY else f"its own bound is {part:.0%}; {why or 'its pair shows less'}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=LIMIT, help="of each entry")
    given = parser.parse_args(arguments)
    rows = []
    for name in given.names or EIGHT:
        sys.stderr.write(f"{name}\n")
        rows += entry(name, seconds=given.seconds)
    print("\n".join(lines(rows)))


if __name__ == "__main__":
    main()
