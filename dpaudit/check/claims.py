"""Claims and verdicts: what bounds, conformance and assumptions say together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.check.bounds import (
    LENS,
    SHOWN_LEVEL,
    STAND_IN,
    Bound,
    audit_of,
    curve_exceeds,
    named,
    strongest,
)
from dpaudit.check.curves import own_mu
from dpaudit.check.derivation import Value, own_bound
from dpaudit.check.likelihoods import LikelyBound, decisive_numbers
from dpaudit.check.measures import MEASURES, CheckedMeasure, claimed_as
from dpaudit.check.normal import gaussian_delta
from dpaudit.check.reach import gaps
from dpaudit.check.reading import SLACK, Json, decimal, require, rounded_down
from dpaudit.errors import CertificateRejected
from dpaudit.exact import (
    canonical,
    decimal_lower,
    decimal_upper,
    enclose,
    is_infinite,
    is_symbolic,
    readable,
    sympify,
    unknowns,
)
from dpaudit.exact.wire import decode_number
from dpaudit.nodes import Node
from dpaudit.pairs import Losses, numbers_in

# From the gravest on.
VERDICTS = (
    "refuted",
    "alarm",
    "unsupported",
    "inconclusive",
    "unconfirmed",
    "certified_under_assumptions",
    "certified",
)
FAMILY = "the Gaussian family"
# Operations of an expression whose sign SymPy is asked for: larger ones take minutes.
LARGEST_DIFFERENCE = 500


@dataclass(frozen=True)
class Case:
    """The evidence by which the claims are judged."""

    predicate: Json
    root: Node
    values: list[Value]
    bounds: Mapping[str, Bound]
    statuses: Mapping[str, str]
    likely: Sequence[LikelyBound] = ()

    @property
    def adjacency(self) -> str:
        """The scope's adjacency."""
        return str(self.predicate["scope"]["adjacency"])


@dataclass(frozen=True)
class Stated:
    """A claim as its row states it; ``delta`` "" where there is none.

    ``words``: delta as the claim's text has it.
    """

    row: Json
    place: str
    kind: str
    number: Any
    delta: str
    words: str

    @property
    def measure(self) -> CheckedMeasure:
        """The measure it is stated in."""
        measure = claimed_as(self.kind)
        if measure is None:
            raise CertificateRejected(f"{self.place}: its text names no kind of guarantee")
        return measure

    @property
    def audit(self) -> str:
        """The name of the audit that bounds this claim from below."""
        if self.kind == "GDP" or self.measure.from_rates is not None:
            return LENS
        return f"raw-{self.delta or '0'}"


def check_claims(case: Case) -> None:
    """Check every claim, its verdict and the verdict of the whole.

    Errors: CertificateRejected naming the first claim that does not follow.
    """
    claims = [_stated(row) for row in case.predicate["claims"]]
    require(claims, "no claims: nothing is certified")
    require(len({c.row["id"] for c in claims}) == len(claims), "two claims have one name")
    verdicts = []
    for claim in claims:
        value = _value(claim, case)
        _outcome(claim, value, case)
        _lowers(claim, case.bounds)
        _every_audit(claim, case)
        verdicts.append(_verdict(claim, value, case))
        same = claim.row["verdict"] == verdicts[-1]
        require(same, f"{claim.place}: the verdict would be {verdicts[-1]}")
    worst = min(verdicts, key=VERDICTS.index)
    stated = case.predicate["verdict"]
    require(stated["status"] == worst, f"the verdict would be {worst}")
    require(stated["margin"] == _margin(claims, case), "the margin is not that of its claim")
    _audits(claims, case)


# --- what is claimed -----------------------------------------------------------------------------


def _stated(row: Json) -> Stated:
    """The claim, with its number, its words and its decimals saying the same."""
    place, number = f"claim {row['id'][:40]}", decode_number(row["exact"])
    require(not unknowns(number), f"{place}: it claims a symbol, not a number")
    kind, _, inside = row["stated_text"].removesuffix(")").partition("(")
    measure = claimed_as(kind)
    if measure is None:
        raise CertificateRejected(f"{place}: its text names no kind of guarantee")
    name = measure.parameter
    shown, _, delta = inside.partition(", delta=")
    require(shown == f"{name}={readable(number)}", f"{place}: its text is not its exact value")
    require((delta != "") == (kind == "ApproxDP"), f"{place}: its text is of another kind")
    exact = _fraction(delta) if delta else None
    expected = {"measure": measure.wire, measure.wire_field: decimal_upper(number)}
    if delta:
        expected["delta"] = row["stated"]["delta"] if exact is None else decimal_upper(exact)
    require(row["stated"] == expected, f"{place}: its number is not its exact value")
    return Stated(row, place, kind, number, expected.get("delta", ""), delta)


def _fraction(text: str) -> Fraction | None:
    top, _, bottom = text.partition("/")
    if bottom:
        return decode_number(text) if top.isdecimal() and bottom.isdecimal() else None
    return decimal(text) if top[:1].isdecimal() and top.replace(".", "").isdecimal() else None


def _value(claim: Stated, case: Case) -> Value | None:
    row, place, calculus = claim.row, claim.place, claim.measure.name
    if row["step"] is None:
        require(row["check"] == "unsupported", f"{place}: its step is missing")
        require(row["upper"] is None and not row["attained"], f"{place}: a bound without a step")
        require(_uncovered(claim, case), f"{place}: there are rules for it")
        return None
    require(row["step"] < len(case.values), f"{place}: its step is missing")
    value = case.values[row["step"]]
    conclusion = case.predicate["derivation"]["steps"][row["step"]]["conclusion"]
    require(value.node == case.root, f"{place}: its step is not about the whole declaration")
    require(value.calculus == calculus, f"{place}: its step is in another measure")
    same = claim.delta == conclusion.get("delta", "")
    same = same and (claim.kind != "ApproxDP" or claim.words == readable(value.upper[1]))
    require(same, f"{place}: its step is at another delta")
    require(row["upper"] == conclusion, f"{place}: its upper bound is not its step's")
    require(row["attained"] == value.attained, f"{place}: 'attained' is not its step's")
    return value


def _uncovered(claim: Stated, case: Case) -> bool:
    """Whether no calculus gives the whole declaration a number in the claim's measure."""
    names = tuple(MEASURES) if claim.kind == "ApproxDP" else (claim.measure.name,)
    bounds = [own_bound(case.root, name, case.adjacency) for name in names]
    symbols = any(v is not None and not callable(v) and _unknowns(v) for v in bounds)
    return all(v is None for v in bounds) or (claim.kind == "ApproxDP" and bool(symbols))


def _unknowns(value: Any) -> set[Any]:
    if isinstance(value, Losses):
        return set[Any]().union(*map(unknowns, numbers_in(value)))
    return unknowns(_first(value))


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


# --- proved, refuted, unproved -------------------------------------------------------------------


def _outcome(claim: Stated, value: Value | None, case: Case) -> None:
    """Errors: CertificateRejected where the check would come out differently."""
    if value is not None:
        expected = _expected(claim, value, case)
        same = claim.row["check"] == expected
        require(same, f"{claim.place}: the check would come out {expected}")


def _expected(claim: Stated, value: Value, case: Case) -> str:
    if any(case.statuses[name] == "violated" for name in value.assumes):
        return "unproved"
    if _at_most(value.number, claim.number):
        return "proved"
    reached = None if value.reached is None else _first(value.reached)
    finite = reached is not None and not is_infinite(reached)
    return "refuted" if finite and _above(reached, claim.number) else "unproved"


def _above(number: Any, other: Any) -> bool:
    if not is_symbolic(number) and not is_symbolic(other):
        return bool(number > other)
    return bool(enclose(number) > enclose(other))


def _at_most(upper: Any, claimed: Any) -> bool:
    if is_infinite(upper):
        return False
    if not is_symbolic(upper) and not is_symbolic(claimed):
        return bool(upper <= claimed)
    if enclose(upper) <= enclose(claimed):
        return True
    if enclose(upper) > enclose(claimed):
        return False
    import sympy

    difference = sympify(upper) - sympify(claimed)
    if sympy.count_ops(difference) > LARGEST_DIFFERENCE:
        return bool(canonical(difference) == 0)
    return bool(sympy.simplify(difference) == 0)


# --- lower bounds --------------------------------------------------------------------------------


def _lowers(claim: Stated, bounds: Mapping[str, Bound]) -> None:
    """The bounds shown with a claim are all that its audits give, and no more."""
    row, place = claim.row, claim.place
    bound = bounds.get(claim.audit)
    listed = bound is not None or not any(not audit_of(key) for key in bounds)
    require(listed, f"{place}: the audit {claim.audit} is missing")
    require((row["lower"] is None) == (bound is None), f"{place}: its lower bound is missing")
    family = claim.kind == "ApproxDP" and claim.delta != "0" and LENS in bounds
    shown = row["lower_conditional"] is not None
    require(shown == family, f"{place}: its conditional bound is missing, or of another claim")
    if row["lower"] is not None:
        if bound is None:
            raise CertificateRejected(f"{place}: its lower bound names no audit")
        _unconditional(claim, row["lower"], bound)
    if row["lower_conditional"] is not None:
        require(LENS in bounds, f"{place}: its conditional bound names no audit")
        _conditional(claim, row["lower_conditional"], bounds[LENS])


def _every_audit(claim: Stated, case: Case) -> None:
    """An audit lists a bound for every claim: of the program, of found pairs, of a stand-in."""
    audits = {audit_of(key) for key in case.bounds}
    if any(row["about"] == STAND_IN for row in case.predicate["conformance"]):
        stopped = any(row["status"] == "broken" for row in case.predicate["conformance"])
        audits |= set() if stopped else {STAND_IN}
    for audit in audits - {""}:
        listed = f"{audit}:{claim.audit}" in case.bounds
        require(listed, f"{claim.place}: the audit {audit}:{claim.audit} is missing")


def _unconditional(claim: Stated, shown: Json, bound: Bound) -> None:
    place = claim.place
    labels = (shown["confidence"], shown["conditional_on"], shown["audit"])
    require(labels == (SHOWN_LEVEL, "", claim.audit), f"{place}: its lower bound is mislabelled")
    measure = claim.measure
    if measure.from_rates is not None:
        same = shown["measure"] == measure.wire
        require(same, f"{place}: its lower bound is in another measure")
        text, exact = shown[measure.wire_field], measure.from_rates(*bound.shown)
        follows = text == decimal_lower(exact) or rounded_down(text, exact, 3 * SLACK)
        require(follows, f"{place}: its lower bound does not follow from {claim.audit}")
        return
    own = {k: v for k, v in shown.items() if k not in ("confidence", "conditional_on", "audit")}
    require(own == bound.row["lower_bounds"][0], f"{place}: its lower bound is not its audit's")


def _conditional(claim: Stated, shown: Json, bound: Bound) -> None:
    """Check the epsilon that the audit's bound on mu implies, if the noise is Gaussian.

    The profile of mu must reach delta at it, and no longer at an epsilon a millionth larger.
    """
    place = claim.place
    labels = (shown["confidence"], shown["conditional_on"], shown["audit"], shown["measure"])
    labelled = labels == (SHOWN_LEVEL, FAMILY, LENS, "approx_dp") and shown["delta"] == claim.delta
    require(labelled, f"{place}: its conditional bound is mislabelled")
    epsilon, delta = decimal(shown["epsilon"]), enclose(decimal(shown["delta"]))
    mu = decimal(bound.row["lower_bounds"][0]["mu"])
    more = epsilon * (1 + Fraction(1, 10**6)) + Fraction(1, 10**6)
    reached = epsilon == 0 or (mu > 0 and gaussian_delta(epsilon, mu) >= delta)
    tight = mu == 0 or not gaussian_delta(more, mu) > delta
    require(reached and tight, f"{place}: its conditional bound does not follow from the lens")


# --- verdicts ------------------------------------------------------------------------------------


def _verdict(claim: Stated, value: Value | None, case: Case) -> str:
    """The verdict of one claim; the gravest evidence decides."""
    if _exceeds(claim, claim.number, case.bounds) or _contradicted(claim, case):
        return "refuted"
    if _likely_exceeds(claim, claim.number, case):
        return "refuted"
    if claim.row["check"] == "refuted":
        return "unconfirmed" if is_unconfirmed(value, "refuted", claim.number) else "refuted"
    if any(row["status"] == "broken" for row in case.predicate["conformance"]):
        return "alarm"
    if value is not None and (
        _exceeds(claim, value.number, case.bounds) or _likely_exceeds(claim, value.number, case)
    ):
        return "alarm"
    if _lens_above_accounted(case):
        return "alarm"
    if claim.row["check"] != "proved":
        return "unsupported" if value is None else "inconclusive"
    certified = _certified(value, case)
    if certified == "inconclusive":
        return certified
    unexamined = gaps(case.predicate["examination"], case.root)
    doubted = unexamined or is_unconfirmed(value, "proved", claim.number)
    return "unconfirmed" if doubted else certified


def _contradicted(claim: Stated, case: Case) -> bool:
    """Whether the attack's curve alone refutes a claim, by far."""
    rows = case.predicate["audits"]
    if not rows or is_infinite(claim.number):
        return False
    delta = None if claim.kind in ("GDP", "ZCDP") else decimal(claim.delta or "0")
    first = {audit_of(row["id"]): row for row in reversed(rows)}
    from_rates = claim.measure.from_rates
    return any(curve_exceeds(row, delta, claim.number, from_rates) for row in first.values())


def is_unconfirmed(value: Value | None, outcome: str, number: Any) -> bool:
    """Whether a claim's outcome rests on a number that only the accountant computed."""
    if value is None:
        return False
    if value.on_trust and outcome in ("proved", "refuted"):
        return True
    if outcome == "refuted":
        return value.reached_doubted
    if outcome != "proved" or value.doubt is None:
        return False
    return not value.doubt.holds_at(Fraction(decimal_lower(number)))


def _exceeds(claim: Stated, number: Any, bounds: Mapping[str, Bound]) -> bool:
    """Whether the decisive bound in the claim's measure is certainly above a number."""
    if is_infinite(number) or unknowns(number):
        return False
    return any(_bound_exceeds(claim, number, bound) for bound in named(bounds, claim.audit))


def _likely_exceeds(claim: Stated, number: Any, case: Case) -> bool:
    """Whether a decisive bound from likelihoods is certainly above a number."""
    if is_infinite(number) or unknowns(number):
        return False
    numbers = decisive_numbers(case.likely, claim.measure.wire, claim.delta)
    return any(_above(shown, number) for shown in numbers)


def _bound_exceeds(claim: Stated, number: Any, bound: Bound) -> bool:
    if claim.measure.from_rates is not None:
        return _above(Fraction(decimal_lower(claim.measure.from_rates(*bound.decisive))), number)
    return _above(bound.decisive_lower, number)


def _lens_above_accounted(case: Case) -> bool:
    mu = own_mu(case.root, case.adjacency)
    bounds = named(case.bounds, LENS)
    return mu is not None and any(_above(bound.decisive_lower, mu) for bound in bounds)


def _certified(value: Value | None, case: Case) -> str:
    from_steps = {i for row in case.predicate["derivation"]["steps"] for i in row["assumes"]}
    own = value.assumes if value is not None else frozenset[str]()
    statuses = {s for name, s in case.statuses.items() if name in own or name not in from_steps}
    if "violated" in statuses:
        return "inconclusive"
    return "certified" if statuses <= {"enforced"} else "certified_under_assumptions"


def _margin(claims: list[Stated], case: Case) -> str:
    """Claimed minus accounted, rounded down, for the first claim that has both as fractions."""
    for claim in claims:
        step = claim.row["step"]
        number = None if step is None else case.values[step].number
        if isinstance(number, Fraction) and isinstance(claim.number, Fraction):
            return decimal_lower(claim.number - number, 6)
    return ""


def _audits(claims: list[Stated], case: Case) -> None:
    """An audit is said to refute where its decisive bound is above a claim."""
    refuting = {
        key
        for c in claims
        for key, bound in case.bounds.items()
        if key.rpartition(":")[2] == c.audit and _exceeds(c, c.number, {key: bound})
    }
    for name, bound in case.bounds.items():
        expected = "refuted" if name in refuting else "not_refuted"
        same = bound.row["verdict"] == expected
        require(same, f"audit {name[:40]}: its verdict would be {expected}")


def powerless(case: Case) -> tuple[str, ...]:
    """Claims that no audit could have refuted, and audits smaller than their suite asks for.

    A claim without an audit, or above the most that its audit could show.

    The most is what no error in all its trials would show, at the decision error.
    """
    texts = []
    for claim in map(_stated, case.predicate["claims"]):
        bound = case.bounds.get(claim.audit)
        if bound is None:
            texts.append(f"{claim.place}: not audited")
        elif not strongest(bound, claim.measure.from_rates) > enclose(claim.number):
            trials = bound.row["trials"]
            texts.append(f"{claim.place}: {trials} trials a side could not have refuted it")
    return (*texts, *dict.fromkeys(_fewer(case.predicate)))


def _fewer(predicate: Json) -> Iterator[str]:
    """The audits that ran with fewer trials than their suite asks for."""
    for row in predicate["audits"]:
        suite = row.get("suite")
        if suite and row["trials"] < suite["trials"]:
            yield (
                f"{suite['file'] or 'a suite'} asks for {suite['trials']:,} trials a side, and "
                f"{row['trials']:,} were run"
            )


def attackers(predicate: Json) -> tuple[str, ...]:
    """Who attacked, by suite, file, digest and trials; one line an audit."""
    return tuple(dict.fromkeys(map(_attacker, predicate["audits"])))


def _attacker(row: Json) -> str:
    suite = row.get("suite", {"file": "", "sha256": ""})
    trials = f"{row['trials']:,} trials a side"
    if suite is None:
        return f"attacked on a pair that dpaudit found, by no suite: {trials}"
    if not suite["file"]:
        return f"attacked by a suite that names no file: {trials}"
    return f"attacked by {suite['file']} (SHA-256 {suite['sha256'][:16]}): {trials}"
