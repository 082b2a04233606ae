"""Data sets of a black-box audit that are ragged, mixed, null, NaN, or have a key twice"""

from pathlib import Path

from shared import command

SETS = ("[[1,2],[3]]", '[1,"a"]', "[1,null]", "[NaN]", '{"a":1,"a":2}')


def probe() -> str:
    """The exit code of each; 2 is a refusal, 70 an error of ours."""
    Path("noise_of.py").write_text("def f(data, rng, size): return rng.normal(0, 1, size)\n")
    codes = (
        command("audit", "noise_of:f", given, *"[1] --claim 1 --trials 1000".split()).returncode
        for given in SETS
    )
    return f"exits {', '.join(map(str, codes))}"
