"""How many of each paper's claims of privacy are proved and refuted, for the papers' pages.

The rows are those of ``mechanisms/papers/README.md``, counted: nothing is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from experiments.lab.papers import Claims
from mechanisms.papers import claims_page

DECIDED = ("proved", "refuted")
UNDECIDED = "not decided"


def counted(package: str) -> Mapping[str, int]:
    """The rows of a paper in ``mechanisms/papers/README.md``, counted by outcome."""
    outcomes = [row.outcome for row in claims_page.printed() if row.paper == package]
    found = {word: outcomes.count(word) for word in DECIDED}
    return {**found, UNDECIDED: len(outcomes) - sum(found.values())}


def _claims(paper: str, package: str) -> Claims:
    heading = re.sub(r"[^\w -]", "", claims_page.NAMES[package].lower()).replace(" ", "-")
    return Claims(paper, f"../../mechanisms/papers/README.md#{heading}", partial(counted, package))


DIFF2 = _claims("diff2", "diff2")
SRGD = _claims("srgd", "srgd")
KL = _claims("kl", "kl")
STABLE = _claims("stable", "stable_erm")
USER_LEVEL = _claims("user_level", "user_level")
