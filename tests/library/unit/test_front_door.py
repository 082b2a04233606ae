"""The front door: what `import dpaudit` gives, what it loads, and that every example runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sympy

import dpaudit as dp

# What it loads beyond two modules of the standard library; time on a shared machine tells less.
LOADED = (
    "import sys, __future__, importlib, typing; before = set(sys.modules); {}; "
    "print(*sorted(set(sys.modules) - before))"
)
PUBLIC = [name for name in dp.__all__ if name != "__version__"]


def loaded(statement: str) -> list[str]:
    """Modules that a statement loads in a process of its own."""
    command = [sys.executable, "-c", LOADED.format(statement)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_importing_it_loads_next_to_nothing() -> None:
    assert loaded("import dpaudit") == ["dpaudit", "dpaudit.version"]
    assert "sympy" not in loaded("import dpaudit; dpaudit.Scope, dpaudit.Gaussian")
    assert len(loaded("import dpaudit; dpaudit.account")) > 50


def test_names_are_listed_once_and_the_same_everywhere(checkout: Path) -> None:
    tree = ast.parse((checkout / "dpaudit" / "__init__.py").read_text("utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    homes = {
        alias.name: str(line.module)
        for line in typed.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    assert sorted(homes) == sorted(PUBLIC) == sorted(set(PUBLIC))
    for name, home in homes.items():
        assert getattr(dp, name) is getattr(importlib.import_module(home), name)
    assert set(dp.__all__) <= set(dir(dp))
    assert 50 <= len(PUBLIC) <= 84


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Gausian'"):
        dp.Gausian  # noqa: B018


@pytest.mark.long_cases("Shuffled")
@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example_that_runs(name: str) -> None:
    value = getattr(dp, name)
    examples = doctest.DocTestFinder(recurse=False).find(value, name, globs={})
    assert [one for test in examples for one in test.examples], f"{name} has no example"
    for test in examples:
        result = doctest.DocTestRunner().run(test)
        assert result.failed == 0, f"the example of {name} fails"


def test_a_broken_example_is_noticed() -> None:
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None).failed == 1


# --- one line as text, a card in a notebook -------------------------------------------------------


def opened() -> dp.Account:
    account = dp.account(dp.Laplace("<count>", "2"), dp.central("add_remove"))
    account.epsilon("1e-6")
    return account


def audited() -> list[object]:
    import numpy as np

    rng = np.random.default_rng(1)
    samples = rng.normal(2, 1, 400), rng.normal(0, 1, 400)
    return [
        dp.audit_scores(*samples, origin="independent_runs", claim=dp.GDP("0.1")),
        dp.audit_scores(*samples, origin="neither"),
        dp.audit_function(
            lambda data, rng, size: rng.laplace(data, 1, size),
            0,
            1,
            claim=dp.PureDP("1"),
            trials=1_000,
            seed=1,
            confidence="0.9",
            refute_at="1e-4",
        ),
    ]


def test_what_people_look_at_is_one_line_a_short_repr_and_a_card() -> None:
    account = opened()
    claim = dp.Claim(dp.PureDP("0.5"), by="a <test>")
    checked = claim.check_account(account)
    for shown in (account, account.epsilon(0), claim, checked, *audited()):
        assert "\n" not in str(shown)
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 120
        html = shown._repr_html_()  # type: ignore[attr-defined]
        assert html.startswith("<table>")
        assert "<test>" not in html
        assert "<count>" not in html


def test_numbers_round_outward_in_text() -> None:
    bound = dp.account(dp.Gaussian("mean", 3), dp.central("add_remove")).epsilon("1e-5")
    low, high = str(bound).split(" (")[0].split(" to ")
    assert float(low) <= bound.lower <= bound.upper <= float(high)


X = sympy.Symbol("x", positive=True)


def rows(values: Any) -> Any:
    return values[None]


def account_of() -> dp.Account:
    return dp.account(dp.Gaussian("a", 1), dp.central("add_remove"))


# --- numbers and adjacencies as text --------------------------------------------------------------


def test_a_decimal_as_text_is_the_same_declaration() -> None:
    texts = dp.Repeat(dp.PoissonSampled(dp.Gaussian("gradient", "1.5"), "0.01"), "10")
    assert texts == dp.Repeat(dp.PoissonSampled(dp.Gaussian("gradient", 1.5), 0.01), 10)
    assert dp.ApproxDP("0.9", "1e-6") == dp.ApproxDP(0.9, 1e-6)


SAMPLES = [2.0, 3.0, 4.0, 5.0] * 50, [0.0, 1.0, -1.0, 0.5] * 50
# What takes a number that need not be whole; the nodes and claims all make theirs exact alike.
NUMBERS: dict[str, Callable[[Callable[[str], Any]], object]] = {
    "width": lambda n: dp.Account(dp.Gaussian("a", 1), dp.central("add_remove"), n("0.01")).width,
    "account": lambda n: dp.account(dp.Gaussian("a", 1), dp.central("add_remove"), n("0.01")).width,
    "delta": lambda n: account_of().epsilon(n("0.001")),
    "epsilon": lambda n: account_of().delta(n("0.5")),
    "rate": lambda n: account_of().tradeoff(n("0.25")),
    "interval": lambda n: dp.Claim(dp.GDP(X), by="a", ranges={X: (n("0.5"), n("2.5"))}).ranges,
    "bracket": lambda n: (
        dp.calibrate(
            dp.Gaussian("a", X), dp.central("add_remove"), dp.GDP(1), bracket=(n("0.5"), n("2.5"))
        ).value
    ),
    "radius": lambda n: float(dp.ClippedMean(rows, n("0.5")).radius),
    "divisor": lambda n: dp.ClippedMean(rows, 1, divisor=n("2.5")).divisor,
    "plus": lambda n: dp.clipped_sum(rows, n("0.5"), plus=n("-0.25")).plus,
    "threshold": lambda n: dp.Suite("m", None, None, threshold=n("0.5")).threshold,  # type: ignore[arg-type]
    "scores": lambda n: dp.audit_scores(
        *SAMPLES,
        origin="independent_runs",
        claim=dp.GDP("0.1"),
        confidence=n("0.9"),
        refute_at=n("0.001"),
    ),
    "one run": lambda n: str(
        dp.audit_one_run(100, claim=dp.PureDP(1), confidence=n("0.9"), refute_at=n("0.001"))
    ),
    "function": lambda n: str(
        dp.audit_function(
            lambda data, rng, size: rng.laplace(data, 1, size),
            0,
            1,
            claim=dp.PureDP(1),
            trials=1_000,
            seed=1,
            confidence=n("0.9"),
            refute_at=n("0.001"),
        )
    ),
    "run": lambda n: dp.dp_sgd(n=1_000, batch=100, epochs=n("1.5"), sigma=n("0.9")),
    "tree": lambda n: dp.dp_ftrl(steps=8, sigma=n("0.9")),
    "noise": lambda n: dp.noise_for(
        epsilon=n("1.5"), delta=n("0.001"), n=100, batch=100, epochs=n("2.0")
    ),
}


@pytest.mark.first_case
@pytest.mark.long_cases("scores")
@pytest.mark.parametrize("name", NUMBERS)
def test_a_decimal_as_text_is_taken_wherever_a_number_is(name: str) -> None:
    assert NUMBERS[name](str) == NUMBERS[name](float)


def test_a_text_that_is_no_number_is_refused_by_name() -> None:
    for build in (
        lambda: dp.ClippedMean(rows, "wide"),
        lambda: dp.ClippedMean(rows, 1, divisor="many"),  # type: ignore[arg-type]
        lambda: dp.Account(dp.Gaussian("a", 1), dp.central("add_remove"), "narrow"),
    ):
        with pytest.raises(dp.InvalidParameter, match=r"wide|many|narrow"):
            build()


def test_an_adjacency_by_name_is_not_taken_for_another() -> None:
    mean = dp.ClippedMean(lambda values: values[None], radius=1)
    assert mean.sensitivity("replace-one", 4) == mean.sensitivity(dp.Adjacency.REPLACE_ONE, 4)
    with pytest.raises(dp.InvalidParameter, match="add_remove, replace_one, zero_out"):
        mean.sensitivity("bounded", 4)


# --- certificates from Python ---------------------------------------------------------------------


class Count:
    """One noisy count."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Laplace("count", noise_multiplier=1)

    def run(self, curator: dp.Curator) -> object:
        rows = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1, norm="l1")
        return curator.release("count", rows)


def counted(epsilon: str) -> dp.Mechanism:
    return dp.Mechanism(
        name="noisy_count",
        title="A count",
        source="Dwork, McSherry, Nissim and Smith 2006, Proposition 1",
        program=Count(),
        scope=dp.central("add_remove"),
        claims=[dp.Claim(dp.PureDP(epsilon), by="this test")],
        records=lambda: dp.Records([[1.0], [0.0], [1.0]]),
    )


def test_a_mechanism_is_certified_saved_and_verified(tmp_path: Path) -> None:
    certificate = dp.certify(counted("1"), seed=1)
    assert certificate.verdict == "certified under assumptions"
    path = certificate.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["noisy_count.html", "noisy_count.json"]
    found = dp.verify(path)
    assert found.verdict == certificate.verdict
    assert found.confirmed
    assert json.loads(path.read_text("utf-8")) == certificate.content
    named = certificate.content["predicate"]["mechanism"]["implementation"]
    assert [row["name"] for row in named] == [Path(__file__).name]
    for shown in (certificate, found):
        assert "\n" not in str(shown)
        assert shown._repr_html_().startswith("<table>")


def test_a_false_claim_is_refuted_and_a_changed_certificate_rejected() -> None:
    certificate = dp.certify(counted("0.9"), seed=1)
    assert certificate.verdict == "refuted"
    changed = json.loads(json.dumps(certificate.content))
    changed["predicate"]["claims"][0]["verdict"] = "certified"
    with pytest.raises(dp.DpauditError, match="changed"):
        dp.verify(changed)


def test_a_program_in_the_wrong_norm_says_so_where_it_is_printed() -> None:
    class Counted(Count):
        def run(self, curator: dp.Curator) -> object:
            return curator.release("count", dp.Statistic(lambda rows: rows[:, 0].sum(), 1))

    case = replace(counted("1"), program=Counted(), records=None)
    certificate = dp.certify(case, seed=1)
    assert certificate.verdict == "unconfirmed"
    for shown in (str(certificate), certificate._repr_html_()):
        assert "needs a query bounded in l1, not l2; state norm=" in shown


@pytest.mark.quality
def test_an_attack_alone_leaves_the_data() -> None:
    one, none = dp.Records([[0.0], [1.0]]), dp.Records([[0.0]])
    pair = dp.Neighbours(one, none, "add_remove", "a record of 1 more")
    suite = dp.Suite("noisy_count", Count(), pair, trials=2_000)
    found = dp.audit_mechanism(counted("1"), suite, seed=1)
    assert found.content["predicate"]["run"] is None
    assert found.content["predicate"]["audits"]
