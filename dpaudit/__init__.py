"""Differential privacy, accounted, run and attacked from one declaration.

``import dpaudit as dp`` gives the names that projects are written with; each is loaded at its
first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpaudit.version import __version__

if TYPE_CHECKING:
    from dpaudit.accountant.account import Account, Bound, account
    from dpaudit.accountant.calibrate import calibrate
    from dpaudit.accountant.claim import Claim
    from dpaudit.accountant.recipes import (
        dp_ftrl,
        dp_sgd,
        ftrl_noise_for,
        noise_for,
        sampling_warning,
    )
    from dpaudit.audit.blackbox.entry import audit_command, audit_function
    from dpaudit.audit.blackbox.search import audit_domain
    from dpaudit.audit.canaries.scores import audit_one_run, audit_scores
    from dpaudit.audit.neighbours import Neighbours
    from dpaudit.audit.suite import Suite
    from dpaudit.audit.verdict import Verdict
    from dpaudit.certificate.entry import Certificate, audit_mechanism, certify, verify
    from dpaudit.curator.curator import Curator, Program, Sampler
    from dpaudit.curator.mechanism import Mechanism, Setting
    from dpaudit.errors import DpauditError, InvalidParameter, Unsupported
    from dpaudit.families.adaptive import Filter
    from dpaudit.families.additive import Gaussian, Laplace
    from dpaudit.families.banded import CyclicPoisson
    from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
    from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
    from dpaudit.families.correlated import BandedToeplitz, CorrelatedGaussian, Participation
    from dpaudit.families.correlated.optimised import optimised_buffers
    from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace, RandomizedResponse
    from dpaudit.families.distributed import DistributedGaussianVector, DistributedSkellamVector
    from dpaudit.families.events import Group
    from dpaudit.families.individual import IndividualGaussian
    from dpaudit.families.iterates import LastIterate, SampledLastIterate
    from dpaudit.families.local import Shuffled
    from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP, RenyiDP
    from dpaudit.families.sampling import (
        PoissonSampled,
        RandomAllocation,
        SampledWithoutReplacement,
        SampledWithReplacement,
    )
    from dpaudit.families.selection import AboveThreshold, ExponentialMechanism, ReportNoisyMax
    from dpaudit.families.tuning import Tuned
    from dpaudit.kernels.query import ClippedMean, Query, Records, clipped_sum
    from dpaudit.kernels.statistic import RowFunction, Statistic
    from dpaudit.membership.step.entry import audit_step
    from dpaudit.nodes import Assumption, Leaf, Node
    from dpaudit.releases.session import open
    from dpaudit.scope import Adjacency, Scope, central

__all__ = [
    "GDP",
    "ZCDP",
    "AboveThreshold",
    "Account",
    "Adjacency",
    "ApproxDP",
    "Assuming",
    "Assumption",
    "BandedToeplitz",
    "Bound",
    "Certificate",
    "Claim",
    "ClippedMean",
    "Compose",
    "CorrelatedGaussian",
    "Curator",
    "CyclicBatches",
    "CyclicPoisson",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DistributedGaussianVector",
    "DistributedSkellamVector",
    "DpauditError",
    "ExponentialMechanism",
    "Filter",
    "Gaussian",
    "Group",
    "IndividualGaussian",
    "InvalidParameter",
    "Laplace",
    "LastIterate",
    "Leaf",
    "Mechanism",
    "Neighbours",
    "Node",
    "NonPrivate",
    "Parallel",
    "Participation",
    "PoissonSampled",
    "Program",
    "PureDP",
    "Query",
    "RandomAllocation",
    "RandomizedResponse",
    "Records",
    "RenyiDP",
    "Repeat",
    "ReportNoisyMax",
    "RowFunction",
    "SampledLastIterate",
    "SampledWithReplacement",
    "SampledWithoutReplacement",
    "Sampler",
    "Scope",
    "Setting",
    "Shuffled",
    "ShuffledBatches",
    "Statistic",
    "Suite",
    "TruncatedPoisson",
    "Tuned",
    "Unsupported",
    "Verdict",
    "__version__",
    "account",
    "audit_command",
    "audit_domain",
    "audit_function",
    "audit_mechanism",
    "audit_one_run",
    "audit_scores",
    "audit_step",
    "calibrate",
    "central",
    "certify",
    "clipped_sum",
    "dp_ftrl",
    "dp_sgd",
    "ftrl_noise_for",
    "noise_for",
    "open",
    "optimised_buffers",
    "sampling_warning",
    "verify",
]

_NAMES = {
    "accountant.account": "Account Bound account",
    "accountant.calibrate": "calibrate",
    "accountant.claim": "Claim",
    "accountant.recipes": "dp_ftrl dp_sgd ftrl_noise_for noise_for sampling_warning",
    "audit.blackbox.entry": "audit_command audit_function",
    "audit.blackbox.search": "audit_domain",
    "audit.canaries.scores": "audit_one_run audit_scores",
    "audit.neighbours": "Neighbours",
    "audit.suite": "Suite",
    "audit.verdict": "Verdict",
    "certificate.entry": "Certificate audit_mechanism certify verify",
    "curator.curator": "Curator Program Sampler",
    "curator.mechanism": "Mechanism Setting",
    "errors": "DpauditError InvalidParameter Unsupported",
    "families.adaptive": "Filter",
    "families.additive": "Gaussian Laplace",
    "families.composition": "Assuming Compose Parallel Repeat",
    "families.discrete": "DiscreteGaussian DiscreteLaplace RandomizedResponse",
    "families.events": "Group",
    "families.banded": "CyclicPoisson",
    "families.batches": "CyclicBatches ShuffledBatches TruncatedPoisson",
    "families.correlated": "BandedToeplitz CorrelatedGaussian Participation",
    "families.correlated.optimised": "optimised_buffers",
    "families.distributed": "DistributedGaussianVector DistributedSkellamVector",
    "families.individual": "IndividualGaussian",
    "families.iterates": "LastIterate SampledLastIterate",
    "families.local": "Shuffled",
    "families.tuning": "Tuned",
    "families.opaque": "ApproxDP GDP NonPrivate PureDP RenyiDP ZCDP",
    "families.sampling": (
        "PoissonSampled RandomAllocation SampledWithReplacement SampledWithoutReplacement"
    ),
    "families.selection": "AboveThreshold ExponentialMechanism ReportNoisyMax",
    "membership.step.entry": "audit_step",
    "kernels.query": "ClippedMean Query Records clipped_sum",
    "kernels.statistic": "RowFunction Statistic",
    "nodes": "Assumption Leaf Node",
    "releases.session": "open",
    "scope": "Adjacency Scope central",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise _unknown(name)
    value = getattr(import_module(f"dpaudit.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def _unknown(name: str) -> AttributeError:
    # Imported here: nearly no program needs them.
    import difflib
    import sys

    from dpaudit.errors import UnknownName

    close = difflib.get_close_matches(name, _HOMES, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    caller = sys._getframe(2)
    place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
    return UnknownName(f"{place}: module 'dpaudit' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
