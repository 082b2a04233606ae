"""Programs from a budget: which constants, how many phases, which lambda, radius and unit.

``constants`` is "paper" (printed formulas, within their theorem's range) or "calibrated" (least
noise by the exact profile; the default).
"""

from __future__ import annotations

from fractions import Fraction

from dpaudit.arithmetic import exact
from dpaudit.errors import InvalidParameter
from dpaudit.nodes import Distance
from mechanisms.stable_erm.calibration import (
    Constants,
    calibrate_del_output_pert,
    del_output_pert_paper,
)
from mechanisms.stable_erm.localised import Localised, StronglyConvexERM, StronglyConvexSCO
from mechanisms.stable_erm.phased import PhasedERM, PhasedSCO
from mechanisms.stable_erm.problem import (
    DeltaRule,
    Problem,
    erm_phases,
    erm_weight,
    sampling_distance,
    sco_phases,
    sco_weight,
)
from mechanisms.stable_erm.release import StronglyConvexOutputPerturbation
from mechanisms.stable_erm.stable import Enumeration, Search

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

    Source: Ghazi et al. 2023, Algorithm 3.
    """
    phases = erm_phases(problem.users, problem.items) if count is None else count
    if not (hasattr(phases, "__index__") and phases >= 1):
        raise InvalidParameter(f"count = {count}: expected at least one phase")
    found = search or Enumeration()
    share = _share(epsilon, delta, phases)
    chosen = constants_for(*share, constants, found.distance)
    return PhasedERM(problem, chosen, phases, erm_weight(problem), rule or DeltaRule(), found)


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

    Source: Ghazi et al. 2023, Algorithm 4, lambda with its second term.
    """
    found = search or Enumeration()
    chosen = constants_for(epsilon, delta, constants, found.distance)
    count = sco_phases(problem.users, chosen)
    return PhasedSCO(problem, chosen, count, sco_weight(problem), rule or DeltaRule(), found)


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
    rule = DeltaRule("tight", _beta(problem))
    after = phased_erm(problem, *half, constants=constants, count=count, rule=rule, search=search)
    first = StronglyConvexOutputPerturbation(
        problem, constants_for(*half, constants, after.search.distance), rule, after.search
    )
    radius = Localised(first, after, rule.beta).radius
    weighed = PhasedERM(
        problem, after.constants, after.count, erm_weight(problem) / radius, rule, after.search
    )
    return StronglyConvexERM(first, weighed, rule.beta)


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
    rule = DeltaRule("tight", _beta(problem))
    after = phased_sco(problem, *half, constants=constants, rule=rule, search=search)
    first = StronglyConvexOutputPerturbation(problem, after.constants, rule, after.search)
    more = sampling_distance(problem, rule.beta)
    radius = Localised(first, after, rule.beta, more).radius
    weighed = PhasedSCO(
        problem, after.constants, after.count, sco_weight(problem) / radius, rule, after.search
    )
    return StronglyConvexSCO(first, weighed, rule.beta, more)


def _beta(problem: Problem) -> float:
    """1 / (2 n^2 m)."""
    return 1 / (2 * problem.users**2 * problem.items)


def _share(epsilon: object, delta: object, parts: int) -> tuple[Fraction, Fraction]:
    return _fraction(epsilon, "epsilon") / parts, _fraction(delta, "delta") / parts


def _fraction(value: object, place: str) -> Fraction:
    number = exact(value, place)
    if not isinstance(number, Fraction):
        raise InvalidParameter(f"{place} = {number}: expected a rational number")
    return number
