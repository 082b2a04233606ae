"""An OpenDP file before 0.14 of `then_laplace(1.0, 10)`: noise of scale 1 on a grid of 2^10."""

import json
from pathlib import Path

from shared import command


def probe() -> str:
    """The loss that is read for a query of sensitivity 1."""
    listed = {"_type": "list", "_items": [1.0, 10]}
    call = {"func": "then_laplace", "module": "measurements", "args": listed, "kwargs": {}}
    file = {"version": "0.12.0", "ast": {"_type": "constructor", **call}}
    Path("chain.json").write_text(json.dumps(file))
    asked = ["account", "--history", "chain.json", "--library", "opendp", "--sensitivity", "1"]
    said = command(*asked, "--adjacency", "add_remove", "--unit", "record", "--delta", "1e-5")
    bounds = [line.strip() for line in said.stdout.splitlines() if "epsilon" in line]
    return f"exit {said.returncode}: {(bounds or [said.stderr.strip()])[0][:90]}"
