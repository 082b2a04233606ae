"""What the paper claims, and which checks of which experiment decide it."""

from collections.abc import Iterator

from experiments.kl.contest import BASELINES, LIMITS, LOOK, PAPERS, SETTINGS, TOO_LONG
from experiments.lab.papers import Agreement, Paper, Statement
from experiments.lab.protocol import FULL_BATCH

ENDLESS = (
    "the loss has its infimum at infinity: one long step walks there whatever the noise, so that "
    "a search over step lengths has no end; kl_spider and kl_adaptive measure its rate"
)


def ahead() -> Iterator[Statement]:
    """Who is ahead where every method was searched alike: the paper compares rates alone."""
    for ours in PAPERS:
        for name, setting in SETTINGS.items():
            if ours not in setting.methods:
                continue
            for other in (m for m in BASELINES if m in setting.methods):
                before = [f"{ours}: its mean is at most that of every baseline"]
                if name == "two":
                    known = "WYX17" if other == FULL_BATCH else other
                    before = [f"{ours}'s mean excess is at most that of {known}"]
                yield Statement(
                    f"ours, {setting.title}",
                    f"{ours}: its mean is at most that of {other} at every n",
                    "kl_contest",
                    (f"{setting.title}, {ours} over {other}",),
                    before=tuple(before),
                )
        if ours in SETTINGS["three_halves"].methods:
            yield Statement(
                "ours, kappa = 1: exp(-w_1), d = 10",
                f"{ours}: its mean is at most that of every baseline at every n",
                why=ENDLESS,
            )


def learnt() -> Iterator[Statement]:
    """Who ends below its start, a method a statement."""
    for method in (*PAPERS, *BASELINES):
        own = [setting for setting in SETTINGS.values() if method in setting.methods]
        yield Statement(
            "ours, in every setting",
            f"{method}, searched, ends below its start at every n",
            "kl_contest",
            tuple(f"{setting.title}, {method} searched, n = " for setting in own),
            before=(f"{'WYX17' if method == FULL_BATCH else method} ends below its start",),
        )


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
            "KL-Spider falls as n^-2 but for logarithms with its constants searched",
            "kl_contest",
            ("kappa = 2: ||w||^2 / 2, d = 10, KL-Spider searched: log-log",),
            before=("KL-Spider and WYX17 have the same rate",),
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
            "no private algorithm is below the hard pair's bound",
            why=(
                "no valid run can be below, and runs of one algorithm do not show it of all; the "
                "proximal point method's excess at n = 60 stands beside it in kl_proximal"
            ),
        ),
        Statement(
            "Corollary 1, Theorems 6 and 7",
            "lower bounds: no private algorithm has a better rate in n, d and rho",
            why="as for Theorem 8: runs of one algorithm say nothing of all; Corollary 1's slope "
            "is drawn beside kl_spider's",
        ),
        Statement(
            "Theorems 1, 2 and 4",
            "the excess as a function of d and rho",
            why="rho = 1 throughout, and two dimensions at most are run: only n is varied",
        ),
        Statement(
            "Theorem 9",
            "Algorithm 4 on its own: excess L0^2 d / (L1 n^2 rho) of a strongly convex loss",
            why="it is run inside the proximal point method alone, whose excess is measured",
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
            "a stationary point is found: at n = 10,000,000 the norm is below that at the start",
            "kl_stationary",
            ("exponential mechanism, n = 10,000,000:", "least noisy norm, n = 10,000,000:"),
        ),
        Statement(
            "Theorem 5",
            "the gradient norm falls with n^-1/2 at least, where runs get inside: from n = 300,000 "
            "on, a cut made after a look at who does",
            "kl_stationary",
            ("exponential mechanism: log-log slope", "least noisy norm: log-log slope"),
        ),
        Statement(
            "Theorem 5",
            "Algorithm 3 and the selection are 2 rho-zCDP",
            why="privacy is for certificates: of Algorithm 3 as printed under Theorem 3, of the "
            "selection after the corrected one `select_stationary_iterate`",
        ),
        Statement(
            "ours, beside Theorem 5",
            "the point selected has a smaller gradient than the start at every n, from 100,000 on",
            "kl_stationary",
            ("exponential mechanism, n = ", "least noisy norm, n = "),
        ),
        Statement(
            "ours, beside Theorem 5",
            "the free selection ends at no more than twice the norm of the private one",
            "kl_stationary",
            ("least noisy norm over exponential mechanism",),
        ),
        *ahead(),
        *learnt(),
    ),
    setting=(
        "The paper has no experiments. All records are equal: only the noise falls with n; rho "
        "= 1, beta = .05, replace-one. What is marked ours is not in the paper: who is ahead at "
        f"these sizes, and who learns at all. In kl_contest {LOOK}; "
        f"{LIMITS}. {TOO_LONG}."
    ),
)
