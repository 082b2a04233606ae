"""Where nobody is trusted, no shuffler, secure aggregation or secret draw hides anything."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import dpaudit as dp
from dpaudit import check
from dpaudit.check import declared_digest
from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.families.distributed import DistributedGaussian, DistributedSkellamVector
from dpaudit.scope import Trust
from tests.library.cli.bench import accept, certified, forged, mechanism

NOISE, POLL = dp.Gaussian("mean", 2), dp.RandomizedResponse("poll", 1)
ROWS = dp.CorrelatedGaussian("rows", 2, 4, "identity", dp.Participation(1, 4))
HIDDEN: dict[str, tuple[Any, str]] = {
    "shuffled": (dp.Shuffled(POLL, 100), "a shuffler"),
    "sums": (DistributedGaussian("sum", 4, 10), "secure aggregation"),
    "sums of vectors": (DistributedSkellamVector("sum", 4, 10), "secure aggregation"),
    "a Poisson sample": (dp.Repeat(dp.PoissonSampled(NOISE, "0.1"), 3), "draws the batches"),
    "a sample": (dp.SampledWithoutReplacement(NOISE, 1, 10), "draws the batches"),
    "draws": (dp.SampledWithReplacement(NOISE, 1, 10), "draws the batches"),
    "slots": (dp.RandomAllocation(NOISE, 4), "draws the batches"),
    "a secret order": (dp.ShuffledBatches(NOISE, 10, 5), "draws the batches"),
    "a cut sample": (dp.TruncatedPoisson(NOISE, "0.1", 10, 2), "draws the batches"),
    "iterates": (dp.SampledLastIterate("w", 4, 9, "0.1"), "draws the batches"),
    "groups in turn": (dp.CyclicPoisson(ROWS, 4, "0.1"), "draws the batches"),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_secret_of_somebody_s_is_refused(name: str) -> None:
    node, who = HIDDEN[name]
    central = dp.central("replace_one")
    dp.account(node, central)
    dp.account(node, replace(central, trust=Trust.SHUFFLE))
    with pytest.raises(InvalidParameter, match=f"under local trust: .*{who}"):
        dp.account(dp.Compose(NOISE, node), replace(central, trust=Trust.LOCAL))


def test_what_a_device_does_by_itself_is_answered() -> None:
    local = replace(dp.central("replace_one"), trust=Trust.LOCAL)
    assert dp.account(POLL, local).epsilon(0).upper == 1
    assert dp.account(dp.Repeat(dp.CyclicBatches(NOISE, 10, 5), 2), local).epsilon("1e-5").upper > 0


def test_the_checker_refuses_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = dp.SampledWithoutReplacement(NOISE, 1, 4)
    case = mechanism("sampled", sample, dp.ApproxDP(3, Fraction(1, 10**5)))
    certificate = certified(case).certificate
    accept(certificate)

    def local(predicate: Any) -> None:
        predicate["scope"]["model"] = "local"
        predicate["mechanism"]["digest"] = declared_digest(sample, predicate["scope"])

    with pytest.raises(CertificateRejected, match="rests on somebody's secret"):
        accept(forged(certificate, local))
    monkeypatch.setattr(check, "hiding", lambda root: None)
    accept(forged(certificate, local))
