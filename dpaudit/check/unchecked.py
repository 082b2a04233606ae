"""Fields that may change while the certificate verifies: ``dpaudit verify`` names them.

A field is named by its path in the predicate, without the numbers of rows; a name stands for all
that is below it.  Tests change every leaf of every committed certificate, one at a time: each
change is refused, or of a field that is named here.
"""

from __future__ import annotations

from typing import NamedTuple


class Unchecked(NamedTuple):
    """Fields, and what a checker knows of them instead."""

    why: str
    fields: tuple[str, ...]


# These cannot be derived again: the signer answers for them.
SIGNERS_WORD = (
    "issued",
    "fields",
    "scope",
    "mechanism name",
    "mechanism title",
    "mechanism source",
    "mechanism program",
    "mechanism root",
    "mechanism place",
    "mechanism implementation",
    "claims by",
    "claims source",
    "claims reading",
    "claims reason",
    "claims id",
    "derivation accountant",
    "derivation steps cite",
    "audits threat_model",
    "audits attack",
    "audits differs",
    "audits neighbours",
    "audits neighbours_text",
    "audits training_trials",
    "audits threshold",
    "audits estimator",
    "audits program",
    "audits suite",
    "conformance detail",
    "conformance tried",
    "examination",
    "run",
    "caveats",
    "environment",
    "reproduce command",
    "verdict reasons",
    "likelihoods id",
    "likelihoods neighbours",
    "likelihoods neighbours_text",
    "likelihoods run_on",
    "likelihoods pilot_runs",
    "likelihoods proposal",
    "likelihoods why_not",
)
# Observed, and compared only with the p-value that is stated: at 1 it is that of many statistics.
OBSERVED = (
    "conformance statistic",
    "conformance size",
    "conformance among",
    "conformance parameter",
    "conformance check",
    "conformance error_rate",
)
# Every conclusion is derived again from the values that stand here.
CHOSEN = (
    "derivation steps witness",
    "likelihoods bounds at",
    "likelihoods bounds fractions",
    "likelihoods bounds refuted",
)
# Every point is confirmed by itself, so that one may be left out, or stand there twice.
APART = (
    "derivation upper_bounds",
    "in_plain_words posterior",
    "audits roc",
)
# A larger upper bound is a weaker one, and true.
WEAKER = (
    "claims upper",
    "derivation steps conclusion",
    "derivation steps expression",
    "derivation upper_bounds",
    "verdict margin",
)
# Fewer audits, more runs that show nothing, smaller losses, weights and bounds are weaker evidence;
# losses and weights are on the word of whoever made the audit: replay them.
WEAKER_FROM_BELOW = (
    "likelihoods scores",
    "likelihoods runs",
    "likelihoods bounds lower",
    "likelihoods bounds decisive",
    "likelihoods band",
    "likelihoods left out",
)
# Rounded outward when they are written, and so confirmed but for so much of themselves.
ROUNDED = (
    "audits witness",
    "audits strongest",
    "audits lower_bounds",
    "claims lower",
    "claims lower_conditional",
    "conformance p_value",
    "in_plain_words membership_guess_upper",
    "in_plain_words true_positive_rate_at_0.001_upper",
)
ROUNDING = 1.2e-5  # relative error by which a printed number may be rounded

# Fields of a certificate that are not re-derived, and why.
UNCHECKED = (
    Unchecked("nobody can derive them from the file; the signer answers for them", SIGNERS_WORD),
    Unchecked("observed, and compared with the stated p-value alone; replay them", OBSERVED),
    Unchecked("a prover's choice: the conclusion was derived from what stands here", CHOSEN),
    Unchecked("points of a curve, each confirmed by itself; some may be left out", APART),
    Unchecked("upper bounds, which may be larger than the least that follows", WEAKER),
    Unchecked(
        "losses, weights and the lower bounds that follow from them, which may be smaller, and "
        "audits, which may be left out",
        WEAKER_FROM_BELOW,
    ),
    Unchecked(f"confirmed but for a relative {ROUNDING:g}, by which they may be rounded", ROUNDED),
)
