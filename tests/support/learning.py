"""Which experiments measure no outcome of a method; all others set theirs beside its start."""

from experiments.lab.learning import TITLE
from experiments.lab.model import Findings

# Formulas, budgets, counts, errors of an estimate, sensitivities, halts, attacks.
WITHOUT_OUTCOME = {
    "diff2_bounds", "diff2_clients", "diff2_costs", "diff2_identity",
    "kl_reading",
    "srgd_costs", "srgd_estimator", "srgd_variance",
    "stable_sensitivity",
    "user_level_costs", "user_level_noise", "user_level_outliers", "user_level_smoothing",
    "user_level_stability",
}  # fmt: skip


def assert_beside_start(name: str, found: Findings) -> None:
    """A table of distances to not learning, and for each of its rows a check that can fail."""
    rows = [row for table in found.tables if table.title == TITLE for row in table.rows]
    assert bool(rows) != (name in WITHOUT_OUTCOME), f"{name}: {len(rows)} rows of {TITLE!r}"
    checks = {check.name: check for check in found.checks}
    for method, _, _, share, _ in rows:
        check = checks.get(f"{method}: share of its start's value that is left")
        assert check is not None, f"{name}: nothing fails where {method} does not learn"
        assert check.value == share
        assert check.upper < 1
