"""Conformance rows: all that the declaration calls for, their p-values and their statuses.

The laws of the statistics are those of :mod:`dpaudit.check.laws`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.assumptions import CLIPPED, DRAWN, GATHERED
from dpaudit.check.laws import AMONG, BY_PARAMETER, CONFORMANCE_ERROR, is_broken, log_p
from dpaudit.check.reach import UNEXAMINED, gaps
from dpaudit.check.reading import Json, decimal, require
from dpaudit.exact import enclose, unknowns, working_precision
from dpaudit.nodes import Leaf, Node, postorder

# Statistics of one label's residuals.
LABEL_CHECKS = ("range", "mean", "variance", "shape", "successive", "coordinates")
# One that was released has all of these; the other two need several values.
ALWAYS = LABEL_CHECKS[:4]
EXECUTED = "releases, control flow and radii"
SENSITIVITIES = "stated sensitivities"
BATCHES = "sampling frequencies"
# The examiner's checks of a program; a test compares the two lists.
EXAMINED = (
    "undeclared access",
    "control flow and released values, on made-up records",
    "displacement of every query, maximised",
    "parts kept apart",
    "one trial as one of many",
    "nothing kept of the records",
    "declared releases, made on made-up records",
    DRAWN,
    CLIPPED,
    GATHERED,
)
# Who ran a program knows these.
NEVER_LEFT = (EXECUTED, SENSITIVITIES, EXAMINED[6])
BOUNDING = (
    SENSITIVITIES,
    EXAMINED[2],
    CLIPPED,
    GATHERED,
)  # of queries; all others named here are of noise
# Statistics that may judge each check, by the name before " of ".
KINDS = {
    "range": ("range",),
    "mean": ("mean", "mean of some"),
    "variance": ("variance", "variance bound", "variance of some"),
    "shape": ("shape",),
    "successive": ("slope",),
    "coordinates": ("slope",),
    "releases": ("slope",),
    "duplicates": ("repeats",),
    BATCHES: ("binomial",),
    DRAWN: ("evidence",),
}
DRAWN_ERROR = "1.00001e-10"  # 1e-10, rounded up from a float
# A p-value of twelve digits tells its logarithm by so much, as far as floats reach.
LOG_P_ERROR, SHARE, UNDERFLOW = 1e-8, 1e-9, -690.0
WIDER = {"variance": 1e-6}  # SciPy's chi-square tails were 5e-8 off at 128,000 degrees


def check_conformance(predicate: Json, root: Node) -> None:
    """Errors: CertificateRejected for a row that is missing, or whose numbers disagree."""
    rows = predicate["conformance"]
    for number, row in enumerate(rows):
        require(row["id"] == f"conformance-{number + 1}", "conformance: its rows are out of order")
        _row(row, root)
    alone, audits = _parted(rows)
    own = all(row["about"] == "program" for row in alone)
    require(own, "conformance: an examination is of the program itself")
    missing = gaps(predicate["examination"], root)
    if missing:
        _said_first([f"{UNEXAMINED}{text}" for text in missing], predicate)
    if predicate["examination"]["not_examined"]:
        bad = all(row["status"] == "broken" for row in alone)
        require(bad, "conformance: not examined, but a check of an examination held")
    else:
        for name in EXAMINED:
            listed = any(row["check"] == name for row in alone)
            require(listed, f"conformance: examined, but no row of: {name}")
    for audit in audits:
        _one_audit(audit, root, predicate)
    of_audits = [audit for audit in audits if audit[0]["status"] == "held"]
    audit_rows = {row["id"].rpartition(":")[0]: row for row in predicate["audits"]}
    require(
        len(of_audits) == len(audit_rows), "conformance: another number of audits than are listed"
    )
    for (name, row), audit in zip(
        sorted(audit_rows.items(), key=lambda item: item[1]["about"]),
        sorted(of_audits, key=lambda audit: str(audit[0]["about"])),
        strict=True,
    ):
        require(audit[0]["about"] == row["about"], f"conformance: of another than audit {name!r}")
        silent = all(r["status"] == "not_run" for r in audit if _kind(r) in LABEL_CHECKS)
        contradicts = silent and _is_additive(root) and any(map(_informs, row["roc"]))
        require(not contradicts, "conformance: scores differ, but nothing was released")


def _said_first(said: Sequence[str], predicate: Json) -> None:
    """Require that the reasons and the caveats begin with what was not examined."""
    for texts in (predicate["verdict"]["reasons"], predicate["caveats"]):
        same = texts[: len(said)] == said
        require(same, "not examined, and its reasons or caveats begin otherwise")


def _parted(rows: Sequence[Json]) -> tuple[list[Json], list[list[Json]]]:
    """Rows of no audit, and those of each; the first of these says whether it could be run."""
    alone: list[Json] = []
    audits: list[list[Json]] = []
    for row in rows:
        if row["check"] == EXECUTED:
            audits.append([])
        (audits[-1] if audits else alone).append(row)
    for row in alone:
        if row["check"] == DRAWN and row["error_rate"] != "0":
            require(
                row["error_rate"] == DRAWN_ERROR, f"conformance {row['id']}: another error rate"
            )
        audited = _kind(row) in KINDS and row["check"] != DRAWN
        require(not audited, f"conformance {row['id']}: statistics of no audit")
    return alone, audits


def _is_additive(root: Node) -> bool:
    """Whether every release has a residual: a selection has none, though it was made."""
    leaves = [node for node in postorder(root) if not node.children]
    return bool(leaves) and all(type(leaf).__name__ in ("Gaussian", "Laplace") for leaf in leaves)


def _informs(point: Sequence[str]) -> bool:
    """Whether a point of an attack's curve is none that a constant score gives."""
    return {decimal(rate) for rate in point[:2]} != {Fraction(0), Fraction(1)}


def _one_audit(rows: Sequence[Json], root: Node, predicate: Json) -> None:
    """All rows that it calls for, once each, of one subject, at equal shares of the error."""
    checks = [row["check"] for row in rows]
    require(len(set(checks)) == len(checks), "conformance: an audit has two rows of one check")
    require(len({row["about"] for row in rows}) == 1, "conformance: an audit of two subjects")
    require(not set(checks) & set(EXAMINED), "conformance: an audit has a row of an examination")
    require(SENSITIVITIES in checks, f"conformance: no row of {SENSITIVITIES}")
    if rows[0]["status"] == "held":
        for label in labels_of(root):
            _one_label(label, {row["check"]: row for row in rows})
    statistics = [row for row in rows if _kind(row) in KINDS and row["error_rate"] != "0"]
    batches = [decimal(row["error_rate"]) for row in statistics if row["check"] == BATCHES]
    others = [decimal(row["error_rate"]) for row in statistics if row["check"] != BATCHES]
    require(len(set(others)) <= 1, "conformance: an audit's error rates differ")
    if others:
        for name in ("releases", "duplicates"):
            require(name in checks, f"conformance: no row of {name}")
    if batches and others:
        even = abs(sum(others) / batches[0] - 1) <= Fraction(1, 10**4)
        require(even, "conformance: an audit's error rates are not halves")
    least = min((r["confidence"]["adjusted_for"] for r in predicate["audits"]), default=None)
    if least is not None and (others or (batches and labels_of(root))):
        spent = (sum(others) + sum(batches)) * (1 + Fraction(1, 10**4))
        enough = spent >= CONFORMANCE_ERROR / least
        require(enough, "conformance: an audit's error rates are below its share")


def _one_label(label: str, rows: dict[str, Json]) -> None:
    """All statistics of a label, of one number of residuals, or none."""
    for name in LABEL_CHECKS:
        listed = f"{name} of {label}" in rows
        require(listed, f"conformance: no row of the {name} of {label[:40]}")
    most, mean, variance, shape = (rows[f"{name} of {label}"] for name in ALWAYS)
    left_out = {row["status"] == "not_run" for row in (most, mean, variance, shape)}
    require(len(left_out) == 1, f"conformance: statistics of {label[:40]} are left out")
    fixed = mean["law"] == "mean"
    same = fixed == (variance["law"] != "variance of some") and mean["size"] == variance["size"]
    fits = mean["size"] == most["size"] if fixed else mean["size"] <= most["size"]
    agrees = same and fits and shape["size"] <= mean["size"]
    require(
        True in left_out or agrees,
        f"conformance: statistics of {label[:40]} are of other residuals",
    )


def labels_of(root: Node) -> list[str]:
    """The labels of the noise that a declaration releases, each once."""
    leaves = (node for node in postorder(root) if isinstance(node, Leaf))
    labels = (getattr(leaf, "label", "") for leaf in leaves if not hasattr(leaf, "source"))
    return list(dict.fromkeys(label for label in labels if label))


def _kind(row: Json) -> str:
    name = str(row["check"])
    kind = name.partition(" of ")[0]
    return kind if kind in LABEL_CHECKS else name


def _row(row: Json, root: Node) -> None:
    """Require that a conformance row's status follows from its statistic."""
    place, kind = f"conformance {row['id'][:40]}", _kind(row)
    if kind in (*KINDS, *EXAMINED, EXECUTED, SENSITIVITIES):
        about = "bounded_queries" if kind in BOUNDING else "declared_noise"
        require(row["assumption"] == about, f"{place}: it tests another assumption")
    if row["law"] == "":
        alone = row["size"] == 0 and row["among"] == 1
        require(alone, f"{place}: sizes of no statistic")
    if row["check"] in EXAMINED[:6] and row["status"] != "broken":
        tried = (row["status"] == "held") == (row["tried"] > 0)
        require(tried, f"{place}: held if it was tried, else not run")
    if row["status"] == "not_run":
        has_statistic = row["statistic"] in ("nan", "0") and row["check"] not in NEVER_LEFT
        require(has_statistic, f"{place}: it was not run, and has a statistic")
        bare = row["p_value"] is None and row["law"] == "" and row["parameter"] == ""
        require(bare, f"{place}: it was not run, and has a p-value")
        return
    if row["error_rate"] == "0":
        agrees = (row["status"] == "broken") == (row["statistic"] != "0")
        require(agrees, f"{place}: its status is not its statistic's")
        certain = kind not in KINDS or (kind == BATCHES and row["status"] == "broken")
        bare = row["p_value"] is None and row["law"] == "" and row["parameter"] == ""
        require(certain and bare, f"{place}: a statistic without an error rate")
        return
    require(kind in KINDS, f"{place}: an error rate, but no statistic")
    require(row["p_value"] is not None, f"{place}: its p-value is missing")
    require(row["law"] in KINDS[kind], f"{place}: another law")
    p = decimal(row["p_value"])
    require(0 <= p <= 1, f"{place}: its p-value is no probability")
    broken = is_broken(p, decimal(row["error_rate"]))
    require(broken == (row["status"] == "broken"), f"{place}: its status is not its p-value's")
    log_p = min(_log_p(row, root, place), 0.0)
    stated = math.log(p) if p > 0 else -math.inf
    near = abs(log_p - stated) <= WIDER.get(row["law"], LOG_P_ERROR) + SHARE * abs(log_p)
    beyond = log_p < UNDERFLOW and stated < UNDERFLOW
    require(near or beyond, f"{place}: its p-value is not its statistic's")


def _log_p(row: Json, root: Node, place: str) -> float:
    law, size, among = row["law"], row["size"], row["among"]
    require((size > 0) == (law != "slope"), f"{place}: a statistic of nothing")
    require(among == 1 or law in AMONG, f"{place}: a law of one alone")
    require((row["parameter"] != "") == (law in BY_PARAMETER), f"{place}: another law's numbers")
    statistic = float(row["statistic"])
    require(math.isfinite(statistic), f"{place}: its statistic is not finite")
    parameter = float(decimal(row["parameter"])) if law in BY_PARAMETER else math.nan
    if law == "binomial":
        require(_is_declared(parameter, root), f"{place}: a rate that is not declared")
        possible = statistic == int(statistic) and 0 <= statistic <= size
        require(possible, f"{place}: a count beyond its draws")
    return log_p(law, statistic, size, among, parameter)


def _is_declared(rate: float, root: Node) -> bool:
    """Whether it is the rate of one of the declaration's samples, or of two of them together."""
    for node in postorder(root):
        if type(node).__name__ == "TruncatedPoisson":
            if any(
                _is_of_cut(declared_rate, node.parameters)
                for declared_rate in (rate, math.sqrt(rate))
            ):
                return True
            continue
        for exact in _shares(node):
            if unknowns(exact):  # a schedule: of any round
                return 0 < rate < 1
            with working_precision():
                at = float(enclose(exact).mid())
            if any(
                abs(rate - declared_rate) <= 1e-12 * declared_rate for declared_rate in (at, at**2)
            ):
                return True
    return False


def _shares(node: Node) -> list[Any]:
    """The chance of a record to be in one of the batches below a node."""
    numbers, kind = node.parameters, type(node).__name__
    if kind in ("PoissonSampled", "CyclicPoisson"):
        return [numbers["rate"]]
    if kind in ("SampledWithoutReplacement", "ShuffledBatches"):
        return [numbers["batch_size"] / numbers["population"]]
    if kind == "RandomAllocation":
        draws, slots = numbers["draws"] or 1, numbers["slots"]
        share = draws / slots
        return [share] if draws == 1 else [share, share * (draws - 1) / (slots - 1)]
    return []


def _is_of_cut(rate: float, numbers: Any) -> bool:
    """Whether it is the share of a batch that is cut, of some number of records up to all."""
    few, most = 1, int(numbers["population"])
    while few < most:  # more records have a smaller share each
        size = (few + most) // 2
        if float(_of_cut(numbers, size)) * (1 - 1e-12) <= rate:
            most = size
        else:
            few = size + 1
    share = float(_of_cut(numbers, few))
    return abs(rate - share) <= 1e-12 * share


def _of_cut(numbers: Any, size: int) -> Any:
    """sum_k P(k others come) min(1, B / (k + 1)), times the rate, near enough."""
    q, most = numbers["rate"], int(numbers["batch_size"])
    if most >= size:
        return q
    with working_precision():
        ball = enclose(q)
        # (size - 1 over k) / (k + 1) = (size over k + 1) / size
        full = ball.beta_lower(most + 1, size - most, regularized=True) * most / size
        few = (1 - ball).beta_lower(size - most, most, regularized=True)
        return Fraction(float((few * ball + full).mid()))
