"""Certificates: what was claimed, derived, attacked and run, as one canonical JSON statement.

The form is an in-toto Statement v1; its first subject is the SHA-256 of the predicate's RFC 8785
bytes, so that a change of one digit anywhere is noticed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.accountant.interpretation import Point, has_mu, missed_lower
from dpaudit.audit.verdict import Judged, Lower, Verdict
from dpaudit.check import is_computed
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import (
    decimal_lower,
    decimal_upper,
    enclose,
    exact,
    is_infinite,
    replaced,
    unknowns,
    upper_fraction,
    working_precision,
)
from dpaudit.exact.wire import canonical_bytes, digest, encode_number
from dpaudit.measures.calculus import CALCULI, Step, measures
from dpaudit.measures.convert import to_approx
from dpaudit.measures.renyi import order
from dpaudit.measures.show import value_text
from dpaudit.measures.sides import delta_sides, tradeoff_sides
from dpaudit.nodes import postorder
from dpaudit.pairs import Losses
from dpaudit.report import words
from dpaudit.storage.files import write_atomically

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://dpaudit.dev/certificate/v2"
VERDICTS_OF = {
    Outcome.PROVED: (
        Verdict.CERTIFIED,
        Verdict.CERTIFIED_UNDER_ASSUMPTIONS,
        Verdict.UNCONFIRMED,
    ),
    Outcome.UNPROVED: (Verdict.INCONCLUSIVE,),
    Outcome.UNSUPPORTED: (Verdict.UNSUPPORTED,),
}
RENYI_ORDERS = (2, 4, 8, 16, 32, 64)  # orders at which a curve is printed
PROFILE_POINTS = 61  # points of a drawn profile
TRADEOFF_POINTS = 61  # points of a drawn trade-off curve
PROFILE_WIDTH = 0.01  # relative width of a drawn point: no line shows less
PROFILE_DELTAS = tuple(
    map(
        Fraction,
        ("1e-9", "1e-6", "1e-5", "1e-4", "1e-3", "0.003", "0.01", "0.03", "0.1", "0.2", "0.4"),
    )
)

Json = dict[str, Any]


def statement(predicate: Mapping[str, Any]) -> Json:
    """The in-toto statement of a predicate, its keys in the order of its canonical bytes."""
    implementation = predicate["mechanism"]["implementation"]
    own = {"name": "predicate", "digest": {"sha256": digest(predicate)}}
    statement_row = {
        "_type": STATEMENT,
        "subject": [own, *implementation],
        "predicateType": PREDICATE,
        "predicate": dict(predicate),
    }
    # As if read from a file, so that a page made of either is the same.
    canonical: Json = json.loads(canonical_bytes(statement_row))
    return canonical


def save(certificate: Mapping[str, Any], path: Path) -> None:
    """Write the certificate's canonical bytes, all or nothing."""
    write_atomically(path, file_bytes(certificate))


def file_bytes(certificate: Mapping[str, Any]) -> bytes:
    """The content of a certificate's file: its canonical bytes and an end of line."""
    return canonical_bytes(certificate) + b"\n"


def surprises(
    certificate: Mapping[str, Any], expected: Sequence[Outcome], unexamined: str = ""
) -> tuple[str, ...]:
    """Where a claim's verdict is not the one that is expected of it, one line a claim.

    ``unexamined``: why no examination is expected to reach the program.  Without that sentence, a
    claim that is unconfirmed because its program was not examined is not as expected; with it, an
    examination that did reach the program is not.
    """
    rows = certificate["predicate"]["claims"]
    gaps = words.unexamined(certificate["predicate"])
    lines = [
        f"{row['stated_text']}{_read(row)}: expected {wanted}, is {_found(row)}: {row['reason']}"
        for row, wanted in zip(rows, expected, strict=True)
        if not _as_expected(row, wanted)
        or (row["verdict"] == "unconfirmed" and gaps and not unexamined)
    ]
    if unexamined and not gaps:
        lines.append(f"expected not to be examined ({unexamined}), but its examination reached it")
    return tuple(lines)


def _as_expected(row: Mapping[str, Any], wanted: Outcome) -> bool:
    """A claim that is expected to fail may fail by the account or, where that is open, the attack.

    Neither an alarm nor a proof that an attack breaks is ever expected.
    """
    if wanted is Outcome.REFUTED:
        return bool(row["verdict"] == "refuted" and row["check"] != Outcome.PROVED)
    return bool(row["check"] == wanted and row["verdict"] in VERDICTS_OF[wanted])


def _read(row: Mapping[str, Any]) -> str:
    return f" ({row['reading']})" if row["reading"] else ""


def _found(row: Mapping[str, Any]) -> str:
    verdict = row["verdict"].replace("_", " ")
    return verdict if verdict == row["check"] else f"{row['check']}, the verdict {verdict}"


# --- derivations ---------------------------------------------------------------------------------


def steps_of(roots: Sequence[Step]) -> list[Step]:
    """Every step of several derivations, premises first, each once."""
    steps: dict[int, Step] = {}
    for root in roots:
        for step in root.walk():
            steps.setdefault(id(step), step)
    return list(steps.values())


def step_rows(steps: Sequence[Step]) -> list[Json]:
    """Steps as the certificate holds them; premises are row numbers."""
    number = {id(step): i for i, step in enumerate(steps)}
    return [
        _step_row(i, step, [number[id(p)] for p in step.premises]) for i, step in enumerate(steps)
    ]


def _step_row(number: int, step: Step, premises: list[int]) -> Json:
    """A step of the derivation as JSON; ``premises``: the numbers of their rows."""
    witness: Json = dict(step.witness)
    if step.rule.startswith("convert."):
        witness["delta"] = encode_number(step.value[1])
    elif not step.node.is_shipped and step.calculus not in ("profile", "rdp"):
        # The checker may have no theorem for it: it then takes this value on trust.
        values = step.value if isinstance(step.value, tuple) else (step.value,)
        names = ("value", "value_delta")
        witness |= {k: encode_number(v) for k, v in zip(names, values, strict=False)}
    if step.lower is not None:
        witness["epsilon_lower"] = decimal_lower(step.lower)
    return {
        "id": number,
        "node": step.node.digest,
        "node_text": step.node.head,
        "calculus": step.calculus,
        "rule": step.rule,
        "cite": str(step.cite),
        "conclusion": conclusion(step),
        "expression": value_text(step.value),
        "premises": premises,
        "assumes": [a.id for a in step.assumes],
        "attained": step.attained,
        "witness": witness,
    }


def conclusion(step: Step) -> Json:
    """A step's bound as decimal strings, rounded outward; "inf" while it depends on a round."""
    if step.calculus == "approx":
        epsilon, delta = map(_rounded, step.value)
        return {"measure": "approx_dp", "epsilon": epsilon, "delta": delta}
    if step.calculus == "rdp":
        curve: Any = step.value
        at = [replaced(curve, {order(): Fraction(a)}) for a in RENYI_ORDERS]
        rows = [[str(a), _rounded(value)] for a, value in zip(RENYI_ORDERS, at, strict=True)]
        return {"measure": "rdp", "curve": rows}
    if step.calculus == "profile":
        pairs = step.value.to_wire()
        return {"measure": "pairs"} | ({} if pairs is None else {"pairs": pairs})
    measure = CALCULI[step.calculus].measure
    return {"measure": measure.wire, measure.wire_field: _rounded(step.value)}


def profile_steps(account: Account) -> list[Step]:
    """Conversions that conclude points of the privacy profile, for a declaration without mu.

    The smallest epsilon at each of some deltas, and about where it reaches 0; fewer where no
    finite epsilon holds.
    """
    if has_mu(account):
        return []
    try:
        advantage = Fraction(decimal_upper(account.delta(0).upper, 6))
        deltas = [*(delta for delta in PROFILE_DELTAS if delta < advantage), advantage]
        steps = [_smallest(account, delta) for delta in deltas if delta < 1]
    except (InvalidParameter, Unsupported):
        return []  # free symbols, or no calculus for the whole
    if not all(node.is_shipped for node in postorder(account.node)):
        return []  # on trust: no curve rests on that
    return [step for step in steps if step is not None and _is_confirmed(step)]


def _is_confirmed(step: Step) -> bool:
    """Whether the checker computes what a step rests on: curves take nothing on trust."""
    losses_below = [p.value for p in step.premises if isinstance(p.value, Losses)]
    return all(is_computed(pair) for losses in losses_below for pair in losses.pairs)


def _smallest(account: Account, delta: Fraction) -> Step | None:
    """The conversion of the route with the smallest epsilon, none where it is infinite.

    Coarser than a claim's: a figure shows no more, and a verifier repeats each.
    """
    conversions = []
    for name in account.routes():
        with contextlib.suppress(Unsupported):
            step = to_approx(account.step(name), delta, PROFILE_WIDTH)
            if not is_infinite(step.value[0]):
                conversions.append(_from_above(step))
    return min(conversions, key=lambda step: Fraction(decimal_upper(step.value[0])), default=None)


def _from_above(step: Step) -> Step:
    """A conversion without what is reached from below, which no curve shows."""
    if "lower" not in step.witness:
        return step
    return replace(step, attained=False, lower=None, witness={**step.witness, "lower": []})


def points_of(steps: Sequence[Step]) -> list[Point]:
    """The (epsilon, delta) that conversions conclude, as printed, by epsilon; none dominated."""
    rows = [conclusion(step) for step in steps]
    points: list[Point] = []
    for point in sorted((Fraction(row["epsilon"]), Fraction(row["delta"])) for row in rows):
        if not points or point[1] < points[-1][1]:
            points.append(point)
    return points


def curve_rows(account: Account, roots: Sequence[Step], points: Sequence[Point] = ()) -> list[Json]:
    """Privacy profile (upper) and trade-off curve (lower) for the figures.

    From mu, else from ``points`` of the profile; none where mu is finite, but beyond what any
    precision tells from infinity.
    """
    if _beyond_precision(account):
        return []
    alphas = [Fraction(decimal_lower(alpha)) for alpha in _alphas()]
    if points:
        profile = [[decimal_upper(e), decimal_upper(d)] for e, d in points]
        tradeoff = [[decimal_lower(a), missed_lower(points, a)] for a in alphas]
        return [
            {"measure": "profile", "curve": profile},
            {"measure": "tradeoff", "curve": tradeoff},
        ]
    largest = max((_epsilon(step) for step in roots), default=Fraction(0)) or _typical(account)
    shares = [Fraction(3 * k, 2 * (PROFILE_POINTS - 1)) for k in range(PROFILE_POINTS)]
    # At the printed abscissae, so that the printed ordinates are theirs.
    epsilons = [Fraction(decimal_upper(largest * share)) for share in shares]
    if "gdp" not in account.routes() or is_infinite(account.step("gdp").value):
        return []
    root = account.step("gdp")
    profile = [[decimal_upper(e), decimal_upper(delta_sides(root, e)[1])] for e in epsilons]
    sides = zip(alphas, tradeoff_sides(root, alphas), strict=True)
    tradeoff = [[decimal_lower(alpha), decimal_lower(lower)] for alpha, (lower, _) in sides]
    return [
        {"measure": "profile", "curve": profile},
        {"measure": "tradeoff", "curve": tradeoff},
    ]


def _beyond_precision(account: Account) -> bool:
    value = account.step("gdp").value if "gdp" in account.routes() else Fraction(0)
    if is_infinite(value) or unknowns(value):
        return False
    with working_precision():
        return upper_fraction(enclose(value)) is None


def _epsilon(step: Step) -> Fraction:
    value = step.value[0] if isinstance(step.value, tuple) else Fraction(0)
    return Fraction(0) if is_infinite(value) else Fraction(value)


def _typical(account: Account) -> Fraction:
    """An epsilon that shows the profile where no claim names one: delta is 3e-7 or less there."""
    mu = account.step("gdp").value if "gdp" in account.routes() else Fraction(0)
    end = Fraction(0) if is_infinite(mu) else Fraction(decimal_upper(mu))
    return end * (end / 2 + 5) or Fraction(1)


def _alphas() -> list[Fraction]:
    tail = [Fraction(k, 10**p) for p in (6, 5, 4, 3) for k in (1, 2, 5)]
    return [*tail, *(Fraction(k, TRADEOFF_POINTS - 1) for k in range(1, TRADEOFF_POINTS - 1))]


def _rounded(value: Any) -> str:
    return "inf" if unknowns(value) else decimal_upper(value)


def stated(claim: Claim) -> Json:
    """A claim's numbers as decimal strings."""
    measure = CALCULI[claim.guarantee.states_in].measure
    row = {"measure": measure.wire, measure.wire_field: decimal_upper(claim.value)}
    delta = claim.guarantee.parameters.get("delta")
    return row if delta is None else {**row, "delta": decimal_upper(delta)}


def claim_row(number: int, judged: Judged, step: int | None) -> Json:
    """One claim with its check, its bounds and its verdict."""
    claim, checked = judged.claim, judged.checked
    return {
        "id": f"claim-{number + 1}",
        "stated": stated(claim),
        "exact": encode_number(claim.value),
        "stated_text": claim.text,
        "by": claim.by,
        "source": claim.states,
        "reading": claim.reading,
        "check": str(checked.outcome),
        "reason": judged.reason,
        "upper": conclusion(checked.step) if checked.step else None,
        "step": step,
        "attained": bool(checked.step and checked.step.attained),
        "lower": lower_row(judged.lower),
        "lower_conditional": lower_row(judged.conditional),
        "verdict": str(judged.verdict),
    }


def audit_id(lower: Lower) -> str:
    """The audit row a bound comes from: the lens, or the raw bound at one delta."""
    raw = lower.measure == "approx_dp" and not lower.family
    return f"raw-{decimal_upper(Fraction(lower.delta))}" if raw else "lens"


def lower_row(bound: Lower | None) -> Json | None:
    """An attacked bound of a claim; ``conditional_on`` is empty where nothing is assumed."""
    if bound is None:
        return None
    return {
        **guarantee(bound.measure, bound.shown, bound.delta),
        "confidence": "0.95",
        "conditional_on": bound.family,
        "audit": audit_id(bound),
    }


def guarantee(measure: str, value: float, delta: str = "") -> Json:
    """A lower bound as decimal strings, rounded down."""
    field = next(m.wire_field for m in measures() if m.wire == measure)
    row = {"measure": measure, field: decimal_lower(exact(value, field))}
    return {**row, "delta": decimal_upper(Fraction(delta))} if measure == "approx_dp" else row
