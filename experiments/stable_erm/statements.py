"""What the paper claims, and which checks of which experiment decide it."""

from lab.papers import Paper, Statement

STABLE = Paper(
    "stable",
    "Stable-subset output perturbation (Ghazi et al. 2023)",
    (
        Statement(
            "Theorem 3.6",
            "the deletion sensitivity of i.i.d. users falls as 1/(n sqrt m)",
            "stable_sensitivity",
            ("slope in items", "slope in users"),
        ),
        Statement(
            "Corollary 3.7",
            "the same on the rows of data",
            "stable_sensitivity",
            ("slope in rows",),
        ),
        Statement(
            "Theorem 3.1",
            "nothing is released where users are not stable, almost never where they are",
            "stable_sensitivity",
            ("bottoms",),
        ),
        Statement(
            "Theorem 3.1",
            "excess risk falls as 1/m, that of output perturbation not at all",
            "stable_risk",
            (
                "Algorithm 1, constants as printed (c1): slope in m",
                "output perturbation: slope in m",
            ),
        ),
        Statement(
            "Theorem 3.1",
            "excess risk falls as n^-2",
            "stable_risk",
            ("Algorithm 1, constants as printed (c1): slope in n",),
        ),
        Statement(
            "Theorems 4.1, 4.3, 5.1, 5.3, Table 1",
            "rates of the convex, strongly convex and phased algorithms in d dimensions",
            why="no experiment measures it",
        ),
        Statement(
            "Section 6",
            "a polynomial-time version on data with m > 1, d > 1",
            why="no experiment measures it",
        ),
    ),
    setting=(
        "The paper has no experiments. Halved squared distance in one dimension, user means of "
        "m standard normal items."
    ),
)
