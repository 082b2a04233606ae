"""Orders to certify mechanisms, and the run that shares one seed and one decision error."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpaudit.audit.examine.examination import SECONDS
from dpaudit.audit.examine.steep import holds_loss
from dpaudit.audit.likelihood import Wanted
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import DecisionBudget, bounds_of
from dpaudit.certificate.certificate import Json
from dpaudit.certificate.evidence import BOTH, METHODS, PLAIN
from dpaudit.check.assumptions import SYSTEM
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter


@dataclass(frozen=True)
class Order:
    """One mechanism to certify, where it comes from, and the suite that attacks it.

    ``fields``: what its project's ``dpaudit.toml`` states of it; ``place``: the file and line that
    define it, where known.  ``draw``: runs it on data of its own, from the operating system's
    entropy, and gives the run's row: a release, whose records no program is handed.
    ``ready_made``: the types of the objects that hold its rows; "" where they are read from files.
    ``suite_file``: the file of the implementation that defines the suite; empty where none does.
    """

    mechanism: Mechanism
    suite: Suite | None
    root: str
    implementation: Mapping[str, str]
    fields: Mapping[str, list[str]] = field(default_factory=dict)
    place: tuple[str, int] | None = None
    draw: Callable[[], Json] | None = None
    suite_file: str = ""
    ready_made: str = ""

    def source_of(self, suite: Suite) -> Json:
        """The file of a suite of this order, with its digest, and the trials it asks for."""
        digest = self.implementation.get(self.suite_file, "")
        return {"file": self.suite_file, "sha256": digest, "trials": suite.trials}


@dataclass(frozen=True)
class Options:
    """How a certification runs; ``seed`` None draws audits' seed and a run's noise afresh.

    ``audit_seed``: of the audits alone; a run then still has the operating system's entropy.
    ``targets``: what the command line was given, to say how to run it again.  ``run_unproved``: run
    on the data although a claim is refuted or unproved.  ``uncovered``: print metrics that the
    guarantee does not cover.  ``keep(name, draw)`` has the output of an unseeded run drawn and
    writes it at once, for its privacy is spent, whatever fails later; it gives the output (None
    where it was drawn before) and says where it is.  ``method``: whether audits are counted plain
    runs, likelihoods, or both.  ``seconds``: of a processor, for an examination at most.
    """

    seed: int | None = None
    trials: int | None = None
    jobs: int = 1
    store: Path | None = None
    targets: tuple[str, ...] = ()
    progress: Callable[[str, int, int], None] | None = None
    run_unproved: bool = False
    uncovered: bool = False
    keep: Callable[[str, Callable[[], Any]], tuple[Any, Json]] | None = None
    audit_seed: int | None = None
    method: str = BOTH
    seconds: float = SECONDS

    @property
    def entropy(self) -> str:
        """Where the noise of the run on the data comes from."""
        return SYSTEM if self.seed is None else f"seed {self.seed}"


@dataclass(frozen=True)
class Run:
    """Mechanisms certified together: one seed, one command, one decision error.

    Certificate by certificate, in any order: what one says does not depend on which others were
    made, now or before.
    """

    orders: tuple[Order, ...]
    options: Options
    budget: DecisionBudget
    seed: int
    command: str


def plan(orders: Sequence[Order], options: Options) -> Run:
    """A run over all orders; its decision error is shared by every audit of all of them.

    Each has the audit of the program itself, and one of its suite's if it has one, or else one on a
    steeper loss if it holds a loss.
    Errors: InvalidParameter for a method that does not exist.
    """
    if options.method not in METHODS:
        raise InvalidParameter(f"method = {options.method!r}: expected one of {', '.join(METHODS)}")
    audits = [
        1 + (holds_loss(o.mechanism.program) if o.suite is None else len(o.suite.all))
        for o in orders
    ]
    bounds = sum(
        count * bounds_of(o.mechanism.claims) for o, count in zip(orders, audits, strict=True)
    )
    likelihoods = (
        0
        if options.method == PLAIN
        else sum(
            count * len(Wanted.of(o.mechanism.claims))
            for o, count in zip(orders, audits, strict=True)
        )
    )
    budget = DecisionBudget(bounds, sum(audits), likelihoods)
    given = [seed for seed in (options.seed, options.audit_seed) if seed is not None]
    seed = given[0] if given else secrets.randbits(128)
    command = _command(options.targets or [o.mechanism.name for o in orders], options, seed)
    return Run(tuple(orders), options, budget, seed, command)


def _command(targets: Sequence[str], options: Options, seed: int) -> str:
    """The command that gives these audits again; one run's targets share its seed and error."""
    trials = [] if options.trials is None else ["--trials", str(options.trials)]
    verb, how = (
        ("certify", []) if options.method == BOTH else ("audit", ["--method", options.method])
    )
    return shlex.join(["dpaudit", verb, *targets, "--seed", str(seed), *trials, *how])
