"""A derivation as text and as LaTeX: one line a step, conclusions above their premises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpaudit.exact import decimal_upper, is_infinite, is_printable, is_symbolic, readable, sympify
from dpaudit.measures.calculus import CALCULI, Step
from dpaudit.nodes.pairs import Losses

DEPTH = 40


def value_text(value: Any) -> str:
    """A step's value for people: exact, and its decimal rounded up where that is not the same."""
    if isinstance(value, tuple):
        return "(" + ", ".join(value_text(v) for v in value) + ")"
    if isinstance(value, Losses):
        return value.text
    shown = readable(value)
    if is_symbolic(value) and (value.free_symbols or is_infinite(value)):
        return shown
    decimal = decimal_upper(value, digits=6)
    if shown == decimal:
        return shown
    return f"{shown} <= {decimal}" if len(shown) <= 60 else f"<= {decimal}"


def show_text(step: Step) -> str:
    """The derivation as an indented text, one step a line, with its source."""
    lines: list[str] = []
    seen: set[int] = set()
    stack = [(step, 0)]
    while stack:
        step, depth = stack.pop()
        known = id(step) in seen and bool(step.premises)
        seen.add(id(step))
        assumed = [f"assuming {a.statement} ({a.status})" for a in step.assumes]
        below = ["(premises as above)"] if known else assumed
        margin = "  " * min(depth, DEPTH)
        lines += [margin + _line(step), *(f"{margin}  {line}" for line in below)]
        stack += [] if known else [(p, depth + 1) for p in reversed(step.premises)]
    return "\n".join(lines)


def _line(step: Step) -> str:
    symbol = CALCULI[step.calculus].measure.symbol if step.calculus in CALCULI else step.calculus
    attained = ", attained" if step.attained else ""
    return (
        f"{symbol} = {value_text(step.value)}   {step.node.head}   "
        f"[{step.rule}: {step.cite}{attained}]"
    )


def show_latex(step: Step) -> str:
    """The derivation as a LaTeX ``align*`` environment, premises first."""
    steps = step.walk()
    number = {id(s): i for i, s in enumerate(steps, start=1)}
    return "\\begin{align*}\n" + " \\\\\n".join(_row(s, number) for s in steps) + "\n\\end{align*}"


def _row(step: Step, number: Mapping[int, int]) -> str:
    known = CALCULI.get(step.calculus)
    symbol = (known and known.measure.latex) or rf"\mathrm{{{_escape(step.calculus)}}}"
    used = ", ".join(f"({number[id(p)]})" for p in step.premises)
    reason = f"{step.node.name}, {step.cite}" + (f", from {used}" if used else "")
    place = number[id(step)]
    return rf"({place})\quad {symbol} &= {_latex(step.value)} && \text{{{_escape(reason)}}}"


def _latex(value: Any) -> str:
    import sympy

    if isinstance(value, tuple):
        return r"\left(" + ", ".join(map(_latex, value)) + r"\right)"
    if isinstance(value, Losses):
        return rf"\text{{{_escape(value.text)}}}"
    if not is_printable(value):
        return rf"\text{{{_escape(readable(value))}}}"
    return str(sympy.latex(sympify(value)))


def _escape(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}"}
    return "".join(special.get(c, "\\" + c if c in "_%&#{}$" else c) for c in text)
