"""Programs from a budget: which constants, how many phases, which lambda, radius and unit.

``constants`` is "paper" (printed formulas, within their theorem's range) or "calibrated" (least
noise by the exact profile; the default).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpaudit.errors import InvalidParameter
from dpaudit.families.stability import Distance
from mechanisms.papers.common.budgets import rational
from mechanisms.papers.stable_erm.calibration import (
    Constants,
    calibrate_del_output_pert,
    del_output_pert_paper,
)
from mechanisms.papers.stable_erm.localised import (
    StronglyConvexERM,
    StronglyConvexSCO,
    ball_radius,
)
from mechanisms.papers.stable_erm.phased import PhasedERM, PhasedSCO
from mechanisms.papers.stable_erm.problem import (
    DeltaRule,
    Problem,
    erm_phases,
    erm_weight,
    sampling_distance,
    sco_phases,
    sco_weight,
)
from mechanisms.papers.stable_erm.release import StronglyConvexOutputPerturbation
from mechanisms.papers.stable_erm.stable import Enumeration, Search

CALIBRATIONS = ("paper", "calibrated")


def constants_for(
    epsilon: object, delta: object, constants: str = "calibrated", distance: str = Distance.PATH
) -> Constants:
    """The constants of one release at (epsilon, delta).

    Errors: InvalidParameter for another name, printed constants for diameter stability (the paper
    has none), and as the calibrations.
    """
    if constants not in CALIBRATIONS:
        raise InvalidParameter(f"constants = {constants!r}: expected {' or '.join(CALIBRATIONS)}")
    if constants == "calibrated":
        return calibrate_del_output_pert(epsilon, delta, distance=distance)
    if distance != Distance.PATH:
        raise InvalidParameter("constants = 'paper': the paper has none for diameter stability")
    return del_output_pert_paper(epsilon, delta)


def phased_erm(
    problem: Problem,
    epsilon: object,
    delta: object,
    *,
    constants: str = "calibrated",
    count: int | None = None,
    rule: DeltaRule | None = None,
    search: Search | None = None,
) -> PhasedERM:
    """PhasedERM with ``count`` phases (ceil(log2(n m)) by default), an equal share for each.

    ``rule``: the tight bound, failing with probability 1/(n m) over all phases, by default.
    Source: Ghazi et al. 2023, Algorithm 3.
    """
    phases = erm_phases(problem.users, problem.items) if count is None else count
    if not (hasattr(phases, "__index__") and phases >= 1):
        raise InvalidParameter(f"count = {count}: expected at least one phase")
    found = search or Enumeration()
    share = _share(epsilon, delta, phases)
    chosen = constants_for(*share, constants, found.distance)
    weight = erm_weight(problem, problem.domain.diameter)
    return PhasedERM(
        problem, chosen, phases, weight, rule or _rule(_spread(problem, phases)), found
    )


def phased_sco(
    problem: Problem,
    epsilon: object,
    delta: object,
    *,
    constants: str = "calibrated",
    rule: DeltaRule | None = None,
    search: Search | None = None,
) -> PhasedSCO:
    """PhasedSCO with floor(log2(n / (8 kappa + 2))) phases, the whole budget for each.

    ``rule``: as in :func:`phased_erm`.
    Source: Ghazi et al. 2023, Algorithm 4, lambda with its second term.
    """
    found = search or Enumeration()
    chosen = constants_for(epsilon, delta, constants, found.distance)
    count = sco_phases(problem.users, chosen)
    weight = sco_weight(problem, problem.domain.diameter)
    return PhasedSCO(problem, chosen, count, weight, rule or _rule(_spread(problem, count)), found)


def strongly_convex_erm(
    problem: Problem,
    epsilon: object,
    delta: object,
    *,
    constants: str = "calibrated",
    count: int | None = None,
    search: Search | None = None,
) -> StronglyConvexERM:
    """Half of the budget for a first release, half for PhasedERM in a ball around it.

    Source: Ghazi et al. 2023, Algorithm 5, its constant made explicit.
    """
    half = _share(epsilon, delta, 2)
    after = phased_erm(problem, *half, constants=constants, count=count, search=search)
    first = _first(problem, constants_for(*half, constants, after.search.distance), after.search)
    beta = first.rule.beta
    size = StronglyConvexERM.reach * ball_radius(first, beta, 0.0)
    weight, rule = erm_weight(problem, size), _rule(beta / after.count)
    return StronglyConvexERM(first, replace(after, weight=weight, rule=rule), beta)


def strongly_convex_sco(
    problem: Problem,
    epsilon: object,
    delta: object,
    *,
    constants: str = "calibrated",
    search: Search | None = None,
) -> StronglyConvexSCO:
    """Half of the budget for a first release, half for PhasedSCO in a ball around it.

    Source: Ghazi et al. 2023, Algorithm 6, with Proposition B.1's constant.
    """
    half = _share(epsilon, delta, 2)
    after = phased_sco(problem, *half, constants=constants, search=search)
    first = _first(problem, after.constants, after.search)
    beta = first.rule.beta
    more = sampling_distance(problem, beta)
    size = StronglyConvexSCO.reach * ball_radius(first, beta, more)
    weight, rule = sco_weight(problem, size), _rule(beta / max(1, after.count))
    return StronglyConvexSCO(first, replace(after, weight=weight, rule=rule), beta, more)


def _first(
    problem: Problem, constants: Constants, search: Search
) -> StronglyConvexOutputPerturbation:
    """The first release of the reductions, beta = 1 / (2 n^2 m)."""
    rule = _rule(1 / (2 * problem.users**2 * problem.items))
    return StronglyConvexOutputPerturbation(problem, constants, rule, search)


def _spread(problem: Problem, phases: int) -> float:
    """beta / T of Theorems 4.1 and 5.1, beta = 1 / (n m)."""
    return 1 / (problem.users * problem.items * max(1, phases))


def _rule(beta: float) -> DeltaRule:
    return DeltaRule("tight", beta)


def _share(epsilon: object, delta: object, parts: int) -> tuple[Fraction, Fraction]:
    return rational(epsilon, "epsilon") / parts, rational(delta, "delta") / parts
