"""What the paper claims, and which checks of which experiment decide it."""

from lab.papers import Agreement, Paper, Statement

KL = Paper(
    "kl",
    "Minimisation under the KL condition (Menart et al. 2023)",
    (
        Statement(
            "Theorem 1",
            "Algorithm 1 (repaired): excess falls as n^-kappa, kappa = 1, 1.5, 2",
            "kl_spider",
            ("kappa = 1: log-log", "kappa = 1.5: log-log", "kappa = 2: log-log"),
        ),
        Statement(
            "Theorem 1",
            "Phi_K bounds the excess with probability 1 - beta",
            "kl_spider",
            ("kappa = 1: share", "kappa = 1.5: share", "kappa = 2: share"),
        ),
        Statement(
            "Algorithm 1, line 10",
            "the loop as printed ends below Phi_K",
            "kl_loop",
            ("printed loop",),
            held=Agreement.DOES_NOT,
        ),
        Statement(
            "Algorithm 1, repaired loop",
            "Phi_K bounds the excess with probability 1 - beta",
            "kl_loop",
            ("repaired loop",),
        ),
        Statement(
            "Theorem 1, kappa = 2 (PL)",
            "KL-Spider and WYX17 have the same rate, n^-2 but for logarithms",
            "kl_baselines",
            ("KL-Spider: log-log", "WYX17: log-log"),
        ),
        Statement(
            "Theorem 2",
            "the proximal point method at kappa = 2: n^-2",
            "kl_proximal",
            ("kappa = 2, d = 1: log-log", "kappa = 2, d = 10: log-log"),
        ),
        Statement(
            "Theorem 2",
            "the proximal point method at kappa = 4: n^-4 but for logarithms",
            "kl_proximal",
            ("kappa = 4, d = 1: log-log",),
        ),
        Statement(
            "Theorem 8",
            "no algorithm is below the hard pair's bound",
            "kl_proximal",
            ("hard pair",),
        ),
        Statement(
            "Theorem 4",
            "adaptive noisy GD (corrected) falls as n^-2 kappa / (4 - kappa) in high dimension",
            "kl_adaptive",
            ("kappa = 1.2, d = 3000", "kappa = 1.5, d = 3000", "kappa = 2, d = 3000"),
        ),
        Statement(
            "Algorithm 3",
            "charged as printed, no run spends more than rho",
            "kl_adaptive",
            ("as printed, signed norm: the most",),
            held=Agreement.DOES_NOT,
        ),
        Statement(
            "Theorem 3, read of w_0 to w_T alone",
            "Algorithm 3 with signed norms is rho-zCDP where only the points are released",
            "kl_reading",
            ("signed norms",),
            held=Agreement.DOES_NOT,
        ),
        Statement(
            "Theorem 5",
            "the gradient norm of the point selected is below the bound of its proof",
            "kl_stationary",
            ("exponential mechanism: largest", "least noisy norm: largest"),
        ),
        Statement(
            "Theorem 5",
            "a stationary point is found: at the largest n the norm is below that at the start",
            "kl_stationary",
            ("exponential mechanism, n = 10,000,000:", "least noisy norm, n = 10,000,000:"),
        ),
        Statement(
            "Theorem 5",
            "the gradient norm falls with n^-1/2 at least, where runs get inside at all",
            "kl_stationary",
            ("exponential mechanism: log-log slope", "least noisy norm: log-log slope"),
        ),
    ),
    setting=(
        "The paper has no experiments. All records are equal: only the noise falls with n; rho "
        "= 1, beta = .05, replace-one."
    ),
)
