"""Budgets over time: what all releases from one data set guarantee together.

Only guarantees for the same unit are added (:class:`dpaudit.scope.Protected`).  A release of
several data sets counts in each of them.  Where one unit may be in several data sets, the releases
of all of them are added too: a unit that changes may change in each.

The declared algorithms are composed exactly and by the accountant, in the order of their dates.
That holds for any data and any queries chosen in view of earlier releases; parameters that were
chosen in view of them need a filter (Rogers, Roth, Ullman and Vadhan 2016), as a ledger keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.accountant.filters.charges import ceiling, floor
from dpaudit.check import SECONDS
from dpaudit.check.file import read
from dpaudit.check.process import verify_files
from dpaudit.errors import CertificateRejected, DpauditError, InvalidParameter, Unsupported
from dpaudit.exact import decimal_lower, decimal_upper, is_infinite
from dpaudit.exact.domains import checked, integer, probability
from dpaudit.families.composition import Compose
from dpaudit.families.events import Group
from dpaudit.families.opaque import GDP, ZCDP, PureDP
from dpaudit.measures.show import value_text
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table
from dpaudit.report.summary import data_of, data_sets_of
from dpaudit.scope import Adjacency, Protected, Scope, central, name_key, protected

DELTA = "1e-6"
ALL = "all data sets"
_EXACT = ("pure", "zcdp", "gdp")  # measures whose values add up exactly
# Pure first, so that a pure budget can be kept; the others say more at small deltas.
_OPAQUE: dict[str, Any] = {"pure": PureDP, "gdp": GDP, "zcdp": ZCDP}

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """One certified release: whom it protects, in which data, when, and its declaration.

    ``uncovered``, ``invariants``: accesses outside of its guarantee, and facts that stay exact.
    """

    file: Path
    name: str
    protects: Protected
    day: date
    node: Node
    verdict: str
    digest: str
    uncovered: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ()

    @property
    def adjacency(self) -> str:
        """Under which adjacency it is accounted."""
        return self.protects.adjacency


@dataclass(frozen=True)
class Row:
    """A line of the timeline: one release alone, and all up to it, as epsilon at the delta."""

    entry: Entry
    alone: str
    together: str


@dataclass(frozen=True)
class Total:
    """The joint guarantee of all releases from one data set, or from all of them.

    ``outside``: what the certificates say is in no guarantee, or what their sum rests on.
    ``exact``: values by calculus, where every release has one; ``epsilon_lower`` and
    ``epsilon_upper`` at ``delta``.  ``refused`` says why releases could not be added, else it is
    empty.  ``left``: what a stated budget leaves, rounded down; ``over``: it is exceeded.
    """

    data: str
    unit: str
    adjacency: str
    delta: str
    rows: tuple[Row, ...] = ()
    exact: Mapping[str, str] | None = None
    epsilon_lower: str = ""
    epsilon_upper: str = ""
    budget: Mapping[str, str] | None = None
    left: str = ""
    over: bool = False
    refused: str = ""
    outside: tuple[str, ...] = ()
    of_all: bool = False


def entry_of(certificate: Json, path: Path) -> Entry:
    """The release that a certificate speaks of, which was verified.

    Errors: CertificateRejected for one that measures only, or whose verdict leaves its loss
    unknown.
    """
    predicate = certificate["predicate"]
    if predicate.get("kind") == "empirical":
        raise CertificateRejected(
            f"{path}: a membership audit proves no upper bound that could be added; leave it out"
        )
    verdict, fields = predicate["verdict"]["status"], predicate.get("fields", {})
    if verdict in ("refuted", "alarm"):
        raise CertificateRejected(
            f"{path}: its verdict is {verdict}: what it lost is not known, and cannot be added"
        )
    published = "".join(fields.get("publication_date", ())) or predicate["issued"][:10]
    scope = predicate["scope"]
    protects = protected(scope, data_sets_of(predicate) or (data_of(predicate),))
    if protects.disguises:
        raise CertificateRejected(
            f"{path}: a name may be read as another one, {'; '.join(protects.disguises)}; it is "
            "added to none: certify it under another name"
        )
    return Entry(
        file=path,
        name=predicate["mechanism"]["name"],
        protects=protects,
        day=date.fromisoformat(published),
        node=from_table(predicate["mechanism"]["declaration"]),
        verdict=verdict,
        digest=certificate["subject"][0]["digest"]["sha256"],
        uncovered=tuple(scope.get("data_accesses", {}).get("uncovered", ())),
        invariants=tuple(scope.get("invariants", ())),
    )


def totals(
    entries: Sequence[Entry],
    budgets: Mapping[str, Mapping[str, str]] | None = None,
    *,
    delta: str = "",
    convert: bool = False,
) -> list[Total]:
    """One total for each data set, by its name; then one over all for each unit of several sets.

    ``budgets``: the stated ones by data set, as ``dpaudit.toml`` holds them.  ``convert``: where
    only add_remove and replace_one differ, add under replace_one, by group privacy of two.
    Errors: InvalidParameter for a certificate given twice, or a delta outside [0, 1).
    """
    if delta:
        checked(delta, "delta", probability)
    files_by_digest: dict[str, Path] = {}
    for entry in entries:
        if entry.digest in files_by_digest:
            raise InvalidParameter(
                f"{entry.file}: the same release as {files_by_digest[entry.digest]}; give it once"
            )
        files_by_digest[entry.digest] = entry.file
    stated = {name_key(name): row for name, row in (budgets or {}).items()}
    if len(stated) != len(budgets or {}):
        raise InvalidParameter("[budgets]: two of them are of the same data set; keep one")
    in_order = sorted(entries, key=lambda entry: (entry.day, entry.name))
    sets, names = _grouped(in_order), _names(in_order)
    sums = [
        _total(names[key], sets[key], stated.get(key), delta=delta, convert=convert)
        for key in sorted(sets)
    ]
    for releases_held in _of_several(in_order):
        total = _total(ALL, releases_held, None, delta=delta, convert=convert)
        sums.append(replace(total, of_all=True))
    return sums


def _grouped(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """The releases of each data set, by what its name is compared as."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        for key in entry.protects.data_keys:
            groups.setdefault(key, []).append(entry)
    return groups


def _names(entries: Sequence[Entry]) -> dict[str, str]:
    """How each data set is written first."""
    names: dict[str, str] = {}
    for entry in entries:
        for name in entry.protects.data:
            names.setdefault(name_key(name), name)
    return names


def _of_several(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The releases that may concern the same entities, where these are of several data sets."""
    by_entity: dict[str, list[Entry]] = {}
    for entry in entries:
        by_entity.setdefault(name_key(entry.protects.entity), []).append(entry)
    for _, same in sorted(by_entity.items()):
        if len(set().union(*(entry.protects.data_keys for entry in same))) > 1:
            yield same


def _outside(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Statements of what the guarantees leave out, and of what their sum rests on."""
    lines = []
    for entry in entries:
        lines += [
            f"{entry.file}: outside of its guarantee: {statement}" for statement in entry.uncovered
        ]
        lines += [f"{entry.file}: stays exact: {statement}" for statement in entry.invariants]
        if not entry.protects.entity:
            lines.append(f"{entry.file}: it does not state what one unit is")
    models = sorted({entry.protects.model for entry in entries})
    if len(models) > 1:
        lines.append(
            f"models {', '.join(models)}: the sum holds against who sees releases, and not against "
            "who collects data"
        )
    return tuple(lines)


def _total(
    data: str,
    entries: Sequence[Entry],
    budget: Mapping[str, str] | None,
    *,
    delta: str,
    convert: bool,
) -> Total:
    """The total of one data set, or why its releases are not added.

    ``convert``: turn guarantees under add_remove into ones under replace_one where both occur.
    """
    adjacencies = sorted({e.adjacency for e in entries})
    pure = budget is not None and "epsilon" in budget
    at = delta or (budget or {}).get("delta", "0" if pure else DELTA)
    units = {e.protects.unit_key: e.protects for e in entries}
    unit = " / ".join(sorted(protected.unit for protected in units.values()))
    mixed = adjacencies == ["add_remove", "replace_one"]
    converted = mixed and convert
    adjacency = "replace_one" if converted else ", ".join(adjacencies)
    empty = Total(data, unit, adjacency, at, outside=_outside(entries))
    if len(units) > 1:
        text = (
            "releases of different units are not added: a guarantee for a part of a unit holds "
            "for no more; certify them for one unit, in the same words"
        )
        return replace(empty, refused=text)
    ((_, entity, period, part),) = units
    if (
        budget
        and ("unit" in budget)
        and (name_key(budget["unit"]), "", "")
        != (
            entity,
            period,
            part,
        )
    ):
        text = f"the budget is for one {budget['unit']}, the releases are for one {unit}"
        return replace(empty, refused=text)
    if len(adjacencies) > 1 and not converted:
        hint = "; convert=true adds them under replace_one, as groups of two" if mixed else ""
        text = f"releases under {' and '.join(adjacencies)} are not added{hint}"
        return replace(empty, refused=text)
    try:
        nodes = [
            _as_replace_one(e.node) if converted and e.adjacency == "add_remove" else e.node
            for e in entries
        ]
        return _added(empty, entries, nodes, central(adjacency), budget)
    except Unsupported as error:
        return replace(empty, refused=str(error))


def _as_replace_one(node: Node) -> Node:
    """A node accounted for one record that comes or goes, for one that changes.

    One that changes goes and comes: a group of two under add_remove.  Sources: Dwork and Roth 2014,
    Theorem 2.2; Bun and Steinke 2016, Proposition 1.9; Dong, Roth and Su 2022, Theorem 2.14.
    """
    account = Account(Group(node, 2), central(Adjacency.ADD_REMOVE))
    for name, kind in _OPAQUE.items():
        if name in account.routes() and not is_infinite(account.step(name).value):
            return kind(account.step(name).value, source="group of two")  # type: ignore[no-any-return]
    raise Unsupported(f"{node.head}: no pure, zCDP or GDP guarantee of two records to convert")


def _added(
    empty: Total,
    entries: Sequence[Entry],
    nodes: Sequence[Node],
    scope: Scope,
    budget: Mapping[str, str] | None,
) -> Total:
    """The total of releases that can be added: the largest over windows of the budget's days."""
    days = integer((budget or {}).get("days", "0"), "days", least=0)
    at = Fraction(empty.delta)
    alone = [Account(node, scope) for node in nodes]
    windows = [_window(entries, i, days) for i in range(len(entries))]
    together = [Account(_joined([nodes[i] for i in window]), scope) for window in windows]
    for window, total in zip(windows, together, strict=True):
        for i in window:
            _refuse_gain(entries[i], alone[i], total, at)
    rows = tuple(
        Row(entry, _epsilon(single, at), _epsilon(total, at))
        for entry, single, total in zip(entries, alone, together, strict=True)
    )
    account = max(together, key=lambda total: _size(total, at))
    bound = account.epsilon(at)
    exact = {n: value_text(account.step(n).value) for n in _EXACT if n in account.routes()}
    remaining = None if budget is None else min(_left(total, budget) for total in together)
    return replace(
        empty,
        rows=rows,
        exact=exact,
        epsilon_lower=decimal_lower(bound.lower, 6),
        epsilon_upper=decimal_upper(bound.upper, 6),
        budget=budget,
        left="" if remaining is None else decimal_lower(remaining, 6),
        over=remaining is not None and remaining < 0,
    )


def _refuse_gain(entry: Entry, alone: Account, together: Account, delta: Fraction) -> None:
    """Refuse a release that would lower what the others spent.

    No loss is below 0, and releases together lose at least what each of them does alone.
    Errors: Unsupported naming the release.
    """
    routes = [name for name in _EXACT if name in together.routes() and name in alone.routes()]
    ends = alone.epsilon(delta), together.epsilon(delta)
    pairs = [(ends[0].lower, ends[1].upper)]
    pairs += [(alone.step(name).value, together.step(name).value) for name in routes]
    for part, total in pairs:
        try:
            least = None if ceiling(part) is None else floor(part)
            most = ceiling(total)
        except InvalidParameter as error:
            raise Unsupported(f"{entry.file}: {error}") from None
        if most is not None and (least is None or not (most >= 0 and least <= most)):
            raise Unsupported(
                f"{entry.file}: this release alone loses {_text(least)}, and with the others "
                f"{_text(most)}: losses are not below 0, and never give back what was spent"
            )


def _text(value: Fraction | None) -> str:
    return "inf" if value is None else decimal_upper(value, 6)


def _window(entries: Sequence[Entry], last: int, days: int) -> list[int]:
    """The releases of the ``days`` that end with one; all up to it for 0."""
    start = entries[last].day - timedelta(days=days) if days else date.min
    return [i for i in range(last + 1) if not days or entries[i].day > start]


def _joined(nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Compose(*nodes)


def _size(account: Account, delta: Fraction) -> Fraction:
    upper = account.epsilon(delta).upper
    return Fraction(10**30) if is_infinite(upper) else Fraction(upper)


def _epsilon(account: Account, delta: Fraction) -> str:
    return decimal_upper(account.epsilon(delta).upper, 6)


def _left(account: Account, budget: Mapping[str, str]) -> Fraction:
    """The rest of a budget, rounded down; very negative where the total is infinite."""
    if "rho" in budget:
        allowed, spent = Fraction(budget["rho"]), account.step("zcdp").value
    else:
        allowed = Fraction(budget["epsilon"])
        spent = account.epsilon(Fraction(budget.get("delta", "0"))).upper
    return -Fraction(10**30) if is_infinite(spent) else allowed - Fraction(decimal_upper(spent))


def chosen(
    paths: Sequence[Path],
    since: date | None = None,
    until: date | None = None,
    *,
    seconds: float = SECONDS,
) -> Iterator[Entry | DpauditError]:
    """The releases of files within a window of days; an error for each file that has none."""
    for verified in verify_files(list(map(read, paths)), seconds):
        try:
            entry = entry_of(verified.certificate, verified.file.path)
        except DpauditError as error:
            yield error
            continue
        if (since or date.min) <= entry.day <= (until or date.max):
            yield entry
