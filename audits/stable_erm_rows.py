"""Audits of Algorithms 3 to 6 on real rows: the function that attains the exact profile, white box.

Source: as in :mod:`audits.stable_erm`.
"""

from __future__ import annotations

from audits.stable_erm import PHASE_TRIALS, every_batch, whole
from mechanisms.papers.stable_erm import rows_catalogue as rows

stable_phased_erm_rows = whole(rows.stable_phased_erm_rows, rows.ERM.users, PHASE_TRIALS)
stable_phased_sco_rows = every_batch(rows.stable_phased_sco_rows)
strongly_convex_erm_rows = whole(rows.strongly_convex_erm_rows, rows.STRONG_ERM.users, PHASE_TRIALS)
strongly_convex_sco_rows = every_batch(rows.strongly_convex_sco_rows)
