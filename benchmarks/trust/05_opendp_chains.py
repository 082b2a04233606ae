"""An OpenDP chain of sensitivity 10 with noise 5, whose own map says epsilon 2, is accounted."""

import json
from pathlib import Path
from typing import Any

from shared import command


def call(name: str, module: str, **given: Any) -> dict[str, Any]:
    """A function call as OpenDP serialises it."""
    return {"__function__": name, "__module__": module, "__kwargs__": given}


def given_by(transformation: dict[str, Any]) -> dict[str, Any]:
    """The space after a transformation."""
    return {
        "input_domain": call("transformation_output_domain", "core", this=transformation),
        "input_metric": call("transformation_output_metric", "core", this=transformation),
    }


def probe() -> str:
    """What epsilon is answered."""
    atom = call("atom_domain", "domains", bounds=None, nan=False, T="f64")
    rows = call("vector_domain", "domains", atom_domain=atom, size=None)
    clamp = call(
        "make_clamp",
        "transformations",
        input_domain=rows,
        input_metric=call("symmetric_distance", "metrics"),
        bounds={"__tuple__": [0.0, 10.0]},
    )
    both = call(
        "make_chain_tt",
        "combinators",
        transformation1=call("make_sum", "transformations", **given_by(clamp)),
        transformation0=clamp,
    )
    noise = call("make_laplace", "measurements", **given_by(both), scale=5.0, k=None)
    chain = call("make_chain_mt", "combinators", measurement1=noise, transformation0=both)
    Path("chain.json").write_text(json.dumps(chain))
    run = command(*"account --history chain.json --library opendp --delta 0 --json".split())
    if run.returncode:
        return f"refused, exit {run.returncode}: {run.stderr.strip()[:80]}"
    return f"answered: epsilon {json.loads(run.stdout)['epsilon'][0]['epsilon_upper']}"
