"""DIFF2-GD, DP-GD and DIFF2-BVR-L-SGD on the RAND data, with their claims.

Source: Murata and Suzuki 2023, Algorithms 1 to 4, Propositions 4.1 and 5.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Annotated, Any

import numpy as np

from dpaudit.accountant.claim import Claim
from dpaudit.curator.mechanism import Mechanism, Metric, Setting
from dpaudit.curator.parameters import Cost, Free
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, sqrt
from dpaudit.exact.domains import above_one
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.kernels.query import Array, Records
from dpaudit.measures.convert import gaussian_mu
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit, central
from mechanisms.papers.common import randhie
from mechanisms.papers.common.free import (
    Build,
    Clip,
    ClipAt,
    Delta,
    Epsilon,
    Rounds,
    StepAt,
    StepSize,
    at,
    on_rows,
)
from mechanisms.papers.common.losses import (
    Logistic,
    Loss,
    SoftplusNetwork,
    mean_value,
    squared_gradient_norm,
)
from mechanisms.papers.diff2.bvr_noise import (
    Plan,
    diff2_bvr_noise_numeric,
    diff2_bvr_noise_paper,
    largest_batch,
)
from mechanisms.papers.diff2.framework import Diff2, LocalDescent, Trained, schedule, smallest_total
from mechanisms.papers.diff2.noise import Noise, calibration_of, printed_order
from mechanisms.papers.diff2.shares import SharedDiff2, shares_for

PAPER = "Murata and Suzuki 2023"


def diff2_gd_program(
    loss: Loss,
    features: int,
    client_sizes: tuple[int, ...],
    *,
    rounds: int,
    restart_every: int,
    epsilon: object,
    delta: object,
    calibration: str = "tight",
    u: object = Fraction(5, 4),
    gradient_radius: float,
    difference_radius: float,
    step_size: float,
    non_private: tuple[str, ...] = (),
) -> Diff2:
    """DIFF2-GD calibrated to (epsilon, delta): ``tight`` constants, or those of the ``paper``.

    Both hold the claim at the budgets of the catalogue; the tight ones are the least of their shape
    that do (at (3, 1e-5), 20% smaller).
    Errors: InvalidParameter for another calibration, or values outside their domains.
    Source: Murata and Suzuki 2023, Proposition 4.1, for those of the paper.
    """
    calibrate, counts = calibration_of(calibration), schedule(rounds, restart_every)
    noise = calibrate(epsilon, delta, smallest_total(client_sizes), *counts, u)
    return Diff2(
        loss=loss,
        features=features,
        client_sizes=client_sizes,
        rounds=rounds,
        restart_every=restart_every,
        gradient_radius=gradient_radius,
        difference_radius=difference_radius,
        step_size=step_size,
        noise=noise,
        non_private=non_private,
    )


# --- the catalogue: RAND Health Insurance Experiment data ----------------------------------------

EPSILON, DELTA = Fraction(3), Fraction(1, 10**5)
CLIENTS = 10
BLOCK = 1615
REPLACE_ONE = central("replace_one")


def load(target: Any, intercept: Any) -> Any:
    """The RAND data with public preprocessing, in equal blocks, one a client."""
    return randhie.load(target=target, preprocessing="public", clients=CLIENTS, intercept=intercept)


def records(target: str, intercept: str) -> Records:
    return Records(load(target, intercept).train)


@cache
def _holdout(target: str, intercept: str) -> Array:
    return np.asarray(load(target, intercept).holdout)


def evaluate(loss: Loss, target: str, intercept: str, trained: Trained) -> tuple[Metric, ...]:
    """Loss of the released models on the hold-out rows, which are treated as public."""
    rows = _holdout(target, intercept)
    start = loss.initial(rows.shape[1] - 1, 1, 0)
    note = "on hold-out rows, which the guarantee does not cover"
    shown = {"at the start": start, "of the output": trained.output, "of the last": trained.last}
    metrics = [
        Metric(f"mean loss {name}", float(mean_value(loss, x, rows)[0]), False, note)
        for name, x in shown.items()
    ]
    gradient = float(squared_gradient_norm(loss, trained.output, rows)[0])
    return (*metrics, Metric("squared gradient norm of the output", gradient, False, note))


def _algorithms(program: Diff2) -> str:
    return "1, 2 and 4" if isinstance(program.routine, LocalDescent) else "1 to 3"


def _covered(program: Diff2) -> tuple[str, ...]:
    server = f"{program.rounds} noisy gradient or gradient-difference releases"
    if not isinstance(program.routine, LocalDescent):
        return (server,)
    local = (program.routine.steps - 1) * program.rounds
    return server, f"{local} noisy local gradient differences on secret batches, one client a round"


def _mechanism(
    name: str,
    title: str,
    program: Diff2,
    claims: tuple[Claim, ...],
    target: str,
    intercept: str,
    build: Build | None = None,
) -> Mechanism:
    setting = Setting(
        controller="the person who runs this command",
        unit_entity="row of the data (a person-year)",
        data="RAND Health Insurance Experiment",
        unit_bound=f"one row; a person contributes up to {randhie.ROWS_PER_PERSON_AT_MOST} rows",
        covered=_covered(program),
        uncovered=("evaluation on 4,038 hold-out rows, treated as public",),
        invariants=("the number of records and each client's number of records",),
        notes=(*randhie.CAVEATS, "step size, radii and rounds were chosen without the data"),
    )
    source = f"{PAPER}, Algorithms {_algorithms(program)}"
    return Mechanism(
        name=name,
        title=title,
        source=source,
        program=program,
        scope=REPLACE_ONE,
        claims=claims,
        setting=setting,
        records=partial(records, target, intercept),
        evaluate=partial(evaluate, program.loss, target, intercept),
        for_shape=None if build is None else on_rows(build, name, title, source, REPLACE_ONE),
    )


def _entry(name: str, title: str, build: Build, target: str, intercept: str) -> Mechanism:
    """The program of ``build`` on the RAND data, at the default of every free parameter."""
    features = 10 if intercept == "ones" else 9
    program, claims, _ = build(features, BLOCK * CLIENTS, clients=CLIENTS)
    return _mechanism(name, title, program, tuple(claims), target, intercept, build)


def rows_setting(covered: tuple[str, ...], clients: int) -> Setting:
    """The setting of somebody's rows, cut into blocks of clients in the order of the file."""
    counts = " and each client's number of records" if clients > 1 else ""
    return Setting(
        unit_entity="row of the data",
        unit_bound="one row",
        covered=covered,
        invariants=(f"the number of records{counts}",),
        notes=("step size, radii and rounds were chosen without the data",),
    )


def client_sizes(count: int, clients: int) -> tuple[int, ...]:
    """``count`` rows in blocks that differ by one row at most, one a client.

    Errors: InvalidParameter for more clients than rows.
    """
    if clients > count:
        raise InvalidParameter(f"clients = {clients} of {count} rows: a client would have none")
    return tuple(count // clients + (k < count % clients) for k in range(clients))


OWN = (BLOCK,) * CLIENTS


def _logistic(
    restart_every: int,
    calibration: str,
    u: object,
    features: int = 10,
    client_sizes: tuple[int, ...] = OWN,
    *,
    epsilon: Fraction = EPSILON,
    delta: Fraction = DELTA,
    rounds: int = 100,
    clip: float | None = None,
    difference_clip: float | None = None,
    step_size: float | None = None,
) -> Diff2:
    """Logistic regression: ||x|| <= sqrt(k), so C1 never clips, and smoothness <= k/4 = C2."""
    return diff2_gd_program(
        Logistic(),
        features,
        client_sizes,
        rounds=rounds,
        restart_every=restart_every,
        epsilon=epsilon,
        delta=delta,
        calibration=calibration,
        u=u,
        gradient_radius=math.sqrt(features) if clip is None else clip,
        difference_radius=features / 4 if difference_clip is None else difference_clip,
        step_size=4 / features if step_size is None else step_size,
    )


PROPOSITION = (
    "Proposition 4.1 states (epsilon, delta) for every order alpha > 1; the paper's experiments "
    "take epsilon in {3, 5}, delta = 1e-5"
)


def claims_of(calibration: str, epsilon: Fraction, delta: Fraction) -> tuple[Claim, Claim]:
    """(epsilon, delta), and the exact mu of the same noise: of printed or of tight constants."""
    guarantee = ApproxDP(epsilon, delta)
    if calibration == "paper":
        order = printed_order(epsilon, delta)
        return (
            Claim(guarantee, by=f"{PAPER}, Proposition 4.1", states=PROPOSITION),
            Claim(
                GDP(sqrt(Fraction(epsilon) / order)),
                by="the same constants, exactly composed: mu = sqrt(epsilon / alpha), "
                f"alpha = {order}",
            ),
        )
    return (
        Claim(guarantee, by="calibrated by the accountant"),
        Claim(
            GDP(gaussian_mu(Fraction(epsilon), delta)),
            by=f"the largest mu that is {at(epsilon, delta)}-DP (Balle and Wang 2018, Theorem 8)",
        ),
    )


STATED, PAPER_MU = claims_of("paper", EPSILON, DELTA)
CALIBRATED, TIGHT_MU = claims_of("tight", EPSILON, DELTA)


Clients = Annotated[
    int,
    Free(
        "clients, each with a block of rows in the order of the file",
        Cost.NOISE,
    ),
]
RestartEvery = Annotated[int, Free("rounds from one full gradient to the next, T", Cost.NOISE)]
Share = Annotated[
    Fraction,
    Free("how the budget is shared: u_1 of full gradients, above 1", Cost.NOISE, above_one),
]
DifferenceClip = Annotated[
    float | None,
    Free(
        "l2 norm of one record's gradient difference over the step, to which it is clipped",
        Cost.SCALE,
        default="features / 4, the smoothness",
        start=lambda of: of["features"] / 4,
    ),
]


def diff2_rows(
    calibration: str,
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = 100,
    restart_every: RestartEvery = 10,
    share: Share = Fraction(5, 4),
    clients: Clients = 1,
    clip: Clip = None,
    difference_clip: DifferenceClip = None,
    step_size: StepSize = None,
) -> tuple[Diff2, tuple[Claim, ...], Setting]:
    """DIFF2-GD, logistic regression, with its claims at these values."""
    program = _logistic(
        restart_every,
        calibration,
        share,
        features,
        client_sizes(count, clients),
        epsilon=epsilon,
        delta=delta,
        rounds=rounds,
        clip=clip,
        difference_clip=difference_clip,
        step_size=step_size,
    )
    return program, claims_of(calibration, epsilon, delta), rows_setting(_covered(program), clients)


def dp_gd_rows(
    calibration: str,
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = 100,
    clients: Clients = 1,
    clip: Clip = None,
    step_size: StepSize = None,
) -> tuple[Diff2, tuple[Claim, ...], Setting]:
    """DP-GD, logistic regression, with its claims at these values."""
    program = _logistic(
        1,
        calibration,
        1,
        features,
        client_sizes(count, clients),
        epsilon=epsilon,
        delta=delta,
        rounds=rounds,
        clip=clip,
        step_size=step_size,
    )
    return program, claims_of(calibration, epsilon, delta), rows_setting(_covered(program), clients)


def network_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = 100,
    restart_every: RestartEvery = 10,
    share: Share = Fraction(5, 4),
    clients: Clients = 1,
    hidden: Annotated[int, Free("hidden units", Cost.NOTHING)] = 10,
    clip: ClipAt = 3.0,
    difference_clip: ClipAt = 10.0,
    step_size: StepAt = 0.05,
) -> tuple[Diff2, tuple[Claim, ...], Setting]:
    """DIFF2-GD on a softplus network: no smoothness constant exists, so C1 and C2 do clip."""
    program = diff2_gd_program(
        SoftplusNetwork(hidden=hidden),
        features,
        client_sizes(count, clients),
        rounds=rounds,
        restart_every=restart_every,
        epsilon=epsilon,
        delta=delta,
        calibration="paper",
        u=share,
        gradient_radius=clip,
        difference_radius=difference_clip,
        step_size=step_size,
    )
    return program, claims_of("paper", epsilon, delta), rows_setting(_covered(program), clients)


# Batches of 13 are the most that the printed closed form allows here.
PLAN = Plan(BLOCK, CLIENTS, rounds=20, restart_every=5, steps=5, batch_size=13)
# Of diff2_bvr_noise_numeric, which takes seconds: the least sigma_3 the accountant proves.
TIGHT_PLAN = replace(PLAN, batch_size=50)
TIGHT_SIGMA = Fraction("0.0295039")


def _bvr(
    plan: Plan,
    noise: Noise,
    sigma: Number,
    features: int = 10,
    sizes: tuple[int, ...] = OWN,
    clip: float | None = None,
    difference_clip: float | None = None,
    step_size: float | None = None,
) -> Diff2:
    radius = features / 4 if difference_clip is None else difference_clip
    return Diff2(
        loss=Logistic(),
        features=features,
        client_sizes=sizes,
        rounds=plan.rounds,
        restart_every=plan.restart_every,
        gradient_radius=math.sqrt(features) if clip is None else clip,
        difference_radius=radius,
        step_size=4 / features if step_size is None else step_size,
        noise=noise,
        routine=LocalDescent(plan.steps, plan.batch_size, sigma, radius=radius),
    )


LocalBatch = Annotated[
    int | None,
    Free(
        "rows of a local batch, b",
        Cost.NOISE,
        default="the most that the printed noise is proved for",
        start=lambda of: _most_rows(of["count"], of),
    ),
]


def _most_rows(count: int, of: Mapping[str, Any]) -> int:
    """The largest local batch that the printed noise is proved for; errors where there is none."""
    sizes = client_sizes(count, of["clients"])
    counts = (of["rounds"], of["restart_every"], of["local_steps"])
    found = largest_batch(of["epsilon"], of["delta"], Plan(min(sizes), len(sizes), *counts, 1))
    if found < 1:
        raise InvalidParameter(
            f"{min(sizes)} records of the smallest client: the printed noise is proved for no "
            "local batch; use more records, a larger epsilon or fewer rounds"
        )
    return found


def bvr_rows(
    numeric: bool,  # noqa: FBT001  (the first argument of a partial)
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = 20,
    restart_every: RestartEvery = 5,
    local_steps: Annotated[int, Free("local steps a round, K", Cost.NOISE)] = 5,
    batch_rows: LocalBatch = None,
    clients: Clients = 1,
    clip: Clip = None,
    difference_clip: DifferenceClip = None,
    step_size: StepSize = None,
) -> tuple[Diff2, tuple[Claim, ...], Setting]:
    """DIFF2-BVR-L-SGD, logistic regression; ``numeric``: with the least local noise."""
    sizes = client_sizes(count, clients)
    of: dict[str, Any] = {"clients": clients, "rounds": rounds, "restart_every": restart_every}
    of |= {"local_steps": local_steps, "epsilon": epsilon, "delta": delta}
    batch = _most_rows(count, of) if batch_rows is None else batch_rows
    plan = Plan(min(sizes), clients, rounds, restart_every, local_steps, batch)
    made = partial(
        _bvr, plan, features=features, sizes=sizes, clip=clip, difference_clip=difference_clip,
        step_size=step_size,
    )  # fmt: skip
    if numeric:
        noise, sigma = diff2_bvr_noise_numeric(
            epsilon, delta, plan, declared=lambda *noises: made(*noises).declaration(REPLACE_ONE)
        )
    else:
        noise, sigma = diff2_bvr_noise_paper(epsilon, delta, plan)
    program = made(noise, sigma)
    claim = _claim_numeric(epsilon, delta) if numeric else _claim_local(epsilon, delta)
    return program, (claim,), rows_setting(_covered(program), clients)


CROWD, HELD = 1_000, 16  # clients of the client-level entry, and the rows of each


def crowd_records() -> Records:
    """The RAND rows in blocks of 16, one a client: (1,000, 16, columns)."""
    loaded = randhie.load("any_visit", "public", clients=CROWD, intercept="ones")
    return Records(loaded.blocks())


def _clients_program(
    restart_every: int = 10,
    share: Fraction = Fraction(5, 4),
    features: int = 10,
    clients: int = CROWD,
    rows: int = HELD,
    *,
    epsilon: Fraction = EPSILON,
    delta: Fraction = DELTA,
    rounds: int = 100,
    **at: float | None,
) -> Diff2:
    """Noise for a whole client: the printed constants with N = P, the number of clients.

    Source: Murata and Suzuki 2023, footnote 6 (the constants follow from Lemma C.1).
    """
    made = _logistic(
        restart_every, "paper", share, features, (rows,) * clients,
        epsilon=epsilon, delta=delta, rounds=rounds, **at,
    )  # fmt: skip
    counts = schedule(rounds, restart_every)
    noise = calibration_of("paper")(epsilon, delta, clients, *counts, share)
    return replace(made, noise=noise)


def for_clients(
    count: int | None,
    row: tuple[int, ...],
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = 100,
    restart_every: RestartEvery = 10,
    share: Share = Fraction(5, 4),
    clip: Clip = None,
    difference_clip: DifferenceClip = None,
    step_size: StepSize = None,
) -> Mechanism:
    """``diff2_gd_client`` on clients of rows of features, then a target.

    Errors: InvalidParameter for records of another shape.
    """
    if count is None or len(row) != 2 or row[1] < 2:
        raise InvalidParameter(
            f"diff2_gd_client: records of shape {row}; expected clients of rows, (rows, features "
            "and a target): unit_column= names the column of the client, rows= how many rows count"
        )
    program = _clients_program(
        restart_every, share, row[1] - 1, count, row[0], epsilon=epsilon, delta=delta,
        rounds=rounds, clip=clip, difference_clip=difference_clip, step_size=step_size,
    )  # fmt: skip
    setting = Setting(
        unit_entity="client (all rows of one)",
        unit_bound="one row of the records, of one client",
        covered=_covered(program),
        invariants=("the number and the order of the clients, and how many rows count for one",),
        notes=("step size, radii and rounds were chosen without the data",),
    )
    return replace(
        diff2_gd_client, program=program, claims=_claims_of_clients(epsilon, delta),
        setting=setting, records=None, evaluate=None, for_shape=None,
    )  # fmt: skip


def _claim_local(epsilon: Fraction, delta: Fraction) -> Claim:
    return Claim(
        ApproxDP(epsilon, delta),
        by=f"{PAPER}, Propositions 5.1 and E.2",
        states="Proposition E.2 states (epsilon, delta) for every whole order alpha >= 2 and all "
        f"u_1, u_2 > 1, Proposition 5.1 in orders of magnitude; {at(epsilon, delta)} and the plan "
        "were chosen here",
    )


def _claim_numeric(epsilon: Fraction, delta: Fraction) -> Claim:
    return Claim(ApproxDP(epsilon, delta), by="calibrated by the accountant")


def _claims_of_clients(epsilon: Fraction, delta: Fraction) -> tuple[Claim, Claim]:
    stated = Claim(
        ApproxDP(epsilon, delta),
        by=f"{PAPER}, footnote 6 with Proposition 4.1, N = P",
        states="footnote 6 calls client level a straightforward extension and states no constants; "
        "those of Proposition 4.1 with N = P, the number of clients, were chosen here",
    )
    return stated, claims_of("paper", epsilon, delta)[1]


STATED_LOCAL = _claim_local(EPSILON, DELTA)
diff2_gd = _entry(
    "diff2_gd",
    "DIFF2-GD, logistic regression, constants as printed",
    partial(diff2_rows, "paper"),
    "any_visit",
    "ones",
)
diff2_gd_tight = _entry(
    "diff2_gd_tight",
    "DIFF2-GD, logistic regression, tight constants",
    partial(diff2_rows, "tight"),
    "any_visit",
    "ones",
)
dp_gd = _entry(
    "dp_gd",
    "DP-GD (DIFF2 with T = 1), logistic regression, constants as printed",
    partial(dp_gd_rows, "paper"),
    "any_visit",
    "ones",
)
dp_gd_tight = _entry(
    "dp_gd_tight",
    "DP-GD (DIFF2 with T = 1), logistic regression, tight constants",
    partial(dp_gd_rows, "tight"),
    "any_visit",
    "ones",
)
diff2_gd_network = _entry(
    "diff2_gd_network",
    "DIFF2-GD, one-hidden-layer softplus network, constants as printed",
    network_rows,
    "visits",
    "none",
)

diff2_bvr_local_sgd = _mechanism(
    "diff2_bvr_local_sgd",
    "DIFF2-BVR-L-SGD, logistic regression, constants as printed",
    _bvr(PLAN, *diff2_bvr_noise_paper(EPSILON, DELTA, PLAN)),
    (STATED_LOCAL,),
    "any_visit",
    "ones",
    partial(bvr_rows, False),
)

diff2_gd_client = _mechanism(
    "diff2_gd_client",
    "DIFF2-GD with clients as units, logistic regression, constants as printed",
    _clients_program(),
    _claims_of_clients(EPSILON, DELTA),
    "any_visit",
    "ones",
)
diff2_gd_client = replace(
    diff2_gd_client,
    scope=Scope(Adjacency.REPLACE_ONE, Unit.CLIENT, Trust.CENTRAL, Released.TRANSCRIPT),
    records=crowd_records,
    for_shape=for_clients,
    setting=replace(
        diff2_gd_client.setting,
        unit_entity=f"client ({HELD} rows of the data)",
        unit_bound=f"all {HELD} rows of one client",
        notes=(
            f"the rows are cut into {CROWD} blocks of {HELD} that stand for clients; a person's "
            "rows lie in up to 5 of them, and in the hold-out",
            *(note for note in diff2_gd_client.setting.notes if note != randhie.CAVEATS[0]),
        ),
    ),
)

# Five rounds, over and over: one client drops out of most of them, two of one, none of another.
GONE = ((9,), (), (5, 9), (8,), (4,))
SHARES = shares_for(
    EPSILON,
    DELTA,
    OWN,
    schedule(100, 10),
    dropouts=2,
    units=128,
    dimension=11,
    modulus=2**22,
    gone=GONE,
)
_SHARED = _logistic(10, "tight", Fraction(5, 4))
diff2_gd_shares = _mechanism(
    "diff2_gd_shares",
    "DIFF2-GD under secure aggregation, logistic regression, noise in whole-numbered shares",
    SharedDiff2(**{**_SHARED.__dict__, "shares": SHARES}),
    (CALIBRATED, TIGHT_MU),
    "any_visit",
    "ones",
)
diff2_gd_shares = replace(
    diff2_gd_shares,
    source=f"{PAPER}, Algorithms 1 to 3, and the remark of Section 2.1; Kairouz, Liu, Steinke 2021",
    scope=Scope(Adjacency.REPLACE_ONE, Unit.RECORD, Trust.DISTRIBUTED, Released.TRANSCRIPT),
    setting=replace(
        diff2_gd_shares.setting,
        covered=("100 sums of clients' noisy whole numbers, modulo 2^22",),
        notes=(
            *diff2_gd_shares.setting.notes,
            "at most 2 of 10 clients drop out of a round, or tell their noise; who drops out is "
            "public",
        ),
    ),
)

diff2_bvr_local_sgd_tight = _mechanism(
    "diff2_bvr_local_sgd_tight",
    "DIFF2-BVR-L-SGD, logistic regression, least local noise and larger batches",
    _bvr(TIGHT_PLAN, diff2_bvr_noise_paper(EPSILON, DELTA, PLAN)[0], TIGHT_SIGMA),
    (_claim_numeric(EPSILON, DELTA),),
    "any_visit",
    "ones",
    partial(bvr_rows, True),
)

__all__ = [
    "Diff2",
    "diff2_bvr_local_sgd",
    "diff2_bvr_local_sgd_tight",
    "diff2_gd",
    "diff2_gd_client",
    "diff2_gd_network",
    "diff2_gd_program",
    "diff2_gd_shares",
    "diff2_gd_tight",
    "dp_gd",
    "dp_gd_tight",
]
