"""One question to prv_accountant, run by an interpreter that has it; prints JSON."""

import json
import sys
import time

from prv_accountant import PRVAccountant
from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

question = json.loads(sys.argv[1])
start = time.process_time()
accountant = PRVAccountant(
    prvs=PoissonSubsampledGaussianMechanism(
        noise_multiplier=question["sigma"], sampling_probability=question["rate"]
    ),
    max_self_compositions=question["times"],
    eps_error=question["error"],
    delta_error=question["delta"] * 1e-5,
)
low, _, high = accountant.compute_epsilon(question["delta"], [question["times"]])
seconds = time.process_time() - start
print(json.dumps({"text": f"[{low:.6f}, {high:.6f}]", "seconds": seconds}))
