"""What is said of records in a run, where a library's getter reaches them"""

import string
from pathlib import Path


def probe() -> str:
    import numpy as np

    import dpaudit as dp
    from dpaudit.curator.guarded import Guarded

    records = dp.Records(np.ones((3, 1)))
    curator = Guarded(
        dp.Gaussian("mean", 2), dp.central("replace_one"), records, rng=np.random.default_rng(1)
    )
    try:
        reached = string.Formatter().get_field("0._records", (curator,), {})[0] is not None
    except Exception as error:
        return f"not reached: {type(error).__name__}"
    page = Path(dp.__file__).parents[1] / "SECURITY.md"
    says = page.exists() and "no\nboundary" in page.read_text("utf-8")
    told = "SECURITY.md says it is no boundary" if says else "no page says so"
    return f"{'reached' if reached else 'not reached'}; {told}"
