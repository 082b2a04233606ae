"""experiments/README.md says what would be accepted, and holds no outcome of a result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

DEFINED = "What a check says"
# A paper's section, and the package of its experiments.
PACKAGES = {
    "DIFF2": "diff2",
    "Accelerated-DP-SRGD": "srgd",
    "User-level convex optimisation": "user_level",
    "Stable-subset output perturbation": "stable_erm",
    "Minimisation under the KL condition": "kl",
}
VERDICTS = re.compile(
    r"\b(held|miss(ed|es)?|inconclusive|overspends?|finds|they grow)\b", re.IGNORECASE
)
NUMBERS = re.compile(r"(?<![\w.])(\d[\d_]*(?:\.\d+)?|\.\d+)(?:e(-?\d+))?(?:(?:\^|\*\*)(\d+)|(%))?")
RAISED = {ord(raised): f"^{plain}" for plain, raised in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}


def sections(page: str) -> Mapping[str, str]:
    """The text below every heading of the second level, its title without the authors."""
    parts = re.split(r"^## ", page, flags=re.MULTILINE)
    pairs = (part.partition("\n") for part in parts[1:])
    return {"": parts[0]} | {title.partition(" (")[0]: text for title, _, text in pairs}


def numbers(text: str) -> set[float]:
    """Every number of a text; of a power, as 2^14 or 2**14, and of a percentage the value."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", text).translate(RAISED)
    found = NUMBERS.findall(plain)
    return {
        float(f"{base}e{ten or 0}") ** int(power or 1) / (100 if percent else 1)
        for base, ten, power, percent in found
    }


def accepted(text: str) -> str:
    """A section without the first cells of its rows, which count the acceptances of a plan."""
    return re.sub(r"^\|[^|]*\|", "", text, flags=re.MULTILINE)


def outcomes(page: str, sources: Mapping[str, str]) -> list[str]:
    """Verdicts outside of their definition, and numbers of a paper that its sources do not have.

    ``sources``: what a paper's experiments are made of, by package: an outcome is not in it.
    """
    found = []
    for title, text in sections(page).items():
        if title != DEFINED:
            found += [f"{title}: {word}" for word in _verdicts(text)]
        if title in PACKAGES:
            unknown = numbers(accepted(text)) - numbers(sources[PACKAGES[title]])
            found += [f"{title}: {number:g}" for number in sorted(unknown)]
    return found


def _verdicts(text: str) -> list[str]:
    return [found.group() for found in VERDICTS.finditer(text)]


@pytest.fixture
def sources(checkout: Path) -> dict[str, str]:
    folders = {package: checkout / "experiments" / package for package in PACKAGES.values()}
    return {
        package: "\n".join(path.read_text("utf-8") for path in sorted(folder.glob("*.py")))
        for package, folder in folders.items()
    }


def test_no_outcome_of_a_result_stands_in_utility(checkout: Path, sources: dict[str, str]) -> None:
    page = (checkout / "experiments" / "README.md").read_text("utf-8")
    assert set(PACKAGES) | {DEFINED} <= set(sections(page))
    assert VERDICTS.search(sections(page)[DEFINED])
    assert outcomes(page, sources) == []


DIFF2, SRGD, KL, STABLE, USER = (
    "DIFF2",
    "Accelerated-DP-SRGD",
    "Minimisation under the KL condition",
    "Stable-subset output perturbation",
    "User-level convex optimisation",
)


@pytest.mark.parametrize(
    ("title", "sentence"),
    [
        (KL, "Missed by ABG+23 where there is no KL condition, by WYX17 at κ = 4."),
        (KL, "From n = 60 to 190 in 10 dimensions it was -1.36 ± .09."),
        (USER, "Who ends below its start (missed by Algorithm 1 at every ε)."),
        (USER, "With lambda and T as Theorem C.3 sets them for each m it is -.33 ± .05."),
        (USER, "Without noise the same runs are 49 (n = 2,048) to 29,000 times better."),
        (STABLE, "A random point, 1.4 to 2.4 times as far above the least loss as the start is."),
        (STABLE, "The break-even lies at 10⁵ items a user, at 6·10⁶ for diameter stability."),
        (STABLE, "The same runs end within 1.3% of the start's distance."),
        (DIFF2, "`diff2_contest` does as the paper, and finds the same order."),
        (SRGD, "Of them the same ratio and slope are asked, and they miss both."),
        (USER, "On secret batches they grow as (nm)^(9/8), as in Figure 1."),
        (KL, "Algorithm 3 charged as printed overspends."),
    ],
)
def test_an_outcome_by_hand_is_found(
    title: str, sentence: str, checkout: Path, sources: dict[str, str]
) -> None:
    """Sentences as they stood on the page once, written by hand."""
    page = (checkout / "experiments" / "README.md").read_text("utf-8")
    heading = next(line for line in page.splitlines() if line.startswith(f"## {title}"))
    with_it = page.replace(heading, f"{heading}\n\n{sentence}", 1)
    assert {one.partition(": ")[0] for one in outcomes(with_it, sources)} == {title}


def test_numbers_are_read_in_the_ways_they_are_written() -> None:
    assert numbers("n = 2^14, 10⁶, 1e-6 and 30,000") == {16384.0, 1e6, 1e-6, 3e4}
    assert numbers("2**14, 30_000, .05, 2% at C1") == {16384.0, 3e4, 0.05, 0.02}
