"""The accountant: every calculus that has the rules, and the best sound bound among them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from dpaudit.accountant.groups import delta_in_steps, in_steps
from dpaudit.accountant.parts import reached_part
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import (
    Number,
    decimal_lower,
    decimal_upper,
    effort,
    enclose,
    exact,
    is_infinite,
    is_symbolic,
    readable,
)
from dpaudit.exact.arb import require_order
from dpaudit.exact.domains import known_sign, non_negative, probability, rational, real
from dpaudit.families.composition import Repeat
from dpaudit.families.events import Group
from dpaudit.families.opaque import ApproxDP
from dpaudit.measures.calculus import CALCULI, Step, measures
from dpaudit.measures.convert import least_of_renyi, to_approx
from dpaudit.measures.show import show_text, value_text
from dpaudit.measures.sides import delta_sides, tradeoff_sides
from dpaudit.nodes import Node, find_path, hiding, postorder
from dpaudit.nodes.registry import load
from dpaudit.pairs import Losses, Pair
from dpaudit.pairs.core import gaussian_shifts
from dpaudit.profiles import RELATIVE_WIDTH, WIDTH
from dpaudit.scope import Adjacency, Scope, Trust, central

if TYPE_CHECKING:
    from dpaudit.accountant.symbolic import SymbolicProfile

load("rules")

# The deltas at which a report prints epsilon where none is asked for.
DELTAS = ("1e-3", "1e-5", "1e-6", "1e-9")
# Relative gap above the attained value up to which an upper bound counts as tight.
TIGHT_MARGIN = Fraction(1, 100)
# Relative width at which the delta of one record, from which a group's follows, is first sought.
ROUGH_WIDTH = 1e-2
# Digits to which a bound is rounded up before the caller's format rounds it up again.
FORMAT_DIGITS = 60
Ends: TypeAlias = tuple[Any, Any]
# The rule by which a record that is replaced in a Poisson sample is accounted for.
IN_A_SAMPLE = "profile.replaced_in_a_sample"
SHOWN_DIGITS = 6  # Significant digits of a bound in a line of text, rounded outward.
SHOWN_RATES = 20  # steps of a curve that is drawn
SHOWN_DELTA = "1e-9"  # a drawn profile ends at the epsilon of this delta


@dataclass(frozen=True, repr=False)
class Bound:
    """A number known from both sides: ``lower <= truth <= upper``, and how either was found.

    ``lower`` is what some data and queries of the declared kinds reach; 0 where nothing is known.
    ``step`` is the derivation of ``upper``; ``asked`` how far apart the ends were to be (of a
    delta: relative to it), None where no width was asked for.
    Errors: InternalError for ends in the wrong order.

    As a number a bound is its upper end, rounded upward: ``float(bound)``, ``f"{bound:.3f}"``,
    ``round(bound, 3)``.  A comparison is True only where it holds for every value between the ends;
    ``x in bound`` asks whether x lies between them.

    >>> import dpaudit as dp
    >>> bound = dp.account(dp.Gaussian("mean", 5), "add_remove").delta("0.5")
    >>> bound, f"{bound:.4f}", bound < 0.001
    (Bound(0.000512536 to 0.000512537), '0.0006', True)
    """

    lower: Fraction
    upper: Number
    lower_method: str
    upper_method: str
    step: Step | None = field(default=None, hash=False)
    asked: float | None = None

    def __post_init__(self) -> None:
        require_order(self.lower, self.upper, "a Bound")

    def __str__(self) -> str:
        methods = f"from below: {self.lower_method}; from above: {self.upper_method}"
        return "; ".join(filter(None, (f"{self._ends} ({methods})", self.shortfall)))

    @property
    def shortfall(self) -> str:
        """Where the ends are further apart than asked: what was reached, and what more would cost.

        The width of an interval shrinks with the square of a grid's step and of a series'
        smoothing, so a width smaller by k takes at least sqrt(k) times as long, as far as floats
        and the largest grids allow.  If the pair that gives the upper bound is not known to be
        attained, the gap is between two theorems, and no width closes it.
        """
        if self.asked is None or self.width <= self.asked:
            return ""
        opening = f"asked for a width of {self.asked:g}, reached {self.width:.3g}"
        if self.lower_method == "none":
            return f"{opening}: nothing is known to be reached, which no width changes"
        if is_infinite(self.upper):
            return f"{opening}: no finite guarantee was found"
        if "profile" not in self.upper_method:
            return f"{opening}: the theorem from above is no tighter, whatever the width"
        pair = self._unreached
        if pair is not None:
            kinds = " x ".join(sorted({type(factor).__name__ for factor, _ in pair.factors}))
            unreached = f"what dominates ({kinds}) is nothing known to be reached, at any width"
            return "; ".join(filter(None, (f"{opening}: {unreached}", self._undrawn)))
        losses = self._losses
        factors = [f for p in losses.pairs for f, _ in p.factors] if losses else []
        if any(factor.replacement is not None for factor in factors):
            return f"{opening}: rounds that choose by what was released have a grid of their own"
        times = self.width**0.5 / self.asked**0.5
        return (
            f"{opening}: to ask for less takes at least {times:.3g} times the time, and comes no "
            "closer than the largest grids and 53-bit floats do"
        )

    @property
    def _losses(self) -> Losses | None:
        """The pairs that the ends are of."""
        step = self.step
        if step is None or isinstance(step.value, Losses):  # of a delta
            return None if step is None else step.value
        value = step.premises[0].value if step.premises else None
        return value if isinstance(value, Losses) else None

    @property
    def _unreached(self) -> Pair | None:
        """The pair that gives the upper bound, if no data are known to attain it."""
        step, losses = self.step, self._losses
        if step is None or losses is None:
            return None
        if "upper" not in step.witness:  # a delta's fold does not tell which of them decides
            unknown = [pair for pair in losses.pairs if pair not in losses.reached]
            return unknown[0] if unknown and len(unknown) == len(losses.pairs) else None
        rows = step.witness["upper"]
        # An end is rounded once more: rows of the same value decide together.
        most = max((Fraction(row.get("value", 0)) for row in rows), default=None)
        deciding = [
            losses.pairs[int(row["pair"])] for row in rows if Fraction(row.get("value", 0)) == most
        ]
        return next((pair for pair in deciding if pair not in losses.reached), None)

    @property
    def _undrawn(self) -> str:
        """Advice to declare that undrawn records of Gaussian samples add zero, if it applies."""
        steps = self.step.walk() if self.step else []
        samples = (
            s for s in steps if s.rule == IN_A_SAMPLE and s.node.parameters["undrawn"] is None
        )
        if not any(gaussian_shifts(step.premises[0].value.remove) for step in samples):
            return ""
        return (
            "if a record that is not drawn adds zero to the queries, as to clipped sums, declare "
            "PoissonSampled(..., undrawn='zero')"
        )

    def __float__(self) -> float:
        """The upper end as the nearest float above it."""
        if is_infinite(self.upper) or self.upper > Fraction(sys.float_info.max):
            return math.inf
        near = float(self.upper)
        return near if Fraction(near) >= self.upper else math.nextafter(near, math.inf)

    def __format__(self, spec: str) -> str:
        """The upper end, rounded upward to the digits of ``spec``; unrounded without digits."""
        if not spec:
            return str(self)
        if is_infinite(self.upper):
            return format(math.inf, spec)
        with localcontext(prec=FORMAT_DIGITS, rounding=ROUND_CEILING):
            return format(Decimal(self.upper.numerator) / self.upper.denominator, spec)

    def __round__(self, digits: int = 0) -> Decimal:
        """The upper end, rounded upward to so many digits after the point."""
        return Decimal(format(self, f".{digits}f"))

    def __contains__(self, value: object) -> bool:
        return self._compared(
            value, lambda mine, theirs: bool(mine[0] <= theirs[0] and theirs[1] <= mine[1])
        )

    def __lt__(self, other: object) -> bool:
        return self._compared(other, lambda mine, theirs: mine[1] < theirs[0])

    def __le__(self, other: object) -> bool:
        return self._compared(other, lambda mine, theirs: mine[1] <= theirs[0])

    def __gt__(self, other: object) -> bool:
        return self._compared(other, lambda mine, theirs: mine[0] > theirs[1])

    def __ge__(self, other: object) -> bool:
        return self._compared(other, lambda mine, theirs: mine[0] >= theirs[1])

    def _compared(self, other: object, holds: Callable[[Ends, Ends], bool]) -> bool:
        """Whether a comparison holds for every value between the ends.

        Errors: InvalidParameter for what is no finite number.
        """
        theirs: Ends
        if isinstance(other, Bound):
            theirs = other.lower, other.upper
        elif isinstance(other, float) and math.isinf(other):
            theirs = other, other
        else:
            theirs = (rational(other, "a number beside a Bound"),) * 2
        return bool(holds((self.lower, self.upper), theirs))

    def __repr__(self) -> str:
        return f"Bound({self._ends})"

    def _repr_html_(self) -> str:
        from dpaudit.report.notebook import card

        lower, upper = (
            decimal_lower(self.lower, SHOWN_DIGITS),
            decimal_upper(self.upper, SHOWN_DIGITS),
        )
        methods = (self.lower_method, self.upper_method)
        return card("Bound", [("at least", lower, methods[0]), ("at most", upper, methods[1])])

    @property
    def _ends(self) -> str:
        lower, upper = (
            decimal_lower(self.lower, SHOWN_DIGITS),
            decimal_upper(self.upper, SHOWN_DIGITS),
        )
        return f"{lower} to {upper}"

    @property
    def width(self) -> float:
        """Upper minus lower; of finite ends, at most the largest float."""
        if is_infinite(self.upper):
            return math.inf
        return float(min(self.upper - self.lower, Fraction(sys.float_info.max)))


class Account:
    """The guarantees of a declaration under a scope; every answer is a :class:`Step` or a Bound.

    ``width``: how far apart the ends of an epsilon may be, where a profile is refined.
    ``reached``: with False the lower end may not be attained; it only says how much tighter the
    upper end could get.

    >>> import dpaudit as dp
    >>> opened = dp.account(dp.Laplace("count", 1), dp.central("add_remove"))
    >>> opened.epsilon(0), opened.advantage()
    (Bound(1 to 1), Bound(0.393469 to 0.39347))
    """

    def __init__(
        self, node: Node, scope: Scope, width: float | str = WIDTH, *, reached: bool = True
    ) -> None:
        self.node = node
        self.scope = scope
        self._reached = reached
        self.width = real(width, "width")
        if not 0 < self.width < math.inf:
            raise InvalidParameter(f"width = {width}: expected a positive number")
        if scope.trust is Trust.LOCAL and (part := hiding(node)) is not None:
            raise InvalidParameter(
                f"{find_path(node, part)} under local trust: {part.hidden_by} would have to keep a "
                "secret, and nobody is trusted; choose another trust model, or declare the "
                "reports as they are seen"
            )
        self._folded: dict[str, Step] = {}
        self._converted: dict[tuple[str, Fraction], Step] = {}
        self._best: dict[Fraction, Step] = {}

    def __str__(self) -> str:
        epsilons = ", ".join(f"epsilon at delta {decimal_upper(d)} {e}" for d, e in self._opened())
        return (
            f"{self._head} under {self.scope}: {epsilons or ', '.join(self.routes()) or 'no rule'}"
        )

    def __repr__(self) -> str:
        return f"Account({self._head}, {self.scope.adjacency})"

    def _repr_html_(self) -> str:
        from dpaudit.report.notebook import card

        rows = [(f"epsilon at delta = {decimal_upper(d)}", e) for d, e in self._opened()]
        rows += [(name, value_text(self._folded[name].value)) for name in sorted(self._folded)]
        head = [("declaration", self._head), ("calculi", ", ".join(self.routes()) or "none")]
        return card(f"Account under {self.scope}", [*head, *rows])

    @property
    def _head(self) -> str:
        """The root of the declaration in one line."""
        inside = "..." if self.node.children else ""
        return self.node.head.replace("()", f"({inside})") if inside else self.node.head

    def _opened(self) -> list[tuple[Fraction, str]]:
        """Each delta asked about so far, with the answer; computes nothing."""
        return [
            (delta, f"at most {decimal_upper(step.value[0], SHOWN_DIGITS)}")
            for delta, step in sorted(self._best.items(), reverse=True)
        ]

    def step(self, calculus: str) -> Step:
        """The fold under one calculus.

        An account with ``reached=False`` calls every dominating pair attained, so that its lower
        bounds say how far an upper bound could still fall.

        Errors: InvalidParameter for a name that is no calculus; Unsupported naming the first node
        without a rule.
        """
        if calculus not in CALCULI:
            raise InvalidParameter(f"calculus {calculus!r}: expected one of {', '.join(CALCULI)}")
        if calculus not in self._folded:
            with effort.route():
                folded = CALCULI[calculus].fold(self.node, self.scope)
            if not self._reached and isinstance(folded.value, Losses):
                pairs = folded.value.remove, folded.value.add
                own = replace(folded.value, reached_remove=pairs[0], reached_add=pairs[1])
                folded = replace(folded, value=own)
            self._folded[calculus] = folded
        return self._folded[calculus]

    def show(self, calculus: str) -> str:
        """The derivation under one calculus, a line a step, each with its source."""
        return show_text(self.step(calculus))

    def in_symbols(self, epsilon: Any = None) -> SymbolicProfile:
        """The privacy profile by the Gaussian calculus, as a formula of the symbol ``epsilon``.

        Errors: Unsupported where that calculus derives no finite mu > 0; InvalidParameter for no
        symbol, or one of the declaration's own.

        >>> import dpaudit as dp, sympy
        >>> z, T = sympy.symbols("z T", positive=True, integer=True)
        >>> run = dp.Repeat(dp.Gaussian("gradient", z), T)
        >>> profile = dp.account(run, dp.central("add_remove")).in_symbols()
        >>> profile.mu, profile.trend(z)
        (sqrt(T)/z, <Trend.FALLS: 'falls'>)
        """
        from dpaudit.accountant.symbolic import symbolic_profile

        return symbolic_profile(self.step("gdp"), epsilon)

    def routes(self) -> list[str]:
        """Calculi that have a rule for every node, closed forms first."""
        names = [measure.name for measure in measures()]
        return [name for name in names if CALCULI[name].supports(self.node, self.scope)]

    def converted(self, calculus: str, delta: object) -> Step:
        """One calculus' guarantee as (epsilon, delta); errors as :meth:`approximate`."""
        at = _probability(delta)
        if (calculus, at) not in self._converted:
            with effort.route():
                self._converted[calculus, at] = to_approx(self.step(calculus), at, self.width)
        return self._converted[calculus, at]

    def approximate(self, delta: object) -> Step:
        """The smallest certified epsilon at ``delta`` over all routes; value (epsilon, delta).

        An attained Gaussian route is exact, so no other is computed.  After a two-sided profile,
        Renyi routes are skipped.
        Errors: InvalidParameter for delta outside [0, 1); Unsupported where no calculus covers the
        whole tree.
        """
        at = _probability(delta)
        if at not in self._best:
            self._best[at] = min(self._candidates(at), key=_size)
        return self._best[at]

    def _candidates(self, delta: Fraction) -> list[Step]:
        """Each route's bound on epsilon, up to the first tight one; beaten routes are skipped.

        A group of k records has one more: k times one record's epsilon (:func:`in_steps`).

        Errors: Unsupported, the first route's, where none answers.
        """
        steps: list[Step] = []
        refused: list[Unsupported] = []
        routes = self.routes() if self._record else self._routes()
        for name in self._in_order(routes):
            try:
                if steps and self._is_beaten(name, delta, min(map(_size, steps))):
                    continue
                steps.append(self.converted(name, delta))
            except Unsupported as error:
                refused.append(error)
                continue
            if _is_tight(steps[-1]):
                return steps
        if self._record is not None:
            with effort.route():
                grouped = in_steps(self.node, delta, *self._record)
            steps += [] if grouped is None else [grouped]
        if not steps:
            raise refused[0] if refused else Unsupported(self._why_none())
        return steps

    def _is_beaten(self, name: str, delta: Fraction, best: tuple[int, float]) -> bool:
        """Whether no Renyi curve can give a smaller epsilon, so that its sums can be skipped."""
        if name != "rdp" or best[0] or math.isinf(best[1]):
            return False
        return Fraction(best[1]) < least_of_renyi(self.step(name), delta)

    @cached_property
    def _record(self) -> tuple[Account, Account] | None:
        """For a group, the accounts of one record: a coarse one to search delta, and a fine one."""
        if not isinstance(self.node, Group) or is_symbolic(self.node.size) or self.node.size == 1:
            return None
        child, scope = self.node.child, self.scope
        return Account(child, scope, max(self.width, ROUGH_WIDTH)), Account(
            child, scope, self.width
        )

    def _in_order(self, routes: list[str]) -> list[str]:
        """The Gaussian route first where it is exact, and after the profile where it is not."""
        if not {"gdp", "profile"} <= set(routes):
            return routes
        try:
            pairs = self.step("profile").value.pairs
        except Unsupported:
            return routes
        if all(pair.gaussian_shift is not None for pair in pairs):
            return routes
        others = [name for name in routes if name not in ("gdp", "profile")]
        pure = [name for name in others if name in ("pure", "approx")]
        return [*pure, "profile", "gdp", *(name for name in others if name not in pure)]

    def _routes(self) -> list[str]:
        routes = self.routes()
        if not routes:
            raise Unsupported(self._why_none())
        return routes

    def _why_none(self) -> str:
        nodes = list(postorder(self.node))
        by_node = [[c.name for c in CALCULI.values() if c.has(n, self.scope)] for n in nodes]
        node, has = min(zip(nodes, by_node, strict=True), key=lambda row: len(row[1]))
        others = [
            each
            for each in Adjacency
            if any(all(c.has(n, self.scope.under(each)) for n in nodes) for c in CALCULI.values())
        ]
        way_out = f"; rules cover it under {' and under '.join(others)}" if others else ""
        return (
            f"{find_path(self.node, node)}: no one calculus covers the whole declaration under "
            f"{self.scope.adjacency}; this node has rules in {', '.join(has) or 'no calculus'}"
            f"{way_out}"
        )

    def upper(self, claim: Node) -> Step:
        """The bound that answers a claim, in the claim's own measure."""
        if isinstance(claim, ApproxDP):
            return self.approximate(claim.delta)
        return self.step(claim.states_in)

    def epsilon(self, delta: object) -> Bound:
        """The smallest epsilon at ``delta``; errors as :meth:`approximate`."""
        best = self.approximate(delta)
        at = _probability(delta)
        bounded = [s for (_, d), s in self._converted.items() if d == at and s.lower is not None]
        lowest = max(bounded, key=lambda step: step.lower, default=None)
        lower, method = (lowest.lower, lowest.rule) if lowest else (Fraction(0), "none")
        if not lower > 0 and (part := self._part) is not None:
            bound = part.epsilon(delta)
            if bound.lower > lower:
                lower, method = bound.lower, bound.lower_method
        return Bound(lower, best.value[0], method, best.rule, best, self.width)

    @cached_property
    def _part(self) -> Account | None:
        """The account without the releases whose pairs may not be attained; None if all are."""
        reached = reached_part(self.node, self.scope) if self._reached else None
        if (
            reached is not None
            and reached.digest == self.node.digest
            and isinstance(reached, Repeat)
        ):
            # No part could be left out of all rounds together. One round may be simpler, unless
            # it has a symbol of its own.
            reached = (
                reached.child
                if reached.index is None and known_sign(reached.times, strict=True)
                else None
            )
        if reached is None or reached.digest == self.node.digest:
            return None
        return Account(reached, self.scope, self.width)

    def delta(self, epsilon: object) -> Bound:
        """The smallest delta at ``epsilon`` >= 0.

        Errors: InvalidParameter for an epsilon that is negative or no number; Unsupported where no
        calculus covers the whole tree.
        """
        at = _number(epsilon, "epsilon")
        non_negative(at, "epsilon")
        bounds: list[tuple[Fraction | None, Fraction, str, Step]] = []
        refused: list[Unsupported] = []
        for name in self.routes() if self._record else self._routes():
            try:
                with effort.route():
                    lower, upper = delta_sides(self.step(name), at)
            except Unsupported as error:
                refused.append(error)
                continue
            bounds.append((lower, upper, name, self.step(name)))
            if lower is not None and name == "gdp":
                break
        reached = max((low for low, *_ in bounds if low is not None), default=Fraction(0))
        if self._record is not None and all(
            u * (1 - TIGHT_MARGIN) > reached for _, u, *_ in bounds
        ):
            with effort.route():
                grouped = delta_in_steps(self.node, at, self._record[1])
            bounds += [] if grouped is None else [(None, *grouped)]
        if not bounds:
            raise refused[0] if refused else Unsupported(self._why_none())
        _, upper, upper_name, step = min(bounds, key=lambda row: row[1])
        lowers = [(low, name) for low, _, name, _ in bounds if low is not None]
        lower, lower_name = max(lowers, key=lambda row: row[0], default=(Fraction(0), "none"))
        if not lower > 0 and (part := self._part) is not None:
            own = part.delta(at)
            if own.lower > lower:
                lower, lower_name = own.lower, own.lower_method
        width_asked = RELATIVE_WIDTH * float(upper)
        return Bound(lower, upper, lower_name, upper_name, step, width_asked)

    def advantage(self) -> Bound:
        """The largest advantage of a membership guess: total variation, delta at epsilon 0."""
        return self.delta(0)

    def tradeoff(self, alpha: object) -> Bound:
        """The smallest false-negative rate at false-positive rate ``alpha``.

        The guarantee is ``lower``; ``upper`` is what some data and queries reach (1 - alpha where
        nothing is known).  Errors: as :meth:`delta`, for an alpha outside [0, 1].
        """
        return self.tradeoff_curve([alpha])[0][1]

    def profile_curve(self, epsilons: Iterable[object]) -> list[tuple[Fraction, Bound]]:
        """The privacy profile: each epsilon with :meth:`delta` of it.

        Numbers are whole numbers, fractions, floats or decimal texts.  Errors: as :meth:`delta`.
        """
        points = [_number(epsilon, "epsilon") for epsilon in epsilons]
        return [(point, self.delta(point)) for point in points]

    def tradeoff_curve(self, alphas: Iterable[object]) -> list[tuple[Fraction, Bound]]:
        """The trade-off curve: each false-positive rate with :meth:`tradeoff` of it.

        All rates share one composition: a curve takes little longer than its smallest rate.
        Numbers are as those of :meth:`profile_curve`.  Errors: as :meth:`tradeoff`.

        >>> import dpaudit as dp
        >>> opened = dp.account(dp.Laplace("count", noise_multiplier=1), "add_remove")
        >>> [(alpha, missed)] = opened.tradeoff_curve([0.1])
        >>> float(missed.lower) == float(opened.tradeoff("0.1").lower)
        True
        """
        points = [_number(alpha, "alpha") for alpha in alphas]
        for point in points:
            if not 0 <= point <= 1:
                raise InvalidParameter(f"alpha = {readable(point)}: expected a rate from 0 to 1")
        inner_points = [point for point in points if point != 1]
        tradeoffs = self._tradeoffs(inner_points) if inner_points else []
        by_alpha = dict(zip(inner_points, tradeoffs, strict=True))
        by_alpha[Fraction(1)] = Bound(Fraction(0), Fraction(0), "alpha is 1", "alpha is 1")
        return [(point, by_alpha[point]) for point in points]

    def _tradeoffs(self, alphas: Sequence[Fraction]) -> list[Bound]:
        """Bounds at rates below 1, each from the calculus that gives the tightest."""
        sides: dict[str, list[tuple[Fraction, Fraction]]] = {}
        refused: list[Unsupported] = []
        for name in self._routes():
            if CALCULI[name].measure.tradeoff_at is None:
                continue
            try:
                with effort.route():
                    sides[name] = tradeoff_sides(self.step(name), alphas)
            except Unsupported as error:
                refused.append(error)
        if not sides:
            none = "trade-off: no calculus that covers the whole declaration has a curve"
            raise refused[0] if refused else Unsupported(none)
        bounds = []
        for at in range(len(alphas)):
            lower = max(sides, key=lambda name: sides[name][at][0])
            upper = min(sides, key=lambda name: sides[name][at][1])
            ends = (sides[lower][at][0], sides[upper][at][1])
            bounds.append(Bound(*ends, upper, lower, self.step(lower)))
        return bounds

    def plot(self, epsilons: Iterable[object] = (), alphas: Iterable[object] = ()) -> Any:
        """The privacy profile and the trade-off curve as a Matplotlib figure.

        Each curve is drawn as the band between its bounds; a notebook shows the figure, and
        ``savefig`` writes it.  ``epsilons`` and ``alphas``: where they are computed; by default up
        to the epsilon at delta = 1e-9, and at 21 rates.
        Errors: as :meth:`delta`; Unsupported where the declaration has no bound at any delta.

        >>> import dpaudit as dp
        >>> figure = dp.account(dp.Gaussian("sum", 1), dp.central("replace_one")).plot([0, 1, 2])
        >>> [axes.get_xlabel() for axes in figure.axes]
        ['epsilon', 'false positive rate']
        """
        from dpaudit.report.curves import account_figure

        chosen = list(epsilons) or self._shown_epsilons()
        rates = list(alphas) or [Fraction(step, SHOWN_RATES) for step in range(SHOWN_RATES + 1)]
        profile, tradeoff = self.profile_curve(chosen), self.tradeoff_curve(rates)
        first, second = (
            [(float(at), float(ends.lower), float(ends.upper)) for at, ends in curve]
            for curve in (profile, tradeoff)
        )
        return account_figure(first, second, f"{self._head} under {self.scope.adjacency}")

    def _shown_epsilons(self) -> list[Fraction]:
        """Places from 0 to the epsilon at a small delta."""
        top = self.epsilon(SHOWN_DELTA).upper
        if not 0 < top < math.inf:
            raise Unsupported(
                f"{self._head}: epsilon at delta = {SHOWN_DELTA} is {float(top):g}; "
                "give plot() the epsilons to draw"
            )
        return [Fraction(float(top)) * step / SHOWN_RATES for step in range(SHOWN_RATES + 1)]


def _probability(delta: object) -> Any:
    at = exact(delta, "delta")
    probability(at, "delta")
    return at


def _number(value: object, place: str) -> Fraction:
    at = exact(value, place)
    if not isinstance(at, Fraction):
        raise InvalidParameter(f"{place} = {at}: expected a rational number")
    return at


def _is_tight(step: Step) -> bool:
    """Whether the bounds are so close that no other route is worth computing."""
    epsilon = step.value[0]
    if step.lower is None or is_infinite(epsilon):
        return False
    return bool(enclose(epsilon * (1 - TIGHT_MARGIN)) <= enclose(step.lower))


def _size(step: Step) -> Any:
    epsilon = step.value[0]
    return (1, 0.0) if is_infinite(epsilon) else (0, float(enclose(epsilon).mid()))


def account(node: Node, scope: Scope | str, width: float | str = WIDTH) -> Account:
    """The account of a declaration under a scope.

    ``scope``: a scope, or an adjacency's name, which is :func:`dpaudit.central` of it.
    ``width``: how far apart the ends of an epsilon may be.
    Errors: InvalidParameter for a width that is not a positive number; under local trust for what
    a shuffler, secure aggregation or whoever draws batches has to hide.

    >>> import dpaudit as dp
    >>> opened = dp.account(dp.Gaussian("count", noise_multiplier=4), "add_remove")
    >>> print(opened.epsilon("1e-6"))
    1.0607 to 1.06071 (from below: convert.gdp_to_approx; from above: convert.gdp_to_approx)
    """
    return Account(node, scope if isinstance(scope, Scope) else central(scope), width)


def account_table(node: Node, scope: Scope, delta: str | None = None) -> dict[str, Any]:
    """The account as JSON: every calculus that applies, and epsilon at some deltas.

    Errors: InvalidParameter for a delta that is no number in [0, 1); Unsupported as
    :meth:`Account.epsilon`.
    """
    opened = Account(node, scope)
    deltas = [delta] if delta is not None else list(DELTAS)
    rows = [(text, opened.epsilon(text)) for text in deltas]
    return {
        "scope": str(scope),
        "calculi": {name: value_text(opened.step(name).value) for name in opened.routes()},
        "epsilon": [
            {
                "delta": text,
                "epsilon_lower": decimal_lower(bound.lower),
                "epsilon_upper": decimal_upper(bound.upper),
                "rule": bound.upper_method,
            }
            for text, bound in rows
        ],
    }
