"""Derivations as text and LaTeX: every line sourced, braces balanced, nothing exponential."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sympy
from click.testing import CliRunner

from dpaudit.accountant.account import Account
from dpaudit.cli.main import main
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.opaque import ZCDP, NonPrivate
from dpaudit.measures.calculus import Calculus
from dpaudit.measures.convert import to_approx
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.show import latex_document, show_latex, show_text, value_text
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.scope import Scope

SCOPE = Scope("replace_one", "record", "central", "transcript")
x, y = sympy.symbols("x y", positive=True)
k, K = sympy.symbols("k K", positive=True, integer=True)
T = sympy.Function("T", positive=True)
NODES: list[Node] = [
    Gaussian("a", 2),
    Compose(Gaussian("a", 3), Repeat(Laplace("100%_{sure} & #1 ^~\\$", x), K)),
    Repeat(Gaussian("a", x * T(k)), K, k),
    Parallel(Gaussian("a", x), Gaussian("b", y)),
    Compose(Gaussian("a", sympy.sqrt(2)), NonPrivate("the mean {of} all")),
    Assuming(Gaussian("a", 1), Assumption("i", "Losses are convex.", Status.DECLARED)),
]


def unescaped(text: str, letter: str) -> int:
    return len(re.findall(r"(?<!\\)(?:\\\\)*" + re.escape(letter), text))


@pytest.mark.parametrize("calculus", [CONCENTRATED, GAUSSIAN, RENYI], ids=lambda c: c.name)
@pytest.mark.parametrize("node", NODES, ids=range(len(NODES)))
def test_every_line_names_its_source(calculus: Calculus, node: Node) -> None:
    step = calculus.fold(node, SCOPE)
    text = show_text(step)
    lines = [line for line in text.splitlines() if "[" in line]
    assert len(lines) >= len(step.walk())
    for part in step.walk():
        assert any(f"{part.rule}: {part.cite}" in line and part.node.head in line for line in lines)
    assert lines[0].startswith(f"{ {'zcdp': 'rho', 'gdp': 'mu'}.get(calculus.name, 'eps') }"[:3])


@pytest.mark.parametrize("calculus", [CONCENTRATED, GAUSSIAN, RENYI], ids=lambda c: c.name)
@pytest.mark.parametrize("node", NODES, ids=range(len(NODES)))
def test_latex_is_well_formed(calculus: Calculus, node: Node) -> None:
    """One environment, one row a step, balanced braces and delimiters, nothing unescaped."""
    step = calculus.fold(node, SCOPE)
    latex = show_latex(step)
    rows = latex.split("\n")[1:-1]
    assert latex.startswith("\\begin{align*}\n")
    assert latex.endswith("\n\\end{align*}")
    assert len(rows) == len(step.walk())
    for number, (row, part) in enumerate(zip(rows, step.walk(), strict=True), start=1):
        assert row.startswith(rf"({number})\quad ")
        assert row.endswith(" \\\\") == (number < len(rows))
        assert unescaped(row, "{") == unescaped(row, "}")
        assert unescaped(row.removesuffix(" \\\\"), "&") == 3
        assert row.count(r"\left") == row.count(r"\right")
        assert not any(unescaped(row, letter) for letter in "#%$~")
        assert str(part.cite.year) in row
        for i, other in enumerate(step.walk(), start=1):
            assert (f"({i})" in row.partition("from ")[2]) == (other in part.premises)


def test_a_numeric_derivation_reads_like_one() -> None:
    node = Compose(Gaussian("a", 2), Repeat(Gaussian("b", 4), 6))
    assert show_text(CONCENTRATED.fold(node, SCOPE)).splitlines() == [
        "rho = 0.3125   Compose()   [zcdp.composition: Bun, Steinke 2016, Lemma 2.3 "
        "(adaptive composition), attained]",
        "  rho = 0.125   Gaussian('a', noise_multiplier=2)   "
        "[zcdp.gaussian: Bun, Steinke 2016, Proposition 1.6, attained]",
        "  rho = 0.1875   Repeat(times=6)   [zcdp.repetition: Bun, Steinke 2016, Lemma 2.3 "
        "(adaptive composition), attained]",
        "    rho = 0.03125   Gaussian('b', noise_multiplier=4)   "
        "[zcdp.gaussian: Bun, Steinke 2016, Proposition 1.6, attained]",
    ]


def test_conversions_assumptions_and_pairs_are_shown() -> None:
    step = Account(Gaussian("a", 1), SCOPE).approximate(1e-5)
    text = show_text(step)
    assert text.startswith("(epsilon, delta) = (4.37717809569 <= 4.37718")
    assert ", 0.00001)" in text.splitlines()[0]
    assert "convert.gdp_to_approx: Balle, Wang 2018" in text
    assert r"(\varepsilon, \delta) &= \left(" in show_latex(step)
    assumed = show_text(CONCENTRATED.fold(NODES[-1], SCOPE))
    assert "assuming Losses are convex. (declared)" in assumed
    opaque = show_text(CONCENTRATED.fold(ZCDP(1, "z", "Somebody 2020"), SCOPE))
    assert "as proved by Somebody 2020 (declared)" in opaque


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(1, 8), "0.125"),
        (Fraction(1, 3), "1/3 <= 0.333334"),
        (sympy.sqrt(2), "sqrt(2) <= 1.41422"),
        (x / 2, "x/2"),
        (sympy.oo, "oo"),
        ((Fraction(1), Fraction(1, 3)), "(1, 1/3 <= 0.333334)"),
        (sum(1 / sympy.sqrt(i) for i in range(2, 60)), "<= 13.9166"),
    ],
)
def test_values_are_exact_and_their_decimals_rounded_up(value: Any, text: str) -> None:
    found = value_text(value)
    assert found == text or (text.startswith("<=") and found.startswith("<= 1"))


def test_a_shared_tree_is_shown_once() -> None:
    start = time.process_time()
    node: Node = Laplace("l", 2)
    for _ in range(300):
        node = Compose(node, node)
    step = PURE.fold(node, SCOPE)
    text, latex = show_text(step), show_latex(step)
    assert text.count("(premises as above)") == 299
    assert len(text.splitlines()) < 1000
    assert len(latex.splitlines()) == 303
    assert time.process_time() - start < 3


@pytest.mark.quality
def test_a_deep_chain_and_huge_numbers_are_shown() -> None:
    start = time.process_time()
    node: Node = Laplace("l", 2)
    for _ in range(1200):
        node = Repeat(node, 10**5)
    step = PURE.fold(node, SCOPE)
    assert len(show_text(step).splitlines()) == 1201
    assert show_text(step).startswith("epsilon = 5e5999...")
    assert r"\text{5e5999...}" in show_latex(step)
    assert time.process_time() - start < 6


NEEDS_TEX = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="no pdflatex: nothing compiles LaTeX"
)


def overfull(document: str, folder: Path) -> list[float]:
    """By how many points lines of the compiled document leave the page."""
    file = folder / "derivation.tex"
    file.write_text(document, "utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", file.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert file.with_suffix(".pdf").stat().st_size > 10_000
    log = file.with_suffix(".log").read_text("utf-8", errors="replace")
    return [float(points) for points in re.findall(r"Overfull .hbox \((\S+)pt", log)]


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.quality
@NEEDS_TEX
def test_a_whole_derivation_compiles_and_stays_on_the_page(tmp_path: Path) -> None:
    """Every route of every node, with letters that TeX reads otherwise or has no glyph for.

    One has a hundred digits, one a sum of many terms and one a term wider than the page.
    """
    many = sympy.Add(*(sympy.sqrt(prime) for prime in sympy.primerange(60)))
    wide = [Laplace("l", Fraction(10**60 + 7, 10**59)), Gaussian("g", many), Laplace("w", x**many)]
    derivations = {}
    for place, node in enumerate([*NODES, *wide]):
        account = Account(node, SCOPE)
        derivations |= {f"{place}_{c}": account.step(c) for c in account.routes()}
    title = "100% of {_it_} & more: \u03b5 \u2264 \u221a\u03b4, \u00e9, \u2603, \\input{x}"
    document = latex_document(title, derivations, ["a & b: #1 ^ ~ proved", "7" * 200])
    assert overfull(document, tmp_path) == []
    bare = document.replace(r"\allowbreak{}", "").replace(r"\resizebox{.9\linewidth}{!}", "")
    assert max(overfull(bare, tmp_path)) > 100


@NEEDS_TEX
@pytest.mark.quality
@pytest.mark.parametrize("part", range(8))
def test_the_derivations_of_the_whole_catalogue_compile(part: int, tmp_path: Path) -> None:
    targets = [row["target"] for row in json.loads(printed("list", "--json"))]
    assert len(targets) > 100
    for target in targets[part::8]:
        assert overfull(printed("show", target, "--latex"), tmp_path) == [], target


def test_a_value_and_its_decimal_are_shown() -> None:
    step = PURE.fold(Laplace("l", 3), SCOPE)
    assert r"${} \leq 0.333334$" in latex_document("a title", {"pure": step})
    step = PURE.fold(Laplace("l", 2 * 10**9), SCOPE)
    assert r"${} \leq 5 \cdot 10^{-10}$" in latex_document("a title", {"pure": step})
    for node in (Laplace("l", 1), Laplace("l", x)):
        assert r"\leq" not in latex_document("a title", {"pure": PURE.fold(node, SCOPE)})


def test_a_document_has_every_step_once() -> None:
    step = CONCENTRATED.fold(NODES[1], SCOPE)
    text = latex_document("a title", {"zcdp": step}, ["proved"])
    assert text.startswith("\\documentclass")
    assert text.count(r"\paragraph{(") == len(step.walk())
    assert all(text.count(rf"\paragraph{{({n})}}") == 1 for n in range(1, len(step.walk()) + 1))
    for letter in "{}":
        assert text.count("{") == text.count("}"), letter


def test_a_converted_bound_says_what_is_attained_below_it() -> None:
    step = to_approx(GAUSSIAN.fold(NODES[0], SCOPE), Fraction(1, 10**5))
    assert ", attained]" in show_text(step).splitlines()[0]
    lowered = replace(step, lower=step.lower / 2)
    assert ", at least 0.9965" in show_text(lowered).splitlines()[0]
