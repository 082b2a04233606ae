"""Noise of scale exp(-50) beside other records' little loss, in six processes: mu of GDP."""

import os
import subprocess
import sys

CODE = """
import dpaudit as dp
from dpaudit.exact import exp
from dpaudit.families.discrete import DiscreteLaplace
much = dp.Compose(dp.Gaussian('a', '1.02'), dp.Laplace('b', exp(-50)))
node = dp.Parallel(much, DiscreteLaplace('c', '4.9', 4))
mu = dp.account(node, dp.central('zero_out')).step('gdp').value
print('kept' if 'exp(50)' in str(mu) else 'dropped')
"""


def probe() -> str:
    """In how many the large loss is part of the bound."""
    said = []
    for hash_seed in range(1, 7):
        environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
        ran = subprocess.run(
            [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True
        )
        said.append((ran.stdout.strip() or ran.stderr.strip()[-60:]).splitlines()[-1])
    return f"the large loss is kept in {said.count('kept')} of {len(said)}"
