"""400 schedules of Laplace noise with random scales a + b i: epsilons below a round's own"""

import random
from fractions import Fraction

import sympy
from shared import CENTRAL, INDEX, dp


def probe() -> str:
    rng = random.Random(1)  # noqa: S311
    accepted = below = 0
    for _ in range(400):
        rounds = rng.randint(1, 8)
        slope = rng.choice((-1, 1)) * Fraction(rng.randint(1, 8), 4)
        start = Fraction(rng.randint(-60, 60), 7)
        scales = [start + slope * k for k in range(1, rounds + 1)]
        try:
            scale = sympy.Rational(str(start)) + sympy.Rational(str(slope)) * INDEX
            noise = dp.Repeat(dp.Laplace("x", scale), rounds, INDEX)
            found = dp.account(noise, CENTRAL).step("pure").value
        except dp.DpauditError:
            continue
        accepted += 1
        below += bool(found < max((1 / scale for scale in scales if scale > 0), default=0))
    return f"{accepted} accepted, {below} of them below a round of theirs"
