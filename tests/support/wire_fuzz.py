"""Forged declarations against the accountant, the checker and an oracle that shares no code.

``judge`` reads one declaration (:mod:`tests.support.wire_draws`) three times.  What makes no sense
must be refused, by the accountant and by the checker alike; what is accounted must be at least what
:mod:`tests.support.wire_oracle` knows to be lost; nothing ends in another exception, or takes long.
"""

from __future__ import annotations

import copy
import re
import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import flint
import pytest
import sympy

import dpaudit.nodes.core as core
from dpaudit.accountant.account import Account
from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.check.assumptions import own_assumption
from dpaudit.check.derivation import own_bound, rederive, require_numbers
from dpaudit.check.measures import MEASURES
from dpaudit.check.reading import value_text
from dpaudit.check.theorem import attained, bound, rule_name
from dpaudit.errors import DpauditError
from dpaudit.exact import decimal_upper, enclose, exact, is_infinite, is_symbolic, sympify, unknowns
from dpaudit.exact.effort import PER_SECOND, TooMuch
from dpaudit.exact.effort import limited as budget
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Node, free_unknowns, postorder
from dpaudit.nodes.tables import from_table
from dpaudit.pairs import Losses
from dpaudit.scope import central
from tests.support.coarse import delta_lower, epsilon_lower
from tests.support.wire_draws import SEVERAL, Draws, Json, table_of, tree_of
from tests.support.wire_oracle import (
    MP,
    ORDERS,
    Reader,
    Truth,
    gaussian_delta,
)

TOLERANCE = 1e-8
WIDTH = 0.05
# How often (epsilon, delta) is asked for too, which takes the longest.
CONVERTED = 0.12
SECONDS = 10.0
# Units of work that the accountant may take for one declaration, and the checker as many.
WORK = 3 * PER_SECOND
# A mass below this may have a ratio of e^-600, which no float holds.
UNDERFLOW = 1e-40
FARTHEST = 600  # an epsilon beyond which no delta is a float
ALPHA = sympy.Symbol("alpha", positive=True)
NUMBERS = ("pure", "approx", "zcdp", "gdp")


@dataclass
class Judged:
    """What came of one declaration."""

    outcome: str = ""
    violations: list[str] = field(default_factory=list)
    comparisons: int = 0
    unconfirmed: int = 0
    unfinished: int = 0
    nonsense: bool = False


class TooLong(BaseException):
    """A declaration that takes more time than anybody would wait."""


@contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """Stops what takes more seconds of the processor.  Errors: TooLong."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def without_domains() -> Iterator[None]:
    """Every number of a declaration is read, whatever it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "checked", lambda value, place, domain: exact(value, place))
        yield


# --- numbers of the accountant and the checker ----------------------------------------------------


def ends(value: Any) -> tuple[Any, Any]:
    """Numbers of 40 digits around a number, which may be a ball; infinite where none are known.

    Errors: DpauditError for what is no number.
    """
    if isinstance(value, (int, Fraction)):
        middle = MP.mpf(value.numerator) / value.denominator
        return middle, middle
    if is_symbolic(value):
        if is_infinite(value):
            return MP.inf, MP.inf
        if value.has(sympy.nan, sympy.zoo):
            return MP.nan, MP.nan
        value = enclose(value)
    if not value.is_finite():
        return MP.mpf(0), MP.inf
    with flint.ctx.workprec(200):
        return tuple(MP.mpf(end.str(45, radius=False)) for end in (value.lower(), value.upper()))  # type: ignore[return-value]


def below(value: Any, least: Any) -> bool:
    """Whether a number is below what it must be at least, by more than rounding; or is none."""
    upper = ends(value)[1]
    return bool(MP.isnan(upper) or upper < least * (1 - TOLERANCE))


def told(value: Any) -> str:
    """A number of any size in a few digits."""
    low, high = ends(value)
    return MP.nstr(high, 8) if high - low <= abs(high) * 1e-6 else f"{MP.nstr(low, 8)}.."


def too_small(calculus: str, value: Any, truth: Truth, place: int = 0) -> str:
    """How a bound contradicts what is known to be lost; empty where it does not.

    ``place``: of the two orders at which a Renyi curve is looked at.
    """
    if calculus == "profile":
        return ""
    if calculus == "rdp":
        half = len(ORDERS) // 2
        for which in (place % half, place % half + half):
            order, least = ORDERS[which], float(truth.renyi[:, which].max())
            at = at_order(value, Fraction(str(order)))
            if below(at, least):
                return f"{told(at)} at order {order} for {least:.8g}"
        return ""
    if calculus == "approx":
        epsilon, delta = value
        if below(epsilon, 0) or below(delta, 0):
            return f"({told(epsilon)}, {told(delta)})"
        most, place = float(ends(delta)[1]), ends(epsilon)[1]
        if place > FARTHEST:
            return ""
        least = max(delta_lower(c, float(place)) for c in (truth.whole, truth.whole.swapped))
        held = most >= least * (1 - TOLERANCE) - UNDERFLOW
        return "" if held else f"{told(delta)} at {told(epsilon)} for {least:.8g}"
    least = {
        "pure": lambda: max(truth.pure),
        "zcdp": lambda: float((truth.renyi / ORDERS).max()),
        "gdp": lambda: truth.mu,
    }[calculus]()
    if calculus == "zcdp" and truth.cells.p.size == 1:
        least = max(least, truth.square / 2)
    return f"{told(value)} for {MP.nstr(MP.mpf(least), 8)}" if below(value, least) else ""


def at_order(curve: Any, order: Fraction) -> Any:
    """A Renyi curve of the accountant's, in its symbol, or of the checker's, at an order."""
    if callable(curve):
        return curve(order)
    if not is_symbolic(curve) or is_infinite(curve):
        return curve
    return enclose(curve, dict.fromkeys(curve.free_symbols, enclose(order)))


# --- the two readings -----------------------------------------------------------------------------


def forged_rows(root: Node, calculus: str, adjacency: str) -> list[Json]:
    """The steps of a certificate that states what the checker itself derives."""
    rows: list[Json] = []
    places: dict[str, int] = {}
    values: list[Any] = []
    known: list[Any] = []
    for inner in postorder(root):
        if inner.digest in places:
            continue
        premises = [places[child.digest] for child in inner.children]
        upper = bound(calculus, inner, [values[p] for p in premises], adjacency=adjacency)
        held = attained(calculus, inner, [known[p] for p in premises], adjacency=adjacency)
        own, measure = own_assumption(inner), MEASURES[calculus]
        stated: Json = {"measure": measure.wire}
        if calculus == "approx":
            stated |= {"epsilon": _decimal(upper[0]), "delta": _decimal(upper[1])}
        elif calculus == "rdp":
            stated["curve"] = [[str(a), _decimal(upper(Fraction(a)))] for a in (2, 5)]
        elif measure.is_number:
            stated[measure.wire_field] = _decimal(upper)
        parted = inner.partitions or any(known[p].in_one_part for p in premises)
        known.append(_Premise(upper, held, parted))
        values.append(upper)
        places[inner.digest] = len(rows)
        rows.append(
            {
                "id": len(rows),
                "node": inner.digest,
                "node_text": inner.head,
                "calculus": calculus,
                "rule": rule_name(calculus, inner, adjacency),
                "premises": premises,
                "witness": {},
                "assumes": [own["id"]] if own else [],
                "attained": held,
                "conclusion": stated,
                "expression": value_text(upper(ALPHA) if calculus == "rdp" else upper),
            }
        )
    return rows


def _decimal(value: Any) -> str:
    """A decimal that is at least a bound; of one that depends on the round, none is."""
    return "inf" if unknowns(value) else decimal_upper(value)


@dataclass(frozen=True)
class _Premise:
    upper: Any
    attained: bool
    in_one_part: bool


def checked_value(root: Node, calculus: str, adjacency: str, rows: list[Json] | None) -> Any:
    """What the checker confirms of a declaration in one calculus; None where it has no rule.

    Errors: DpauditError where it refuses.
    """
    if own_bound(root, calculus, adjacency) is None:
        return None
    steps = rows or forged_rows(root, calculus, adjacency)
    predicate = {"derivation": {"steps": steps}, "scope": {"adjacency": adjacency}}
    return rederive(predicate, root)[-1].upper


class Judge:
    """Judges one declaration."""

    def __init__(self, table: Json, adjacency: str, *, converted: Fraction | None) -> None:
        self.table, self.adjacency, self.delta = table, adjacency, converted
        self.found = Judged()

    def judge(self, *, guarded: bool = True) -> Judged:
        """The outcome; ``guarded``: with the domains of parameters, else without."""
        try:
            with limited():
                self._judge(guarded)
        except TooLong:
            self._violated("slow", f"over {SECONDS:g} s")
        except RecursionError as error:
            self._violated("crash", f"{type(error).__name__}")
        except Exception as error:  # noqa: BLE001  (whatever a stranger's declaration brings about)
            self._violated("crash", f"{type(error).__name__}: {str(error)[:80]} {_where(error)}")
        return self.found

    def _violated(self, kind: str, detail: str) -> None:
        self.found.violations.append(f"{kind}: {detail}")

    def _judge(self, guarded: bool) -> None:
        self.reader = Reader(self.table, self.adjacency)
        self.truth = self.reader.truth
        self.found.nonsense = bool(self.reader.wrong)
        self.nonsense = self.found.nonsense and guarded
        self.calculi = self._calculi()
        try:
            root = from_table(self.table)
        except DpauditError as error:
            self.found.outcome = f"refused: {reason(error)}"
            return
        if free_unknowns(root):
            self._symbolic(root, guarded)
            return
        if self.nonsense:
            self._violated("read", self.reader.wrong[0])
        with budget(work=WORK):
            rows = self._accounted(root)
        with budget(work=WORK):
            self._checked(root, rows)

    def _calculi(self) -> list[str]:
        """All, where anything is wrong; else one of the two that take long, by turns."""
        if self.reader.wrong:
            return list(CALCULI)
        left_out = ("rdp", "profile")[int(self.reader.root[8:10], 16) % 2]
        return [name for name in CALCULI if name != left_out]

    def _accounted(self, root: Node) -> dict[str, list[Json]]:
        account, rows = Account(root, central(self.adjacency), WIDTH), {}
        for name in self.calculi:
            try:
                step = account.step(name)
            except DpauditError as error:
                self.found.unfinished += isinstance(error, TooMuch)
                continue
            rows[name] = step
            self._compare(name, step.value, "accountant")
        self.found.outcome = "accounted" if rows else "no rule"
        if self.delta is not None and rows and not self.nonsense:
            self._converted(account)
        return {name: step_rows(steps_of([rows[name]])) for name in NUMBERS if name in rows}

    def _checked(self, root: Node, rows: dict[str, list[Json]]) -> None:
        try:
            require_numbers(root)
        except DpauditError:
            return
        for name in self.calculi:
            try:
                value = checked_value(root, name, self.adjacency, rows.get(name))
            except TooMuch:
                self.found.unfinished += 1
                continue
            except DpauditError:
                self.found.unconfirmed += name in rows
                continue
            if value is not None:
                self._compare(name, value, "checker")

    def _compare(self, calculus: str, value: Any, who: str) -> None:
        self.found.comparisons += 1
        try:
            wrong = too_small(calculus, value, self.truth, int(self.reader.root[:8], 16))
        except DpauditError:
            # A formula that nobody can evaluate; asked for a number, it is refused in words.
            wrong = ""
        if wrong:
            self._violated("below", f"{who} {calculus} {wrong}")
        elif self.nonsense and not _says_nothing(value):
            self._violated("nonsense", f"{who} {calculus}; {self.reader.wrong[0]}")

    def _converted(self, account: Account) -> None:
        """An interval of epsilon at a delta."""
        delta = float(self.delta)  # type: ignore[arg-type]
        try:
            bound_ = account.epsilon(self.delta)
        except DpauditError as error:
            self.found.unfinished += isinstance(error, TooMuch)
            return
        self.found.comparisons += 1
        lower, upper = ends(bound_.lower)[0], ends(bound_.upper)[1]
        whole = self.truth.whole
        least = max(epsilon_lower(c, delta) for c in (whole, whole.swapped))
        text = f"[{MP.nstr(lower, 8)}, {MP.nstr(upper, 8)}] at {delta:.3g}"
        if not 0 <= lower <= upper:
            self._violated("upside down", text)
        if upper < least * (1 - TOLERANCE):
            self._violated("below", f"epsilon {text} for {least:.8g}")
        if lower > self.truth.most * (1 + TOLERANCE):
            self._violated("above", f"epsilon {text} for at most {MP.nstr(self.truth.most, 8)}")
        if self._is_gaussian() and lower > 0:
            mu = float(MP.sqrt(self.truth.square))
            if gaussian_delta(float(lower), mu) < delta * (1 - 1e-6):
                self._violated("above", f"epsilon {text} for mu = {mu:.8g}")

    def _is_gaussian(self) -> bool:
        """Gaussian noise and nothing else, of which both sides are known."""
        kinds = {row["type"] for row in self.table["nodes"].values()}
        return kinds <= GAUSSIAN and not self.reader.unknown and 1e-6 < self.truth.square < 900

    def _symbolic(self, root: Node, guarded: bool) -> None:
        """With numbers for its symbols it is what it was, or is refused."""
        self.found.outcome = "symbolic"
        names = free_unknowns(root)
        account = Account(root, central(self.adjacency), WIDTH)
        with budget(work=WORK):
            for name in NUMBERS:
                try:
                    account.step(name)
                except DpauditError:
                    continue
        if not all(s.is_Symbol for s in names):
            return
        for shift in (0, 1):
            chosen = {s: _value(s, shift) for s in names}
            try:
                own = root.bind(chosen)
            except DpauditError:
                continue
            inner = Judge(table_of(tree_of(own)), self.adjacency, converted=None)
            inner._judge(guarded)
            self.found.comparisons += inner.found.comparisons
            self.found.unfinished += inner.found.unfinished
            self.found.nonsense |= inner.found.nonsense
            values = {k: Fraction(v) for k, v in chosen.items()}
            for text in inner.found.violations:
                self._violated(text.partition(":")[0], f"bound, {text.partition(': ')[2]}")
            with budget(work=WORK):
                self._substituted(account, values, inner)

    def _substituted(self, account: Account, values: Any, inner: Judge) -> None:
        if inner.reader.wrong:
            return
        for name in ("pure", "zcdp", "gdp"):
            try:
                value = account.step(name).value
            except DpauditError:
                continue
            if not is_symbolic(value) or is_infinite(value):
                continue
            bound_ = value.subs({k: sympify(v) for k, v in values.items()})
            if bound_.free_symbols or bound_.has(sympy.nan, sympy.zoo, sympy.oo):
                continue
            wrong = too_small(name, bound_, inner.truth)
            self.found.comparisons += 1
            if wrong:
                self._violated("below", f"accountant {name} in symbols {wrong}")


GAUSSIAN = {"Gaussian", "Compose", "Repeat"}


def _value(name: Any, shift: int) -> Fraction:
    """A value that a symbol's assumptions allow."""
    tried = (Fraction(3, 2), Fraction(2), Fraction(1), Fraction(-1, 2), Fraction(-1), Fraction(0))
    kept = [value for value in tried if _allows(name, sympify(value))]
    return kept[min(shift, len(kept) - 1)] if kept else Fraction(1)


def _allows(name: Any, value: Any) -> bool:
    facts = ("positive", "negative", "nonnegative", "nonpositive", "integer", "nonzero")
    stated = (f"is_{fact}" for fact in facts if getattr(name, f"is_{fact}") is True)
    return all(getattr(value, fact) for fact in stated)


def _says_nothing(value: Any) -> bool:
    """No guarantee at all is stated: infinite, at every order."""
    if isinstance(value, Losses):
        return False
    if callable(value):
        value = value(Fraction(2))
    return is_infinite(value[0] if isinstance(value, tuple) else value)


def _where(error: BaseException) -> str:
    """The last line of dpaudit that an exception came through."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "/dpaudit/" in name:
            found = f"{name.rpartition('/dpaudit/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def reason(error: DpauditError) -> str:
    """A refusal's kind: its words without the values."""
    text = str(error)
    expected = re.search(r"expected [^(;:,]*", text)
    return (expected.group() if expected else re.sub(r"[0-9a-f]{12}|\d+", "", text))[:60].strip()


# --- many -----------------------------------------------------------------------------------------


def drawn(seed: int) -> tuple[Json, str, Fraction | None]:
    """The declaration of a seed, its adjacency, and a delta where it is asked about one."""
    rng = Draws(seed)
    tree, adjacency = rng.declaration()
    delta = Fraction(f"{10 ** -rng.uniform(2, 20):.3e}") if rng.random() < CONVERTED else None
    return tree, adjacency, delta


def judged(seed: int, *, guarded: bool = True) -> Judged:
    """What came of the declaration of a seed."""
    tree, adjacency, delta = drawn(seed)
    return Judge(table_of(tree), adjacency, converted=delta).judge(guarded=guarded)


def block(seeds: Iterable[int], *, guarded: bool = True) -> Json:
    """What came of many: outcomes by kind, comparisons, and the violations in words."""
    outcomes: Counter[str] = Counter()
    found = [(seed, judged(seed, guarded=guarded)) for seed in seeds]
    for _, one in found:
        outcomes[one.outcome] += 1
    return {
        "trees": len(found),
        "comparisons": sum(one.comparisons for _, one in found),
        "unconfirmed": sum(one.unconfirmed for _, one in found),
        "unfinished": sum(one.unfinished for _, one in found),
        "outcomes": dict(outcomes),
        "violations": [f"{seed}: {one.violations[0]}" for seed, one in found if one.violations],
    }


def summary(rows: Iterable[Json]) -> str:
    """Declarations, comparisons, violations, and refusals by reason."""
    kept, outcomes = list(rows), Counter[str]()
    for row in kept:
        outcomes.update(row["outcomes"])
    keys = ("trees", "comparisons", "unconfirmed", "unfinished")
    whole, comparisons, unconfirmed, unfinished = (sum(row[key] for row in kept) for key in keys)
    violations = sum(len(row["violations"]) for row in kept)
    head = (
        f"{whole} declarations, {comparisons} comparisons, {violations} violations; "
        f"{unconfirmed} derivations not confirmed, {unfinished} bounds refused for their work"
    )
    return "\n".join([head, *(f"{count:8d} {name}" for name, count in outcomes.most_common())])


# --- small ones -----------------------------------------------------------------------------------


def smaller(tree: Json) -> Iterator[Json]:
    """The same with a part left out, or a number that is plain; each in its turn."""
    yield from copy.deepcopy(tree["children"])
    for place, child in enumerate(tree["children"]):
        if tree["type"] in SEVERAL and len(tree["children"]) > 1:
            yield {**tree, "children": tree["children"][:place] + tree["children"][place + 1 :]}
        for changed in smaller(child):
            children = [*tree["children"]]
            children[place] = changed
            yield {**tree, "children": children}
    for name, value in tree["parameters"].items():
        for plain in ("1/1", "1/2"):
            if name != "index" and value.get("number", plain) not in ("1/1", "1/2"):
                yield {**tree, "parameters": {**tree["parameters"], name: {"number": plain}}}


def smallest(tree: Json, adjacency: str, delta: Fraction | None) -> tuple[Json, list[str]]:
    """A small declaration of which the first violation is of the same kind, and its violations."""

    def violations(one: Json) -> list[str]:
        return Judge(table_of(one), adjacency, converted=delta).judge().violations

    best, found = tree, violations(tree)
    shrinking = bool(found)
    while shrinking:
        kind, shrinking = found[0].partition(":")[0], False
        for one in smaller(best):
            again = violations(one)
            if again and again[0].startswith(kind):
                best, found, shrinking = one, again, True
                break
    return best, found
