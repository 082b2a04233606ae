"""A certificate as a Coq file: its declaration, a theorem for each step, one for each claim.

Each step's theorem follows from those of its premises by a lemma of the library beside this file;
the numbers are the checker's own.  Theorems of the literature are hypotheses of the library, and
``Print Assumptions`` lists those that a claim needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dpaudit.check import check
from dpaudit.check.derivation import Value, rederive
from dpaudit.check.file import validate
from dpaudit.check.normal import gaussian_delta
from dpaudit.check.profile.closed import delta_by
from dpaudit.errors import CertificateRejected, Unsupported
from dpaudit.exact import (
    canonical,
    decimal_upper,
    enclose,
    exp,
    is_infinite,
    is_symbolic,
    replaced,
    sympify,
    unknowns,
    working_precision,
)
from dpaudit.exact.wire import decode_number
from dpaudit.nodes import Node, postorder
from dpaudit.nodes.core import free_unknowns
from dpaudit.nodes.tables import from_table
from dpaudit.proofs.grids import STEPS, UNIT, fine_enough
from dpaudit.proofs.kernel import FILES
from dpaudit.proofs.numbers import square, term, times

Json = Mapping[str, Any]
Pair = tuple[Any, Any]
ZERO, ONE, TWO = Fraction(0), Fraction(1), Fraction(2)
# Where a rule does not fit, tactics would look inside private for other ways to apply it, without
# an end for a Repeat of many rounds: so it is opaque, and a false file is refused at once.
HEADER = """\
Require Import Reals Lra ZArith String.
From Coquelicot Require Import Coquelicot.
From Interval Require Import Tactic.
From DPAudit Require Import {}.
Require Import List.
Import ListNotations.
Open Scope R_scope.
Opaque private.
"""
# The imports that every file needs; releases that need more name them.
NEEDED = ("Laws", "Composition", "Normal", "Nodes", "Theorems", "Tactics", "Balls")
# Bits of a profile beyond those of its margin, and of its working precision beyond those.
SPARE_BITS, GUARD_BITS = 6, 30
# Where delta is divided among releases, each share is rounded up to so many digits.
SHARE_DIGITS = 8
LONGEST_COMMENT = 200  # characters of a comment in Coq
LAWS = "no Coq export yet; it needs pairs of laws, and the numerics of their profiles"
# The orders of neighbours of the library, and a normal profile in Gaussian differential privacy.
ORDERS = ("Removed", "Added")
SQUARED = "squared mu"
CONVOLVED = "convolution of profiles: no Coq export yet; it needs grids of their losses"
# Requirements of an export of a node without a constructor, if more is known than in general.
CONSTRUCTOR = "a constructor, the pairs that it allows, and a hypothesis with its theorem"
CELLS = "a proof that the sum of the clients' noise lies between cells of normal noise"
NEEDS = {
    "CoupledGaussian": "a sum over how many coins flip, of normal profiles at a point",
    "SampledWithoutReplacement": (
        "the pairs of laws of one record that another replaces, and a grid of their losses"
    ),
    "DistributedGaussianVector": CELLS,
    "DistributedSkellamVector": CELLS,
}
MOST_ROUNDS = 200  # of a Repeat whose rounds differ: each is a theorem of its own


@dataclass(frozen=True)
class Exported:
    """A Coq file: its text, the claims it proves, and why each other claim is not proved."""

    text: str
    claims: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Calculus:
    """A family of measures ``M v d`` of the library, and what it is known to do."""

    measure: str
    adds: str
    weakens: str


def _renyi(order: Any) -> Calculus:
    a = term(order)
    above = f"(ltac:(number) : 1 < {a})"
    return Calculus(f"(of_renyi {a})", f"(renyi_adds {a} {above})", f"(renyi_weakens {a} {above})")


@dataclass(frozen=True)
class Point:
    """A profile at one epsilon, from above: what a step proves of it there."""

    epsilon: Any
    delta: Any


# Profiles of one normal pair, within delta in total variation: what the library knows of profiles.
NORMAL = Calculus("(within of_gdp)", "", "")
CALCULI = {
    "pure": Calculus("approx", "approx_adds", "approx_weakens"),
    "approx": Calculus("approx", "approx_adds", "approx_weakens"),
    "zcdp": Calculus("of_zcdp", "zcdp_adds", "zcdp_weakens"),
    "gdp": Calculus("of_gdp", "gdp_adds", "gdp_weakens_square"),
}


def theorem_of(place: int) -> str:
    """The name of the theorem of a certificate's claim, by its place: ids are any text."""
    return f"claim_{place + 1}"


def exported(certificate: Json) -> Exported:
    """The Coq file of a certificate, if the checker confirms it.

    Errors: CertificateRejected with the checker's reason; Unsupported as of :func:`written`.
    """
    validate(certificate)
    check(certificate)
    return written(certificate)


def written(certificate: Json) -> Exported:
    """The Coq file of a certificate that the checker confirmed, or of the parts that are read here.

    Errors: CertificateRejected for steps that do not follow; Unsupported where no claim can be
    exported, naming what each would need.
    """
    predicate = certificate["predicate"]
    if "derivation" not in predicate:
        raise Unsupported(
            "a membership audit holds lower bounds alone: there is no derivation to export"
        )
    root = from_table(predicate["mechanism"]["declaration"], strangers=True)
    values = rederive(predicate, root)
    adjacency = predicate["scope"]["adjacency"]
    writer = _Writer(predicate["derivation"]["steps"], values, root, adjacency)
    left_out: list[tuple[str, str]] = []
    claims: list[str] = []
    for place, row in enumerate(predicate["claims"]):
        name = theorem_of(place)
        try:
            writer.claim(name, row)
        except Unsupported as error:
            left_out.append((row["stated_text"], str(error)))
        else:
            claims.append(name)
    if not claims:
        reasons = "; ".join(dict.fromkeys(f"{text}: {reason}" for text, reason in left_out))
        raise Unsupported(f"no claim has a Coq export: {reasons}")
    digest = certificate["subject"][0]["digest"]["sha256"]
    return Exported(
        writer.text(predicate, digest, claims, left_out), tuple(claims), tuple(left_out)
    )


@dataclass(frozen=True)
class Made:
    """A node's own bound and a proof of it; ``shown``: the bound as the proof's lemma writes it."""

    own: Pair
    proof: str
    shown: tuple[str, ...] = ()


@dataclass
class _Writer:
    steps: Sequence[Json]
    values: Sequence[Value]
    root: Node
    adjacency: str
    neighbours: str = ORDERS[0]
    nodes: dict[tuple[str, str], str] = field(default_factory=dict)
    assumptions: dict[str, str] = field(default_factory=dict)
    definitions: list[str] = field(default_factory=list)
    theorems: list[str] = field(default_factory=list)
    written: dict[tuple[int, Any, tuple[Any, ...], str], str] = field(default_factory=dict)
    rounds: dict[Any, int] = field(default_factory=dict)
    needed: set[str] = field(default_factory=lambda: set(NEEDED))

    def text(
        self,
        predicate: Json,
        digest: str,
        claims: Sequence[str],
        left_out: Sequence[tuple[str, str]],
    ) -> str:
        """The file: declaration, steps and claims, then what each claim rests on."""
        missing = [f"   Not here: {text}: {reason}" for text, reason in left_out]
        about = [
            f"(* {_comment(predicate['mechanism']['title'])}, under "
            f"{predicate['scope']['adjacency']}.",
            f"   Certificate {digest}.",
            *map(_comment, missing),
            "   To let the kernel read it, beside the folder DPAudit:",
            f"     for f in {' '.join(FILES)}; do coqc -Q DPAudit DPAudit DPAudit/$f.v; done",
            "     coqc -Q DPAudit DPAudit THIS_FILE.v",
            "   It prints what each claim rests on: theorems of the literature by the names that",
            "   DPAudit/Theorems.v gives them, and axioms of Coq's own real numbers. *)",
        ]
        hypotheses = [
            f"Hypothesis {name} : holds {_string(text)}." for text, name in self.assumptions.items()
        ]
        body = [*self.definitions, "", *hypotheses, "", *self.theorems]
        if hypotheses:
            body = ["Section Assumed.", "", *body, "End Assumed.", ""]
        asked = [f"Print Assumptions {name}." for name in claims]
        header = HEADER.format(" ".join(name for name in FILES if name in self.needed))
        return "\n".join(["\n".join(about), header, *body, *asked, ""])

    # --- declarations -------------------------------------------------------------------------

    def node(self, node: Node) -> str:
        """The name of a node's definition, written where it is new.

        Errors: Unsupported for a node without a constructor in the library.
        """
        key = node.digest, self.order_of(node)
        if key not in self.nodes:
            body = self._body(node)
            name = "declaration" if node == self.root else f"node_{len(self.nodes) + 1}"
            if node == self.root and key[1]:
                name += f"_{key[1].lower()}"
            self.nodes[key] = name
            label = _comment(str(getattr(node, "label", "")))
            note = f"  (* {label} *)" if label else ""
            self.definitions.append(f"Definition {name} : node := {body}.{note}")
        return self.nodes[key]

    def order_of(self, node: Node) -> str:
        """The order of the neighbours that is being written, where a node depends on it."""
        return self.neighbours if _samples(node) else ""

    def _body(self, node: Node) -> str:
        kind = type(node).__name__
        if kind not in NODES or not node.is_shipped:
            raise Unsupported(
                f"{node.row()['type']}: no Coq export yet; it needs {NEEDS.get(kind, CONSTRUCTOR)}"
            )
        return NODES[kind](self, node)

    def assumption(self, node: Any) -> str:
        """The name of the hypothesis that an assumption holds."""
        name = f"assumption_{len(self.assumptions) + 1}"
        return self.assumptions.setdefault(node.assumption.id, name)

    # --- steps --------------------------------------------------------------------------------

    def value(self, number: int) -> Value:
        """A step's bound, in the round of each index that is being written."""
        value = self.values[number]
        return replace(value, node=value.node.bind(self.rounds)) if self.rounds else value

    @contextmanager
    def round(self, index: Any, number: int) -> Iterator[None]:
        """The text written inside belongs to this round of a Repeat."""
        outside = self.rounds
        self.rounds = {**outside, index: number}
        try:
            yield
        finally:
            self.rounds = outside

    def step(self, number: int, order: Any = None) -> str:
        """The name of a step's theorem, written where it is new.

        A Renyi step's is at one order, a profile's that is no normal pair's at one point, and one
        inside a Repeat with an index is of one round.
        """
        row, value = self.steps[number], self.value(number)
        key = number, order, tuple(self.rounds.values()), self.order_of(value.node)
        if key not in self.written:
            node = self.node(value.node)
            calculus, target = self.calculus(value, order), self.pair(value, order)
            rule = row["rule"]
            make = _rule(rule, type(value.node).__name__, order)
            script = self.fit(calculus, node, make(self, number, order), target)
            at = "" if key[1:] == (None, (), "") else f"_at_{len(self.written)}"
            name = f"step_{number}{at}"
            self.theorem(name, f"private {_measured(calculus, target)} {node}", script, row["cite"])
            self.written[key] = name
        return self.written[key]

    def calculus(self, value: Value, order: Any) -> Calculus:
        """The family of measures of a step's calculus."""
        if value.calculus == "rdp" and order is not None:
            return _renyi(order)
        if isinstance(order, Point):
            return CALCULI["approx"]
        if order == SQUARED:
            return CALCULI["gdp"]
        if _normal(value) is not None:
            return NORMAL
        if value.calculus not in CALCULI:
            needs = {"profile": "pairs of laws and the numerics of their profiles"}
            raise Unsupported(
                f"{value.calculus} of {type(value.node).__name__}: no Coq export yet; it needs "
                f"{needs.get(value.calculus, 'this measure')} in the library"
            )
        return CALCULI[value.calculus]

    def pair(self, value: Value, order: Any) -> Pair:
        """A step's bound: the number that adds up, and delta."""
        if isinstance(order, Point):
            return order.epsilon, order.delta
        if (normal := _normal(value)) is not None:
            return square(normal), value.upper.slack
        if order == SQUARED:
            raise Unsupported(f"the profile of {type(value.node).__name__} under sampling: {LAWS}")
        upper = value.upper(order) if value.calculus == "rdp" else value.upper
        pair = upper if isinstance(upper, tuple) else (upper, ZERO)
        number, delta = (replaced(v, self.rounds) if is_symbolic(v) else v for v in pair)
        if number is None or is_infinite(number):
            raise Unsupported(f"{value.node.head[:60]}: no finite bound to prove")
        if unknowns(number) or unknowns(delta):
            raise Unsupported(f"{value.node.head[:60]}: depends on a symbol that has no value")
        return (square(number) if value.calculus == "gdp" else number), delta

    def is_pointed(self, number: int) -> bool:
        """Whether a step converts a profile that is no normal pair's: it holds at a point."""
        row = self.steps[number]
        if not row["rule"].endswith(".profile_to_approx"):
            return False
        return _normal(self.value(row["premises"][0])) is None

    def premises(self, number: int, order: Any) -> list[tuple[str, str, Pair]]:
        """Node, theorem and bound of each premise."""
        premises = []
        for premise in self.steps[number]["premises"]:
            name = self.step(premise, order)
            value = self.value(premise)
            premises.append((self.node(value.node), name, self.pair(value, order)))
        return premises

    def fit(self, calculus: Calculus, node: str, made: Made, wanted: Pair) -> str:
        """A proof of the wanted bound from one of a node's own bound."""
        shown, wanted_texts = made.shown or _texts(made.own), _texts(wanted)
        if shown == wanted_texts:
            return made.proof
        if all(map(_equal, made.own, wanted)):
            lemma, ends, arguments = f"equals {calculus.measure}", "[number | number | ]", shown
        else:
            lemma = f"weakened {calculus.measure} {calculus.weakens}"
            ends, arguments = "[number | number | number | ]", (*shown, *wanted_texts)
        return f"apply ({lemma} {node} {' '.join(arguments)}); {ends}.\n{made.proof}"

    def theorem(self, name: str, statement: str, script: str, cite: str = "") -> None:
        """Write a theorem and its proof."""
        note = f"(* {_comment(cite)} *)\n" if cite else ""
        lines = "\n".join(f"  {line}" for line in script.splitlines())
        self.theorems.append(f"{note}Theorem {name} : {statement}.\nProof.\n{lines}\nQed.\n")

    def number(self, step: str, statement: str, script: str) -> str:
        """The name of a theorem on numbers alone, written where a conversion needs it."""
        name = "_".join(["number", step, *map(str, self.rounds.values())])
        self.theorem(name, statement, script)
        return name

    # --- claims -------------------------------------------------------------------------------

    def claim(self, name: str, row: Json) -> None:
        """Write the theorem of a claim.

        Errors: Unsupported for a claim that is not proved, or a route without an export.
        """
        if row["check"] != "proved" or row["step"] is None:
            raise Unsupported(f"the certificate's check says {row['check']}: nothing to prove")
        before = len(self.theorems), len(self.definitions), dict(self.nodes), dict(self.written)
        try:
            self._claim(name, row)
        except Unsupported:
            # Text that was begun for this claim is of no use to the others.
            del self.theorems[before[0] :], self.definitions[before[1] :]
            self.nodes, self.written = before[2], before[3]
            raise

    def _claim(self, name: str, row: Json) -> None:
        """Write the theorem of one claim, and its proof from the derivation's last step."""
        number, value = row["step"], self.value(row["step"])
        claimed = decode_number(row["exact"])
        calculus, own = self.calculus(value, None), self.pair(value, None)
        if self.is_pointed(number):
            own = claimed, own[1]
            if _samples(self.root):
                self._claim_of_orders(name, number, Point(*own), row["stated_text"])
                return
            theorem = self.step(number, Point(*own))
        elif _samples(self.root):
            raise Unsupported(f"PoissonSampled in {value.calculus}: {LAWS}")
        else:
            theorem = self.step(number)
        node = self.node(self.root)
        wanted = (square(claimed) if value.calculus == "gdp" else claimed), own[1]
        script = self.fit(calculus, node, Made(own, f"exact {theorem}."), wanted)
        measure = _measured(calculus, wanted)
        if value.calculus == "gdp":
            measure = f"(gdp {term(claimed)})"
            arguments = f"{term(wanted[0])} {term(claimed)}"
            script = f"apply (square_to_gdp {arguments}); [number | number | ].\n{script}"
        elif value.calculus in ("pure", "zcdp"):
            measure = f"({value.calculus} {term(claimed)})"
            shown = _measured(calculus, wanted)
            script = f"change (private {shown} {node}).\n{script}"
        self.theorem(name, f"private {measure} {node}", script, row["stated_text"])

    def _claim_of_orders(self, name: str, number: int, point: Point, text: str) -> None:
        """Neighbours in both orders, each a theorem of its own."""
        shown = []
        for self.neighbours in ORDERS:
            theorem = self.step(number, point)
            measure = _measured(CALCULI["approx"], (point.epsilon, point.delta))
            shown.append((f"private {measure} {self.node(self.root)}", theorem))
        (statement, first), (other, second) = shown
        script = f"split; [exact {first} | exact {second}]."
        self.theorem(name, f"({statement}) /\\ ({other})", script, text)


def _samples(node: Node) -> bool:
    """Whether neighbours in one order have other laws than in the other."""
    return any(type(part).__name__ == "PoissonSampled" for part in postorder(node))


# --- nodes ---------------------------------------------------------------------------------------

Body = Callable[[_Writer, Any], str]


def _leaf(name: str, *parameters: str) -> Body:
    def body(writer: _Writer, node: Any) -> str:
        numbers = " ".join(_number(getattr(node, p)) for p in parameters)
        return f"Leaf ({name} {numbers})"

    return body


def _number(value: Any) -> str:
    if unknowns(value):
        raise Unsupported(f"{str(value)[:60]}: depends on a symbol that has no value")
    return term(value)


def _stated(name: str, *parameters: str) -> Body:
    def body(writer: _Writer, node: Any) -> str:
        return f"{name} {' '.join(_number(getattr(node, p)) for p in parameters)}"

    return body


def _compose(writer: _Writer, node: Any) -> str:
    return f"Compose [{'; '.join(map(writer.node, node.children))}]"


def _several(name: str) -> Body:
    def body(writer: _Writer, node: Any) -> str:
        first, *others = map(writer.node, node.children)
        return f"{name} {first} [{'; '.join(others)}]"

    return body


def _tree(writer: _Writer, node: Any) -> str:
    """Noise of a Fenwick tree, where each record takes part in one round."""
    if str(node.strategy) != "tree" or node.participation.at_most != 1:
        raise Unsupported(
            f"CorrelatedGaussian by {str(node.strategy)[:40]}, {node.participation}: no Coq export "
            "yet; it needs the largest norm that a record's moves have in this strategy"
        )
    rounds = times(node.rounds)
    return f"Leaf (CorrelatedGaussian {_number(node.noise_multiplier)} {rounds} (tree {rounds}))"


def _exponential(writer: _Writer, node: Any) -> str:
    return f"Leaf (ExponentialMechanism {_number(_range(node))})"


def _range(node: Any) -> Any:
    """The range of the loss: half of epsilon where all scores move one way."""
    return node.epsilon / 2 if str(node.scores) == "monotone" else node.epsilon


def _repeat(writer: _Writer, node: Any) -> str:
    rounds = times(node.times)
    if not _varies(node):
        return f"Repeat (Z.to_nat {rounds}) (fun _ => {writer.node(node.child)})"
    each = [writer.node(node.child.bind({node.index: k})) for k in _each(node)]
    return f"Repeat (Z.to_nat {rounds}) (rounds [{'; '.join(each)}])"


def _varies(node: Any) -> bool:
    """Whether the rounds of a Repeat differ."""
    return node.index is not None and node.index in free_unknowns(node.child)


def _each(node: Any) -> range:
    """The rounds of a Repeat whose rounds differ; Unsupported for more than are written out."""
    if node.times > MOST_ROUNDS:
        raise Unsupported(
            f"{node.times} rounds that differ: no Coq export yet; it needs sums in closed form "
            f"beyond {MOST_ROUNDS} rounds"
        )
    return range(1, int(node.times) + 1)


def _slack(writer: _Writer, node: Any) -> str:
    return f"EventSlack {_number(node.probability)} {writer.node(node.child)}"


def _propose(writer: _Writer, node: Any) -> str:
    test, release = writer.node(node.test), writer.node(node.release)
    return f"ProposeTestRelease {_number(node.false_pass)} {test} {release}"


def _group(writer: _Writer, node: Any) -> str:
    return f"Group (Z.to_nat {times(node.size)}) {writer.node(node.child)}"


def _above(writer: _Writer, node: Any) -> str:
    """Queries that move one way cost half of what others do."""
    return f"Leaf (AboveThreshold {' '.join(map(_number, _shares(node)))})"


def _shares(node: Any) -> Pair:
    half = str(node.scores) == "monotone"
    return node.epsilon_threshold, node.epsilon_query / 2 if half else node.epsilon_query


def _assuming(writer: _Writer, node: Any) -> str:
    writer.assumption(node)
    return f"Assuming {_string(node.assumption.id)} {writer.node(node.base)}"


def _stable_release(writer: _Writer, node: Any) -> str:
    numbers = f"{_number(node.epsilon)} {node.kappa} {_number(node.noise_multiplier)}"
    return f"StableRelease {numbers} {str(node.distance).capitalize()}"


def _poisson(writer: _Writer, node: Any) -> str:
    if writer.adjacency != "add_remove" or node.undrawn is not None:
        raise Unsupported(
            f"PoissonSampled under {writer.adjacency}: no Coq export yet; it needs the pairs of "
            "laws of one record that another replaces"
        )
    rate = _number(node.rate)
    if not 0 < float(enclose(node.rate).mid()) < 1:
        raise Unsupported(
            f"PoissonSampled of rate {rate}: no Coq export yet; it needs one in (0, 1)"
        )
    return f"PoissonSampled {writer.neighbours} {rate} {writer.node(node.child)}"


CHARGES = {"zcdp": "1 / (2 * (noise * noise))", "gdp": "1 / (noise * noise)"}
# The factor from a filter's charge (a rho or a squared mu) to a claim's, by (claim, filter).
WORTH = {("zcdp", "zcdp"): ONE, ("zcdp", "gdp"): Fraction(1, 2)}
WORTH |= {("gdp", "zcdp"): TWO, ("gdp", "gdp"): ONE}


def _cap(node: Any) -> Any:
    return square(node.cap) if str(node.measure) == "gdp" else node.cap


def _filter(writer: _Writer, node: Any) -> str:
    inside = node.child.children if type(node.child).__name__ == "Select" else (node.child,)
    kinds = {type(leaf).__name__ for leaf in inside}
    if kinds != {"Gaussian"} or str(node.measure) not in CHARGES:
        names = ", ".join(sorted(kinds))
        raise Unsupported(
            f"a Filter in {node.measure} of {names}: no Coq export yet; it needs the charge of each"
        )
    return (
        f"Filter (fun _ noise => {CHARGES[str(node.measure)]}) "
        f"(fun _ noise => Leaf (Gaussian noise)) {term(_cap(node))}"
    )


NODES: dict[str, Body] = {
    "Gaussian": _leaf("Gaussian", "noise_multiplier"),
    "Laplace": _leaf("Laplace", "noise_multiplier"),
    "DiscreteGaussian": _leaf("DiscreteGaussian", "variance", "sensitivity"),
    "DiscreteLaplace": _leaf("DiscreteLaplace", "scale", "sensitivity"),
    "RandomizedResponse": _leaf("RandomizedResponse", "epsilon", "choices"),
    "CorrelatedGaussian": _tree,
    "ExponentialMechanism": _exponential,
    "AboveThreshold": _above,
    "EventSlack": _slack,
    "ProposeTestRelease": _propose,
    "Group": _group,
    "PureDP": _stated("PureDP", "epsilon"),
    "ApproxDP": _stated("ApproxDP", "epsilon", "delta"),
    "ZCDP": _stated("ZCDP", "rho"),
    "GDP": _stated("GDP", "mu"),
    "Compose": _compose,
    "Parallel": _several("Parallels"),
    "Select": _several("Selects"),
    "Repeat": _repeat,
    "Assuming": _assuming,
    "Filter": _filter,
    "StableRelease": _stable_release,
    "PoissonSampled": _poisson,
}


# --- rules ---------------------------------------------------------------------------------------

Rule = Callable[[_Writer, int, Any], Made]


def _rule(name: str, kind: str, order: Any) -> Rule:
    calculus, _, theorem = name.partition(".")
    if isinstance(order, Point) and calculus == "profile":
        return _pointed(theorem, kind)
    if order == SQUARED:
        name = f"gdp.{theorem}"
    rule = RULES.get((theorem, kind)) or RULES.get((name, kind)) or RULES.get((theorem, ""))
    if calculus == "profile" and order != SQUARED:
        # No other rule: a profile that is no normal pair has no theorem here.
        rule = {"event_slack": _rare_event, "unchanged": _unchanged}.get(theorem, _by_gdp)
    if rule is None:
        raise Unsupported(
            f"{name} of {kind}: no Coq export yet; it needs a hypothesis with its theorem"
        )
    return rule


def _composition(writer: _Writer, number: int, order: Any) -> Made:
    return _in_turn(writer, number, order, writer.premises(number, order), "composed_all {}")


def _in_turn(
    writer: _Writer,
    number: int,
    order: Any,
    premises: Sequence[tuple[str, str, Pair]],
    lemma: str,
    ends: str = "",
) -> Made:
    """One after another: bounds add up."""
    calculus = writer.calculus(writer.value(number), order)
    rows = "; ".join(f"({node}, ({', '.join(_texts(pair))}))" for node, _, pair in premises)
    each = "apply List.Forall_cons; [split; [cbn; number | split; [cbn; number | exact {}]] | ]."
    lines = [
        f"apply ({lemma.format(f'{calculus.measure} {calculus.adds} [{rows}]')}){ends}.",
        *(each.format(name) for _, name, _ in premises),
        "apply List.Forall_nil.",
    ]
    own = tuple(_sum(pair[i] for *_, pair in premises) for i in (0, 1))
    shown = tuple(_added([_texts(pair)[i] for *_, pair in premises]) for i in (0, 1))
    return Made((own[0], own[1]), "\n".join(lines), shown)


def _added(texts: Sequence[str]) -> str:
    """A sum as the library adds up a list: from the right, 0 last."""
    shown = "0"
    for text in reversed(texts):
        shown = f"({text} + {shown})"
    return shown


def _repetition(writer: _Writer, number: int, order: Any) -> Made:
    node: Any = writer.value(number).node
    if _varies(node):
        premises: list[tuple[str, str, Pair]] = []
        for k in _each(node):
            with writer.round(node.index, k):
                premises += writer.premises(number, order)
        lemma = f"repeated_each {{}} {times(node.times)}"
        return _in_turn(writer, number, order, premises, lemma, "; [reflexivity | ]")
    calculus = writer.calculus(writer.value(number), order)
    ((_, name, pair),) = writer.premises(number, order)
    ends = f"[discriminate | number | number | exact {name}]"
    lemma = f"repeated_alike {calculus.measure} {calculus.adds} {times(node.times)}"
    shown = tuple(f"({node.times} * {text})" for text in _texts(pair))
    own = canonical(pair[0] * node.times), canonical(pair[1] * node.times)
    return Made(own, f"apply ({lemma}); {ends}.", shown)


def _largest(lemma: str, *, adds: bool) -> Rule:
    """Parallel parts and choices: each premise has the largest bound."""

    def rule(writer: _Writer, number: int, order: Any) -> Made:
        calculus = writer.calculus(writer.value(number), order)
        target = writer.pair(writer.value(number), order)
        (first, *_), *_ = premises = writer.premises(number, order)
        others = "; ".join(node for node, *_ in premises[1:])
        opening = f"{lemma} {calculus.measure}" + (f" {calculus.adds}" if adds else "")
        signs = "; [number | number | ]" if adds else ""
        lines = [f"apply ({opening} {first} [{others}] {' '.join(_texts(target))}){signs}."]
        for node, name, pair in premises:
            script = writer.fit(calculus, node, Made(pair, f"exact {name}."), target)
            lines += ["apply List.Forall_cons.", "{ " + script.replace("\n", " ") + " }"]
        return Made(target, "\n".join([*lines, "apply List.Forall_nil."]))

    return rule


def _unchanged(writer: _Writer, number: int, order: Any) -> Made:
    calculus = writer.calculus(writer.value(number), order)
    ((_, name, pair),) = writer.premises(number, order)
    held = writer.assumption(writer.value(number).node)
    return Made(pair, f"apply (assumed {calculus.measure}); [exact {held} | exact {name}].")


def _normal(value: Value) -> Any:
    """The mu of a profile that is one normal pair in both directions; None for any other."""
    if value.calculus != "profile" or value.upper is None:
        return None
    pairs = {*value.upper.remove, *value.upper.add}
    return next(iter(pairs)).gaussian_shift if len(pairs) == 1 else None


def _by_gdp(writer: _Writer, number: int, order: Any) -> Made:
    """A leaf whose profile is a normal pair: by its theorem of Gaussian differential privacy."""
    value = writer.value(number)
    kind = type(value.node).__name__
    theorem = {"Gaussian": "gaussian", "CorrelatedGaussian": "correlated"}.get(kind, "")
    if (theorem_of_gdp := RULES.get((f"gdp.{theorem}", kind))) is None:
        raise Unsupported(
            f"the profile of {kind}: no Coq export yet; it needs pairs of laws, and the numerics "
            "of their profiles"
        )
    made = theorem_of_gdp(writer, number, order)
    return replace(made, proof=f"apply (within_exactly of_gdp).\n{made.proof}")


def _rare_event(writer: _Writer, number: int, order: Any) -> Made:
    node: Any = writer.value(number).node
    ((_, name, (squared, slack)),) = writer.premises(number, order)
    shown = term(squared), f"({term(slack)} + {term(node.probability)})"
    own = squared, canonical(slack + node.probability)
    return Made(own, f"apply (within_slack of_gdp). exact {name}.", shown)


def _tested(writer: _Writer, number: int, order: Any) -> Made:
    (_, test, test_bound), (_, release, other) = writer.premises(number, order)
    return _tested_by(test, test_bound, release, other, writer.pair(writer.value(number), order))


def _tested_by(test: str, test_bound: Pair, release: str, other: Pair, target: Pair) -> Made:
    numbers = "number | " * 6
    own = canonical(test_bound[0] + other[0]), target[1]
    shown = f"({term(test_bound[0])} + {term(other[0])})", term(target[1])
    return Made(
        own, f"apply tested_approx with (d := {term(test_bound[1])}) (d' := {term(other[1])}); "
        f"[{numbers}exact {test} | exact {release}].", shown,
    )  # fmt: skip


def _group_pure(writer: _Writer, number: int, order: Any) -> Made:
    node: Any = writer.value(number).node
    ((_, name, (epsilon, _)),) = writer.premises(number, order)
    own = canonical(node.size * epsilon), ZERO
    shown = f"({node.size} * {term(epsilon)})", "0"
    proof = f"apply (group_pure_times {times(node.size)}); [discriminate | exact {name}]."
    return Made(own, proof, shown)


def _filtered(writer: _Writer, number: int, order: Any) -> Made:
    node: Any = writer.value(number).node
    name = writer.value(number).calculus
    worth = WORTH.get((name, str(node.measure)))
    if worth is None:
        raise Unsupported(
            f"a Filter in {node.measure}, in {name}: no Coq export yet; it needs the charges' worth"
        )
    calculus, cap = CALCULI[name], _cap(node)
    lemma = f"filtered {calculus.measure} {calculus.adds} {calculus.weakens}"
    return Made(
        (canonical(worth * cap), ZERO),
        f"apply ({lemma}); [number | number | ].\n"
        f"intros kind noise Positive. apply gaussian_{name}; [exact Positive | field; lra].",
        (f"({term(worth)} * {term(cap)})", "0"),
    )


def _by(lemma: str, own: Callable[[Any, Any], Any]) -> Rule:
    """A leaf's theorem, whose lemma compares its bound with the parameters."""

    def rule(writer: _Writer, number: int, order: Any) -> Made:
        bound = canonical(own(writer.value(number).node, order))
        return Made((bound, ZERO), f"apply {lemma}; number.")

    return rule


def _stated_approx(writer: _Writer, number: int, order: Any) -> Made:
    node: Any = writer.value(number).node
    return Made((node.epsilon, node.delta), "apply stated_approx.")


def _tree_gdp(writer: _Writer, number: int, order: Any) -> Made:
    node: Any = writer.value(number).node
    levels = int(node.rounds).bit_length()
    own = canonical(levels * sympify(_inverse(node.noise_multiplier, 2)))
    arguments = f"{term(node.noise_multiplier)} {times(node.rounds)} {levels}%Z {term(own)}"
    return Made((own, ZERO), f"apply (tree_gdp {arguments}); [number | reflexivity | number].")


def _inverse(value: Any, power: int = 1) -> Any:
    return canonical(1 / sympify(value) ** power) if is_symbolic(value) else 1 / value**power


def _gaussian_renyi(node: Any, order: Any) -> Any:
    return order * _inverse(node.noise_multiplier, 2) / 2


RULES: dict[tuple[str, str], Rule] = {
    ("composition", ""): _composition,
    ("repetition", ""): _repetition,
    ("disjoint", ""): _largest("disjoint_all", adds=True),
    ("chosen", ""): _largest("chosen_all", adds=False),
    ("unchanged", ""): _unchanged,
    ("filter_concentrated", ""): _filtered,
    ("filter_gaussian", ""): _filtered,
    ("gdp.gaussian", "Gaussian"): _by(
        "gaussian_gdp", lambda node, _: _inverse(node.noise_multiplier, 2)
    ),
    ("zcdp.gaussian", "Gaussian"): _by(
        "gaussian_zcdp", lambda node, _: _inverse(node.noise_multiplier, 2) / 2
    ),
    ("pure.opaque", "PureDP"): _by("stated_pure", lambda node, _: node.epsilon),
    ("zcdp.opaque", "ZCDP"): _by("stated_zcdp", lambda node, _: node.rho),
    ("gdp.opaque", "GDP"): _by("stated_gdp", lambda node, _: square(node.mu)),
    ("approx.opaque", "ApproxDP"): _stated_approx,
    ("gdp.correlated", "CorrelatedGaussian"): _tree_gdp,
    ("pure.exponential_mechanism", "ExponentialMechanism"): _by(
        "exponential_pure", lambda node, _: _range(node)
    ),
    ("approx.exponential_mechanism_at_zero", "ExponentialMechanism"): _by(
        "exponential_pure", lambda node, _: _range(node)
    ),
    ("approx.tested", "ProposeTestRelease"): _tested,
    ("pure.group_pure", "Group"): _group_pure,
    ("pure.above_threshold", "AboveThreshold"): _by(
        "above_threshold_pure", lambda node, _: sum(_shares(node))
    ),
    ("rdp.gaussian", "Gaussian"): _by("gaussian_renyi", _gaussian_renyi),
    ("pure.laplace", "Laplace"): _by(
        "laplace_pure", lambda node, _: _inverse(node.noise_multiplier)
    ),
    ("approx.laplace", "Laplace"): _by(
        "laplace_pure", lambda node, _: _inverse(node.noise_multiplier)
    ),
    ("zcdp.laplace", "Laplace"): _by(
        "laplace_zcdp", lambda node, _: _inverse(node.noise_multiplier, 2) / 2
    ),
    ("zcdp.discrete_gaussian", "DiscreteGaussian"): _by(
        "discrete_gaussian_zcdp", lambda node, _: node.sensitivity**2 / (2 * node.variance)
    ),
    ("rdp.discrete_gaussian_curve", "DiscreteGaussian"): _by(
        "discrete_gaussian_renyi",
        lambda node, order: order * node.sensitivity**2 / (2 * node.variance),
    ),
    ("pure.discrete_laplace", "DiscreteLaplace"): _by(
        "discrete_laplace_pure", lambda node, _: node.sensitivity / node.scale
    ),
    ("approx.discrete_laplace_at_zero", "DiscreteLaplace"): _by(
        "discrete_laplace_pure", lambda node, _: node.sensitivity / node.scale
    ),
    ("pure.randomized_response", "RandomizedResponse"): _by(
        "randomized_response_pure", lambda node, _: node.epsilon
    ),
    ("approx.randomized_response_at_zero", "RandomizedResponse"): _by(
        "randomized_response_pure", lambda node, _: node.epsilon
    ),
}

# Leaves that are pure, each with the theorem of its own epsilon.
PURE = {
    kind: rule
    for (name, kind), rule in RULES.items()
    if name.startswith("pure.") and kind != "Group"
}


# --- conversions ---------------------------------------------------------------------------------


def _from_gdp(writer: _Writer, number: int, order: Any) -> Made:
    ((_, name, (squared, slack)),) = writer.premises(number, order)
    epsilon, delta = writer.value(number).upper
    if squared == 0 or epsilon is None or is_infinite(epsilon):
        raise Unsupported("a mu of 0, or no finite epsilon: no Coq export of this conversion")
    return _normal_below(writer, f"{number}", name, (squared, slack), Point(epsilon, delta))


def _normal_below(writer: _Writer, place: str, name: str, bound: Pair, point: Point) -> Made:
    """The profile of a normal pair at a point, from a theorem of its squared mu and its slack.

    ``place``: names the theorem of the numbers.
    """
    (squared, slack), epsilon, delta = bound, point.epsilon, point.delta
    delta_left = delta - slack * (1 + exp(epsilon)) if slack else delta
    margin = enclose(delta_left) - gaussian_delta(epsilon, enclose(squared).sqrt())
    e, d = term(epsilon), term(delta)
    if slack:
        d = f"({d} - {term(slack)} * (1 + exp {e}))"
    shown = writer.number(
        place,
        f"normal_profile (sqrt {term(squared)}) {e} {d}",
        f"profile {_effort(margin, epsilon)}.",
    )
    lemma = "within_gdp_to_approx_at" if slack else "gdp_to_approx_at"
    arguments = f"{term(squared)} {f'{term(slack)} ' if slack else ''}{e} {term(delta)}"
    return Made(
        (epsilon, delta), f"apply ({lemma} {arguments}); [number | exact {shown} | exact {name}]."
    )


def _from_profile(writer: _Writer, number: int, order: Any) -> Made:
    """A normal pair's profile, as for Gaussian differential privacy, with the failure probability
    on both sides.
    """
    if isinstance(order, Point):
        ((_, name, pair),) = writer.premises(number, order)
        return Made(pair, f"exact {name}.")
    ((_, _, (_, slack)),) = writer.premises(number, order)
    if not slack:
        raise Unsupported("the profile of a normal pair: no Coq export yet; claim it in GDP")
    return _from_gdp(writer, number, order)


# --- profiles at a point -------------------------------------------------------------------------


def _pointed(theorem: str, kind: str) -> Rule:
    """The rule of a profile at a point."""
    rules: dict[str, Rule] = {
        "stable_release": _stable,
        "unchanged": _unchanged,
        "disjoint": _largest("disjoint_all", adds=True),
        "repetition": _repeated,
        "composition": _shared,
        "event_slack": _rare_event_at,
        "tested_profile": _tested_at,
        "gaussian": _normal_at,
    }
    if (rule := rules.get(theorem) or PURE.get(kind)) is None:
        raise Unsupported(f"{kind}: {LAWS}")
    return rule


def _repeated(writer: _Writer, number: int, point: Point) -> Made:
    (child,) = writer.steps[number]["premises"]
    by_samples = type(writer.value(child).node).__name__ == "PoissonSampled"
    return (_sampled if by_samples else _shared)(writer, number, point)


def _normal_at(writer: _Writer, number: int, point: Point) -> Made:
    """One normal pair, by its theorem of Gaussian differential privacy."""
    name, squared = writer.step(number, SQUARED), writer.pair(writer.value(number), SQUARED)
    return _normal_below(writer, f"{number}_{len(writer.written)}", name, squared, point)


def _rare_event_at(writer: _Writer, number: int, point: Point) -> Made:
    _sufficing(writer, number, point)
    node: Any = writer.value(number).node
    (child,) = writer.steps[number]["premises"]
    at = Point(point.epsilon, _needed(writer, child, point.epsilon))
    name = writer.step(child, at)
    e, d, p = map(term, (at.epsilon, at.delta, node.probability))
    own = at.epsilon, canonical(at.delta + node.probability * (1 + exp(at.epsilon)))
    return Made(own, f"apply slack_at; exact {name}.", (e, f"({d} + {p} * (1 + exp {e}))"))


def _tested_at(writer: _Writer, number: int, point: Point) -> Made:
    """Epsilon is divided between the test and the release."""
    _sufficing(writer, number, point)
    premises = _divided(writer, number, point.epsilon)
    (_, test, test_bound), (_, release, other) = premises
    return _tested_by(test, test_bound, release, other, (point.epsilon, point.delta))


def _sampled(writer: _Writer, number: int, point: Point) -> Made:
    """Rounds on secret samples, by the convolution of their losses on a grid."""
    times = _rounds(writer, number)
    (child,) = writer.steps[number]["premises"]
    (inside,) = writer.steps[child]["premises"]
    name = writer.step(inside, SQUARED)
    node: Any = writer.value(child).node
    losses = writer.value(child).upper
    (pair,) = losses.remove if writer.neighbours == ORDERS[0] else losses.add
    grid = fine_enough(lambda x: delta_by(pair, x), int(times), point.epsilon, point.delta)
    if grid is None:
        raise Unsupported(
            f"{times} rounds of PoissonSampled: no Coq export yet; it needs a grid finer than "
            f"{min(STEPS)}, of more nodes, or for more rounds"
        )
    writer.needed |= {"Losses", "Sampled"}
    highest = grid.step * (grid.lowest + len(grid.counts))
    grown = enclose(highest) - enclose(node.rate).log()
    effort = _effort(enclose(Fraction(1, 2**UNIT)), Fraction(decimal_upper(grown, SHARE_DIGITS)))
    counts = "; ".join(map(str, grid.counts))
    script = (
        f"sampled {effort} {UNIT}%Z {grid.most}%Z {term(grid.step)} ({grid.lowest})%Z\n"
        f"  [{counts}]%Z {grid.lost}%Z {name}."
    )
    return Made((point.epsilon, point.delta), script)


def _stable(writer: _Writer, number: int, point: Point) -> Made:
    """By the profiles of all pairs of scores."""
    writer.needed.add("Stable")
    margin = enclose(point.delta) - _delta(writer.value(number), point.epsilon)
    effort = _effort(margin, point.epsilon)
    return Made((point.epsilon, point.delta), f"stable {effort}.")


def _delta(value: Value, epsilon: Any) -> Any:
    """Ball around a step's own profile."""
    (pair,) = {*value.upper.remove, *value.upper.add}
    with working_precision():
        return delta_by(pair, enclose(epsilon).exp())


def _shared(writer: _Writer, number: int, point: Point) -> Made:
    """Epsilon is divided among what adds up, delta as each part then needs."""
    if _normal(writer.value(number)) is not None:
        return _normal_at(writer, number, point)
    needed = _sufficing(writer, number, point)
    if rounds := _rounds(writer, number):
        return _repetition(
            writer, number, Point(canonical(point.epsilon / rounds), needed / rounds)
        )
    return _in_turn(
        writer, number, point, _divided(writer, number, point.epsilon), "composed_all {}"
    )


def _sufficing(writer: _Writer, number: int, point: Point) -> Fraction:
    """The delta that a step needs by sharing; Unsupported where it is more than there is."""
    needed = _needed(writer, number, point.epsilon)
    if needed > point.delta:
        raise Unsupported(f"{CONVOLVED}, as shares of epsilon and delta do not suffice")
    return needed


def _divided(writer: _Writer, number: int, epsilon: Any) -> list[tuple[str, str, Pair]]:
    """As :meth:`_Writer.premises`, each at its share of epsilon."""
    premises = []
    for child, share in _shares_of(writer, number, epsilon):
        at = Point(share, _needed(writer, child, share))
        node = writer.node(writer.value(child).node)
        premises.append((node, writer.step(child, at), (at.epsilon, at.delta)))
    return premises


def _rounds(writer: _Writer, number: int) -> Any:
    """How many rounds a repetition has that are alike; 0 of any other step."""
    node: Any = writer.value(number).node
    if not writer.steps[number]["rule"].endswith(".repetition"):
        return 0
    if _varies(node):
        raise Unsupported("rounds that differ: no Coq export yet of their profile")
    return node.times


def _shares_of(writer: _Writer, number: int, epsilon: Any) -> list[tuple[int, Any]]:
    """The premises of what adds up, each with its share of epsilon.

    Pure parts keep their own epsilon; the others divide the rest as they cost.
    """
    children = writer.steps[number]["premises"]
    pure = {child: _pure(writer, child) for child in children}
    costs = {child: _cost(writer, child) for child in children if pure[child] is None}
    left = epsilon - sum(own for own in pure.values() if own is not None)
    return [
        (child, canonical(left * costs[child] / sum(costs.values())) if own is None else own)
        for child, own in pure.items()
    ]


def _pure(writer: _Writer, number: int) -> Any:
    """Epsilon of a step that is pure; None of any other."""
    rule = PURE.get(type(writer.value(number).node).__name__)
    if rule is not None:
        return rule(writer, number, None).own[0]
    inside = [_pure(writer, child) for child in writer.steps[number]["premises"]]
    if not inside or None in inside or _rare(writer, number):
        return None
    if rounds := _rounds(writer, number):
        return canonical(rounds * inside[0])
    return _sum(inside) if _adds_up(writer, number) else max(inside)


def _cost(writer: _Writer, number: int) -> Any:
    """Epsilon of the thresholds and pure parts behind a step, and mu of its normal noise."""
    if (normal := _normal(writer.value(number))) is not None:
        return Fraction(decimal_upper(enclose(normal), SHARE_DIGITS))
    if (pure := _pure(writer, number)) is not None:
        return pure
    inside = [_cost(writer, child) for child in writer.steps[number]["premises"]]
    if not inside:
        node: Any = writer.value(number).node
        if type(node).__name__ != "StableRelease":
            raise Unsupported(f"{CONVOLVED}, also that of {node.row()['type']}")
        return node.epsilon
    if rounds := _rounds(writer, number):
        return rounds * inside[0]
    return sum(inside) if _adds_up(writer, number) else max(inside)


def _adds_up(writer: _Writer, number: int) -> bool:
    rule = writer.steps[number]["rule"]
    return bool(rule.endswith((".composition", ".tested_profile")))


def _rare(writer: _Writer, number: int) -> Fraction:
    """The probability of an event, or of a false pass, beside what a step's premises do; or 0."""
    node: Any = writer.value(number).node
    rare = getattr(node, "probability", ZERO) or getattr(node, "false_pass", ZERO)
    return rare if isinstance(rare, Fraction) else _upward(enclose(rare))


def _needed(writer: _Writer, number: int, epsilon: Any) -> Fraction:
    """A delta at which a step holds, by sharing epsilon."""
    value = writer.value(number)
    if (pure := _pure(writer, number)) is not None:
        if enclose(pure) > enclose(epsilon):
            raise Unsupported(f"{CONVOLVED}, as epsilon is less than what its pure parts have")
        return ZERO
    if (normal := _normal(value)) is not None and not value.upper.slack:
        return _upward(gaussian_delta(epsilon, enclose(normal)))
    if rounds := _rounds(writer, number):
        (child,) = writer.steps[number]["premises"]
        return int(rounds) * _needed(writer, child, canonical(epsilon / rounds))
    rare = _rare(writer, number)
    if _adds_up(writer, number):
        shares = _shares_of(writer, number, epsilon)
        parts: Fraction = sum((_needed(writer, child, share) for child, share in shares), ZERO)
        return max(parts, rare)
    if premises := writer.steps[number]["premises"]:
        inside = max(_needed(writer, child, epsilon) for child in premises)
        if rare:
            return _upward(enclose(inside) + enclose(rare) * (1 + enclose(epsilon).exp()))
        return inside
    return _upward(_delta(value, epsilon))


def _upward(ball: Any) -> Fraction:
    return Fraction(decimal_upper(ball, SHARE_DIGITS))


def _profiled(node: Node) -> str:
    """The kind of the first leaf whose profile is no normal one."""
    leaves = [
        part for part in postorder(node) if not part.children and type(part).__name__ not in NODES
    ]
    return type(leaves[0] if leaves else node).__name__


def _effort(margin: Any, epsilon: Any) -> str:
    """Bits, terms and the integral's end with which Coq shows that a profile is below delta.

    ``margin``: how far it is below; an error counts exp(epsilon) times.
    Errors: CertificateRejected without a margin.
    """
    if not margin > 0:
        raise CertificateRejected(f"the profile does not reach delta at {epsilon}: {margin}")
    grown = max(float(enclose(epsilon).mid()), 0.0) - float(margin.log().mid())
    bits = SPARE_BITS + math.ceil(grown / math.log(2))
    last = math.ceil(math.sqrt(2 * bits * math.log(2)))
    size, terms = math.log(last), 0
    while size > -bits * math.log(2):
        terms += 1
        size += math.log(last**2 / (2 * terms + 1))
    return f"{bits + GUARD_BITS}%Z {terms}%nat {last}%Z"


def _from_curve(writer: _Writer, number: int, order: Any) -> Made:
    value, witness = writer.value(number), writer.steps[number]["witness"]
    if value.upper[0] is None or is_infinite(value.upper[0]):
        raise Unsupported("no finite epsilon: no Coq export of this conversion")
    (premise,) = writer.steps[number]["premises"]
    at = decode_number(witness["order"])
    zcdp = writer.value(premise).calculus == "zcdp"
    ((_, name, (bound, _)),) = writer.premises(number, None if zcdp else at)
    lemma = "zcdp_to_approx_at" if zcdp else "renyi_to_approx_at"
    epsilon, delta = value.upper
    rate, a, e, d = map(term, (bound, at, epsilon, delta))
    arguments = f"{rate} {a} {e} {d}"
    start = f"{rate} * {a}" if zcdp else rate
    shown = writer.number(
        f"{number}", f"{start} + ln (1 - 1 / {a}) - (ln {d} + ln {a}) / ({a} - 1) <= {e}", "number."
    )
    ends = f"[number | number | exact {shown} | exact {name}]"
    return Made((epsilon, delta), f"apply ({lemma} {arguments}); {ends}.")


def _from_number(writer: _Writer, number: int, order: Any) -> Made:
    ((_, name, pair),) = writer.premises(number, order)
    return Made(pair, f"exact {name}.")


RULES |= {
    ("gdp_to_approx", ""): _from_gdp,
    ("profile_to_approx", ""): _from_profile,
    ("zcdp_to_approx", ""): _from_curve,
    ("rdp_to_approx", ""): _from_curve,
    ("pure_to_approx", ""): _from_number,
    ("approx_to_approx", ""): _from_number,
}


# --- texts ---------------------------------------------------------------------------------------


def _texts(pair: Pair) -> tuple[str, str]:
    return term(pair[0]), term(pair[1])


def _measured(calculus: Calculus, pair: Pair) -> str:
    return f"({calculus.measure} {' '.join(_texts(pair))})"


def _equal(one: Any, other: Any) -> bool:
    if not is_symbolic(one) and not is_symbolic(other):
        return bool(one == other)
    import sympy

    return bool(sympy.simplify(sympify(one) - sympify(other)) == 0)


def _sum(numbers: Iterable[Any]) -> Any:
    return canonical(sum(map(sympify, numbers), sympify(ZERO)))


def _string(text: str) -> str:
    """A text as a string of Coq, where a quote is written twice."""
    return '"' + text.replace('"', '""') + '"'


def _comment(text: str) -> str:
    """A text inside a Coq comment: no quotes and brackets that would end or open one."""
    plain = text.replace("(*", "( *").replace("*)", "* )").replace('"', "'")
    return " ".join(plain.split())[:LONGEST_COMMENT]
