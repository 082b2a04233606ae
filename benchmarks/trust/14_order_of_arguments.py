"""An OpenDP file before 0.14 of `then_laplace(1.0, 10)`: noise of scale 1 on a grid of 2^10."""

import json
from pathlib import Path

from shared import SETTINGS, command


def probe() -> str:
    """The loss that is read for a query of sensitivity 1."""
    listed = {"_type": "list", "_items": [1.0, 10]}
    call = {"func": "then_laplace", "module": "measurements", "args": listed, "kwargs": {}}
    file = {"version": "0.12.0", "ast": {"_type": "constructor", **call}}
    Path("chain.json").write_text(json.dumps(file))
    facts = ["library=opendp", "sensitivity=1", "adjacency=add_remove", "unit=record"]
    options = [word for fact in facts for word in f"--{fact}".split("=")]
    stated = ["--set", *facts] if SETTINGS else options
    said = command("account", "--history", "chain.json", *stated, "--delta", "1e-5")
    bounds = [line.strip() for line in said.stdout.splitlines() if "epsilon" in line]
    return f"exit {said.returncode}: {(bounds or [said.stderr.strip()])[0][:90]}"
