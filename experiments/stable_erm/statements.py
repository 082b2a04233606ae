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
            "Theorem 4.1, Table 1",
            "Algorithm 3: excess R G sqrt(d) / (n sqrt(m)) of convex losses, up to logarithms",
            "stable_rates",
            ("Algorithm 3, convex ERM: slope in",),
        ),
        Statement(
            "Theorem 4.3, Table 1",
            "Algorithm 5: excess G^2 d / (mu n^2 m) of strongly convex losses, up to logarithms",
            why="runs at the printed noise need m = 1e22, where floats round as much as a unit",
        ),
        Statement(
            "Theorem 5.1, Table 1",
            "Algorithm 4: excess R G (sqrt(d) / (n sqrt(m)) + 1 / sqrt(n m)), up to logarithms",
            "stable_rates",
            ("Algorithm 4, convex SCO: slope in",),
        ),
        Statement(
            "Theorem 5.3, Table 1",
            "Algorithm 6: excess risk G^2 / mu (d / (n^2 m) + 1 / (n m)), up to logarithms",
            "stable_rates",
            ("Algorithm 6, strongly convex SCO: slope in",),
        ),
        Statement(
            "Appendix C",
            "polynomial time with high probability, m > 1, d > 1, a loss that is not smooth",
            "stable_rates",
            tuple(
                f"{name}: least share of phases"
                for name in (
                    "Algorithm 3, convex ERM",
                    "Algorithm 4, convex SCO",
                    "Algorithm 5, strongly convex ERM",
                    "Algorithm 6, strongly convex SCO",
                )
            ),
        ),
        Statement(
            "Appendix C",
            "the same for the hinge loss on real rows, T = ceil(log2 nm), constants as printed",
            "stable_data",
            tuple(
                f"{name}: least share of phases"
                for name in (
                    "Algorithm 3, convex ERM",
                    "Algorithm 4, convex SCO",
                    "Algorithm 5, strongly convex ERM",
                    "Algorithm 6, strongly convex SCO",
                )
            ),
        ),
        Statement(
            "Section 6",
            "whether an algorithm is polynomial on every data set is left open",
            why="open: a certificate that fails is followed by an enumeration",
        ),
    ),
    setting=(
        "The paper has no experiments. Halved squared distance in one dimension, user means of "
        "m standard normal items; rates of Algorithms 3 to 6 in d dimensions, on a distance that "
        "is not smooth, counts of m items."
    ),
)
