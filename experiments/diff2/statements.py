"""What the paper claims, and which checks of which experiment decide it."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from experiments.diff2 import network, search
from experiments.lab.fits import mean_and_error
from experiments.lab.learning import Learnt
from experiments.lab.model import Check, Results
from experiments.lab.papers import Paper, Statement

# Of the specification that the experiments were built to, in its words; what is ours is said.
BANDS = {
    "E3": '"Accept -1+-.02, -1.333+-.02. Values at N=1e4: 4.942e-3 (R=394) vs 7.26e-4"; to '
    "1%, ours",
    "E4": '"Accept DP-GD in [-1.1,-.9], DIFF2 in [-1.45,-1.15], ratio < .6 at 1e5, and measured <= '
    'bound always"',
    "E5": '"Report both calibrations side by side; it is free utility at the same guarantee"; .95 '
    "ours, above the ratios of .67 to .79 that it states",
    "E6": '"protocol runs, ledger eps equal for both methods, results reported as found"; that no '
    "run spends more than it may is Proposition 4.1",
    "E7": '"sawtooth, reset at restarts. Sweep T at fixed eps: U-shape in the final gradient '
    'norm"; its ends ours',
    "E1": '"E||v~_r - grad f(x_{r-1})||^2 = sigma_1^2C1^2 d + sigma_2^2 d * sum_{block} E '
    "C_{2,r'}^2\"",
    "Table 1": 'gradients "N + N^2 eps / sqrt(d)" and "N + N^(7/3) eps^(4/3) / d^(2/3)", rounds '
    "these over N (our copy of DP-GD's is garbled); .1 ours",
    "Proposition 4.1": '"is sufficient to guarantee (eps_DP, delta_DP)", "n_min := min{n_p}"',
    "E8": '"P=1,K>1,sigma=0,b=n reproduces K*R GD steps [...] eps from 4.2 tree printed for each '
    'client with c_p"; to 1e-10 as E2, "for every T to 1e-10 (telescoping)"; that no client\'s is '
    "above epsilon is Proposition 5.1, and zeta Assumption 5.2",
}


def every_setting(results: Results) -> Sequence[Learnt]:
    """All settings of the search beside what they began with: the one taken is named."""
    best, rows = search.taken(results), []
    for setting, own in search.of_settings(results).items():
        loss, error = mean_and_error([r.number("loss") for r in own])
        start = mean_and_error([r.number("start") for r in own])[0]
        taken = ", which is taken" if setting == best else ""
        rows.append(Learnt(f"DIFF2-GD, {search.named(setting)}{taken}", loss, start, error))
    return rows


OTHERS = {"gradient": "squared gradient norm", "test": "test loss"}
QUOTED = (
    'Section 6: "DIFF2-GD consistently outperformed DP-GD at the final learning rounds for each '
    'metric"'
)
EACH = f"{QUOTED}; asked after the means had been seen"
BEFORE = f"{QUOTED}; asked before these runs"


def other_metrics(results: Results, source: str = EACH) -> Sequence[Check]:
    """The paper's other two metrics at its epsilons: the mean of DIFF2-GD over that of DP-GD."""
    return [
        _below(
            results.where(data=data, epsilon=epsilon),
            measure,
            f", {data}, epsilon = {epsilon}",
            source,
        )
        for measure in OTHERS
        for data in results.parameters("data")
        for epsilon in results.parameters("epsilon")
        if epsilon in network.PRINTED
    ]


def test_loss(results: Results) -> Sequence[Check]:
    """The one of them that ``diff2_rounds`` measures."""
    return [_below(results, "test", "", EACH)]


def _below(results: Results, measure: str, at: str, source: str) -> Check:
    ours, theirs = (
        np.array([r.number(measure) for r in results.where(method=m)]) for m in ("diff2", "dp_gd")
    )
    mean, error = mean_and_error((ours - theirs).tolist())
    whole = float(theirs.mean())
    name = f"{OTHERS[measure]}{at}: mean of DIFF2-GD over that of DP-GD"
    return Check(name, 1 + mean / whole, upper=1.0, margin=2 * error / whole, source=source)


def of_each(measure: str) -> tuple[str, ...]:
    """The checks of a metric on both data sets at the paper's epsilons."""
    return tuple(
        f"{measure}, {data}, epsilon = {epsilon}:"
        for data in ("randhie", "friedman1")
        for epsilon in network.PRINTED
    )


PREPARED = (
    "on data prepared as the paper prepares them, by their own mean, deviation and largest target "
    "(not private, and declared so); epsilon 3, eight seeds, R = 120, 24 settings against 2"
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
            "Section 4",
            "DIFF2-GD is ahead of DP-GD at large N",
            "diff2_slopes",
            ("DIFF2-GD over DP-GD",),
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
        Statement(
            "Section 6, Figure 1",
            (
                "DIFF2-GD has the lower training loss than DP-GD at epsilon 3 and 5, R = 2,000;"
                " here R = 120, ten seeds, the best of 24 settings against DP-GD's 2, data mapped"
                " by public bounds (the paper standardises by the data: rows below), parameters"
                " that start within 1 / sqrt(inputs), not the printed sqrt(inputs); in every case"
                " GD without noise ends above DP-GD, so that the rule for step sizes decides much"
                " of it"
            ),
            "diff2_network",
            of_each("training loss"),
        ),
        Statement(
            "Section 6, Figure 1",
            "and the lower squared gradient norm, each method at its own best, in the same runs",
            "diff2_network",
            of_each("squared gradient norm"),
        ),
        Statement(
            "Section 6, Figure 1",
            "and the lower test loss, at the least training loss, in the same runs",
            "diff2_network",
            of_each("test loss"),
        ),
        Statement(
            "Section 6, Figure 1",
            f"DIFF2-GD has the lower training loss {PREPARED}",
            "diff2_preprocessed",
            ("training loss, randhie", "training loss, friedman1"),
        ),
        Statement(
            "Section 6, Figure 1",
            "and the lower squared gradient norm, in the same runs",
            "diff2_preprocessed",
            ("squared gradient norm, randhie", "squared gradient norm, friedman1"),
        ),
        Statement(
            "Section 6, Figure 1",
            "and the lower test loss, in the same runs",
            "diff2_preprocessed",
            ("test loss, randhie", "test loss, friedman1"),
        ),
        Statement(
            "Section 6, Figure 1",
            "DIFF2-GD has the lower training loss on data prepared so, at epsilon 5, five seeds",
            "diff2_preprocessed_five",
            ("training loss, randhie", "training loss, friedman1"),
        ),
        Statement(
            "Section 6, Figure 1",
            "and the lower squared gradient norm, in the same runs at epsilon 5",
            "diff2_preprocessed_five",
            ("squared gradient norm, randhie", "squared gradient norm, friedman1"),
        ),
        Statement(
            "Section 6, Figure 1",
            "and the lower test loss, in the same runs at epsilon 5",
            "diff2_preprocessed_five",
            ("test loss, randhie", "test loss, friedman1"),
        ),
        Statement(
            "Section 6, Figure 1",
            (
                "the lower training loss at R = 2,000 and ten seeds; here on Friedman's function,"
                " epsilon 3, public bounds, DIFF2-GD's setting from a search of its own under other"
                " seeds, DP-GD's 2"
            ),
            "diff2_rounds",
            ("training loss:",),
        ),
        Statement(
            "Section 6, Figure 1",
            "and the lower test loss, in the same runs; gradient norms are not measured there",
            "diff2_rounds",
            ("test loss:",),
        ),
        Statement(
            "Section 5",
            "BVR-L-SGD as routine: one client a round, local noise within epsilon",
            "diff2_local",
            ("largest epsilon",),
        ),
        Statement(
            "Section 5, Table 1",
            "local steps save rounds: its squared gradient norm is the lower one after as many",
            "diff2_local",
            ("R = 4: DIFF2-BVR", "R = 10: DIFF2-BVR", "R = 30: DIFF2-BVR", "R = 100: DIFF2-BVR"),
        ),
        Statement(
            "Theorem 5.3, Table 1, Remarks 5.4 and 5.5",
            "with K = b = sqrt(N) BVR-L-SGD has DIFF2-GD's utility at fewer gradients, N^(11/6) "
            "and more terms, and fewer rounds",
            why=(
                "no rate of it is measured: the printed noise of its local steps asks for sqrt(N) "
                "of 1.5 P alpha^2 at least (Proposition E.2, resolved for b), N = 1.5 million at "
                "10 clients and epsilon = 3"
            ),
        ),
        Statement(
            "Section 5",
            "BVR-L-SGD without noise, on whole batches, is K R gradient steps",
            "diff2_local",
            ("distance of noise-free",),
        ),
        Statement(
            "Appendix A, ours",
            "whether DP-GD is held back by a grid of C1 that ends at the 3 it takes: radii of 10, "
            "30 and 100, epsilon 3, 120 rounds",
            "diff2_clips",
            ("DP-GD with C1 of 1 to 100",),
            before=("and DP-GD is not held back",),
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
    starts={"diff2_search": every_setting},
    asks={
        "diff2_network": other_metrics,
        "diff2_preprocessed": other_metrics,
        "diff2_preprocessed_five": partial(other_metrics, source=BEFORE),
        "diff2_rounds": test_loss,
    },
)
