"""The same scores as .csv, .tsv, .json, .jsonl, .parquet, .npy and .npz, and with semicolons"""

import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from shared import command


def probe() -> str:
    """How many of eight give the AUC of .9375, and the exit codes of the others."""
    for side, values in (("in", [1.5, 2.5, 3.5, 0.5]), ("out", [0.0, 1.0, 0.25, -1.0])):
        rows = [{"who": f"u{row}", "score": value} for row, value in enumerate(values)]
        for mark, end in ((",", "csv"), ("\t", "tsv"), (";", "semi.csv")):
            lines = (f"{row['who']}{mark}{row['score']}" for row in rows)
            Path(f"{side}.{end}").write_text("\n".join([f"who{mark}score", *lines]))
        Path(f"{side}.json").write_text(json.dumps(rows))
        Path(f"{side}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        np.save(f"{side}.npy", np.array(values))
        np.savez(f"{side}.npz", score=np.array(values))
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), f"{side}.parquet")
    ends = ("csv", "tsv", "semi.csv", "json", "jsonl", "parquet", "npy", "npz")
    said = [_asked(end) for end in ends]
    others = {f".{end} {one}" for end, one in zip(ends, said, strict=True) if one != "0.9375"}
    return f"{said.count('0.9375')} of 8{': ' if others else ''}{', '.join(sorted(others))}"


def _asked(end: str) -> str:
    done = command("audit", "--scores", f"in.{end}", f"out.{end}", "--json")
    return f"exit {done.returncode}" if done.returncode else str(json.loads(done.stdout)["auc"])
