"""What the paper claims, and which checks of which experiment decide it."""

from lab.papers import Paper, Statement

USER_LEVEL = Paper(
    "user_level",
    "User-level convex optimisation (Lowy, Liu and Asi 2024)",
    (
        Statement(
            "Theorem 2.1",
            "Algorithm 1's excess risk falls as 1/sqrt(n m) + sqrt(d)/(eps n sqrt m)",
            "user_level_risk",
            ("Algorithm 1: slope", "Algorithm 1: risk", "Algorithm 1, epsilon = 8, n"),
        ),
        Statement(
            "Figure 1",
            "gradient complexities' exponents in n and m",
            "user_level_costs",
            (
                "BS23",
                "AL24, smooth: exponent",
                "Algorithm 3: exponent",
                "Algorithm 1: exponent",
                "Algorithm 3, smoothed: exponent",
            ),
        ),
        Statement(
            "Theorem 2.1",
            "Algorithm 1 takes at most n m gradients",
            "user_level_costs",
            ("Algorithm 1: counted", "Algorithm 1: evaluations"),
        ),
        Statement(
            "Theorem 3.2",
            "Algorithm 3 takes about (n m)^(9/8) gradients, here on secret batches",
            "user_level_costs",
            ("Algorithm 3 on secret batches",),
        ),
        Statement(
            "Theorems 2.1 and 3.1",
            "n users of m items each; unequal numbers m_i",
            why=(
                "no theorem of the paper covers them: tau, steps and Figure 1 are made of one m. "
                "Algorithms 2 and 3 run on them (`UnequalProblem`: a user's gradient is the mean "
                "over the items it has, so that every user weighs 1 / n), with the guarantee of "
                "equal ones and no utility shown; Algorithm 1 makes no step at an item that a user "
                "has not; restarts refuse them by name"
            ),
        ),
        Statement(
            "Section 2.1",
            "i.i.d. users are not halted, and no group of theirs is removed",
            "user_level_outliers",
            ("i.i.d. users",),
        ),
        Statement(
            "Section 2.1",
            "groups of another kind are removed, or the run halts",
            "user_level_outliers",
            ("1% of", "5% of", "20% of"),
        ),
        Statement(
            "Theorem 3.2, footnote 2",
            "Algorithm 3 needs sqrt(m) less noise than group privacy",
            "user_level_noise",
            ("noise at the largest m",),
        ),
        Statement(
            "Lemma 2.3",
            "two groups' averages drift apart as eta L sqrt T",
            "user_level_stability",
            ("linear loss", "quadratic loss"),
        ),
        Statement(
            "Lemma D.1",
            "smoothing moves values by at most L r, and never down",
            "user_level_smoothing",
            ("least", "largest", "most standard"),
        ),
        Statement(
            "Theorem 3.2",
            "Algorithm 3's excess risk falls with users",
            "user_level_phased",
            ("half the squared distance, all users",),
        ),
        Statement(
            "Theorem 3.2",
            "the same on secret batches K < n",
            "user_level_phased",
            ("half the squared distance, secret",),
        ),
        Statement(
            "Theorem 4.1",
            "the excess risk on a loss that is not smooth falls with users",
            "user_level_phased",
            ("the distance, smoothed",),
        ),
    ),
    setting=(
        "The paper has no experiments. Items are signs over sqrt d; calibrated constants unless"
        " said otherwise."
    ),
)
