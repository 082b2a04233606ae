"""A derivation as text and as LaTeX: one line a step, conclusions above their premises."""

from __future__ import annotations

from typing import Any

from dpaudit.arithmetic import decimal_upper, is_infinite, is_symbolic, readable, sympify
from dpaudit.calculus import Step

SYMBOLS = {
    "pure": ("epsilon", r"\varepsilon"),
    "approx": ("(epsilon, delta)", r"(\varepsilon, \delta)"),
    "zcdp": ("rho", r"\rho_{\mathrm{zCDP}}"),
    "rdp": ("epsilon(alpha)", r"\varepsilon(\alpha)"),
    "gdp": ("mu", r"\mu"),
}


def value_text(value: Any) -> str:
    """A step's value for people: exact, and its decimal rounded up where that is not the same."""
    if isinstance(value, tuple):
        return "(" + ", ".join(value_text(v) for v in value) + ")"
    shown = readable(value)
    if is_symbolic(value) and (value.free_symbols or is_infinite(value)):
        return shown
    decimal = decimal_upper(value, digits=6)
    return shown if shown == decimal else f"{_short(shown)}{decimal}"


def _short(shown: str) -> str:
    return f"{shown} <= " if len(shown) <= 60 else "<= "


def show_text(step: Step) -> str:
    """The derivation as an indented text, one step a line, with its source."""
    lines: list[str] = []
    _text(step, 0, lines, set())
    return "\n".join(lines)


def _text(step: Step, depth: int, lines: list[str], seen: set[int]) -> None:
    symbol = SYMBOLS.get(step.calculus, (step.calculus, ""))[0]
    attained = ", attained" if step.attained else ""
    lines.append(
        f"{'  ' * depth}{symbol} = {value_text(step.value)}   {step.node.head}   "
        f"[{step.rule}: {step.cite}{attained}]"
    )
    if id(step) in seen and step.premises:
        lines.append(f"{'  ' * (depth + 1)}(premises as above)")
        return
    seen.add(id(step))
    for assumption in step.assumes:
        lines.append(f"{'  ' * (depth + 1)}assuming {assumption.statement} ({assumption.status})")
    for premise in step.premises:
        _text(premise, depth + 1, lines, seen)


def show_latex(step: Step) -> str:
    """The derivation as a LaTeX ``align*`` environment, premises first."""
    rows = [_latex_row(i, s, step.walk()) for i, s in enumerate(step.walk(), start=1)]
    return "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}"


def _latex_row(number: int, step: Step, order: list[Step]) -> str:
    symbol = SYMBOLS.get(step.calculus, ("", rf"\mathrm{{{step.calculus}}}"))[1]
    used = ", ".join(f"({order.index(p) + 1})" for p in step.premises)
    reason = f"{step.node.name}, {step.cite}" + (f", from {used}" if used else "")
    return rf"({number})\quad {symbol} &= {_latex(step.value)} && \text{{{_escape(reason)}}}"


def _latex(value: Any) -> str:
    import sympy

    if isinstance(value, tuple):
        return r"\left(" + ", ".join(map(_latex, value)) + r"\right)"
    return str(sympy.latex(sympify(value)))


def _escape(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}"}
    return "".join(special.get(c, "\\" + c if c in "_%&#{}$" else c) for c in text)
