"""Certificates with one value changed and the digests made again, as a forger would."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpaudit.exact.wire import digest

Place = tuple[Any, Any]  # a container, and the key of a value in it


def altered(certificate: dict[str, Any], seed: int) -> dict[str, Any]:
    """A certificate that differs in one number, text or entry."""
    changed, draw = copy.deepcopy(certificate), random.Random(seed)
    predicate = changed["predicate"]
    within, key = draw.choice(list(_places(predicate)))
    within[key] = _other(within[key], draw)
    changed["subject"][0]["digest"]["sha256"] = digest(predicate)
    return changed


def altered_files(sources: list[Path], folder: Path, count: int) -> list[Path]:
    """Files of altered certificates: of each source in turn."""
    files = []
    for seed in range(count):
        source = sources[seed % len(sources)]
        files.append(folder / f"{source.stem}-{seed}.json")
        changed = altered(json.loads(source.read_text("utf-8")), seed)
        files[-1].write_text(json.dumps(changed), "utf-8")
    return files


def _places(part: Any) -> Iterator[Place]:
    keys = part.keys() if isinstance(part, dict) else range(len(part))
    for key in keys:
        yield part, key
        if isinstance(part[key], (dict, list)):
            yield from _places(part[key])


def _other(value: Any, draw: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + draw.choice((-1, 1))
    digits = (
        [k for k, letter in enumerate(value) if letter.isdigit()] if isinstance(value, str) else []
    )
    if digits:
        place = draw.choice(digits)
        return value[:place] + str((int(value[place]) + 1) % 10) + value[place + 1 :]
    return draw.choice(("", "0", None, []))
