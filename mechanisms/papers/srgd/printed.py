"""What the paper prints of Accelerated-DP-SRGD, reading by reading.

Source: Choquette-Choo, Ganesh, Thakurta 2024, Corollaries 5.7, 5.11, Theorems 5.8 and 5.12.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.accountant.claim import Claim
from dpaudit.curator.mechanism import Mechanism
from dpaudit.exact import decimal_upper
from dpaudit.families.opaque import GDP
from dpaudit.nodes import Status
from mechanisms.papers.srgd.accelerated import AcceleratedDPSRGD
from mechanisms.papers.srgd.constants import (
    Constants,
    Reading,
    gaussian_target,
    noised,
    theorem_5_8,
    theorem_5_12,
)
from mechanisms.papers.srgd.entries import (
    DELTA,
    EPSILON,
    FEATURES,
    LIPSCHITZ,
    OURS,
    PAPER,
    RADIUS,
    REGULAR,
    SIZE,
    SMOOTHNESS,
    accelerated,
    declared_only,
    entry,
    stated,
    states,
)
from mechanisms.papers.srgd.gradient import of_constants
from mechanisms.papers.srgd.problem import BoundedLogistic
from mechanisms.papers.srgd.rows import OfIidData, RowBound, WorstCase
from mechanisms.papers.srgd.sensitivity import (
    Conditions,
    srg_sensitivity_iid_claim,
    srg_sensitivity_of,
)

# --- Corollary 5.7: the same noise, and what each reading states of it ----------------------------

CLIPPED = "proof of Corollary 5.7: clipped, for any losses"
REPAIRED = "Corollary 5.7 as it would read"
ATTAINED = (
    "a refutation is of losses whose clipped differences reach the clip; at the constants of "
    "Equation 19 and n = 10^10 no L-Lipschitz M-smooth loss does (Lemma 5.9), so that it says "
    "nothing against Theorem 5.8 there",
)


def readings(rounds: int, epsilon: Any, delta: Any) -> tuple[Claim, ...]:
    """Corollary 5.7 of the noise that it prints for ``epsilon``: as printed, and as each reading.

    A reading's sigma is another multiple of 1/epsilon; so it states this noise of another epsilon.
    The last claim is the Gaussian target of the corollary's proof.
    """
    target = Claim(
        GDP(gaussian_target(Fraction(epsilon), Fraction(delta))),
        by=f"{PAPER}, {CLIPPED}: mu = epsilon / sqrt(2 ln(2.5/delta)) of its proof",
        reading=Reading.AS_PRINTED.value,
        states=states(CLIPPED),
    )
    return (*(_as_read(reading, rounds, epsilon, delta) for reading in Reading), target)


def _as_read(reading: Reading, rounds: int, epsilon: Any, delta: Any) -> Claim:
    of_it = reading.stated_epsilon(Fraction(rounds), Fraction(epsilon))
    words = reading.value
    if reading is not Reading.AS_PRINTED:
        words += f"; the noise of this run is then for epsilon = {decimal_upper(of_it, 5)}"
        return stated(REPAIRED, words, of_it, delta, OURS)
    return stated(CLIPPED, words, of_it, delta)


def with_printed_noise(rounds: int, epsilon: Any, delta: Any) -> AcceleratedDPSRGD:
    """Algorithm 1, clipped at C = 4 L, with Corollary 5.7's noise as printed for C."""
    multiplier = Reading.AS_PRINTED.multiplier(Fraction(rounds), Fraction(epsilon), Fraction(delta))
    batch = SIZE // rounds
    return accelerated(noised(rounds, batch, 4 * SMOOTHNESS, 4 * LIPSCHITZ, multiplier))


def _outcomes(letters: str) -> tuple[str, ...]:
    """R: refuted; P: proved; in the order of ``readings``."""
    return tuple({"R": "refuted", "P": "proved"}[letter] for letter in letters)


accelerated_dp_srgd_corollary_5_7 = entry(
    "accelerated_dp_srgd_corollary_5_7",
    "Accelerated-DP-SRGD, noise as printed, 32 rounds, epsilon = 1",
    with_printed_noise(32, EPSILON, DELTA),
    readings(32, EPSILON, DELTA),
    CLIPPED,
    _outcomes("RRRPPPPR"),
    ATTAINED,
)


FAR = (
    "its norm bounds a row's weighted difference for any two points of the ball; consecutive "
    "iterates are close, and no generated record moved a prefix sum by a fifth of that norm"
)
MANY_ROUNDS = "its constants give more rounds than can be run"


def _elsewhere(
    name: str, rounds: int, epsilon: str, outcomes: str, unexamined: str = ""
) -> Mechanism:
    """Corollary 5.7 at another (T, epsilon), accounted for."""
    return declared_only(
        f"accelerated_dp_srgd_corollary_5_7_{name}",
        f"Accelerated-DP-SRGD, noise as printed, {rounds} rounds, epsilon = {epsilon}",
        with_printed_noise(rounds, epsilon, DELTA),
        readings(rounds, epsilon, DELTA),
        CLIPPED,
        _outcomes(outcomes),
        ATTAINED,
        unexamined,
    )


# At so small an epsilon the slack of the classical conversion pays for what the noise lacks.
accelerated_dp_srgd_corollary_5_7_small_epsilon = _elsewhere(
    "small_epsilon", 32, "0.05", "PRPPPPPR"
)
# With sqrt 2 alone restored: proved in 32 rounds at epsilon 1 and .05, refuted in both of these.
accelerated_dp_srgd_corollary_5_7_two_rounds = _elsewhere("two_rounds", 2, "1", "RRRRPPPR", FAR)
accelerated_dp_srgd_corollary_5_7_large_epsilon = _elsewhere("large_epsilon", 1024, "8", "RRRRPRPR")

# --- Theorem 5.12 ---------------------------------------------------------------------------------

LITERAL = theorem_5_12(
    SIZE, 127, EPSILON, DELTA, lipschitz=LIPSCHITZ, smoothness=SMOOTHNESS, radius=RADIUS
)
accelerated_dp_srgd_theorem_5_12 = entry(
    "accelerated_dp_srgd_theorem_5_12",
    "Accelerated-DP-SRGD, constants of Theorem 5.12, clipped",
    accelerated(LITERAL),
    (
        stated(
            "constants of Theorem 5.12 with a clip added",
            "clipped at (8 c_M + 4) L: any losses",
            source=OURS,
        ),
    ),
    "Theorem 5.12",
    unexamined=FAR,
)


def _literal_rows() -> WorstCase:
    """C* <= (8 c_M + 4) L outside ||b_t|| > b_max = (2 c_M + 1) L / M: Corollary 5.10, repaired."""
    conditions = Conditions(
        lipschitz=LIPSCHITZ,
        smoothness=SMOOTHNESS,
        diameter=Fraction(2 * RADIUS),
        beta=LITERAL.beta,
        rounds=LITERAL.rounds,
        dimension=FEATURES,
    )
    largest = (2 * SMOOTHNESS * RADIUS + LIPSCHITZ) / SMOOTHNESS
    bound = srg_sensitivity_of(conditions, sigma=LITERAL.sigma, noise_bound=largest)
    return WorstCase.of(bound, status=Status.ENFORCED, evidence=REGULAR, norm=LITERAL.clip)


accelerated_dp_srgd_theorem_5_12_unclipped = entry(
    "accelerated_dp_srgd_theorem_5_12_unclipped",
    "Accelerated-DP-SRGD, constants of Theorem 5.12, as printed: nothing is clipped",
    accelerated(LITERAL, rows=_literal_rows()),
    (stated("Theorem 5.12", "as printed: no clip, a noise event that is paid for"),),
    "Theorem 5.12",
)

# --- Theorem 5.8: delta = 1/n, L = R = M = 1, p = 100 ---------------------------------------------

DIMENSION = 100
REALISTIC, ASYMPTOTIC = 10**10, 10**36


def equation_19(
    size: int, rows: Callable[[Constants, int], RowBound] | None = None
) -> AcceleratedDPSRGD:
    """Theorem 5.8's program, clipped at c_DP L unless the rows are bounded by something else."""
    constants = theorem_5_8(size, DIMENSION, EPSILON, Fraction(1, size))
    bound = None if rows is None else rows(constants, size)
    loss = BoundedLogistic(norm=1.0)
    return AcceleratedDPSRGD(of_constants(constants, loss, DIMENSION, size, rows=bound), radius=1.0)


def _worst_case(constants: Constants, size: int) -> WorstCase:
    one = Fraction(1)
    conditions = Conditions(one, one, 2 * one, constants.beta, constants.rounds, DIMENSION)
    bound = srg_sensitivity_of(conditions, sigma=constants.sigma, noise_bound=one / 2)
    return WorstCase.of(bound)


def _iid(constants: Constants, size: int) -> OfIidData:
    return OfIidData.of(srg_sensitivity_iid_claim(size, Fraction(1, size)))


accelerated_dp_srgd_theorem_5_8 = declared_only(
    "accelerated_dp_srgd_theorem_5_8",
    "Accelerated-DP-SRGD, constants of Theorem 5.8 at n = 10^10: worst-case sensitivity",
    equation_19(REALISTIC, _worst_case),
    (
        stated(
            "Theorem 5.8",
            "L-Lipschitz M-smooth losses and any data, by Lemma 5.9 in place of its own argument",
            delta=Fraction(1, REALISTIC),
        ),
    ),
    "Theorem 5.8",
    unexamined=MANY_ROUNDS,
)
# Here beta < M T: Lemma 5.5, which speaks of i.i.d. data, is the only argument there is.
accelerated_dp_srgd_theorem_5_8_iid = declared_only(
    "accelerated_dp_srgd_theorem_5_8_iid",
    "Accelerated-DP-SRGD, constants of Theorem 5.8 at n = 10^36: i.i.d. data",
    equation_19(ASYMPTOTIC, _iid),
    (
        stated(
            "Theorem 5.8",
            "as printed: nothing is clipped, Lemma 5.5 on i.i.d. data",
            delta=Fraction(1, ASYMPTOTIC),
        ),
    ),
    "Theorem 5.8",
    ("unproved",),
    unexamined=MANY_ROUNDS,
)
accelerated_dp_srgd_corollary_5_7_equation_19 = declared_only(
    "accelerated_dp_srgd_corollary_5_7_equation_19",
    "Accelerated-DP-SRGD, clipped at c_DP L, constants of Equation 19 at n = 10^10",
    equation_19(REALISTIC),
    (stated(CLIPPED, Reading.AS_PRINTED.value, delta=Fraction(1, REALISTIC)),),
    CLIPPED,
    ("refuted",),
    ATTAINED,
    MANY_ROUNDS,
)
