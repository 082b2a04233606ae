"""Cases that take long and have a shorter one of their kind: they run in ``make quality``.

``long_cases.txt`` names them.  It is made from measured processor seconds::

    python -m tests.support.long_cases SECONDS.jsonl

where each line is ``[node id, processor seconds]``.  Of each parametrised test the shortest case
stays in ``make test``; of the others those above ``LONGEST`` are named.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")
LONGEST = 1.0  # processor seconds of a case that has a shorter one of its kind
# Tests whose number of cases is a promise of its own: 2,000 forged declarations.
WHOLE = ("tests/library/property/test_wire_fuzz.py",)


def named() -> frozenset[str]:
    """The node ids of all long cases."""
    return frozenset(LIST.read_text("utf-8").splitlines())


def long_cases(seconds: Mapping[str, float]) -> list[str]:
    """Node ids of the cases to leave to ``make quality``."""
    kinds: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for node, taken in seconds.items():
        kinds[node.partition("[")[0]].append((taken, node))
    return sorted(
        node
        for kind, cases in kinds.items()
        if not kind.startswith(WHOLE)
        for taken, node in sorted(cases)[1:]
        if taken > LONGEST
    )


def main(files: Iterable[str]) -> None:
    """Write the list from files of measurements."""
    lines = (line for file in files for line in Path(file).read_text("utf-8").splitlines())
    seconds = {str(node): float(taken) for node, taken, *_ in map(json.loads, lines)}
    LIST.write_text("\n".join(long_cases(seconds)) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
