"""Assumptions of every guarantee besides its rules, and those that a node adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpaudit.check.reading import Json, require
from dpaudit.nodes import Assumption, Node, Status, postorder, rests_on
from dpaudit.scope import Unit

REAL_NUMBERS = Assumption(
    "real_arithmetic",
    "The guarantee is proved for real numbers; noise is sampled and added in 64-bit floats.",
    Status.DECLARED,
    "Plain samplers: low-order bits of a release are outside the proof (Mironov 2012).",
)
WHOLE_NUMBERS = Assumption(
    "real_arithmetic",
    "Noise is drawn exactly, from whole numbers alone, and added to whole numbers.",
    Status.ENFORCED,
    "Exact samplers of Canonne, Kamath and Steinke (2020); values are rounded to whole numbers.",
)
# Leaves whose noise is whole-numbered; a test compares them with the kernels that sample them.
EXACT = frozenset(
    {
        "DiscreteGaussian",
        "DiscreteGaussianVector",
        "DiscreteLaplace",
        "DistributedGaussian",
        "IntegerExponentialMechanism",
        "ThresholdedDiscreteGaussian",
        "ThresholdedDiscreteLaplace",
    }
)
UNPREDICTED = "An observer cannot predict the generator's output."
SYSTEM = "operating system"  # the entropy of a run that nobody seeded
BITS_EVIDENCE = {
    "": "Nothing was drawn for publication; a run reads every bit of its noise from the operating "
    "system.",
    SYSTEM: "Every bit of the run's noise was read from the operating system.",
    "seed": "The run's noise came from a stored seed: whoever knows it can predict the noise.",
}
BOUNDED = "No query moves by more than the sensitivity that its noise is scaled to."
IMPLEMENTED = "The implementation makes the declared releases, with independent noise as declared."
NOISE = "declared_noise"
BOUNDED_EVIDENCE = {
    Status.ENFORCED: "Every query of the runs examined was bounded by the library's own code: its "
    "clipped mean, which clips each row itself and takes rows that are not finite for zero, or the "
    "engine of its tables, which leaves out what is beyond a unit's limits.",
    Status.TESTED: "The program's own queries were tried on made-up records: see the conformance "
    "checks.",
    Status.DECLARED: "Nothing tried the program's own queries.",
    Status.VIOLATED: "A conformance check is broken.",
}
NOISE_EVIDENCE = {
    Status.DECLARED: "No statistics of the program's own noise were taken.",
    Status.TESTED: "See the audits and conformance checks.",
    Status.ENFORCED: "The library's exact samplers drew all noise of the run, for a curator that "
    "refuses what is not declared; they were tested.",
    Status.VIOLATED: "A conformance check is broken.",
}
WHOLE_UNITS = Assumption(
    "whole_units",
    "All that one unit of privacy contributed stands in one row of the records.",
    Status.DECLARED,
    "Nothing in a run tells whose rows are whose: whoever lays out the records has to see to it.",
)
GATHERED_UNITS = replace(
    WHOLE_UNITS,
    status=Status.ENFORCED,
    evidence="The engine of the library's tables gathers the rows of each unit by a column.",
)
# The evidence of both where the rows of a release came in a frame or relation, not in files.
READY_MADE = (
    "The engine bounds the rows that it is given. A query or program made these rows; its author "
    "answers for this: each row depends on one unit and public tables."
)
# The check that draws an examined program's kernels without the program.
DRAWN = "noise drawn alone"
# The conformance check that holds only where the library's own code clips every row.
CLIPPED = "every row clipped by the library"
# And the one that holds only where the engine of its tables answered every query.
GATHERED = "rows of a unit gathered by the library"


def standing(
    conformance: Sequence[Mapping[str, Any]] = (),
    root: Node | None = None,
    entropy: str = "",
    unit: str = Unit.RECORD,
    ready_made: str = "",
) -> list[Assumption]:
    """The standing assumptions of a declaration, with what the conformance rows say of them.

    *Violated* where a check of it is broken, *enforced* where the library itself bounds every
    query, or draws all noise of a run exactly, *tested* where a check of the program itself held,
    else *declared*: no status is a constant.
    ``entropy``: of the run on the data; empty where there was none.  ``unit``: of privacy; where it
    is more than a record, a row has to hold all of one.  ``ready_made``: what the run's rows came
    in, where a query or program made them that nobody saw: then what is said of rows is *declared*.
    """
    bounded, noise = _bounded(conformance), _tested(conformance, NOISE)
    real = REAL_NUMBERS if root is None or not _is_exact(root) else _whole(conformance)
    bits = _bits(entropy)
    exact = {real.status, bits.status} == {Status.ENFORCED} and not _draws_batches(root)
    if noise is Status.TESTED and exact:
        noise = Status.ENFORCED
    of_rows = [
        Assumption("bounded_queries", BOUNDED, bounded, BOUNDED_EVIDENCE[bounded]),
        *([] if unit == Unit.RECORD else [_whole_units(conformance)]),
    ]
    if ready_made:
        of_rows = [
            one
            if one.status is Status.VIOLATED
            else replace(one, status=Status.DECLARED, evidence=READY_MADE)
            for one in of_rows
        ]
    queries, *units = of_rows
    noises = Assumption(NOISE, IMPLEMENTED, noise, NOISE_EVIDENCE[noise])
    return [queries, noises, real, bits, *units]


def _whole_units(conformance: Sequence[Mapping[str, Any]]) -> Assumption:
    """Whether a row holds all of a unit: enforced where the library gathered its rows itself."""
    own = [row for row in conformance if row["about"] == "program" and row["check"] == GATHERED]
    return GATHERED_UNITS if any(row["status"] == "held" for row in own) else WHOLE_UNITS


def _whole(conformance: Sequence[Mapping[str, Any]]) -> Assumption:
    """Exact noise: enforced where the kernels of the program drew it when they were examined."""
    drawn = {row["status"] for row in conformance if row["check"] == DRAWN}
    status = {"held": Status.ENFORCED, "broken": Status.VIOLATED}
    status_drawn = next((status[name] for name in drawn if name in status), Status.DECLARED)
    return replace(WHOLE_NUMBERS, status=status_drawn)


def _bits(entropy: str) -> Assumption:
    """Source of the run's random bits: enforced where the operating system gave all of them."""
    key = "seed" if entropy.startswith("seed") else entropy
    status = Status.ENFORCED if entropy == SYSTEM else Status.DECLARED
    return Assumption("random_bits", UNPREDICTED, status, BITS_EVIDENCE.get(key, ""))


def _draws_batches(root: Node | None) -> bool:
    """Whether a run draws secret batches or numbers of runs, which is done by floats."""
    nodes = () if root is None else postorder(root)
    return any(hasattr(n, "rate") or hasattr(n, "population") or _searches(n) for n in nodes)


def _searches(node: Node) -> bool:
    """Whether a number of runs is drawn, which is done by floats."""
    return type(node).__name__ in ("Tuned", "TunedPoisson")


def _is_exact(root: Node) -> bool:
    """Whether every release of a declaration is sampled without a float."""
    leaves = [node for node in postorder(root) if not node.children or _searches(node)]
    return bool(leaves) and all(type(leaf).__name__ in EXACT for leaf in leaves)


def _bounded(conformance: Sequence[Mapping[str, Any]]) -> Status:
    status_tested = _tested(conformance, "bounded_queries")
    own = [row for row in conformance if row["about"] == "program"]
    enforced = any(row["check"] == CLIPPED and row["status"] == "held" for row in own)
    return Status.ENFORCED if status_tested is Status.TESTED and enforced else status_tested


def _tested(conformance: Sequence[Mapping[str, Any]], assumption: str) -> Status:
    rows = [row for row in conformance if row["assumption"] == assumption]
    if any(row["status"] == "broken" for row in rows):
        return Status.VIOLATED
    own = [row for row in rows if row["status"] == "held" and row["about"] == "program"]
    # Noise is tested by statistics alone: a check of it has an error rate.
    any_held = any(assumption != NOISE or row["error_rate"] != "0" for row in own)
    return Status.TESTED if any_held else Status.DECLARED


def own_assumption(node: Node) -> dict[str, str] | None:
    """The row of what a node rests on beyond its rule; None for most nodes."""
    assumption = rests_on(node)
    return None if assumption is None else assumption.row()


def statuses(predicate: Json, root: Node) -> dict[str, str]:
    """The status of every assumption by id: the standing ones, and those of the derivation.

    Errors: CertificateRejected for an assumption that is missing, changed, or of no step.
    """
    run = predicate["run"] or {}
    unit = predicate["scope"]["unit"]["kind"]
    fixed = standing(
        predicate["conformance"],
        root,
        str(run.get("entropy", "")),
        unit,
        str(run.get("ready_made", "")),
    )
    expected = {assumption.id: assumption.row() for assumption in fixed}
    own = {row["id"]: row for node in postorder(root) if (row := own_assumption(node))}
    used = [i for step in predicate["derivation"]["steps"] for i in step["assumes"]]
    require(not set(used) & set(expected), "a step's assumption has the id of a standing one")
    expected.update((i, own.get(i, {})) for i in used)
    listed: dict[str, Any] = {row["id"]: row for row in predicate["assumptions"]}
    require(len(listed) == len(predicate["assumptions"]), "an assumption is listed twice")
    for name in {**expected, **listed}:
        same = listed.get(name) == expected.get(name)
        require(same, f"assumption {name[:60]}: missing, changed, or of no step")
    return {name: row["status"] for name, row in listed.items()}
