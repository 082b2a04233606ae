"""What the paper claims, and which checks of which experiment decide it."""

from lab.papers import Paper, Statement

SRGD = Paper(
    "srgd",
    "Accelerated-DP-SRGD (Choquette-Choo, Ganesh and Thakurta 2024)",
    (
        Statement(
            "Theorems 5.8, 5.12",
            "excess risk within a constant of L R (1/sqrt n + sqrt(p ln(1/delta)) / (eps n))",
            "srgd_risk",
            ("constrained tree: excess", "unconstrained tree: excess"),
        ),
        Statement(
            "Theorem 5.8",
            "excess risk falls at least as n^-1/2",
            "srgd_risk",
            ("constrained tree: log-log", "unconstrained tree: log-log"),
        ),
        Statement(
            "Section 4 (our question)",
            "noise on a tree is at least 1.2 times worse than other factorisations",
            "srgd_risk",
            ("excess risk at n = 16384: constrained tree",),
        ),
        Statement(
            "Lemma 5.3",
            "the recursive estimate's error falls as (t + 1)^-1/2",
            "srgd_estimator",
            ("recursive estimate",),
        ),
        Statement(
            "Algorithm 1",
            "without noise the gap falls as T^-1 where gradient descent has T^-1/2",
            "srgd_acceleration",
            ("eta", "gradient descent"),
        ),
        Statement(
            "Table 1",
            "2n gradients in n^1/4 or n^1/2 batch steps",
            "srgd_costs",
            ("ours",),
        ),
        Statement(
            "Table 1",
            "the baselines' gradients as their formulas",
            "srgd_costs",
            ("FKT20", "ZTC22"),
        ),
        Statement(
            "Section 1",
            (
                "fewer batch-gradient steps than the baselines at the same risk; plain one-pass"
                " DP-SGD is not among them in the paper"
            ),
            "srgd_one_pass",
            ("excess risk at n",),
        ),
        Statement(
            "Section 4.3",
            "acceleration matters where steps are few: risk with it over without",
            "srgd_one_pass",
            ("acceleration in 8 steps",),
        ),
    ),
    setting=(
        "Synthetic logistic regression with a known population risk, (1, 1e-6)-DP under zero_out."
    ),
)
