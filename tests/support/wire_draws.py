"""Declarations in wire form, of every node, with every parameter that somebody might write there.

A declaration is an ordinary tree in which some numbers are replaced: by 0, a negative, tiny or huge
number, one that is none, a symbol, or an expression of the round that changes its sign, or does
not.  What a constructor refuses is drawn as well.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import sympy

from dpaudit.errors import DpauditError
from dpaudit.exact.wire import decode_number, digest, encode_number
from dpaudit.nodes import Node
from dpaudit.nodes.core import Several
from dpaudit.nodes.registry import load
from tests.support.every_node import EVERY_TYPE, IN_NUMBERS

Json = dict[str, Any]
ADJACENCIES = ("add_remove", "replace_one", "zero_out")
WHOLE = frozenset("whole count several".split())
# How often a number is another one than its node's own, and that one depends on a round there.
STRANGE, BOUND = 0.12, 0.45
AS_WRITTEN = 0.03
# How often plain sizes are made those of one data set; else they may contradict each other.
ONE_DATA_SET = 0.9
ROUNDS = (1, 1, 2, 2, 3, 3, 5, 8, 8, 20)
SIMPLE = ("Gaussian", "Laplace", "PureDP", "ApproxDP", "ZCDP", "GDP", "DiscreteLaplace")
QUICK = (*SIMPLE, "DiscreteGaussian", "RandomizedResponse", "ExponentialMechanism")


@dataclass(frozen=True)
class Index:
    """An index that stands above, and how many rounds it has, about."""

    name: str
    rounds: int

    @property
    def table(self) -> Any:
        """On the wire."""
        return copy.deepcopy(_symbol(self.name, ("positive", "integer")))


@cache
def _symbol(name: str, known: tuple[str, ...]) -> Any:
    return encode_number(sympy.Symbol(name, **dict.fromkeys(known, True)))


def number(value: object) -> str:
    """A fraction on the wire."""
    exact = Fraction(str(value)) if isinstance(value, float) else Fraction(value)  # type: ignore[arg-type]
    return f"{exact.numerator}/{exact.denominator}"


# --- trees ----------------------------------------------------------------------------------------


def tree_of(node: Node) -> Json:
    """A node's row, its children inside of it."""
    return {**copy.deepcopy(node.row()), "children": [tree_of(child) for child in node.children]}


def table_of(tree: Json) -> Json:
    """The table of a tree, every digest made anew."""
    nodes: Json = {}

    def add(part: Json) -> str:
        row = {**part, "children": [add(child) for child in part["children"]]}
        found = digest(row)
        nodes[found] = row
        return found

    return {"root": add(tree), "nodes": nodes}


def parts(tree: Json) -> Iterator[Json]:
    """Every row of a tree."""
    yield tree
    for child in tree["children"]:
        yield from parts(child)


def node(kind: str, parameters: Json | None = None, *children: Json) -> Json:
    """A row; numbers and texts as they are."""
    return {"type": kind, "parameters": parameters or {}, "children": list(children)}


def text(value: str) -> Json:
    """A text on the wire."""
    return {"text": value}


def normal(table: Any) -> Any:
    """The one form of an expression; as it was where it has none."""
    try:
        return encode_number(decode_number(table))
    except DpauditError:
        return table


@cache
def domains(kind: str) -> dict[str, str]:
    """The numbers of a type by name, each with the name of its domain."""
    from dataclasses import fields

    load("node")
    type_: Any = Node.types[kind]
    found = {f.name: f.metadata.get("domain") for f in fields(type_)}
    return {name: domain.__name__ for name, domain in found.items() if domain is not None}


# --- numbers --------------------------------------------------------------------------------------


def ordinary(rng: random.Random, domain: str) -> Any:
    """A number that is in its domain."""
    if domain in WHOLE:
        return number(rng.randint(2 if domain == "several" else 1, 6))
    if domain in ("probability", "rare"):
        return number(Fraction(1, 10 ** rng.randint(1, 30)))
    if domain in ("rate", "part"):
        return number(Fraction(rng.randint(1, 100), 100))
    if domain == "above_minus_one":
        return number(rng.choice((0, 1, 1, 2)))
    if domain == "above_one":
        return number(round(rng.uniform(1.1, 30), 2))
    return number(round(rng.uniform(0.3, 6), 2))


def strange(rng: random.Random, whole: bool) -> Any:
    """A number that nobody would write on purpose, or would in the hope that nobody looks."""
    return copy.deepcopy(rng.choice(STRANGE_WHOLE if whole else STRANGE_REALS))


def _own_symbols() -> list[Any]:
    known = [("positive",), ("positive", "integer"), ("nonnegative",), ("real",), (), ("negative",)]
    found = [_symbol("x", facts) for facts in known]
    found += [_symbol("i", ("positive",)), _symbol("i", ("integer",)), _symbol("i", ())]
    positive = _symbol("x", ("positive",))
    found += [["Add", "-1/1", positive], ["Pow", positive, "-1/1"], ["Mul", "-1/1", positive]]
    found += [["Max", positive, "1/1"], ["Add", ["Pow", positive, "2/1"], "-1/4"]]
    return [*found, ["Function", "T", {"positive": True}, positive]]


NOT_NUMBERS: list[Any] = [
    ["Infinity"],
    ["Mul", "-1/1", ["Infinity"]],
    ["Add", ["Infinity"], ["Mul", "-1/1", ["Infinity"]]],
    ["Pow", "0/1", "-1/1"],
    ["Mul", "0/1", ["Pow", "0/1", "-1/1"]],
    ["log", "0/1"],
    ["log", "-1/1"],
    ["Pow", "-1/1", "1/2"],
    ["erfinv", "1/1"],
    ["erfinv", "2/1"],
    ["Max", ["Infinity"], "1/1"],
    ["Pow", "0/1", "0/1"],
]
STRANGE_REALS: list[Any] = [
    *(number(v) for v in ("0", "-1", "-1/3", "-1e-300", "-1e300", "1e-300", "1e300", "1e-30")),
    *(number(v) for v in ("1", "1/3", "1e-9", "1000000", "999999/1000000", "1/100", "50")),
    *NOT_NUMBERS,
    ["Pi"],
    ["exp", "-50/1"],
    ["exp", "700/1"],
    ["Add", ["Pow", "2/1", "1/2"], "-3/2"],
    ["Add", ["Pow", "2/1", "1/2"], "-7/5"],
    ["Add", ["Exp1"], ["Mul", "-1/1", ["Pi"]]],
    ["log", "1/2"],
    ["tanh", "1/2"],
    ["Abs", ["Add", ["Pi"], "-4/1"]],
    ["Min", ["Pi"], "-1/1"],
    *_own_symbols(),
]
STRANGE_WHOLE: list[Any] = [
    *(number(v) for v in ("0", "-1", "-3", "1", "2", "7", "1/2", "3/2", "-1/2", "1000", "1e6")),
    *(number(v) for v in ("1e300", "1e30", "10000000001/10000000000")),
    *NOT_NUMBERS,
    ["floor", ["Pi"]],
    ["ceiling", ["Mul", "-1/1", ["Exp1"]]],
    ["floor", ["Pow", "2/1", "1/2"]],
    ["binomial", "5/1", "2/1"],
    ["Pi"],
    *_own_symbols(),
]


def of_round(rng: random.Random, index: Index, whole: bool) -> Any:
    """An expression of the round, which is fit in some rounds, or in all."""
    kinds = COUNTS if whole else REALS
    return rng.choice(kinds)(rng, index.table, index.rounds)


def _line(rng: random.Random, i: Any, n: int) -> Any:
    """Crosses 0 in a round, between two, or outside."""
    slope = Fraction(rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2, 4, 10)))
    zero = Fraction(rng.randint(-2 * n, 6 * n + 12), rng.choice((2, 3, 4, 7)))
    sign = rng.choice((1, -1))
    return ["Add", number(-sign * slope * zero), ["Mul", number(sign * slope), i]]


def _square(rng: random.Random, i: Any, n: int) -> Any:
    middle = Fraction(rng.randint(0, 4 * n), 4)
    below = rng.choice(("0", "1/4", "1", "1/100", "-1/100", "1e-30"))
    shape = ["Pow", ["Add", i, number(-middle)], "2/1"]
    return ["Add", shape, number(-Fraction(below))]


def _reciprocal(rng: random.Random, i: Any, n: int) -> Any:
    over = rng.choice((i, ["Add", i, number(-Fraction(rng.randint(-4, 4 * n), 4))]))
    found = ["Mul", number(Fraction(rng.randint(1, 40), 10)), ["Pow", over, "-1/1"]]
    return rng.choice((found, ["Add", found, number(-Fraction(rng.randint(1, 20), 10))]))


def _exponential(rng: random.Random, i: Any, n: int) -> Any:
    base = rng.choice(("1/2", "9/10", "2/1", "11/10", "1/1000", "-1/2"))
    power = rng.choice((["Pow", base, i], ["exp", ["Mul", "-1/1", i]], ["exp", i]))
    found = ["Mul", number(Fraction(rng.randint(1, 40), 10)), power]
    return rng.choice((found, ["Add", found, number(-Fraction(rng.randint(1, 200), 100))]))


def _bent(rng: random.Random, i: Any, n: int) -> Any:
    moved = ["Add", i, number(-Fraction(rng.randint(0, 4 * n), 4))]
    least = rng.choice(("0/1", "1/1000", "1/1", "-1/1"))
    return rng.choice(
        (
            ["Max", moved, least],
            ["Min", moved, "3/1"],
            ["Abs", moved],
            ["Max", ["Mul", "-1/1", moved], least],
            ["Add", ["Abs", moved], "-1/2"],
            ["Pow", moved, "1/2"],
            ["log", moved],
            ["log", i],
            ["Pow", i, "1/2"],
            ["tanh", moved],
            ["erf", moved],
        )
    )


def _summed(rng: random.Random, i: Any, n: int) -> Any:
    j = _symbol("j", ("positive", "integer"))
    term = rng.choice((j, ["Pow", j, "-1/1"], ["Pow", j, "2/1"], ["Pow", "1/2", j]))
    found = ["Sum", term, ["Tuple", j, "1/1", i]]
    return rng.choice((found, ["Add", found, number(-Fraction(rng.randint(1, 12), 4))]))


def _floor(rng: random.Random, i: Any, n: int) -> Any:
    inside = ["Mul", rng.choice(("1/2", "1/3", "-1/2", "2/3")), i]
    found = [rng.choice(("floor", "ceiling")), inside]
    return rng.choice((found, ["Add", found, number(rng.randint(-2, n // 2 + 1))]))


def _step(rng: random.Random, i: Any, n: int) -> Any:
    """A whole number in every round; below 0 in some."""
    slope, start = rng.choice((1, 1, 2, 3, -1, -1, -2, -3)), rng.randint(-2, 3 * n)
    return ["Add", number(start), ["Mul", number(slope), i]]


def _power_of_round(rng: random.Random, i: Any, n: int) -> Any:
    return rng.choice(
        (
            ["Pow", i, "2/1"],
            ["Add", ["Pow", i, "2/1"], number(-rng.randint(1, 5))],
            ["Pow", "2/1", i],
            ["binomial", i, "2/1"],
            ["binomial", number(n), i],
            ["Mul", "1/2", i],
            ["Mul", "1/2", i, ["Add", "1/1", i]],
            ["Max", ["Add", i, "-2/1"], "0/1"],
            ["Abs", ["Add", i, "-2/1"]],
            ["Max", ["Add", "3/1", ["Mul", "-1/1", i]], "1/1"],
            i,
        )
    )


REALS: tuple[Callable[..., Any], ...] = (
    *(_line,) * 4, _square, _square, _reciprocal, _exponential, _bent, _bent, _summed, _floor,
)  # fmt: skip
COUNTS: tuple[Callable[..., Any], ...] = (_step, _step, _step, _floor, _power_of_round, _summed)


# --- sizes ----------------------------------------------------------------------------------------

DRAWN = {
    "SampledWithoutReplacement": "batch_size",
    "SampledWithReplacement": "draws",
    "CyclicBatches": "batch_size",
    "ShuffledBatches": "batch_size",
    "Shuffled": "",
}
APART = ("Parallel", "PoissonSampled", "RandomAllocation", "TruncatedPoisson", "CyclicPoisson")


def _sized(tree: Json, records: int | None) -> int | None:
    """Give the nodes of one data set one number of records; the number that reaches ``tree``."""
    kind, own = tree["type"], tree["parameters"]
    inside = records
    if kind in DRAWN:
        every, drawn = _plain(own["population"]), _plain(own.get(DRAWN[kind], {"number": "1/1"}))
        if every is None or drawn is None:
            return records
        records = every if records is None else records
        own["population"] = {"number": number(records)}
        inside = min(drawn, records)
        if kind.endswith("Batches"):
            inside = math.gcd(drawn, records)
        if DRAWN[kind]:
            own[DRAWN[kind]] = {"number": number(inside)}
    elif kind in APART:
        inside = None
    for child in tree["children"]:
        found = _sized(child, inside)
        if kind not in DRAWN and kind not in APART:
            records = inside = found
    return records


def _plain(value: Json) -> int | None:
    """A size that is written as a whole number."""
    text = value.get("number")
    whole = isinstance(text, str) and text.endswith("/1") and text[:-2].isdigit()
    return int(text[:-2]) or None if whole and isinstance(text, str) else None


# --- declarations ---------------------------------------------------------------------------------


class Draws(random.Random):
    """Declarations by a seed."""

    def declaration(self) -> tuple[Json, str]:
        """A tree, and the adjacency under which it is read."""
        adjacency = self.choice(ADJACENCIES)
        tree = self.tree(adjacency, self.choice((0, 1, 1, 2, 2, 3)), ())
        if self.random() >= AS_WRITTEN:
            for part in parts(tree):
                for value in part["parameters"].values():
                    if isinstance(value.get("number"), list):
                        value["number"] = normal(value["number"])
        if self.random() < ONE_DATA_SET:
            _sized(tree, None)
        return tree, adjacency

    def tree(self, adjacency: str, depth: int, above: tuple[Index, ...]) -> Json:
        """A tree below some indices."""
        if depth == 0:
            return self.leaf(adjacency, above)
        kind = self.choice(KINDS)
        if kind == "Repeat":
            return self._repeat(adjacency, depth, above)
        if kind in ("Compose", "Parallel", "Select"):
            few = range(self.choice((1, 2, 2, 3)))
            return node(kind, {}, *(self.tree(adjacency, self.below(depth), above) for _ in few))
        if kind == "sampled":
            replaced = adjacency == "replace_one" and self.random() < 0.5
            kind = "SampledWithoutReplacement" if replaced else "PoissonSampled"
        if kind == "Filter":
            return self._filter(above)
        child = self.tree(adjacency, depth - 1, above)
        if kind == "SampledWithoutReplacement":
            batch = self.randint(1, 10)
            sizes = {"batch_size": batch, "population": batch * self.randint(1, 20)}
            made = node(kind, {k: {"number": number(v)} for k, v in sizes.items()}, child)
            return self.changed(made, above)
        extra = {"event": text("the noise is large")} if kind == "EventSlack" else {}
        if kind == "PoissonSampled" and self.random() < 0.5:
            extra["undrawn"] = text("zero" if self.random() < 0.9 else "one")
        own = {k: {"number": ordinary(self, d)} for k, d in domains(kind).items()}
        return self.changed(node(kind, own | extra, child), above)

    def below(self, depth: int) -> int:
        """How deep a child may be."""
        return self.randint(0, depth - 1)

    def leaf(self, adjacency: str, above: tuple[Index, ...]) -> Json:
        """Noise that is quick to account for, or any of all nodes, as others have tried them."""
        kind = self.random()
        if kind < 0.8:
            name = self.choice(SIMPLE if kind < 0.6 else QUICK)
            own = {k: {"number": ordinary(self, d)} for k, d in domains(name).items()}
            own["label"] = text("a")
            if name in ("PureDP", "ApproxDP", "ZCDP", "GDP"):
                own["source"] = text("")
            if name == "ExponentialMechanism":
                own["scores"] = text(self.choice(("any", "monotone")))
            return self.changed(node(name, own), above)
        known = EVERY if kind > 0.97 else BY_ADJACENCY[adjacency]
        made = copy.deepcopy(self.choice(known))
        for part in parts(made):
            self.changed(part, above)
        return made

    def changed(self, made: Json, above: tuple[Index, ...]) -> Json:
        """Some of its numbers are strange, or depend on the round."""
        known = domains(made["type"])
        for name, value in made["parameters"].items():
            if name not in known:
                continue
            whole, chance = known[name] in WHOLE, self.random()
            if above and chance < BOUND / len(known):
                value["number"] = of_round(self, self.choice(above), whole)
            elif chance > 1 - STRANGE / len(known):
                value["number"] = strange(self, whole)
            elif chance > 1 - 2 * STRANGE / len(known) and made["type"] in QUICK:
                value["number"] = ordinary(self, known[name])
        return made

    def _repeat(self, adjacency: str, depth: int, above: tuple[Index, ...]) -> Json:
        times = self.choice(ROUNDS)
        name = "ijk"[len(above) % 3]
        if above and self.random() < 0.03:
            name = above[-1].name  # a namesake, which is another index
        index = Index(name, times)
        own: Json = {"times": {"number": number(times)}}
        if above and self.random() < 0.4:
            own["times"]["number"] = of_round(self, self.choice(above), whole=True)
        elif self.random() < 0.1:
            own["times"]["number"] = strange(self, whole=True)
        if self.random() < 0.8:
            own["index"] = {"number": index.table}
            if self.random() < 0.02:
                odd = self.choice((("positive",), ("integer",), ("nonnegative", "integer"), ()))
                own["index"]["number"] = copy.deepcopy(_symbol(name, odd))
            above = (*above, index)
        return node("Repeat", own, self.tree(adjacency, self.below(depth), above))

    def _filter(self, above: tuple[Index, ...]) -> Json:
        measure = self.choice(("pure", "approx", "zcdp", "rdp", "gdp"))
        kinds = {"pure": "Laplace", "approx": "Laplace"}
        leaf = tree_of(Node.types[kinds.get(measure, "Gaussian")]("l", 1))  # type: ignore[call-arg]
        cap: Any = ordinary(self, "non_negative")
        if measure == "rdp":
            cap = ["Mul", cap, _symbol("alpha", ("positive",))]
        own: Json = {"measure": text(measure), "cap": {"number": cap}, "delta": {"number": "0/1"}}
        if measure == "approx":
            own["delta"]["number"] = ordinary(self, "probability")
        return self.changed(node("Filter", own, leaf), above)


KINDS = (*("Repeat",) * 7, *("Compose",) * 3, "Parallel", "Select", "sampled", "Filter", "Group",
         "EventSlack", "Tuned", "RandomAllocation")  # fmt: skip
EVERY = [tree_of(known) for known in EVERY_TYPE]
BY_ADJACENCY = {
    adjacency: [tree_of(known) for known, under in IN_NUMBERS if under == adjacency]
    for adjacency in ADJACENCIES
}
# Children of these are rows without parameters.
SEVERAL = frozenset(kind.__name__ for kind in Several.__subclasses__())
