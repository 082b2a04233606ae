"""The checker: confirms a certificate from its witnesses, without the accountant.

It imports the declaration language and exact arithmetic alone, re-states each theorem in its own
table, and searches for nothing.  What it cannot re-derive it lists as taken on trust.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpaudit.arithmetic import (
    decimal_upper,
    enclose,
    erfinv,
    exp,
    infinity,
    is_infinite,
    is_symbolic,
    log,
    maximum,
    sqrt,
    sympify,
    tanh,
    total,
    total_over,
    working_precision,
)
from dpaudit.errors import CertificateRejected, DpauditError
from dpaudit.nodes import Node, from_table
from dpaudit.wire import decode_number, digest

SLACK = Fraction(1, 10**9)
SHOWN_ERROR = Fraction(1, 20)
Json = Mapping[str, Any]


@dataclass
class Confirmed:
    """What was re-derived, and what was taken on trust; one line each."""

    confirmed: list[str] = field(default_factory=list)
    on_trust: list[str] = field(default_factory=list)


def check(certificate: Json) -> Confirmed:
    """Confirm a certificate that already fits the schema.

    Errors: CertificateRejected naming the first part that was changed or does not follow.
    """
    try:
        return _check(certificate)
    except CertificateRejected:
        raise
    except DpauditError as error:
        raise CertificateRejected(f"the certificate does not follow: {error}") from None


def _check(certificate: Json) -> Confirmed:
    predicate, report = certificate["predicate"], Confirmed()
    _require(
        certificate["subject"][0]["digest"]["sha256"] == digest(predicate),
        "the predicate does not have the recorded digest: the certificate was changed",
    )
    _require(
        certificate["subject"][1:] == predicate["mechanism"]["implementation"],
        "the subjects are not the implementation's files",
    )
    report.confirmed.append("digest of the predicate")
    root = from_table(predicate["mechanism"]["declaration"])
    _require(root.digest == predicate["mechanism"]["digest"], "the declaration's digest is another")
    report.confirmed.append("declaration")
    values = _steps(predicate, root)
    report.confirmed.append(f"{len(values)} steps of the derivation")
    _curves(predicate, root)
    report.confirmed.append("privacy profile, trade-off curve and plain words")
    bounds = _audits(predicate)
    report.confirmed.append(f"{len(bounds)} lower bounds, from their counts")
    _claims(predicate, root, values, bounds)
    report.confirmed.append(f"{len(predicate['claims'])} claims and the verdict")
    report.on_trust += [f"{a['id']} ({a['status']})" for a in predicate["assumptions"]]
    report.on_trust += ["counts, conformance checks and the run: replay them from the seed"]
    return report


def _require(held: Any, message: str) -> None:
    if not held:
        raise CertificateRejected(message)


# --- the derivation ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """A step's re-derived bound: exact, a function of the order (rdp), or a pair (approx)."""

    node: Node
    calculus: str
    upper: Any
    attained: bool
    in_one_part: bool
    reached: Any
    assumes: frozenset[str]


def _root_sum_square(values: list[Any]) -> Any:
    return sqrt(total(v**2 for v in values))


def _corner(epsilon: Any) -> Any:
    return sqrt(8) * erfinv(tanh(epsilon / 2))


def _laplace_renyi(scale: Any) -> Callable[[Any], Any]:
    def curve(a: Any) -> Any:
        share = a / (2 * a - 1)
        return log(share * exp((a - 1) / scale) + (1 - share) * exp(-a / scale)) / (a - 1)

    return curve


def _amplified(share: Any, epsilon: Any) -> Any:
    return log(1 + share * (exp(epsilon) - 1))


LEAVES: dict[str, Callable[[Any], Any]] = {
    "pure.laplace": lambda n: 1 / n.noise_multiplier,
    "pure.opaque": lambda n: n.epsilon,
    "approx.opaque": lambda n: (n.epsilon, n.delta),
    "approx.opaque_pure": lambda n: (n.epsilon, Fraction(0)),
    "approx.laplace": lambda n: (1 / n.noise_multiplier, Fraction(0)),
    "zcdp.gaussian": lambda n: 1 / (2 * n.noise_multiplier**2),
    "zcdp.laplace": lambda n: 1 / (2 * n.noise_multiplier**2),
    "zcdp.from_pure": lambda n: n.epsilon**2 / 2,
    "zcdp.from_gdp": lambda n: n.mu**2 / 2,
    "zcdp.opaque": lambda n: n.rho,
    "gdp.gaussian": lambda n: 1 / n.noise_multiplier,
    "gdp.laplace": lambda n: _corner(1 / n.noise_multiplier),
    "gdp.from_pure": lambda n: _corner(n.epsilon),
    "gdp.opaque": lambda n: n.mu,
    "rdp.gaussian": lambda n: lambda a: a / (2 * n.noise_multiplier**2),
    "rdp.laplace": lambda n: _laplace_renyi(n.noise_multiplier),
    "rdp.from_pure": lambda n: lambda a: a * n.epsilon**2 / 2,
    "rdp.from_gdp": lambda n: lambda a: a * n.mu**2 / 2,
    "rdp.opaque": lambda n: lambda a: a * n.rho,
}
LEAF_TYPES = {
    "laplace": "Laplace",
    "gaussian": "Gaussian",
    "from_pure": "PureDP",
    "opaque_pure": "PureDP",
    "from_gdp": "GDP",
}
OPAQUE = {"pure": "PureDP", "approx": "ApproxDP", "zcdp": "ZCDP", "gdp": "GDP", "rdp": "ZCDP"}
ATTAINED = {"zcdp.gaussian", "gdp.gaussian", "rdp.gaussian", "pure.laplace", "rdp.laplace"}


def _combine(calculus: str, values: list[Any]) -> Any:
    if calculus == "gdp":
        return _root_sum_square(values)
    if calculus == "approx":
        return total(v[0] for v in values), total(v[1] for v in values)
    if calculus == "rdp":
        return lambda a: total(v(a) for v in values)
    return total(values)


def _repeat(calculus: str, value: Any, index: Any, times: Any) -> Any:
    if calculus == "gdp":
        return sqrt(total_over(value**2, index, times))
    if calculus == "approx":
        return total_over(value[0], index, times), total_over(value[1], index, times)
    if calculus == "rdp":
        return lambda a: total_over(value(a), index, times)
    return total_over(value, index, times)


def _largest(calculus: str, values: list[Any]) -> Any:
    if calculus == "approx":
        return maximum(v[0] for v in values), maximum(v[1] for v in values)
    if calculus == "rdp":
        return lambda a: maximum(v(a) for v in values)
    return maximum(values)


def _unbounded(calculus: str) -> Any:
    if calculus == "approx":
        return infinity(), Fraction(1)
    return (lambda a: infinity()) if calculus == "rdp" else infinity()


def _steps(predicate: Json, root: Node) -> list[Value]:
    by_digest = _nodes(root)
    known = {a["id"]: a for a in predicate["assumptions"]}
    values: list[Value] = []
    for number, row in enumerate(predicate["derivation"]["steps"]):
        place = f"step {number} ({row['rule']})"
        _require(row["id"] == number, f"{place}: steps are out of order")
        _require(row["node"] in by_digest, f"{place}: its node is not in the declaration")
        _require(all(p < number for p in row["premises"]), f"{place}: a premise comes later")
        premises = [values[p] for p in row["premises"]]
        value = _step(row, by_digest[row["node"]], premises, place, predicate["scope"]["adjacency"])
        _require(row["attained"] == value.attained, f"{place}: 'attained' does not follow")
        _require(set(row["assumes"]) <= set(known), f"{place}: an assumption is not listed")
        values.append(value)
    return values


def _nodes(root: Node) -> dict[str, Node]:
    found, stack = {root.digest: root}, [root]
    while stack:
        for child in stack.pop().children:
            if child.digest not in found:
                found[child.digest] = child
                stack.append(child)
    return found


def _step(row: Json, node: Node, premises: list[Value], place: str, adjacency: str) -> Value:
    if row["rule"].startswith("convert."):
        value = _conversion(row, node, premises, place)
    else:
        value = _fold(row["rule"], node, premises, place, adjacency)
        _conclusion(row["conclusion"], value, place)
    own = set(row["assumes"])
    expected = _own_assumptions(node) if not row["rule"].startswith("convert.") else set()
    _require(own == expected, f"{place}: its assumptions are not those of its node")
    return value


def _own_assumptions(node: Node) -> set[str]:
    assumption = getattr(node, "assumption", None)
    if assumption is not None:
        return {assumption.id}
    return {f"opaque:{node.digest[:12]}"} if hasattr(node, "source") else set()


def _fold(rule: str, node: Node, premises: list[Value], place: str, adjacency: str) -> Value:
    calculus, _, name = rule.partition(".")
    kind = type(node).__name__
    children = [child.digest for child in node.children]
    _require([p.node.digest for p in premises] == children, f"{place}: premises of another node")
    _require(all(p.calculus == calculus for p in premises), f"{place}: premises of another calculus")
    uppers = [p.upper for p in premises]
    if rule in LEAVES:
        wanted = OPAQUE[calculus] if name == "opaque" else LEAF_TYPES[name]
        _require(kind == wanted, f"{place}: the rule is for {wanted}, not {kind}")
        upper = LEAVES[rule](node)
    else:
        upper = _structure(rule, calculus, name, node, uppers, place, adjacency)
    attained = _attained(rule, node, premises)
    assumes = frozenset().union(_own_assumptions(node), *(p.assumes for p in premises))
    parted = kind == "Parallel" or any(p.in_one_part for p in premises)
    return Value(node, calculus, upper, attained, parted, upper if attained else None, assumes)


STRUCTURE = {
    "composition": "Compose",
    "repetition": "Repeat",
    "disjoint": "Parallel",
    "unchanged": "Assuming",
    "no_guarantee": "NonPrivate",
    "poisson_sampled": "PoissonSampled",
    "sampled_without_replacement": "SampledWithoutReplacement",
}


def _structure(
    rule: str, calculus: str, name: str, node: Any, uppers: list[Any], place: str, adjacency: str
) -> Any:
    _require(STRUCTURE.get(name) == type(node).__name__, f"{place}: an unknown rule for its node")
    if name == "composition":
        return _combine(calculus, uppers)
    if name == "repetition":
        return _repeat(calculus, uppers[0], node.index, node.times)
    if name == "disjoint":
        return _largest(calculus, uppers)
    if name == "unchanged":
        return uppers[0]
    if name == "no_guarantee":
        return _unbounded(calculus)
    poisson = name == "poisson_sampled"
    _require(
        calculus == "pure" and adjacency == ("add_remove" if poisson else "replace_one"),
        f"{place}: the rule does not hold under {adjacency}",
    )
    return _amplified(node.rate if poisson else node.batch_size / node.population, uppers[0])


def _attained(rule: str, node: Any, premises: list[Value]) -> bool:
    name = rule.partition(".")[2]
    if rule in LEAVES:
        return rule in ATTAINED
    if name not in ("composition", "repetition", "disjoint", "unchanged"):
        return False
    if not all(p.attained for p in premises):
        return False
    if name == "composition":
        return sum(p.in_one_part for p in premises) <= 1
    return not (name == "repetition" and node.index is not None and premises[0].in_one_part)


def _conclusion(stated: Json, value: Value, place: str) -> None:
    """The stated decimals are at least the re-derived bound, and equal to it to nine digits."""
    if value.calculus == "approx":
        pairs = [(stated["epsilon"], value.upper[0]), (stated["delta"], value.upper[1])]
    elif value.calculus == "rdp":
        pairs = [(bound, value.upper(Fraction(a))) for a, bound in stated["curve"]]
    else:
        name = {"pure": "epsilon", "zcdp": "rho", "gdp": "mu"}[value.calculus]
        pairs = [(stated[name], value.upper)]
    for text, exact in pairs:
        _require(_rounded_up(text, exact), f"{place}: {text} is not its bound, rounded outward")


def _rounded_up(text: str, exact: Any) -> bool:
    if is_infinite(exact) or text == "inf":
        return text == "inf" and is_infinite(exact)
    with working_precision():
        ball, shown = enclose(exact), enclose(Fraction(text))
        close = shown <= ball * (1 + enclose(SLACK)) + enclose(Fraction(1, 10**300))
        return bool(shown >= ball or Fraction(text) == exact) and bool(close)


def _conversion(row: Json, node: Node, premises: list[Value], place: str) -> Value:
    _require(len(premises) == 1 and premises[0].node == node, f"{place}: another node's premise")
    premise, stated, witness = premises[0], row["conclusion"], row["witness"]
    _require(row["rule"] == f"convert.{premise.calculus}_to_approx", f"{place}: wrong premise")
    delta = Fraction(stated["delta"])
    if stated["epsilon"] == "inf":
        return Value(node, "approx", (infinity(), delta), False, False, None, premise.assumes)
    epsilon = Fraction(stated["epsilon"])
    _require(_converts(premise, epsilon, delta, witness), f"{place}: epsilon does not follow")
    reached = None
    if premise.attained and "epsilon_lower" in witness:
        reached = Fraction(witness["epsilon_lower"])
        mu = enclose(premise.upper)
        held = reached == 0 or _gaussian_delta(reached, mu) >= enclose(delta)
        _require(held, f"{place}: its lower end does not follow")
    return Value(
        node, "approx", (epsilon, delta), reached is not None, False, reached, premise.assumes
    )


def _converts(premise: Value, epsilon: Fraction, delta: Fraction, witness: Json) -> bool:
    if premise.calculus == "gdp":
        if premise.upper == 0:
            return True
        return bool(_gaussian_delta(epsilon, enclose(premise.upper)) <= enclose(delta))
    if premise.calculus == "pure":
        return _rounded_up(decimal_upper(epsilon), premise.upper)
    if premise.calculus == "approx":
        enough = enclose(premise.upper[1]) <= enclose(delta)
        return bool(enough) and _rounded_up(decimal_upper(epsilon), premise.upper[0])
    order = Fraction(witness["order"])
    curve = premise.upper(order) if premise.calculus == "rdp" else premise.upper * order
    with working_precision():
        a, d = enclose(order), enclose(delta)
        bound = enclose(curve) + (1 - 1 / a).log() - (d.log() + a.log()) / (a - 1)
        return bool(order > 1 and bound <= enclose(epsilon))


def _normal_cdf(x: Any) -> Any:
    return (-x / enclose(sqrt(2))).erfc() / 2


def _quantile(p: Any) -> Any:
    return enclose(sqrt(2)) * (2 * p - 1).erfinv()


def _gaussian_delta(epsilon: Fraction, mu: Any) -> Any:
    with working_precision():
        e = enclose(epsilon)
        return _normal_cdf(mu / 2 - e / mu) - e.exp() * _normal_cdf(-mu / 2 - e / mu)


# --- curves and plain words ----------------------------------------------------------------------------


def _curves(predicate: Json, root: Node) -> None:
    rows = {g["measure"]: g.get("curve", []) for g in predicate["derivation"]["upper_bounds"]}
    words = predicate["in_plain_words"]
    profile, tradeoff = rows.get("profile", []), rows.get("tradeoff", [])
    if not (profile or tradeoff or words):
        return
    mu = enclose(_own_mu(root))
    with working_precision():
        for epsilon, bound in profile:
            held = _gaussian_delta(Fraction(epsilon), mu) <= enclose(Fraction(bound))
            _require(held, f"privacy profile at epsilon {epsilon}: {bound} is below the bound")
        for alpha, bound in tradeoff:
            curve = _normal_cdf(_quantile(1 - enclose(Fraction(alpha))) - mu)
            held = bound == "0" or enclose(Fraction(bound)) <= curve
            _require(held, f"trade-off curve at {alpha}: {bound} is above the bound")
        if words:
            _plain_words(words, mu)


def _plain_words(words: Json, mu: Any) -> None:
    guess = enclose(Fraction(words["membership_guess_upper"]))
    _require(guess >= _normal_cdf(mu / 2), "membership guess: below the bound")
    power = _normal_cdf(_quantile(enclose(Fraction(1, 1000))) + mu)
    shown = enclose(Fraction(words["true_positive_rate_at_0.001_upper"]))
    _require(shown >= power, "true-positive rate: below the bound")


def _own_mu(root: Node) -> Any:
    """The checker's own fold of the Gaussian calculus."""
    done: dict[str, Any] = {}
    rules = {"Gaussian": "gaussian", "Laplace": "laplace", "PureDP": "from_pure", "GDP": "opaque"}
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node.digest in done:
            continue
        if not ready:
            stack += [(node, True), *((child, False) for child in node.children)]
            continue
        kind, values = type(node).__name__, [done[c.digest] for c in node.children]
        if kind in rules:
            done[node.digest] = LEAVES[f"gdp.{rules[kind]}"](node)
        else:
            name = next((k for k, v in STRUCTURE.items() if v == kind), "")
            done[node.digest] = _structure("", "gdp", name, node, values, kind, "")
    return done[root.digest]


# --- lower bounds ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """An audit's confirmed rates: at the shown confidence and at the decision error."""

    shown: tuple[Any, Any]
    decisive: tuple[Any, Any]
    stated: Json
    decisive_lower: Any
    delta: Fraction | None


def _audits(predicate: Json) -> dict[str, Bound]:
    found = {}
    spent = Fraction(0)
    for row in predicate["audits"]:
        place = f"audit {row['id']}"
        error = Fraction(row["witness"]["decisive_error"])
        spent += error
        allowed = Fraction(row["confidence"]["decision_error"])
        _require(allowed <= Fraction(1, 10**4), f"{place}: its decision error is too large")
        _require(
            error * row["confidence"]["adjusted_for"] * 2 <= allowed * (1 + SLACK),
            f"{place}: spends more error than its share",
        )
        found[row["id"]] = _bound(row, error, place)
    return found


def _bound(row: Json, error: Fraction, place: str) -> Bound:
    counts, witness = row["counts"], row["witness"]
    _require(
        counts["trials_null"] == counts["trials_alternative"] == row["trials"],
        f"{place}: its counts are not of its trials",
    )
    rates = {}
    for prefix, level in (("", SHOWN_ERROR), ("decisive_", error)):
        uppers = []
        for kind, trials in (("positive", "trials_null"), ("negative", "trials_alternative")):
            name = f"{prefix}false_{kind}_rate_upper"
            stated = Fraction(witness[name])
            ok = _tail_small(counts[f"false_{kind}s"], counts[trials], stated, level / 2)
            _require(ok, f"{place}: {name} is not a Clopper-Pearson bound of its count")
            uppers.append(enclose(stated))
        rates[prefix] = (uppers[0], uppers[1])
    stated_bound = row["lower_bounds"][0]
    delta = Fraction(stated_bound["delta"]) if "delta" in stated_bound else None
    decisive = Fraction(witness["decisive_lower"])
    result = Bound(rates[""], rates["decisive_"], stated_bound, decisive, delta)
    shown = Fraction(stated_bound["mu" if delta is None else "epsilon"])
    _require(_follows(shown, result.shown, delta), f"{place}: its lower bound does not follow")
    _require(_follows(decisive, result.decisive, delta), f"{place}: its decisive bound does not")
    return result


def _tail_small(count: int, trials: int, upper: Fraction, error: Fraction) -> bool:
    """P(Binomial(trials, upper) <= count) <= error, and not for a bound a millionth lower."""
    if count >= trials:
        return upper == 1
    with working_precision():

        def tail(p: Fraction) -> Any:
            return enclose(1 - p).beta_lower(trials - count, count + 1, regularized=True)

        tight = tail(upper * (1 - Fraction(1, 10**6))) > enclose(error)
        return bool(0 < upper <= 1 and tail(upper) <= enclose(error)) and bool(tight)


def _follows(stated: Fraction, rates: tuple[Any, Any], delta: Fraction | None) -> bool:
    """A stated lower bound is at most what the rates give (mu without delta, else epsilon)."""
    if stated == 0:
        return True
    positive, negative = rates
    with working_precision():
        if delta is None:
            return bool(enclose(stated) <= -_quantile(positive) - _quantile(negative))
        spare = 1 - enclose(delta)
        ratios = ((spare - negative) / positive, (spare - positive) / negative)
        return any(bool(enclose(stated).exp() <= ratio) for ratio in ratios)


# --- claims and the verdict -----------------------------------------------------------------------------

ORDER = (
    "refuted",
    "alarm",
    "unsupported",
    "inconclusive",
    "certified_under_assumptions",
    "certified",
)
PARAMETER = {"approx_dp": "epsilon", "pure_dp": "epsilon", "zcdp": "rho", "gdp": "mu"}


def _claims(
    predicate: Json, root: Node, values: list[Value], bounds: Mapping[str, Bound]
) -> None:
    verdicts = []
    for row in predicate["claims"]:
        place = row["id"]
        value = None if row["step"] is None else _claimed_step(row, root, values, predicate)
        claimed = decode_number(row["exact"])
        if row["stated"] is not None:
            shown = row["stated"][PARAMETER[row["stated"]["measure"]]]
            _require(shown == decimal_upper(claimed), f"{place}: its number is not its exact value")
        _outcome(row, value, claimed, place)
        _shown_lower(row, bounds, place)
        verdicts.append(_verdict(predicate, row, value, claimed, bounds, root))
        _require(row["verdict"] == verdicts[-1], f"{place}: the verdict would be {verdicts[-1]}")
    worst = min(verdicts, key=ORDER.index)
    _require(predicate["verdict"]["status"] == worst, f"the verdict would be {worst}")


def _claimed_step(row: Json, root: Node, values: list[Value], predicate: Json) -> Value:
    place = row["id"]
    _require(row["step"] < len(values), f"{place}: its step is missing")
    value = values[row["step"]]
    stated = predicate["derivation"]["steps"][row["step"]]["conclusion"]
    _require(value.node == root, f"{place}: its step is not about the whole declaration")
    _require(row["upper"] == stated, f"{place}: its upper bound is not its step's")
    _require(row["attained"] == value.attained, f"{place}: 'attained' is not its step's")
    if row["stated"] is not None:
        same = row["stated"]["measure"] == stated["measure"]
        same = same and row["stated"].get("delta") == stated.get("delta")
        _require(same, f"{place}: its step is in another measure or at another delta")
    return value


def _number(value: Value) -> Any:
    return value.upper[0] if isinstance(value.upper, tuple) else value.upper


def _outcome(row: Json, value: Value | None, claimed: Any, place: str) -> None:
    if row["check"] == "proved":
        held = value is not None and _at_most(_number(value), claimed)
        _require(held, f"{place}: 'proved' does not follow")
    if row["check"] == "refuted":
        above = value is not None and value.reached is not None
        above = above and bool(enclose(value.reached) > enclose(claimed))  # type: ignore[union-attr]
        _require(above, f"{place}: 'refuted' does not follow")


def _at_most(upper: Any, claimed: Any) -> bool:
    if is_infinite(upper):
        return False
    if not is_symbolic(upper) and not is_symbolic(claimed):
        return bool(upper <= claimed)
    if bool(enclose(upper) <= enclose(claimed)):
        return True
    import sympy

    return bool(sympy.simplify(sympify(upper) - sympify(claimed)) == 0)


def _shown_lower(row: Json, bounds: Mapping[str, Bound], place: str) -> None:
    for name in ("lower", "lower_conditional"):
        shown = row[name]
        if shown is None:
            continue
        bound = bounds.get(shown["audit"])
        _require(bound is not None, f"{place}: its lower bound names no audit")
        held = _lower_follows(shown, bound)  # type: ignore[arg-type]
        _require(held, f"{place}: its lower bound does not follow from {shown['audit']}")
        family = "the Gaussian family" if name == "lower_conditional" else ""
        _require(shown["conditional_on"] == family, f"{place}: its condition is not stated")


def _lower_follows(shown: Json, bound: Bound) -> bool:
    stated = Fraction(shown[PARAMETER[shown["measure"]]])
    if shown["measure"] == "zcdp":
        return stated == 0 or _renyi_follows(stated, bound.shown)
    if shown["conditional_on"]:
        mu = Fraction(bound.stated["mu"])
        return stated == 0 or bool(
            _gaussian_delta(stated, enclose(mu)) >= enclose(Fraction(shown["delta"]))
        )
    same_delta = shown.get("delta") == bound.stated.get("delta")
    return same_delta and _follows(stated, bound.shown, bound.delta)


def _renyi_follows(stated: Any, rates: tuple[Any, Any]) -> bool:
    """Some order of a fixed grid gives rho >= D_a(p || q) / a at least as large as stated."""
    positive, negative = rates
    with working_precision():
        for k in range(-60, 61):
            a = 1 + enclose(Fraction(10) ** (k // 20) * Fraction(1122, 1000) ** (k % 20))
            for p, q in ((1 - negative, positive), (1 - positive, negative)):
                if p > q:
                    moment = p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)
                    if enclose(stated) <= moment.log() / (a - 1) / a * (1 + enclose(SLACK)):
                        return True
    return False


def _decisive(row: Json, bounds: Mapping[str, Bound]) -> Callable[[Any], bool]:
    """Whether the decisive lower bound in the claim's measure is above a number."""
    stated = row["stated"] or {"measure": ""}
    if stated["measure"] == "zcdp" and "lens" in bounds:
        rates = bounds["lens"].decisive
        return lambda value: _renyi_follows(value, rates)
    delta = Fraction(stated.get("delta", "0"))
    wanted = {"gdp": [bounds.get("lens")], "": []}.get(
        stated["measure"], [b for b in bounds.values() if b.delta == delta]
    )
    lower = next((b.decisive_lower for b in wanted if b is not None), None)
    return lambda value: lower is not None and bool(enclose(lower) > enclose(value))


def _verdict(
    predicate: Json,
    row: Json,
    value: Value | None,
    claimed: Any,
    bounds: Mapping[str, Bound],
    root: Node,
) -> str:
    exceeds = _decisive(row, bounds)
    if exceeds(claimed) or row["check"] == "refuted":
        return "refuted"
    if any(c["status"] == "broken" for c in predicate["conformance"]):
        return "alarm"
    accounted = infinity() if value is None else _number(value)
    if not is_infinite(accounted) and exceeds(accounted):
        return "alarm"
    if "lens" in bounds and _lens_alarm(root, bounds["lens"]):
        return "alarm"
    if row["check"] != "proved":
        return "unsupported" if row["check"] == "unsupported" else "inconclusive"
    return _certified(predicate, value)


def _lens_alarm(root: Node, bound: Bound) -> bool:
    try:
        mu = _own_mu(root)
    except CertificateRejected:
        return False
    return not is_infinite(mu) and bool(enclose(bound.decisive_lower) > enclose(mu))


def _certified(predicate: Json, value: Value | None) -> str:
    from_steps = {i for row in predicate["derivation"]["steps"] for i in row["assumes"]}
    own = value.assumes if value is not None else frozenset[str]()
    statuses = {
        a["status"]
        for a in predicate["assumptions"]
        if a["id"] in own or a["id"] not in from_steps
    }
    if "violated" in statuses:
        return "inconclusive"
    return "certified" if statuses <= {"enforced"} else "certified_under_assumptions"
