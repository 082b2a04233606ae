"""What the paper claims, and which checks of which experiment decide it."""

from experiments.diff2 import contest, local, network
from experiments.lab.model import Size
from experiments.lab.papers import Paper, Statement

# Of the specification that the experiments were built to, in its words; what is ours is said.
BANDS = {
    "E3": '"Accept -1+-.02, -1.333+-.02. Values at N=1e4: 4.942e-3 (R=394) vs 7.26e-4"; to '
    "1%, ours",
    "E4": '"Accept DP-GD in [-1.1,-.9], DIFF2 in [-1.45,-1.15], ratio < .6 at 1e5, and measured <= '
    "bound always\"; the ratio is judged by E8's contest, whose searches are alike",
    "E5": '"Report both calibrations side by side; it is free utility at the same guarantee"; .95 '
    "ours, above the ratios of .67 to .79 that it states",
    "E7": '"sawtooth, reset at restarts. Sweep T at fixed eps: U-shape in the final gradient '
    'norm"; its ends ours',
    "E1": '"E||v~_r - grad f(x_{r-1})||^2 = sigma_1^2C1^2 d + sigma_2^2 d * sum_{block} E '
    "C_{2,r'}^2\"",
    "Table 1": 'gradients "N + N^2 eps / sqrt(d)" and "N + N^(7/3) eps^(4/3) / d^(2/3)", rounds '
    "these over N (our copy of DP-GD's is garbled); .1 ours",
    "Proposition 4.1": '"is sufficient to guarantee (eps_DP, delta_DP)", "n_min := min{n_p}"',
    "E8": '"P=1,K>1,sigma=0,b=n reproduces K*R GD steps [...] eps from 4.2 tree printed for each '
    'client with c_p"; to 1e-10 as E2, "for every T to 1e-10 (telescoping)"; that no client\'s is '
    "above epsilon is Proposition 5.1",
}


def of_contest(measure: str, preparation: str, other: str = "full-batch") -> tuple[str, ...]:
    """The checks of a metric against a baseline, on rows that were prepared so."""
    rounds = contest.ROUNDS[Size.FULL]
    return tuple(
        f"{measure}, {contest.named(data, own, epsilon, rounds)}: DIFF2-GD over {other}"
        for data, own, epsilon in contest.INSTANCES
        if own == preparation
    )


SAVES = ("utility: squared gradient norm, DIFF2-BVR-L-SGD over DIFF2-GD", "rounds:", "gradients:")
PREPARED = (
    "on data prepared as the paper prepares them, by their own mean, deviation and largest target "
    "(not private, and declared so)"
)
# How earlier statements began of each metric, whose questions are asked anew.
PUBLIC = (
    ("DIFF2-GD has the lower training loss than DP-GD", "the lower training loss at R = 2,000"),
    ("and the lower squared gradient norm, each",),
    ("and the lower test loss, at", "and the lower test loss, in the same runs; gradient"),
)
PREPARED_BEFORE = (
    ("DIFF2-GD has the lower training loss on data prepared",),
    ("and the lower squared gradient norm, in",),
    ("and the lower test loss, in the same runs",),
)
ALIKE = (
    "the paper's R is 2,000, here R = 120; every method searched in at most "
    f"{contest.PROTOCOL.budget} settings under seeds that judge nothing"
)

DIFF2 = Paper(
    "diff2",
    "DIFF2 (Murata and Suzuki 2023)",
    (
        Statement(
            "Proposition D.2 (proof)",
            "the estimate's mean squared error is the noise since the last restart: ratio 1",
            "diff2_identity",
            ("T=4", "T=6"),
        ),
        Statement(
            "Section 4",
            "errors accumulate within a block and reset at a restart",
            "diff2_blocks",
            ("error after a restart", "T=6", "T=20", "T=60", "T=200"),
        ),
        Statement(
            "Section 4",
            "the best restart interval T is neither 1 nor all rounds",
            "diff2_blocks",
            ("squared gradient norm, T",),
        ),
        Statement(
            "Table 1",
            "squared gradient norm of DP-GD falls as N^-1",
            "diff2_slopes",
            ("DP-GD: log-log slope of the measured",),
        ),
        Statement(
            "Table 1, Theorem 4.3",
            "squared gradient norm of DIFF2-GD falls as N^-4/3",
            "diff2_slopes",
            ("DIFF2-GD: log-log slope of the measured",),
        ),
        Statement(
            "Theorem 4.3",
            "the bound is one: no measured value above it",
            "diff2_slopes",
            ("measured over bound",),
        ),
        Statement(
            "Theorem 4.3",
            "the bounds' slopes are -1 and -4/3",
            "diff2_bounds",
            ("DP-GD: log-log", "DIFF2-GD: log-log"),
        ),
        Statement(
            "Table 1",
            "gradients N^2 and N^7/3, rounds N and N^4/3",
            "diff2_costs",
            ("DP-GD: log-log", "DIFF2-GD: log-log"),
        ),
        Statement(
            "Table 1, Theorem 4.3",
            "the same as functions of d and epsilon, upper bounds: d^(1/2) / epsilon and d^(2/3) / "
            "epsilon^(4/3); at N = 10,000, no steeper in d and no flatter in epsilon",
            "diff2_dimensions",
            ("DP-GD: log-log", "DIFF2-GD: log-log"),
        ),
        Statement(
            "Table 1",
            "utility and costs of DP-SGD, SRN-SGD and DP-SRM",
            why=(
                "other papers' algorithms, of which this one prints rates alone: our "
                "reconstructions run the rounds of the formulas, whose counts (diff2_costs) decide "
                "nothing, and no utility of theirs is measured"
            ),
        ),
        Statement(
            "Proposition 4.1",
            "every client's records have (epsilon, delta), whatever the clients' sizes: five of "
            "100 to 1,600 records, epsilon 1, 3 and 5",
            "diff2_clients",
            ("epsilon = 1: largest", "epsilon = 3: largest", "epsilon = 5: largest"),
        ),
        *(
            Statement(
                "Section 6, Figure 1",
                f"DIFF2-GD has the lower {measure} than DP-GD {rows}; {ALIKE}",
                "diff2_contest",
                of_contest(measure, preparation),
                before=before,
            )
            for preparation, rows, asked in (
                (
                    network.PUBLIC,
                    "on data mapped by public bounds: RAND at epsilon 3, Friedman's function at 5",
                    PUBLIC,
                ),
                (
                    network.PAPER,
                    f"{PREPARED}: RAND at epsilon 5, Friedman's function at 3",
                    PREPARED_BEFORE,
                ),
            )
            for measure, before in zip(contest.MEASURES, asked, strict=True)
        ),
        Statement(
            "Section 6, ours",
            "DIFF2-GD has no larger training loss than one-pass DP-SGD, which the paper leaves out",
            "diff2_contest",
            of_contest("training loss", network.PUBLIC, "one-pass")
            + of_contest("training loss", network.PAPER, "one-pass"),
        ),
        Statement(
            "Section 5",
            "BVR-L-SGD as routine: one client a round, local noise within epsilon",
            "diff2_local",
            ("largest epsilon",),
        ),
        Statement(
            "Section 5, Table 1",
            "local steps save rounds: with K = b = sqrt(N) BVR-L-SGD has the lower squared "
            "gradient norm after as many, R = 20 (N / 1024)^(5/6)",
            "diff2_local",
            tuple(
                f"N = {n:,}, utility: squared gradient norm, DIFF2-BVR-L-SGD over equal"
                for n in local.SIZES[Size.FULL]
            ),
            before=("local steps save rounds",),
        ),
        Statement(
            "Theorem 5.3, Table 1, Remark 5.5",
            "and DIFF2-GD's utility, its rounds searched, at fewer rounds and gradients; by the "
            "least noise, as the printed one of its local steps asks for sqrt(N) of 1.5 P alpha^2 "
            "at least (Proposition E.2, resolved for b): N = 59,049 at two clients and epsilon = 3",
            "diff2_local",
            tuple(f"N = {n:,}, {what}" for n in local.SIZES[Size.FULL] for what in SAVES),
            before=("with K = b = sqrt(N)",),
        ),
        Statement(
            "Theorem 5.3, Table 1",
            "the squared gradient norm of BVR-L-SGD with K = b = sqrt(N) falls as N^-4/3",
            "diff2_local",
            ("DIFF2-BVR-L-SGD: log-log slope",),
        ),
        Statement(
            "Section 4, Table 1",
            "DIFF2-GD's squared gradient norm is below DP-GD's, every method searched: two "
            "clients, N = 1,024 to 4,096",
            "diff2_local",
            tuple(
                f"N = {n:,}, utility: squared gradient norm, DIFF2-GD over full-batch"
                for n in local.SIZES[Size.FULL]
            ),
            before=("DIFF2-GD is ahead of DP-GD at large N",),
        ),
        Statement(
            "Section 5",
            "BVR-L-SGD without noise, on whole batches, is K R gradient steps",
            "diff2_local",
            ("distance of noise-free",),
        ),
        Statement(
            "Section 6, Figure 1",
            "the paper's own curves beside ours",
            why="they are drawings, whose numbers the paper's text does not give",
        ),
        Statement(
            "Section 6",
            "California, Gas, Blog, Cover Type and KDD data",
            why="the data are not shipped: `experiments/diff2/data.py` loads a user's files",
        ),
    ),
    setting=(
        "Bounds and slopes on nonconvex logistic regression, rows replicated so that the "
        "objective stays; figures of the network on the RAND data and on Friedman's function."
    ),
    bands=BANDS,
)
