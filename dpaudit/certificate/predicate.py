"""Sections of a certificate's predicate: who, what, which claims, by which steps, made where."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from importlib import metadata
from pathlib import Path

from dpaudit.accountant.account import Account
from dpaudit.accountant.interpretation import Point
from dpaudit.audit.attack import program_text
from dpaudit.audit.verdict import Judged, Verdict
from dpaudit.certificate.certificate import (
    Json,
    claim_row,
    conclusion,
    curve_rows,
    step_rows,
    steps_of,
)
from dpaudit.certificate.order import Order
from dpaudit.check import declared_digest
from dpaudit.errors import InvalidParameter
from dpaudit.exact import decimal_lower
from dpaudit.measures.calculus import Step
from dpaudit.nodes import Assumption
from dpaudit.nodes.tables import to_table
from dpaudit.storage.roots import served
from dpaudit.version import __version__

# Libraries whose versions a certificate states.
PACKAGES = ("numpy", "scipy", "sympy", "python-flint", "joblib", "matplotlib")


def issued() -> str:
    """The time of issue, or SOURCE_DATE_EPOCH.  Errors: InvalidParameter for no number there."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    try:
        at = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    except (OSError, OverflowError, ValueError):
        raise InvalidParameter(
            f"SOURCE_DATE_EPOCH = {epoch[:40]!r}: expected seconds since 1970, or unset it"
        ) from None
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def scope_row(order: Order) -> Json:
    """The section of what is protected: the unit, the adjacency, the data, the outputs."""
    mechanism = order.mechanism
    scope, setting = mechanism.scope, mechanism.setting
    return {
        "title": f"{mechanism.title}: {setting.data}" if setting.data else mechanism.title,
        "controller": "; ".join(order.fields.get("controller", [])) or setting.controller,
        "model": str(scope.trust),
        "unit": {
            "kind": str(scope.unit),
            "entity": setting.unit_entity,
            "period": setting.unit_period or None,
            "bound": setting.unit_bound,
        },
        "adjacency": str(scope.adjacency),
        "outputs": [str(scope.released)],
        "data_accesses": {"covered": list(setting.covered), "uncovered": list(setting.uncovered)},
        "invariants": list(setting.invariants),
    }


def mechanism_row(order: Order) -> Json:
    """The section of the mechanism: its declaration, and the files that implement it."""
    declaration = order.mechanism.declaration
    place = dict(zip(("file", "line"), order.place or (), strict=False))
    return {
        **({"place": place} if place else {}),
        "name": order.mechanism.name,
        "title": order.mechanism.title,
        "source": order.mechanism.source,
        "program": program_text(order.mechanism.program),
        "root": order.root,
        "declaration": to_table(declaration),
        "declaration_text": repr(declaration),
        "digest": declared_digest(declaration, scope_row(order)),
        "implementation": [
            {"name": name, "digest": {"sha256": value}}
            for name, value in sorted(order.implementation.items())
        ],
    }


def claims_and_derivation(
    account: Account, judged: Sequence[Judged], profile: Sequence[Step], points: Sequence[Point]
) -> Json:
    """The sections of the claims and of the steps that prove or refute them."""
    roots = [j.checked.step for j in judged if j.checked.step is not None]
    steps = steps_of([*roots, *profile])
    number = {id(step): i for i, step in enumerate(steps)}
    rows = []
    for i, claim in enumerate(judged):
        step = claim.checked.step
        rows.append(claim_row(i, claim, None if step is None else number[id(step)]))
    concluded = [conclusion(s) for s in roots]
    derivation = {
        "upper_bounds": [
            *(row for i, row in enumerate(concluded) if row not in concluded[:i]),
            *curve_rows(account, roots, points),
        ],
        "steps": step_rows(steps),
        "arithmetic": "interval",
        "accountant": f"dpaudit {__version__}",
    }
    return {"claims": rows, "derivation": derivation}


def assumption_rows(
    standing: Sequence[Assumption], judged: Sequence[Judged], profile: Sequence[Step]
) -> list[Json]:
    """The section of assumptions: the standing ones, and those of every step."""
    by_id = {a.id: a for a in standing}
    claimed = [claim.checked.step for claim in judged if claim.checked.step is not None]
    for step in (*claimed, *profile):
        by_id.update((a.id, a) for a in step.assumptions())
    return [a.row() for a in by_id.values()]


def verdict_row(verdict: Verdict, judged: Sequence[Judged], missing: Sequence[str]) -> Json:
    """The section of the verdict over all claims, with the reasons."""
    reasons = [*missing, *map(_reason, judged)]
    return {"status": str(verdict), "reasons": reasons, "margin": _margin(judged)}


def _reason(claim: Judged) -> str:
    reading = f" ({claim.claim.reading})" if claim.claim.reading else ""
    return f"{claim.claim.text}{reading} is {claim.verdict.replace('_', ' ')}: {claim.reason}"


def _margin(judged: Sequence[Judged]) -> str:
    """Claimed minus accounted, rounded down, for the first claim that has both as fractions."""
    for claim in judged:
        step = claim.checked.step
        value = None if step is None else step.value
        value = value[0] if isinstance(value, tuple) else value
        if isinstance(value, Fraction) and isinstance(claim.claim.value, Fraction):
            return decimal_lower(claim.claim.value - value, 6)
    return ""


def environment() -> Json:
    """The versions that a certificate names."""
    return {
        "dpaudit": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "packages": {name: _installed(name) for name in PACKAGES},
    }


@cache
def _installed(package: str) -> str:
    """The version of a package; its metadata takes milliseconds to read."""
    return metadata.version(package)


def revision(order: Order) -> Json | None:
    """The commit of the root that this process serves, and whether files of the order differ.

    None where git, a commit, or any of the order's files under its control was not found.
    """
    root, names = served(), [f":(literal){name}" for name in sorted(order.implementation)]
    if root is None or not names:
        return None
    commit = _git(root, "rev-parse", "--verify", "HEAD^{commit}")
    tracked = _git(root, "ls-files", "-z", "--", *names)
    if not commit or not tracked:
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *names)
    untracked = len(tracked.rstrip("\0").split("\0")) < len(names)
    return {"commit": commit.strip(), "dirty": untracked or changed != ""}


def _git(root: Path, *arguments: str) -> str | None:
    """The output of git; None where it fails or is missing."""
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout if done.returncode == 0 else None
