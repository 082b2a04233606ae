"""A page for each paper, made of result files: what it claims, what was measured, what was not run.

A statement is decided by checks of one experiment; each says where its band is from.  A check that
did not hold and decides no statement is named too.  Nothing here is written about a result by hand:
a result that is missing, of a corner of the grid, or of another grid than the experiment now has,
reads *not run*.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.storage import roots
from experiments.lab.errata import Errata
from experiments.lab.learning import TITLE
from experiments.lab.listed import Listed
from experiments.lab.model import Cell, Check, Experiment, Findings, Result, Results, Size, Status
from experiments.lab.protocol import PREDATES, of_result

if TYPE_CHECKING:
    from experiments.lab.figures import Figure

Kind = TypeVar("Kind")
UNREAD = "Missed or inconclusive, and read by no statement"
# Names that sources of checks may have and that the experiments' specification says in words.
NAMED = re.compile(r"\b(?:E[1-9]\d*|acceptance [1-9]\d*)\b")
APART = ", run before the protocol: each row beside its own start, no row beside another"
ANCHOR = "#missed-or-inconclusive-and-read-by-no-statement"


class Agreement(StrEnum):
    """The outcome of a statement."""

    AGREES = "agrees"
    DOES_NOT = "does not agree"
    INCONCLUSIVE = "inconclusive"
    VACUOUS = "vacuous here"
    NOT_ABOUT = "not a statement about this"
    UNFAIR = "not judged"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Statement:
    """A statement of a paper at ``place``, and the checks of an experiment that decide it.

    ``says``: the paper's own figure or rate.  ``checks``: how the names of its checks begin; all
    of them must be there.  ``held``: what is found where they hold; where bands are those of a
    refutation, that is no agreement.  ``vacuous``: checks that the paper's bound is below doing
    nothing; where one is missed the bound says nothing here, and no run can agree with it or not.
    ``ours``: why the checks speak of a reconstruction of ours, and not of the paper's statement.
    ``before``: how earlier statements began whose question this one asks under the protocol.
    ``experiment`` empty: nothing measures it, ``why`` says so.
    """

    place: str
    says: str
    experiment: str = ""
    checks: tuple[str, ...] = ()
    why: str = ""
    held: Agreement = Agreement.AGREES
    vacuous: tuple[str, ...] = ()
    ours: str = ""
    before: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.experiment) != bool(self.checks) or not (self.experiment or self.why):
            raise InvalidParameter(
                f"{self.place}: name an experiment and its checks, or say why there is none"
            )


@dataclass(frozen=True)
class Paper:
    """A paper's page: ``name`` is its file's, and how the names of its experiments begin.

    ``bands``: by what the sources of checks call it (E4, acceptance 1, Table 1), what the paper or
    the specification of its experiments says, in words, and what of a band is ours.
    """

    name: str
    title: str
    statements: tuple[Statement, ...]
    setting: str = ""
    bands: Mapping[str, str] = field(default_factory=dict)

    def reads(self, experiment: Experiment) -> Experiment:
        """An experiment of this paper, whose checks quote their bands."""
        return replace(experiment, read=partial(self._read, experiment))

    def _read(self, experiment: Experiment, results: Results) -> Findings:
        found = experiment.read(results)
        checks = (quoted(check, self.bands) for check in found.checks)
        return replace(found, checks=tuple(checks))


def quoted(check: Check, bands: Mapping[str, str]) -> Check:
    """A check whose source says in words what it names.

    Errors: InvalidParameter for a name of the specification's that has no words.
    """
    names = list(dict.fromkeys(NAMED.findall(check.source)))
    missing = [name for name in names if name not in bands]
    if missing:
        raise InvalidParameter(f"{check.name}: {missing[0]}: what does it accept, in words?")
    if check.source in bands:
        return replace(check, source=f"{check.source}: {bands[check.source]}")
    words = [f"{name}: {bands[name]}" for name in names]
    return replace(check, source=f"{check.source} ({'; '.join(words)})") if words else check


@dataclass(frozen=True)
class Claims:
    """The verdicts of certificates on the privacy that the paper of the page ``paper`` claims.

    ``counted``: how many instances of its claims came out how, by outcome; called for a page alone,
    as it imports what the claims are declared by.  ``link``: from the page to the list of them.
    """

    paper: str
    link: str
    counted: Callable[[], Mapping[str, int]]


@dataclass(frozen=True)
class Read:
    """The results of a file, read by the experiment as it now is; ``why`` there are none.

    ``title``: the experiment's.
    """

    experiment: str
    findings: Findings | None = None
    results: Results | None = None
    seed: int = 1
    why: str = ""
    sources: str = ""
    title: str = ""


def load_papers(root: Path) -> dict[str, Paper]:
    """The papers that ``experiments/`` defines, by name.

    Errors: UnknownTarget for a module that does not import.
    """
    return {paper.name: paper for paper in _defined(root, Paper)}


def load_claims(root: Path) -> dict[str, Claims]:
    """The claims that ``experiments/`` counts, by the name of their paper.

    Errors: as :func:`load_papers`.
    """
    return {claims.paper: claims for claims in _defined(root, Claims)}


def load_errata(root: Path) -> list[Errata]:
    """The errata that ``experiments/`` defines, paper by paper.

    Errors: as :func:`load_papers`.
    """
    return _defined(root, Errata)


def load_listed(root: Path) -> list[Listed]:
    """The papers' numbered statements that ``experiments/`` lists.

    Errors: as :func:`load_papers`.
    """
    return _defined(root, Listed)


def load_figures(root: Path) -> list[Figure]:
    """The figures that ``experiments/`` defines.

    Errors: as :func:`load_papers`.
    """
    from experiments.lab.figures import Figure

    return _defined(root, Figure)


def measured(papers: Iterable[Paper]) -> dict[str, list[tuple[str, str]]]:
    """By paper, the places of statements and the experiments that measure them."""
    return {
        paper.name: [(s.place, s.experiment) for s in paper.statements if s.experiment]
        for paper in papers
    }


def _defined(root: Path, kind: type[Kind]) -> list[Kind]:
    modules = roots.import_all(roots.serve(root), roots.optional(root))
    return [v for module in modules for v in vars(module).values() if isinstance(v, kind)]


def read_file(experiment: Experiment, folder: Path) -> Read:
    """The full result of an experiment, if the folder holds one of the grid that it has now."""
    path = folder / f"{experiment.name}.json"
    try:
        document = json.loads(path.read_text("utf-8"))
        rows = [(row["parameters"], row["values"]) for row in document["cells"]]
        size, seed = document["size"], int(document["seed"])
    except FileNotFoundError:
        return Read(experiment.name, why="no result")
    except (OSError, ValueError, LookupError, TypeError):
        return Read(experiment.name, why="a file that cannot be read")
    if size != Size.FULL:
        return Read(experiment.name, why=f"a result of the {size} grid only")
    found = {tuple(parameters.items()): values for parameters, values in rows}
    cells = list(experiment.cells(Size.FULL))
    if set(found) != {cell.parameters for cell in cells}:
        return Read(experiment.name, why="a result of another grid than the experiment now has")
    results = Results(tuple(Result(cell, _values(found, cell)) for cell in cells))
    try:
        read = of_result(experiment, experiment.read(results), document.get("protocol"))
        sources = str(document.get("sources", ""))
        return Read(experiment.name, read, results, seed, "", sources, experiment.title)
    except (DpauditError, LookupError, ValueError, TypeError):
        return Read(experiment.name, why="a result without what the experiment now measures")


def _values(found: Mapping[Any, Mapping[str, Any]], cell: Cell) -> dict[str, Any]:
    """A cell's values: words such as inf are numbers again."""
    values = found[cell.parameters]
    return {
        name: [_number(v) for v in value] if isinstance(value, list) else _number(value)
        for name, value in values.items()
    }


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def agreement(statement: Statement, read: Read | None) -> tuple[Agreement, list[Check]]:
    """The outcome of a statement, and the checks that decide it.

    A check that is not judged leaves a statement open unless another was missed: all must hold.
    Errors: InvalidParameter for a check that the experiment does not make.
    """
    if read is None or read.findings is None:
        return Agreement.NOT_RUN, []
    found = _named(statement, statement.checks, read.findings)
    bounds = _named(statement, statement.vacuous, read.findings)
    statuses = {check.status for check in found}
    defeated = Status.MISSED in statuses and statement.held is Agreement.AGREES
    if Status.WITHHELD in statuses and not defeated:
        return Agreement.UNFAIR, found
    if statement.ours:
        return Agreement.NOT_ABOUT, found
    if any(check.status is Status.MISSED for check in bounds):
        return Agreement.VACUOUS, [*bounds, *found]
    if defeated:
        return Agreement.DOES_NOT, found
    return statement.held if statuses == {Status.HELD} else Agreement.INCONCLUSIVE, found


def _named(statement: Statement, prefixes: Sequence[str], findings: Findings) -> list[Check]:
    """The checks whose names begin so.

    Errors: InvalidParameter for a beginning that no check has.
    """
    found: list[Check] = []
    for begins in prefixes:
        own = [check for check in findings.checks if check.name.startswith(begins)]
        if not own:
            raise InvalidParameter(
                f"{statement.place}: {statement.experiment} makes no check {begins!r}"
            )
        found += own
    return found


def unread(paper: Paper, reads: Mapping[str, Read]) -> list[tuple[str, Check]]:
    """The checks that did not hold and that no statement reads, by experiment."""
    begins: dict[str, tuple[str, ...]] = {}
    for statement in paper.statements:
        read = (*statement.checks, *statement.vacuous)
        begins[statement.experiment] = begins.get(statement.experiment, ()) + read
    return [
        (name, check)
        for name, read in sorted(reads.items())
        for check in (read.findings.checks if read.findings else ())
        if check.status is not Status.HELD
        and not _predates([check])
        and not check.name.startswith(begins.get(name, ()))
    ]


def page(paper: Paper, reads: Mapping[str, Read], claims: Claims | None = None) -> str:
    """A paper's page, of its results alone, and of what certificates say of its claims.

    Errors: as :func:`agreement`; InvalidParameter for a check whose band has no source.
    """
    own = {name: read for name, read in reads.items() if name.startswith(f"{paper.name}_")}
    _sources(own.values())
    counts = dict.fromkeys(Agreement, 0)
    rows, unfair = [], []
    for statement in paper.statements:
        kind, checks = agreement(statement, reads.get(statement.experiment))
        counts[kind] += 1
        if kind is Agreement.UNFAIR and _predates(checks):
            unfair.append(statement)
        else:
            rows.append(_row(statement, kind, checks, reads.get(statement.experiment)))
    said = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
    beside = unread(paper, own)
    head = f"{len(paper.statements)} statements: {said}. {_beside(beside)}"
    lines = [f"# {paper.title}", "", head, ""]
    lines += [_privacy(claims), ""] if claims else []
    lines += [paper.setting, ""] if paper.setting else []
    lines += [
        "| place | the paper says | measured | band | found |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]
    lines += [*_unread(beside), *_unfair(unfair, own), *_figures(paper, own)]
    lines += [*_learning(own), *_experiments(own)]
    return "\n".join(lines).rstrip() + "\n"


def _predates(checks: Iterable[Check]) -> bool:
    """Whether one of the checks compares methods in a run that predates the protocol."""
    return any(check.withheld == PREDATES for check in checks)


def _withheld(read: Read) -> int:
    """How many checks of a result compare methods without the protocol."""
    checks = read.findings.checks if read.findings else ()
    return sum(_predates([check]) for check in checks)


def _unfair(statements: Sequence[Statement], reads: Mapping[str, Read]) -> list[str]:
    """The questions that only an unfair comparison speaks of: no value of it is a conclusion."""
    from experiments.lab.pages import UNFAIR, escaped

    counts = {name: number for name, read in sorted(reads.items()) if (number := _withheld(read))}
    if not counts:
        return []
    lines = [UNFAIR, "", f"{PREDATES[0].upper()}{PREDATES[1:]}.", ""]
    lines += ["| place | the question | experiment |", "|---|---|---|"]
    for one in statements:
        link = f"[{one.experiment}]({one.experiment}.md)"
        lines.append(f"| {escaped(one.place)} | {escaped(one.says)} | {link} |")
    listed = ", ".join(f"{number} in [{name}]({name}.md)" for name, number in counts.items())
    return [*lines, "", f"Checks that are not judged for this reason: {listed}.", ""]


def _beside(found: Sequence[tuple[str, Check]]) -> str:
    if not found:
        return "Every other check of its experiments that were run held."
    counts = [
        f"{number} {status}"
        for status in (Status.MISSED, Status.INCONCLUSIVE, Status.WITHHELD)
        if (number := sum(check.status is status for _, check in found))
    ]
    return f"Checks that none of them reads: {', '.join(counts)}, [listed below]({ANCHOR})."


def _privacy(claims: Claims) -> str:
    outcomes = claims.counted()
    said = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    return (
        "Its privacy claims, in instances and readings, by certificates: "
        f"{said} ([What the papers print]({claims.link}))."
    )


def _unread(found: Sequence[tuple[str, Check]]) -> list[str]:
    from experiments.lab.pages import band, escaped, shown

    if not found:
        return []
    lines = [f"## {UNREAD}", "", "| experiment | check | value | band | found |"]
    lines.append("|---|---|---|---|---|")
    for name, check in found:
        bands = f"{band(check)}: {check.source}"
        cells = map(escaped, (check.name, shown(float(check.value)), bands, str(check.status)))
        lines.append(f"| [{name}]({name}.md) | {' | '.join(cells)} |")
    return [*lines, ""]


def _figures(paper: Paper, reads: Mapping[str, Read]) -> list[str]:
    """The plot of every experiment that a statement reads, once, where its result is there."""
    lines: list[str] = []
    for name in dict.fromkeys(statement.experiment for statement in paper.statements):
        read = reads.get(name)
        if read is not None and not _withheld(read) and read.findings and read.findings.panels:
            image = f"[![{read.title}]({name}.svg)]({name}.md)"
            lines += [image, "", f"[{name}]({name}.md): {read.title}.", ""]
    return ["## Figures", "", *lines] if lines else []


def _sources(reads: Iterable[Read]) -> None:
    for read in reads:
        for check in read.findings.checks if read.findings else ():
            if not check.source:
                raise InvalidParameter(f"{read.experiment}: {check.name}: who set its band?")


def _row(statement: Statement, kind: Agreement, checks: list[Check], read: Read | None) -> str:
    from experiments.lab.pages import band, escaped

    if kind is Agreement.NOT_RUN:
        why = statement.why or (read.why if read is not None else "no such experiment")
        measured = escaped(f"{statement.experiment}: {why}" if statement.experiment else why)
        bands = ""
    else:
        measured = "<br>".join(escaped(_measured(check)) for check in checks)
        bands = "<br>".join(map(escaped, dict.fromkeys(f"{band(c)}: {c.source}" for c in checks)))
    found = "<br>".join(map(escaped, _found(statement, kind, checks)))
    cells = (escaped(statement.place), escaped(statement.says), measured, bands, found)
    return f"| {' | '.join(cells)} |"


def _measured(check: Check) -> str:
    """A check's name, value and status; its value alone says nothing."""
    from experiments.lab.pages import shown, verdict

    return f"{check.name}: {shown(float(check.value))}, {verdict(check)}"


def _found(statement: Statement, kind: Agreement, checks: Sequence[Check]) -> list[str]:
    """The outcome, how many of several checks say so, and why a statement is not judged."""
    lines = [str(kind)]
    counts = Counter(check.status for check in checks)
    if len(counts) > 1:
        lines.append(", ".join(f"{number} {status}" for status, number in counts.items()))
    if kind is Agreement.NOT_ABOUT:
        lines.append(statement.ours)
    return lines


def _learning(reads: Mapping[str, Read]) -> list[str]:
    from experiments.lab.pages import markdown_table

    lines: list[str] = []
    for name, read in reads.items():
        for table in read.findings.tables if read.findings else ():
            if table.title == TITLE:
                lines += [f"From `{name}`{APART if _withheld(read) else ''}:", ""]
                lines += markdown_table(table)[2:]
    if lines:
        return [f"## {TITLE}", "", *lines]
    return [f"## {TITLE}", "", "No result that was run in full measures it.", ""]


def _experiments(reads: Mapping[str, Read]) -> list[str]:
    lines = [
        "## Experiments",
        "",
        "| experiment | result | digest of what made it |",
        "|---|---|---|",
    ]
    for name, read in sorted(reads.items()):
        link = f"[{name}]({name}.md)" if read.findings else name
        if read.findings is None:
            lines.append(f"| {link} | not run: {read.why} | |")
            continue
        made = read.sources[:12] or "not recorded"
        held = sum(check.status is Status.HELD for check in read.findings.checks)
        share = f"{held} of {len(read.findings.checks)} checks held"
        share += f", {number} not judged" if (number := _withheld(read)) else ""
        lines.append(f"| {link} | {share} | {made} |")
    return [*lines, ""]


def read_all(experiments: Iterable[Experiment], folder: Path) -> dict[str, Read]:
    """Every experiment's result in a folder, by name."""
    return {one.name: read_file(one, folder) for one in experiments}


def undecided(papers: Sequence[Paper], experiments: Iterable[str]) -> list[str]:
    """Experiments that belong to no paper's page."""
    names = [paper.name for paper in papers]
    return [name for name in experiments if not any(name.startswith(f"{p}_") for p in names)]
