"""Budgets over time: what all releases from one data set guarantee together.

The declared algorithms are composed exactly and by the accountant, in the order of their dates.
That holds for any data and any queries chosen in view of earlier releases; parameters that were
chosen in view of them need a filter (Rogers, Roth, Ullman and Vadhan 2016), as a ledger keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.accountant.filters.charges import ceiling, floor
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
from dpaudit.report.summary import data_of
from dpaudit.scope import Adjacency, Scope, central

DELTA = "1e-6"
_EXACT = ("pure", "zcdp", "gdp")
# Pure first, so that a pure budget can be kept; the others say more at small deltas.
_OPAQUE: dict[str, Any] = {"pure": PureDP, "gdp": GDP, "zcdp": ZCDP}

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """One certified release: whose data, which unit and adjacency, when, and its declaration."""

    file: Path
    name: str
    data: str
    unit: str
    adjacency: str
    day: date
    node: Node
    verdict: str
    digest: str


@dataclass(frozen=True)
class Row:
    """A line of the timeline: one release alone, and all up to it, as epsilon at the delta."""

    entry: Entry
    alone: str
    together: str


@dataclass(frozen=True)
class Total:
    """What the releases from one data set guarantee together.

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


def entry_of(certificate: Json, path: Path) -> Entry:
    """The release that a certificate speaks of, which was verified.

    Errors: CertificateRejected for one that measures only, or whose verdict leaves its loss
    unknown.
    """
    predicate = certificate["predicate"]
    if predicate.get("kind") == "empirical":
        raise CertificateRejected(f"{path}: it measures, and proves no bound that could be added")
    verdict, fields = predicate["verdict"]["status"], predicate.get("fields", {})
    if verdict in ("refuted", "alarm"):
        raise CertificateRejected(
            f"{path}: its verdict is {verdict}: what it lost is not known, and cannot be added"
        )
    published = "".join(fields.get("publication_date", ())) or predicate["issued"][:10]
    scope = predicate["scope"]
    return Entry(
        file=path,
        name=predicate["mechanism"]["name"],
        data=data_of(predicate),
        unit=scope["unit"]["entity"],
        adjacency=scope["adjacency"],
        day=date.fromisoformat(published),
        node=from_table(predicate["mechanism"]["declaration"]),
        verdict=verdict,
        digest=certificate["subject"][0]["digest"]["sha256"],
    )


def totals(
    entries: Sequence[Entry],
    budgets: Mapping[str, Mapping[str, str]] | None = None,
    *,
    delta: str = "",
    convert: bool = False,
) -> list[Total]:
    """One total a data set, by its name.

    ``budgets``: the stated ones by data set, as ``dpaudit.toml`` holds them.  ``convert``: where
    only add_remove and replace_one differ, add under replace_one, by group privacy of two.
    Errors: InvalidParameter for a certificate given twice, or a delta outside [0, 1).
    """
    if delta:
        checked(delta, "--delta", probability)
    seen: dict[str, Path] = {}
    for entry in entries:
        if entry.digest in seen:
            raise InvalidParameter(
                f"{entry.file}: the same release as {seen[entry.digest]}; give it once"
            )
        seen[entry.digest] = entry.file
    found: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda one: (one.day, one.name)):
        found.setdefault(entry.data, []).append(entry)
    stated = budgets or {}
    return [
        _total(found[data], stated.get(data), delta=delta, convert=convert)
        for data in sorted(found)
    ]


def _total(
    entries: Sequence[Entry], budget: Mapping[str, str] | None, *, delta: str, convert: bool
) -> Total:
    units, adjacencies = {e.unit for e in entries}, sorted({e.adjacency for e in entries})
    pure = budget is not None and "epsilon" in budget
    at = delta or (budget or {}).get("delta", "0" if pure else DELTA)
    data, unit = entries[0].data, " / ".join(sorted(units))
    if len(units) > 1:
        text = "releases of different units are not added; state a contribution bound and one unit"
        return Total(data, unit, ", ".join(adjacencies), at, refused=text)
    if budget and budget.get("unit", unit) != unit:
        text = f"the budget is for one {budget['unit']}, the releases are for one {unit}"
        return Total(data, unit, ", ".join(adjacencies), at, refused=text)
    mixed = adjacencies == ["add_remove", "replace_one"]
    if len(adjacencies) > 1 and not (mixed and convert):
        hint = "; --convert adds them under replace_one, as groups of two" if mixed else ""
        text = f"releases under {' and '.join(adjacencies)} are not added{hint}"
        return Total(data, unit, ", ".join(adjacencies), at, refused=text)
    adjacency = "replace_one" if mixed else adjacencies[0]
    nodes = [
        _as_replace_one(e.node) if mixed and e.adjacency == "add_remove" else e.node
        for e in entries
    ]
    try:
        return _added(entries, nodes, central(adjacency), budget, at)
    except Unsupported as error:
        return Total(data, unit, adjacency, at, refused=str(error))


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
    entries: Sequence[Entry],
    nodes: Sequence[Node],
    scope: Scope,
    budget: Mapping[str, str] | None,
    delta: str,
) -> Total:
    days = integer((budget or {}).get("days", "0"), "days", least=0)
    at = Fraction(delta)
    alone = [Account(node, scope) for node in nodes]
    windows = [_window(entries, i, days) for i in range(len(entries))]
    together = [Account(_joined([nodes[i] for i in window]), scope) for window in windows]
    for window, total in zip(windows, together, strict=True):
        for i in window:
            _refuse_gain(entries[i], alone[i], total, at)
    rows = tuple(
        Row(entry, _epsilon(one, at), _epsilon(total, at))
        for entry, one, total in zip(entries, alone, together, strict=True)
    )
    account = max(together, key=lambda total: _size(total, at))
    bound = account.epsilon(at)
    exact = {n: value_text(account.step(n).value) for n in _EXACT if n in account.routes()}
    left = None if budget is None else min(_left(total, budget) for total in together)
    return Total(
        data=entries[0].data,
        unit=entries[0].unit,
        adjacency=str(scope.adjacency),
        delta=delta,
        rows=rows,
        exact=exact,
        epsilon_lower=decimal_lower(bound.lower, 6),
        epsilon_upper=decimal_upper(bound.upper, 6),
        budget=budget,
        left="" if left is None else decimal_lower(left, 6),
        over=left is not None and left < 0,
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
    for part, whole in pairs:
        try:
            least = None if ceiling(part) is None else floor(part)
            most = ceiling(whole)
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
    """What a budget leaves, below the truth; very negative where the total is infinite."""
    if "rho" in budget:
        allowed, spent = Fraction(budget["rho"]), account.step("zcdp").value
    else:
        allowed = Fraction(budget["epsilon"])
        spent = account.epsilon(Fraction(budget.get("delta", "0"))).upper
    return -Fraction(10**30) if is_infinite(spent) else allowed - Fraction(decimal_upper(spent))


def chosen(
    paths: Sequence[Path], since: date | None = None, until: date | None = None
) -> Iterator[Entry | DpauditError]:
    """The releases of files within a window of days; an error for each file that has none."""
    for one in verify_files(list(map(read, paths))):
        try:
            entry = entry_of(one.certificate, one.file.path)
        except DpauditError as error:
            yield error
            continue
        if (since or date.min) <= entry.day <= (until or date.max):
            yield entry
