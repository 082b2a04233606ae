"""What lets an independent checker confirm one side of a composed profile."""

from __future__ import annotations

from dpaudit.curves.search import Solved


def witness(solved: Solved) -> dict[str, str]:
    """The parameters and the error terms of a Fourier sum, as texts."""
    composition, stack = solved.composition, solved.composition.stack
    window, found = composition.window, solved.delta
    ends = [(d.first, d.first + len(d.masses) - 1) for d, _ in stack.factors]
    return {
        "form": "fourier",
        "side": stack.side.value,
        "epsilon": repr(solved.epsilon),
        "delta": repr(found.value),
        "step": str(stack.step),
        "nodes": " ".join(f"{low}:{high}" for low, high in ends),
        "tilt": repr(composition.tilt),
        "window_centre": str(window.centre),
        "window_first": str(window.first),
        "period": str(window.period),
        "frequencies": str(len(composition.transform)),
        "infinite": repr(stack.infinite),
        "round_off": repr(found.round_off),
        "aliasing": repr(found.alias),
        "truncation": repr(found.truncation),
        "masses": repr(found.masses),
    }
