"""A derivation as text and as LaTeX: one line a step, conclusions above their premises."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dpaudit.exact import (
    decimal_lower,
    decimal_upper,
    is_infinite,
    is_printable,
    is_symbolic,
    readable,
    sympify,
)
from dpaudit.measures.calculus import CALCULI, TIGHT_RATIO, Step
from dpaudit.pairs import Losses

MAX_INDENT = 40  # Levels of indentation; deeper steps stay at this one.


def value_text(value: Any) -> str:
    """A step's value for people: exact, and its decimal rounded up where that is not the same."""
    if isinstance(value, tuple):
        return "(" + ", ".join(value_text(v) for v in value) + ")"
    if isinstance(value, Losses):
        return value.text
    shown = readable(value)
    if _has_symbols(value) or is_infinite(value):
        return shown
    decimal = decimal_upper(value, digits=6)
    if shown == decimal:
        return shown
    return f"{shown} <= {decimal}" if len(shown) <= 60 else f"<= {decimal}"


def _has_symbols(value: Any) -> bool:
    return is_symbolic(value) and bool(value.free_symbols)


def show_text(step: Step) -> str:
    """The derivation as an indented text, one step a line, with its source."""
    lines: list[str] = []
    seen: set[int] = set()
    stack = [(step, 0)]
    while stack:
        step, depth = stack.pop()
        shown = id(step) in seen and bool(step.premises)
        seen.add(id(step))
        assumed = [f"assuming {a.statement} ({a.status})" for a in step.assumes]
        below = ["(premises as above)"] if shown else assumed
        margin = "  " * min(depth, MAX_INDENT)
        lines += [margin + _line(step), *(f"{margin}  {line}" for line in below)]
        stack += [] if shown else [(p, depth + 1) for p in reversed(step.premises)]
    return "\n".join(lines)


def _attained(step: Step, before: str) -> str:
    """Whether the value is reached; the reached one where it is smaller by more than rounding."""
    if not step.attained:
        return ""
    upper = step.value[0] if isinstance(step.value, tuple) else step.value
    lower = step.lower
    known = lower is not None and not any(map(is_symbolic, (upper, lower)))
    if known and upper != lower and (is_infinite(upper) or upper > lower * (1 + TIGHT_RATIO)):
        return f"{before}at least {decimal_lower(lower, digits=6)} attained"
    return f"{before}attained"


def _line(step: Step) -> str:
    symbol = CALCULI[step.calculus].measure.symbol if step.calculus in CALCULI else step.calculus
    attained = _attained(step, ", ")
    return (
        f"{symbol} = {value_text(step.value)}   {step.node.head}   "
        f"[{step.rule}: {step.cite}{attained}]"
    )


def show_latex(step: Step) -> str:
    """The derivation as a LaTeX ``align*`` environment, premises first."""
    steps = step.walk()
    number = {id(s): i for i, s in enumerate(steps, start=1)}
    return "\\begin{align*}\n" + " \\\\\n".join(_row(s, number) for s in steps) + "\n\\end{align*}"


# Characters that pdflatex lacks in text, and their commands in mathematics.
_GLYPHS = {
    "\u2212": "-",
    "\u2264": r"$\leq$",
    "\u2265": r"$\geq$",
    "\u00d7": r"$\times$",
    "\u221a": r"$\surd$",
    "\u221e": r"$\infty$",
    "\u03b1": r"$\alpha$",
    "\u03b2": r"$\beta$",
    "\u03b4": r"$\delta$",
    "\u03b5": r"$\varepsilon$",
    "\u03bb": r"$\lambda$",
    "\u03bc": r"$\mu$",
    "\u03c1": r"$\rho$",
    "\u03c3": r"$\sigma$",
}
# A term that is wider than a line, with what stands around it, is made as small as the line asks.
_PREAMBLE = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage{amsmath}
\usepackage{graphicx}
\sloppy
\newsavebox{\term}
\newcommand{\fit}[1]{\sbox{\term}{$\displaystyle #1$}%
\ifdim\wd\term>.9\linewidth\resizebox{.9\linewidth}{!}{\usebox{\term}}\else\usebox{\term}\fi}
\newenvironment{formula}{\begin{quote}\raggedright}{\end{quote}}
\begin{document}
"""
_POWER = re.compile(r"e([+-]?\d+)$")
_BREAK = "\u200b"
_BREAKS = re.compile(r"(?<=\d{12})(?=\d)|(?<=\w{24})(?=\w)|(?<=[/,_])(?=\S)|(?<=\w\()(?=\S)")


def latex_document(title: str, derivations: Mapping[str, Step], claims: Sequence[str] = ()) -> str:
    """A whole document that pdflatex compiles: derivations by name, premises first, and claims.

    Every step is a paragraph: its number, node, rule and source, the steps that it is from, what
    it assumes; then what it concludes.
    """
    parts = [rf"\section*{{{_words(title)}}}"]
    for name, step in derivations.items():
        steps = step.walk()
        number = {id(s): i for i, s in enumerate(steps, start=1)}
        parts.append(rf"\subsection*{{{_words(name)}}}")
        parts += [_paragraph(s, number) for s in steps]
    if claims:
        parts.append(r"\subsection*{claims}")
        parts += [rf"\noindent {_words(claim)}\par" for claim in claims]
    return _PREAMBLE + "\n".join(parts) + "\n\\end{document}\n"


def _paragraph(step: Step, number: Mapping[int, int]) -> str:
    used = ", ".join(f"({number[id(p)]})" for p in step.premises)
    reason = f"{step.node.head}: {step.cite}" + (f", from {used}" if used else "")
    assumed = "".join(f"; assuming {a.statement} ({a.status})" for a in step.assumes)
    attained = _attained(step, "; ")
    return (
        rf"\paragraph{{({number[id(step)]})}} {_words(reason + assumed + attained)}"
        rf"\begin{{formula}}${_symbol(step)} =$ {_broken(step.value)}{_below(step.value)}"
        r"\end{formula}"
    )


def _broken(value: Any) -> str:
    """As :func:`_latex`, in text that breaks between terms, entries and words."""
    import sympy

    if isinstance(value, tuple):
        return "(" + ", ".join(map(_broken, value)) + ")"
    if isinstance(value, Losses):
        return _words(value.text)
    if not is_printable(value):
        return _words(readable(value))
    first, *others = [sympy.latex(term) for term in sympify(value).as_ordered_terms()]
    signed = [f"{{}} {t}" if t.startswith("-") else f"{{}} + {t}" for t in others]
    return " ".join(rf"\fit{{{term}}}" for term in (first, *signed))


def _below(value: Any) -> str:
    """The value's decimal, rounded up, where the value is exact and is not that decimal."""
    parts = value if isinstance(value, tuple) else (value,)
    if any(isinstance(p, Losses) or is_infinite(p) or _has_symbols(p) for p in parts):
        return ""
    decimals = [decimal_upper(p, digits=6) for p in parts]
    if decimals == [readable(p) for p in parts]:
        return ""
    text = ", ".join(_POWER.sub(r" \\cdot 10^{\1}", decimal) for decimal in decimals)
    return rf" ${{}} \leq ({text})$" if isinstance(value, tuple) else rf" ${{}} \leq {text}$"


def _words(text: str) -> str:
    """Text for pdflatex; a letter that it cannot set is given by its number."""
    readable = "".join(c if ord(c) < 0x250 or c in _GLYPHS else f"(U+{ord(c):04X})" for c in text)
    return "".join(_GLYPHS.get(c, _escape(c)) for c in _BREAKS.sub(_BREAK, readable)).replace(
        _BREAK, r"\allowbreak{}"
    )


def _symbol(step: Step) -> str:
    calculus = CALCULI.get(step.calculus)
    return (calculus and calculus.measure.latex) or rf"\mathrm{{{_escape(step.calculus)}}}"


def _row(step: Step, number: Mapping[int, int]) -> str:
    used = ", ".join(f"({number[id(p)]})" for p in step.premises)
    reason = f"{step.node.name}, {step.cite}" + (f", from {used}" if used else "")
    place = number[id(step)]
    return rf"({place})\quad {_symbol(step)} &= {_latex(step.value)} && \text{{{_escape(reason)}}}"


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
