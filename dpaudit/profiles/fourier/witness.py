"""The witness by which an independent checker confirms one side of a composed profile.

form "fourier": with the notation of :mod:`dpaudit.profiles.fourier.compose`, all numbers exact
    floats, step            h, an exact fraction
    nodes           first:last node of every factor, in the order of the pair's factors; the P mass
                    beyond them is below 1e-7 delta / (number of factors)
    tilt, period    t and N
    window_centre   C = sum T_f c_f, with c_f the index nearest factor f's tilted mean loss
    window_first    A: the window is the losses (C + A) h, ..., (C + A + N - 1) h
    frequencies     J + 1: j = 0..J are summed, the others bounded
    infinite        P mass of the composition at infinite loss
    round_off, aliasing, truncation, masses
                    the error terms, in units of delta: added (upper) or taken away (lower)
    epsilon, delta  the bound: delta(epsilon) <= delta (upper) or >= delta (lower)

To confirm it: one-step masses of each factor on the grid, from cells as in
:mod:`dpaudit.grids.cells` (upper: connect-the-dots; lower: chord gap and hull); their
tilted sums M_f and K; phi_f(j) for j = 0..J by direct sums; F as in
:mod:`dpaudit.profiles.fourier.compose` by the two geometric sums; then delta = infinite + exp(K - t
k h) F, moved by the error terms. Frequencies beyond J need a bound of |Phi| only. Any step, tilt
and window give true bounds, so a checker may also take its own.

form "closed transforms": the series of :mod:`dpaudit.profiles.fourier.smooth`, with ``tilt`` t,
``smoothing`` sigma (0: none), the window [window_first, window_first + period], and ``frequencies``
J + 1; ``error`` is the sum of all errors but the smoothing's gap.
form "closed": the closed form of :mod:`dpaudit.profiles.closed.single` at ``epsilon``.
form "crowd": windows of counts, :mod:`dpaudit.profiles.closed.crowd`, at ``epsilon``.
form "inner": a formula of compositions, :mod:`dpaudit.profiles.closed.inner`, at ``epsilon``, on
grids of the smallest ``step``.
form "game": :mod:`dpaudit.profiles.fourier.game` on losses i ``step``, i < ``nodes``, with so many
``cells`` of places of so many ``parts``, under a ``tilt``, ``tail`` left out a round.
form "largest loss": the sum of the factors' largest losses.  form "chernoff": P(L > epsilon) <=
exp(K(t) - t epsilon).  form "conjugate": :mod:`dpaudit.profiles.closed.tradeoff`.
"""

from __future__ import annotations

from dpaudit.profiles.fourier.search import Solved


def witness(solved: Solved) -> dict[str, str]:
    """The parameters and the error terms of a Fourier sum, as texts."""
    composition, stack = solved.composition, solved.composition.stack
    window, delta = composition.window, solved.delta
    ends = [(d.first, d.first + len(d.masses) - 1) for d, _ in stack.factors]
    return {
        "form": "fourier",
        "side": stack.side.value,
        "epsilon": repr(solved.epsilon),
        "delta": repr(delta.value),
        "step": str(stack.step),
        "nodes": " ".join(f"{low}:{high}" for low, high in ends),
        "tilt": repr(composition.tilt),
        "window_centre": str(window.centre),
        "window_first": str(window.first),
        "period": str(window.period),
        "frequencies": str(len(composition.transform)),
        "infinite": repr(stack.infinite),
        "round_off": repr(float(delta.round_off)),
        "aliasing": repr(float(delta.alias)),
        "truncation": repr(float(delta.truncation)),
        "masses": repr(float(delta.masses)),
    }
