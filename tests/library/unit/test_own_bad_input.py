"""What somebody else registers wrongly is refused by name, before any number is made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

LEAF = """
from dataclasses import dataclass, replace
import dpaudit as dp
from dpaudit.check.theorem import Theorem, register as register_theorems
from dpaudit.exact import Number
from dpaudit.exact.domains import number, positive
from dpaudit.families.additive.kernel import LaplaceKernel
from dpaudit.kernels.base import Kernel, kernel
from dpaudit.measures.calculus import CALCULI, Calculus, Source, always, register
from dpaudit.measures.pure import PURE
from dpaudit.nodes import Leaf
from dpaudit.nodes.registry import load

@dataclass(frozen=True, eq=False, repr=False)
class Bare(Leaf):
    label: str
    noise_multiplier: Number = number(positive)

@PURE.rule(Bare, "bare", cite=Source("Nobody", 2000, "Theorem 1"), attained=always)
def bare(node):
    calls.append(node)
    return 1 / node.noise_multiplier

class Count:
    def declaration(self, scope):
        return Bare("count", 1)
    def run(self, curator):
        calls.append(curator)
        return curator.release("count", dp.ClippedMean(lambda v: v[None], radius=1, norm="l1"))

calls = []
scope = dp.central("replace_one")
counted = dp.Mechanism("bare", "A count", "nobody", Count(), scope, [dp.Claim(dp.PureDP(1), "me")])
pair = dp.Neighbours(dp.Records([[1.0]]), dp.Records([[0.0]]), "replace_one", "one record")
suite = dp.Suite("bare", Count(), pair, trials=200)
"""
CERTIFY = "dp.certify(counted, seed=1)"
CASES = {
    "a leaf without a kernel": (
        CERTIFY,
        "Unsupported: Bare('count', noise_multiplier=1): no kernel draws it; register one beside "
        "the node, with @kernel(Bare)",
    ),
    "a leaf without a kernel, attacked": (
        "dp.audit_mechanism(counted, suite, seed=1)",
        "Unsupported: Bare('count', noise_multiplier=1): no kernel draws it; register one beside "
        "the node, with @kernel(Bare)",
    ),
    "a measure without a conversion": (
        "own = replace(PURE.measure, name='own', wire='own', to_approx=None)\n"
        "register(Calculus(own))",
        "InvalidParameter: measure own: give its conversion to (epsilon, delta)",
    ),
    "a rule without a source": (
        "PURE.rule(Count, 'count', cite=None)(lambda node: 1)",
        "InvalidParameter: pure rule for Count: cite= its source",
    ),
    "a node type of another module's name": (
        "type('Bare', (Leaf,), {'__module__': 'elsewhere'})",
        "InvalidParameter: node type Bare exists already, in __main__: choose another name for "
        "that of elsewhere",
    ),
    "a second kernel of a shipped leaf": (
        "kernel(dp.Laplace)(type('Mine', (Kernel,), {}))",
        "InvalidParameter: Laplace has a kernel already, LaplaceKernel of "
        "dpaudit.families.additive.kernel: give your noise a node type of its own",
    ),
    "a second theorem of a node": (
        "load('theorem')\n"
        "register_theorems({('pure', 'Laplace'): Theorem('mine', lambda node: 0)})",
        "InvalidParameter: the checker has a pure theorem for Laplace already",
    ),
    "a theorem that raises": (
        "register_theorems({('pure', 'Bare'): Theorem('bare', lambda node: 1 / 0)})\n"
        "kernel(Bare)(LaplaceKernel)\n" + CERTIFY,
        "CertificateRejected: the checker's theorem pure.bare of Bare raised ZeroDivisionError",
    ),
}


@pytest.fixture(scope="module")
def told(checkout: Path) -> dict[str, list[Any]]:
    """All in one process, in order: what was raised, and how often a rule or the program ran."""
    tries = [
        f"try:\n{indent(lines, '    ')}\nexcept Exception as error:\n"
        f"    told[{name!r}] = [type(error).__name__ + ': ' + str(error), len(calls)]\n"
        for name, (lines, _) in CASES.items()
    ]
    program = "\n".join([LEAF, "told = {}", *tries, "import json", "print(json.dumps(told))"])
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=checkout
    )
    assert found.returncode == 0, found.stderr
    made: dict[str, list[Any]] = json.loads(found.stdout)
    return made


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_by_name(name: str, told: dict[str, list[Any]]) -> None:
    """A theorem is asked for once there is an account, and before the program runs."""
    message, calls = told[name]
    assert message.startswith(CASES[name][1])
    assert calls == (name == "a theorem that raises")
