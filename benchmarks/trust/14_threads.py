"""One declared release, asked for by eight threads at once."""

import threading
import time
from contextlib import suppress

import numpy as np

import dpaudit as dp


def probe() -> str:
    """How many of them get it."""
    declared, scope = dp.Gaussian("mean", 2), dp.central("replace_one")
    records = dp.Records(np.full((10, 1), 0.5))
    curator = dp.Sampler(declared, scope, records, rng=np.random.default_rng(1))
    released, together = [], threading.Barrier(8)

    def rows(values):
        time.sleep(0.05)
        return values[None]

    def ask():
        together.wait()
        with suppress(dp.DpauditError):
            released.append(curator.release("mean", dp.ClippedMean(rows, radius=1.0)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return f"{len(released)} of 1 declared"
