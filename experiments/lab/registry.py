"""The numbers of OpenDP's deployments registry, derived again.

``python -m experiments.lab.registry`` writes the page.

``docs/registry/records.toml`` holds facts of the records that state numbers, and for those whose
text allows it what their numbers follow from.  A printed decimal stands for the interval of its
last digit; an integer for itself.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.exact import decimal_upper, enclose, log, sqrt, upper_fraction
from dpaudit.families.additive import Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.measures.calculus import Step
from dpaudit.nodes import Node
from dpaudit.scope import central

RECORDS = Path(__file__).parents[2] / "docs" / "registry" / "records.toml"
OUTCOMES = ("agrees", "within rounding", "disagrees", "cannot be derived")


@dataclass(frozen=True)
class Derived:
    """One printed number beside what follows from the others of its record.

    ``value`` follows from the printed numbers, ``lower`` to ``upper`` from their intervals.
    """

    what: str
    printed: str
    outcome: str
    value: Fraction
    lower: Fraction
    upper: Fraction
    declaration: Node
    step: Step


@dataclass(frozen=True)
class Record:
    """One record: its facts, and what was derived; ``outcome`` is the gravest of its numbers."""

    facts: Mapping[str, Any]
    derived: tuple[Derived, ...]

    @property
    def outcome(self) -> str:
        found = [OUTCOMES.index(one.outcome) for one in self.derived]
        return OUTCOMES[max(found)] if found else OUTCOMES[-1]


def records(path: Path = RECORDS) -> list[Record]:
    """All records of the file, derived."""
    content = tomllib.loads(path.read_text("utf-8"))
    return [
        Record(facts, tuple(map(derived, facts.get("check", ())))) for facts in content["record"]
    ]


def interval(text: str) -> tuple[Fraction, Fraction]:
    """The numbers that a print stands for: an integer itself, a decimal half a last digit around.

    >>> interval("2.47")
    (Fraction(493, 200), Fraction(99, 40))
    >>> interval("4")
    (Fraction(4, 1), Fraction(4, 1))
    """
    value = Fraction(text)
    found = re.fullmatch(r"[0-9]+\.([0-9]+)(?:e(-?[0-9]+))?", text)
    if not found:
        return value, value
    half = Fraction(1, 2) / 10 ** len(found[1]) * Fraction(10) ** int(found[2] or 0)
    return value - half, value + half


def derived(check: Mapping[str, Any]) -> Derived:
    """One check of a record: every result grows or falls in each of its inputs."""
    node, step, value = _value(check, _printed)
    smallest, largest = sorted(_value(check, end)[2] for end in (_low, _high))
    low, high = interval(check["printed"])
    if check.get("at_most"):
        outcome = "agrees" if value <= Fraction(check["printed"]) else "disagrees"
    elif value == Fraction(check["printed"]):
        outcome = "agrees"
    else:
        outcome = "within rounding" if smallest <= high and low <= largest else "disagrees"
    return Derived(check["what"], check["printed"], outcome, value, smallest, largest, node, step)


def _printed(text: str) -> Fraction:
    return Fraction(text)


def _low(text: str) -> Fraction:
    return interval(text)[0]


def _high(text: str) -> Fraction:
    return interval(text)[1]


def _value(check: Mapping[str, Any], read: Any) -> tuple[Node, Step, Fraction]:
    """The declaration, the step that bounds it and the bound, with inputs read in one way."""
    node = _declared(check, read)
    scope = central("add_remove")
    account = Account(node, scope)
    if check["result"] == "rho":
        step = account.step("zcdp")
        return node, step, _upper(step.value)
    if check.get("simple"):
        step = account.step("zcdp")
        return node, step, _simple(_upper(step.value), Fraction(check["delta"]))
    if "delta" in check:
        step = account.approximate(Fraction(check["delta"]))
    else:
        step = account.step("approx" if "rate" in check else "pure")
    pair = step.value if isinstance(step.value, tuple) else (step.value, Fraction(0))
    return node, step, _upper(pair[1] if check["result"] == "delta" else pair[0])


def _simple(rho: Fraction, delta: Fraction) -> Fraction:
    """rho + 2 sqrt(rho log(1/delta)), rounded up: Bun and Steinke 2016, Proposition 1.3."""
    return rho + 2 * _upper(sqrt(rho * log(1 / delta)))


def _declared(check: Mapping[str, Any], read: Any) -> Node:
    if "scale" in check:
        return Laplace("noise", read(check["scale"]) / read(check["sensitivity"]))
    if "gdp" in check:
        return GDP(read(check["gdp"]))
    kind = ZCDP if "zcdp" in check else PureDP
    parts: Sequence[str] = check.get("zcdp") or check["pure"]
    if "rate" in check:
        slack = read(check.get("slack", "0"))
        return PoissonSampled(ApproxDP(read(parts[0]), slack), read(check["rate"]))
    nodes = [kind(read(part)) for part in parts]
    whole = nodes[0] if len(nodes) == 1 else Compose(*nodes)
    return Repeat(whole, int(check["times"])) if "times" in check else whole


def _upper(value: Any) -> Fraction:
    if isinstance(value, Fraction):
        return value
    found = upper_fraction(enclose(value))
    assert found is not None  # noqa: S101  (no input is infinite)
    return found


# --- the page ------------------------------------------------------------------------------------


def page(path: Path = RECORDS) -> str:
    """The page docs/registry.md."""
    content = tomllib.loads(path.read_text("utf-8"))
    found = records(path)
    counts = Counter(record.outcome for record in found)
    numbers = Counter(one.outcome for one in chain(*(record.derived for record in found)))
    lines = [
        "# The deployments registry, derived again",
        "",
        f"{len(found)} records of OpenDP's deployments registry state numbers "
        f"({content['source']}, commit {content['commit'][:7]}, {content['licence']}). Where a "
        "record states what its numbers follow from, they are derived again here, by declaration "
        "and accountant. Facts are carried over with their source; the records' sentences are not. "
        "A printed decimal stands for the interval of its last digit, an integer for itself. Made "
        "by `python -m experiments.lab.registry > docs/registry.md`.",
        "",
        "| outcome | records | numbers |",
        "| --- | --- | --- |",
        *(f"| {o} | {counts[o]} | {numbers[o] or '—'} |" for o in OUTCOMES),
        "",
        "A number that disagrees is a finding about the record, or about the publication it "
        "describes; which of the two is not decided here. ‘Cannot be derived’ says that the record "
        "states a parameter and not what it follows from.",
        "",
        "| record | curators | unit | stated | outcome |",
        "| --- | --- | --- | --- | --- |",
        *map(_row, found),
        "",
        *chain.from_iterable(_section(record) for record in found if record.derived),
        "## Remarks",
        "",
        *(f"- {r.facts['name']}: {r.facts['note']}." for r in found if "note" in r.facts),
    ]
    return "\n".join(lines) + "\n"


def _row(record: Record) -> str:
    facts = record.facts
    stated = ", ".join(f"{name} {value}" for name, value in facts["parameters"].items())
    cells = (facts["name"], ", ".join(facts["curators"]), facts["unit"], stated, record.outcome)
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _section(record: Record) -> list[str]:
    facts = record.facts
    lines = [f"## {facts['name']}", "", f"`{facts['file']}`, {facts['variant']}.", ""]
    for one in record.derived:
        lines += [f"- **{one.outcome}**: {one.what}: printed {one.printed}, {_follows(one)}", ""]
        text = "\n".join([repr(one.declaration), *_cites(one.step)])
        lines += ["  ```text", *(f"  {line}" for line in text.splitlines()), "  ```", ""]
    return lines


def _follows(one: Derived) -> str:
    value = f"{decimal_upper(one.value, 5)} follows"
    if one.lower != one.upper:
        value += f" ({decimal_upper(one.lower, 5)} to {decimal_upper(one.upper, 5)} by rounding)"
    if one.outcome == "disagrees":
        side = "smaller" if Fraction(one.printed) < one.value else "larger"
        value += f"; the printed number is the {side}"
    return value + "."


def _cites(step: Step) -> list[str]:
    cites = dict.fromkeys(str(one.cite) for one in step.walk() if "opaque" not in one.rule)
    return [f"by {cite}" for cite in cites]


if __name__ == "__main__":
    sys.stdout.write(page())
