"""Conformance rows: all that the declaration calls for, their p-values and their statuses.

range                 2 N Phi(-t), t the largest of N residuals
mean                  2 * 2 Phi(-|m| sqrt(n)); where some trials were off, twice the slope's on n
variance              2 * 2 min of either tail of chi-square with n degrees; above 200,000 by its
                      cube root (Wilson, Hilferty 1931); some off: a Gamma(1/2, 1/2) mixture
shape                 2 * 2 g exp(-2 n D^2), the worst of g groups (Massart 1990)
slope                 g (1 + v Q)^(1/2) exp(-v (b Q)^2 / (2 (1 + v Q))), v = 0.01, b the slope on
                      values whose squares sum to Q (Robbins 1970)
repeats               n^2 (4e-6)^4 where anything repeats among n vectors of four in cells of 1e-5
binomial              2 g min(P(Bin(n, q) <= k), P(Bin(n, q) >= k))
evidence              e^-s: what is left of the least p-value of n statistics, times n
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.assumptions import CLIPPED, DRAWN, GATHERED
from dpaudit.check.reading import Json, decimal, require
from dpaudit.exact import enclose, unknowns, working_precision
from dpaudit.nodes import Leaf, Node, postorder

LABEL_CHECKS = ("range", "mean", "variance", "shape", "successive", "coordinates")
# One that was released has all of these; the other two need several values.
ALWAYS = LABEL_CHECKS[:4]
EXECUTED = "releases, control flow and radii"
SENSITIVITIES = "stated sensitivities"
BATCHES = "sampling frequencies"
# What is tried of a program that is examined; a test compares them with the examiner's.
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
# What each statistical check may be judged by, by the name before " of ".
KINDS = {
    "range": ("range",),
    "mean": ("mean", "mean of some"),
    "variance": ("variance", "variance of some"),
    "shape": ("shape",),
    "successive": ("slope",),
    "coordinates": ("slope",),
    "releases": ("slope",),
    "duplicates": ("repeats",),
    BATCHES: ("binomial",),
    DRAWN: ("evidence",),
}
DECISION_ERROR = Fraction(1, 10**4)
DRAWN_ERROR = "1.00001e-10"  # 1e-10, rounded up from a float
SLOPE_VARIANCE, EXACT_DEGREES, ACCURATE_BITS = 0.01, 200_000, 40
CELL_CHANCE, WINDOW = 0.4e-5, 4
# A p-value of twelve digits tells its logarithm by so much, as far as floats reach.
NEAR, SHARE, UNDERFLOW = 1e-8, 1e-9, -690.0
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
    why = predicate["examination"]["not_examined"]
    if why:
        _not_examined(alone, f"not examined: {why}", predicate)
    else:
        for name in EXAMINED:
            found = any(row["check"] == name for row in alone)
            require(found, f"conformance: examined, but no row of: {name}")
    for audit in audits:
        _one_audit(audit, root, predicate)
    held = [audit for audit in audits if audit[0]["status"] == "held"]
    seen = {row["id"].rpartition(":")[0]: row for row in predicate["audits"]}
    require(len(held) == len(seen), "conformance: another number of audits than are listed")
    for (name, row), audit in zip(
        sorted(seen.items(), key=lambda item: item[1]["about"]),
        sorted(held, key=lambda audit: str(audit[0]["about"])),
        strict=True,
    ):
        require(audit[0]["about"] == row["about"], f"conformance: of another than audit {name!r}")
        silent = all(r["status"] == "not_run" for r in audit if _kind(r) in LABEL_CHECKS)
        told = silent and _is_additive(root) and any(map(_informs, row["roc"]))
        require(not told, "conformance: scores differ, but nothing was released")


def _not_examined(alone: Sequence[Json], said: str, predicate: Json) -> None:
    """Nothing held in an examination that was none, and its absence is what is said first."""
    held = any(row["status"] != "broken" for row in alone)
    require(not held, "conformance: not examined, but a check of an examination held")
    first = [predicate["verdict"]["reasons"][:1], predicate["caveats"][:1]]
    require(first == [[said], [said]], "not examined, and its reasons or caveats begin otherwise")


def _parted(rows: Sequence[Json]) -> tuple[list[Json], list[list[Json]]]:
    """Rows of no audit, and those of each; the first of these says whether it could be run."""
    alone: list[Json] = []
    found: list[list[Json]] = []
    for row in rows:
        if row["check"] == EXECUTED:
            found.append([])
        (found[-1] if found else alone).append(row)
    for row in alone:
        if row["check"] == DRAWN and row["error_rate"] != "0":
            require(
                row["error_rate"] == DRAWN_ERROR, f"conformance {row['id']}: another error rate"
            )
        audited = _kind(row) in KINDS and row["check"] != DRAWN
        require(not audited, f"conformance {row['id']}: statistics of no audit")
    return alone, found


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
        enough = spent >= DECISION_ERROR / 2 / least
        require(enough, "conformance: an audit's error rates are below its share")


def _one_label(label: str, rows: dict[str, Json]) -> None:
    """All statistics of a label, of one number of residuals, or none."""
    for name in LABEL_CHECKS:
        found = f"{name} of {label}" in rows
        require(found, f"conformance: no row of the {name} of {label[:40]}")
    most, mean, variance, shape = (rows[f"{name} of {label}"] for name in ALWAYS)
    made = {row["status"] == "not_run" for row in (most, mean, variance, shape)}
    require(len(made) == 1, f"conformance: statistics of {label[:40]} are left out")
    fixed = mean["law"] == "mean"
    same = fixed == (variance["law"] == "variance") and mean["size"] == variance["size"]
    fits = mean["size"] == most["size"] if fixed else mean["size"] <= most["size"]
    known = same and fits and shape["size"] <= mean["size"]
    require(
        True in made or known, f"conformance: statistics of {label[:40]} are of other residuals"
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
        told = row["statistic"] in ("nan", "0") and row["check"] not in NEVER_LEFT
        require(told, f"{place}: it was not run, and has a statistic")
        bare = row["p_value"] is None and row["law"] == "" and row["parameter"] == ""
        require(bare, f"{place}: it was not run, and has a p-value")
        return
    if row["error_rate"] == "0":
        held = (row["status"] == "broken") == (row["statistic"] != "0")
        require(held, f"{place}: its status is not its statistic's")
        certain = kind not in KINDS or (kind == BATCHES and row["status"] == "broken")
        bare = row["p_value"] is None and row["law"] == "" and row["parameter"] == ""
        require(certain and bare, f"{place}: a statistic without an error rate")
        return
    require(kind in KINDS, f"{place}: an error rate, but no statistic")
    require(row["p_value"] is not None, f"{place}: its p-value is missing")
    require(row["law"] in KINDS[kind], f"{place}: another law")
    p = decimal(row["p_value"])
    require(0 <= p <= 1, f"{place}: its p-value is no probability")
    broken = p <= decimal(row["error_rate"])
    require(broken == (row["status"] == "broken"), f"{place}: its status is not its p-value's")
    found = min(_log_p(row, root, place), 0.0)
    stated = math.log(p) if p > 0 else -math.inf
    near = abs(found - stated) <= WIDER.get(row["law"], NEAR) + SHARE * abs(found)
    beyond = found < UNDERFLOW and stated < UNDERFLOW
    require(near or beyond, f"{place}: its p-value is not its statistic's")


def _log_p(row: Json, root: Node, place: str) -> float:
    law, size, among = row["law"], row["size"], row["among"]
    require((size > 0) == (law != "slope"), f"{place}: a statistic of nothing")
    require(among == 1 or law in AMONG, f"{place}: a law of one alone")
    require((row["parameter"] != "") == (law in BY_PARAMETER), f"{place}: another law's numbers")
    seen = float(row["statistic"])
    require(math.isfinite(seen), f"{place}: its statistic is not finite")
    if law in LAWS:
        return LAWS[law](seen, size, among)
    parameter = float(decimal(row["parameter"]))
    if law == "binomial":
        require(_is_declared(parameter, root), f"{place}: a rate that is not declared")
    return BY_PARAMETER[law](seen, size, among, parameter)


def _is_declared(rate: float, root: Node) -> bool:
    """Whether it is the rate of one of the declaration's samples, or of two of them together."""
    for node in postorder(root):
        if type(node).__name__ == "TruncatedPoisson":
            if any(_is_of_cut(one, node.parameters) for one in (rate, math.sqrt(rate))):
                return True
            continue
        for exact in _shares(node):
            if unknowns(exact):  # a schedule: of any round
                return 0 < rate < 1
            with working_precision():
                at = float(enclose(exact).mid())
            if any(abs(rate - one) <= 1e-12 * one for one in (at, at**2)):
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
        return [1 / numbers["slots"]]
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


def _log_normal_tail(z: float) -> float:
    """log Phi(-z)."""
    import flint

    with working_precision():
        tail = (flint.arb(z) / flint.arb(2).sqrt()).erfc() / 2
        return float(tail.log().mid()) if tail > 0 else -math.inf


def _range(t: float, size: int, among: int) -> float:
    return math.log(2 * size) + _log_normal_tail(t)


def _mean(mean: float, size: int, among: int) -> float:
    return math.log(4) + _log_normal_tail(abs(mean) * math.sqrt(size))


def _mean_of_some(mean: float, size: int, among: int) -> float:
    return math.log(2) + _slope(mean, size, 1, float(size))


def _slope(slope: float, size: int, among: int, squares: float) -> float:
    spread = 1 + SLOPE_VARIANCE * squares
    gain = SLOPE_VARIANCE * (slope * squares) ** 2 / (2 * spread)
    return math.log(among) + math.log(spread) / 2 - gain


def _repeats(repeated: float, size: int, among: int) -> float:
    return 2 * math.log(size) + WINDOW * math.log(CELL_CHANCE) if repeated > 0 else 0.0


def _binomial(count: float, size: int, among: int, rate: float) -> float:
    import flint

    require(count == int(count) and 0 <= count <= size, "conformance: a count beyond its draws")
    k = int(count)
    with working_precision():
        q = flint.arb(rate)
        below = (1 - q).beta_lower(size - k, k + 1, regularized=True) if k < size else flint.arb(1)
        above = q.beta_lower(k, size - k + 1, regularized=True) if k > 0 else flint.arb(1)
        tail: Any = below.min(above)
        return math.log(2 * among) + (float(tail.log().mid()) if tail > 0 else -math.inf)


def _variance(variance: float, size: int, among: int) -> float:
    import flint

    if size > EXACT_DEGREES:
        spread = 2 / (9 * size)
        z = (math.cbrt(variance) - (1 - spread)) / math.sqrt(spread)
        return math.log(4) + _log_normal_tail(abs(z))
    for bits in (80, 160, 320, 640, 1280):
        with flint.ctx.workprec(bits):
            half, at = flint.arb(size) / 2, flint.arb(variance) * size / 2
            above = at.gamma_upper(half, regularized=1)
            # Of many degrees, the lower incomplete gamma function's series does not converge.
            small = [above] if above < 0.5 else [1 - above, at.gamma_lower(half, regularized=1)]
            for tail in small:
                if tail > 0 and tail.rel_accuracy_bits() > ACCURATE_BITS:
                    return math.log(4) + float(tail.log().mid())
    return -math.inf


def _variance_of_some(variance: float, size: int, among: int) -> float:
    shape, half, squares = 0.5, size / 2, variance * size
    evidence = shape * math.log(shape) - math.lgamma(shape) + math.lgamma(shape + half)
    evidence += squares / 2
    return (shape + half) * math.log(shape + squares / 2) - evidence + math.log(2)


def _shape(distance: float, size: int, among: int) -> float:
    return math.log(4 * among) - 2 * size * distance**2


AMONG = ("shape", "slope", "binomial")
LAWS: dict[str, Callable[[float, int, int], float]] = {
    "range": _range,
    "mean": _mean,
    "mean of some": _mean_of_some,
    "variance": _variance,
    "variance of some": _variance_of_some,
    "shape": _shape,
    "repeats": _repeats,
    "evidence": lambda seen, size, among: -seen,
}
BY_PARAMETER: dict[str, Callable[[float, int, int, float], float]] = {
    "slope": _slope,
    "binomial": _binomial,
}
