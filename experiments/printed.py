"""The numbered statements of the five papers, and why some have no row.

The numbers are the papers' own.  ``experiments/lab/listed.py`` finds the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from experiments.lab.listed import Listed
from mechanisms.papers import claims_page

STEP = "a step of a proof; the theorem that it serves has a row"
CITED = "cited from another paper, and used here as that paper has it"
COMMENT = "a comparison with other papers' rates, without a claim of its own"
SMOOTH = "an inequality for smooth losses, a step of a utility proof"


def again(statement: str) -> str:
    """Of a statement that is printed twice."""
    return f"printed again as {statement}, or from there: see its row"


def programmed(file: str) -> str:
    """Of a statement that a program or a formula rests on."""
    return f"no claim of a run of its own: programmed in `mechanisms/papers/{file}`"


def _statements(package: str) -> list[str]:
    return [row.statement for row in claims_page.printed() if row.paper == package]


def _listed(paper: str, package: str, statements: Mapping[str, str]) -> Listed:
    return Listed(paper, claims_page.NAMES[package], statements, partial(_statements, package))


USER_LEVEL = _listed(
    "user_level",
    "user_level",
    {
        "Theorem 2.1": "",
        "Remark 2.2": COMMENT,
        "Lemma 2.3": "",
        "Theorem 3.1": "",
        "Theorem 3.2": "",
        "Remark 3.3": COMMENT,
        "Remark 3.4": "of what the theorems do not assume: nothing to run",
        "Lemma 3.5": programmed("user_level/phased_erm.py"),
        "Remark 3.6": "a reduction that the paper names and does not state: reconstructed as "
        "`strongly_convex_reduction`, which has a certificate of ours",
        "Theorem 4.1": "",
        "Remark 4.2": COMMENT,
        "Lemma A.4": CITED,
        "Lemma A.6": "",
        "Lemma A.7": CITED,
        "Lemma A.8": "",
        "Lemma A.9": CITED,
        "Theorem A.11": CITED,
        "Lemma A.12": CITED,
        "Theorem B.1": again("Theorem 2.1"),
        "Lemma B.2": STEP,
        "Lemma B.3": SMOOTH,
        "Lemma B.4": again("Lemma 2.3"),
        "Theorem C.1": again("Theorem 3.1"),
        "Lemma C.2": STEP,
        "Theorem C.3": again("Theorem 3.2"),
        "Lemma C.4": CITED,
        "Remark C.5": programmed("user_level/acsa.py"),
        "Lemma C.6": again("Lemma 3.5"),
        "Lemma D.1": "",
        "Lemma D.2": programmed("user_level/phased_erm.py"),
        "Theorem D.3": again("Theorem 4.1"),
    },
)
STABLE = _listed(
    "stable",
    "stable_erm",
    {
        "Theorem 3.1": "",
        "Theorem 3.3": "",
        "Observation 3.5": STEP,
        "Theorem 3.6": "",
        "Corollary 3.7": "",
        "Lemma 3.8": programmed("stable_erm/bounds.py"),
        "Theorem 4.1": "",
        "Lemma 4.2": STEP,
        "Theorem 4.3": "",
        "Theorem 5.1": "",
        "Lemma 5.2": STEP,
        "Theorem 5.3": "",
        "Proposition A.1": CITED,
        "Proposition B.1": programmed("stable_erm/bounds.py"),
        "Lemma C.1": "",
        "Lemma D.2": CITED,
        "Lemma D.3": CITED,
        "Theorem D.4": CITED,
        "Lemma D.5": STEP,
        "Lemma D.6": STEP,
        "Theorem D.7": "a lower bound for every algorithm, with an open constant: no run of one "
        "can confirm or refute it; its formula is in `mechanisms/papers/stable_erm/floors.py`",
        "Theorem D.8": "as Theorem D.7",
    },
)
SRGD = _listed(
    "srgd",
    "srgd",
    {
        "Theorem 4.1": again("Theorem 5.1"),
        "Theorem 4.2": again("Theorems 5.8 and 5.12"),
        "Theorem 5.1": "",
        "Lemma 5.2": "",
        "Lemma 5.3": "arithmetic of the schedule, a step of the proof of Theorem 5.1",
        "Lemma 5.4": programmed("srgd/sensitivity.py"),
        "Lemma 5.5": programmed("srgd/sensitivity.py"),
        "Lemma 5.6": programmed("srgd/gradient.py"),
        "Corollary 5.7": "",
        "Theorem 5.8": "",
        "Lemma 5.9": "",
        "Corollary 5.10": "",
        "Corollary 5.11": programmed("srgd/constants.py"),
        "Theorem 5.12": "",
        "Theorem 5.13": "",
    },
)
DIFF2 = _listed(
    "diff2",
    "diff2",
    {
        "Proposition 4.1": "",
        "Remark 4.2": COMMENT,
        "Theorem 4.3": "",
        "Remark 4.4": COMMENT,
        "Proposition 5.1": "",
        "Theorem 5.3": "",
        "Remark 5.4": "a rate of rounds at parameters whose constants are open",
        "Remark 5.5": "",
        "Lemma B.2": CITED,
        "Lemma B.3": CITED,
        "Lemma B.4": CITED,
        "Lemma B.6": CITED,
        "Lemma B.7": CITED,
        "Lemma B.8": programmed("diff2/lemmas.py"),
        "Lemma C.1": programmed("diff2/lemmas.py"),
        "Lemma D.1": SMOOTH,
        "Proposition D.2": "",
        "Lemma E.1": programmed("diff2/lemmas.py"),
        "Proposition E.2": "",
        "Lemma F.1": SMOOTH,
        "Proposition F.2": "",
        "Proposition F.3": programmed("diff2/theory.py"),
        "Theorem F.4": programmed("diff2/theory.py"),
    },
)
KL = _listed(
    "kl",
    "kl",
    {
        "Theorem 1": "",
        "Lemma 1": "a bound of how far iterates go, a step of the proof of Theorem 1",
        "Lemma 2": STEP,
        "Corollary 1": "a lower bound for every algorithm, with an open constant; its formula is "
        "in `mechanisms/papers/kl/bounds.py`",
        "Theorem 2": "",
        "Lemma 3": STEP,
        "Lemma 4": "a bound of how far iterates go, a step of the proof of Theorem 2",
        "Theorem 3": "",
        "Lemma 5": "a bound of how far iterates go, a step of the proof of Theorem 4",
        "Theorem 4": "",
        "Theorem 5": "",
        "Lemma 6": CITED,
        "Lemma 7": programmed("kl/condition.py"),
        "Remark 1": programmed("kl/condition.py"),
        "Lemma 8": "",
        "Lemma 9": SMOOTH,
        "Theorem 6": "a lower bound for every algorithm; the reduction of its proof is programmed "
        "in `mechanisms/papers/kl/reduction.py`",
        "Theorem 7": "a lower bound for every algorithm; its hard instance is in "
        "`mechanisms/papers/kl/instances.py`",
        "Theorem 8": "as Theorem 7",
        "Lemma 10": STEP,
        "Lemma 11": STEP,
        "Lemma 12": STEP,
        "Lemma 13": STEP,
        "Lemma 14": CITED,
        "Theorem 9": "",
    },
)
