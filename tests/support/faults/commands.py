"""The commands that write, run on disks that fail; and what has to hold of the files each time.

``python -m tests.support.faults.commands [NAME...]`` runs every fault of all commands, or of those
named, and prints a table of what was tried; with ``--every N`` each N-th of them.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.check.rows import verify_file
from dpaudit.ledger import LedgerUnavailable, State, open_ledger
from tests.support.faults import (
    FULL,
    HERE,
    KILL,
    NAMES,
    ONCE,
    READ_ONLY,
    TORN,
    Bench,
    Call,
    Disk,
    Outcome,
    power_losses,
)

Files = Mapping[str, bytes]
LEDGER = ("--set", "ledger=ledger.sqlite")
# What the system, SQLite and we say of a disk that fails.
REASONS = re.compile(
    r"No space left|Input/output error|Read-only file system|disk is full|disk I/O error"
    r"|readonly database|unable to open database"
)
PLAN = """
title = "People, 2026"
adjacency = "add_remove"
{ledger}
[budget]
epsilon = 1
[table]
name = "people"
unit = "person"
entity = "person"
rows = 2
[table.columns]
age = {{ kind = "number", lower = 0, upper = 100, missing = "drop" }}
[[items]]
name = "persons"
query = "count"
"""


@dataclass(frozen=True)
class Command:
    """A command, what is there before it, and what has to hold after it, whatever happened.

    ``first``: commands that make what it starts from.  ``holds(files, whole)`` gives what is wrong
    with files; ``whole`` once the command has said that it succeeded.  ``spent``: what it may say
    when it is run again, where what was charged cannot be finished.
    """

    name: str
    arguments: tuple[str, ...]
    holds: Callable[[Files, bool], Iterator[str]] = field(repr=False)
    first: tuple[tuple[str, ...], ...] = ()
    spent: str = "(?!)"


# --- what holds -----------------------------------------------------------------------------------


def account(files: Files, name: str) -> State | None:
    """A data set's account in the ledger, verified; None without one."""
    content = {n: data for n, data in files.items() if n.startswith("ledger.sqlite")}
    if not content.get("ledger.sqlite"):
        return None
    with tempfile.TemporaryDirectory() as made:
        for file, data in content.items():
            if not file.endswith("-shm"):  # is made anew from the log
                (Path(made) / file).write_bytes(data)
        ledger = open_ledger(Path(made) / "ledger.sqlite")
        try:
            if name not in ledger.names():
                return None
            return ledger.verify(name)
        except LedgerUnavailable as error:
            if "no such table" in str(error):
                return None
            raise


@cache
def certificate_of(content: bytes) -> str:
    """Why bytes are no certificate; empty for one that verifies."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "certificate.json"
        path.write_bytes(content)
        row = verify_file(path)
    return "" if row["verified"] else str(row["reason"])


def whole(files: Files) -> Iterator[str]:
    """Each file under its own name is whole; temporary ones begin with a dot."""
    for name, content in files.items():
        if name.rpartition("/")[2].startswith(".") or "/." in f"/{name}" or "sqlite" in name:
            continue
        try:
            _read(name, content)
        except Exception as error:  # noqa: BLE001  (whatever a reader says of half a file)
            yield f"{name} is not whole: {type(error).__name__}, {len(content)} bytes"


def _read(name: str, content: bytes) -> None:
    import pyarrow.parquet as pq
    from cryptography.hazmat.primitives.serialization import (
        load_pem_private_key,
        load_pem_public_key,
    )

    readers: dict[str, Callable[[bytes], Any]] = {
        "json": json.loads,
        "dsse": json.loads,
        "html": lambda data: data.decode().rstrip().rindex("</html>", -7),
        "csv": lambda data: list(csv.DictReader(io.StringIO(data.decode()))),
        "npz": lambda data: dict(np.load(io.BytesIO(data))),
        "parquet": lambda data: pq.read_table(io.BytesIO(data)),
        "pem": lambda data: load_pem_private_key(data, None),
        "pub": load_pem_public_key,
    }
    kind = name.rpartition(".")[2]
    if kind in readers:
        readers[kind](content)


def opened(files: Files, done: bool) -> Iterator[str]:
    state = account(files, "people")
    if done and state is None:
        yield "the account is lost"
    if state is not None and (state.count or any(state.spent)):
        yield "something is charged"


def charged(files: Files, done: bool) -> Iterator[str]:
    state = account(files, "rows")
    if state is None:
        yield "the account is lost"
    elif state.count > 1 or (done and state.count != 1):
        yield f"charged {state.count} times"


def released(files: Files, done: bool) -> Iterator[str]:
    """With a ledger: nothing is published that was not charged, and all of it is one draw."""
    yield from whole(files)
    state = account(files, "people")
    if state is None:
        yield "the account is lost"
        return
    kinds = {kind for kind in ("csv", "parquet", "json") if f"out/release.{kind}" in files}
    if state.count > 1 or (kinds and state.count != 1):
        yield f"{sorted(kinds)} published, charged {state.count} times"
    if done and state.unfinished:
        yield "the ledger says unfinished"
    yield from _published(files, done)


def published(files: Files, done: bool) -> Iterator[str]:
    """Without a ledger."""
    yield from whole(files)
    if done and "out/.release.running" in files:
        yield "the marker is there"
    yield from _published(files, done)


def _published(files: Files, done: bool) -> Iterator[str]:
    import pyarrow.parquet as pq

    found = {kind: files.get(f"out/release.{kind}") for kind in ("json", "csv", "parquet")}
    values: dict[str, list[str]] = {}
    if found["json"]:
        values["json"] = [row["value"] for row in json.loads(found["json"])["values"]]
    if found["csv"]:
        rows = csv.DictReader(io.StringIO(found["csv"].decode()))
        values["csv"] = [row["value"] for row in rows]
    if found["parquet"]:
        values["parquet"] = pq.read_table(io.BytesIO(found["parquet"])).column("value").to_pylist()
    if len(set(map(tuple, values.values()))) > 1:
        yield f"two answers: {values}"
    if (done and len(values) < 3) or (values and "json" not in values):
        yield f"published only: {sorted(values)}"
    yield from _certified(files, "out/certificate/people_2026.json", "out/release.json", done)


def _certified(files: Files, certificate: str, output: str, done: bool) -> Iterator[str]:
    """A certificate verifies, is of just this output, and has its page."""
    if certificate not in files:
        if done:
            yield "no certificate"
        return
    if why := certificate_of(files[certificate]):
        yield f"the certificate does not verify: {why}"
        return
    kept = json.loads(files[certificate])["predicate"]["run"]["output"]
    if kept["digest"]["sha256"] != sha256(files.get(output, b"")).hexdigest():
        yield "the certificate is of another output"
    if certificate.replace(".json", ".html") not in files:
        yield "the certificate has no page"


def certified(files: Files, done: bool) -> Iterator[str]:
    """A run after a finished one is a new release; one that was interrupted has no second."""
    yield from whole(files)
    outputs = [name for name in files if re.fullmatch(r"reports/noisy_mean(-\d+)?\.npz", name)]
    alone = [name for name in outputs if name.replace(".npz", ".json") not in files]
    if len(alone) > 1 or (done and (alone or not outputs)):
        yield f"drawn {len(outputs)} times, {len(alone)} of them without a certificate"
    for name in set(outputs) - set(alone):
        yield from _certified(files, name.replace(".npz", ".json"), name, done)


def ran(files: Files, done: bool) -> Iterator[str]:
    yield from whole(files)
    state = account(files, "rows")
    if state is None:
        yield "the account is lost"
    elif state.count > 1 or ("out/model.npz" in files and state.count != 1):
        yield f"drawn, and charged {state.count} times"
    elif done and state.unfinished:
        yield "the ledger says unfinished"
    yield from _ran(files, done)


def _ran(files: Files, done: bool) -> Iterator[str]:
    yield from whole(files)
    if done and "out/model.npz" not in files:
        yield "no output"
    yield from _certified(files, "out/model.json", "out/model.npz", done)


def signed(files: Files, done: bool) -> Iterator[str]:
    """Whatever signatures there are are valid, and the keys of a pair belong together."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from dpaudit.sign import public_key, signatures

    yield from whole(files)
    if done and not {"own.pem", "own.pub"} <= set(files):
        yield "no keys"
    if "own.pub" in files and "own.pem" not in files:
        yield "a public key without its private key"
    envelope = files.get("example.json.dsse")
    if envelope is None:
        if done:
            yield "no signature"
        return
    private: Any = load_pem_private_key(files["own.pem"], None)
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "own.pub").write_bytes(files.get("own.pub", b""))
        key = public_key(Path(made) / "own.pub", "own")
    if private.public_key().public_bytes_raw() != key.raw:
        yield "the keys are no pair"
    certificate = json.loads(files["example.json"])
    states = [one.state for one in signatures(certificate, json.loads(envelope), [key])]
    if states != ["valid"]:
        yield f"the signature is {states}"


RELEASE = ("release", "plan.toml", "--data", "people.csv", "--out", "out", "--trials", "200")
INIT = ("ledger", "init", "people", "--plan", "plan.toml", "--budget", "epsilon=3 delta=1e-5")
ROWS = ("ledger", "init", "rows", "--set", "entity=one row", "unit=record",
        "adjacency=replace_one", "--budget", "mu=0.8", *LEDGER)  # fmt: skip
RUN = ("run", "noisy_mean", "--data", "rows.csv", "--out", "out/model.npz", "--trials", "100")
CERTIFY = ("certify", "noisy_mean", "--trials", "100", "--out", "reports")
COMMANDS = {
    one.name: one
    for one in (
        Command("ledger init", (*INIT, *LEDGER), opened, spent="has an account already"),
        Command(
            "ledger charge",
            ("ledger", "charge", "rows", "noisy_mean", "--set", "entity=one row", *LEDGER),
            charged,
            (ROWS,),
            spent="was charged on",
        ),
        Command("release", RELEASE, released, ((*INIT, *LEDGER),), "was charged on|is there"),
        Command(
            "release --no-ledger",
            (RELEASE[0], "free.toml", *RELEASE[2:], "--no-ledger"),
            published,
            spent="count its budget as spent|is there",
        ),
        Command("certify", CERTIFY, certified, spent="has no certificate"),
        Command(
            "run",
            (*RUN, "--set", "ledger=ledger.sqlite", "dataset=rows", "entity=one row"),
            ran,
            (ROWS,),
            "an earlier run wrote it|was charged on|interrupted while it drew",
        ),
        Command(
            "sign",
            ("sign", "example.json", "--new-key", "own.pem"),
            signed,
            spent="a key is never overwritten",
        ),
    )
}


def project() -> dict[str, bytes]:
    """A project with one mechanism on data, plans and tables."""
    root = HERE.parents[1] / "library" / "packaging" / "scratch"
    content = {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*.py"))}
    own = content["mechanisms/noisy_mean.py"].decode()
    own = own.replace(
        "    setting=", "    records=lambda: Records(np.eye(4, 2) / 2),\n    setting="
    )
    own = own.replace("import Array, ClippedMean", "import Array, ClippedMean, Records")
    own = own.replace("from dpaudit.accountant", "import numpy as np\n\nfrom dpaudit.accountant", 1)
    content["mechanisms/noisy_mean.py"] = own.encode()
    content["plan.toml"] = PLAN.format(ledger='ledger = "ledger.sqlite"').encode()
    content["free.toml"] = PLAN.format(ledger="").encode()
    people = [f"{i // 2},{i % 90}\n" for i in range(60)]
    content["people.csv"] = ("person,age\n" + "".join(people)).encode()
    content["example.json"] = (HERE.parents[2] / "reports" / "dp_gd.json").read_bytes()
    content["rows.csv"] = b"b,a\n" + b"".join(b"%d,0.%d\n" % (i % 2, i) for i in range(8))
    return content


# --- every fault ----------------------------------------------------------------------------------


@dataclass
class Trial:
    """One command under faults; ``problems`` are what did not hold, ``counts`` what happened."""

    bench: Bench
    command: Command
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    before: dict[str, bytes] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()

    def __post_init__(self) -> None:
        """What it starts from, and one run without a fault, which says which calls there are."""
        self.bench.put(project())
        self.before = self.bench.taken()
        for arguments in (*self.command.first, self.command.arguments):
            self.bench.rehearse(*arguments)
            self.bench.put(self.before)
            found = self.bench.run(*arguments)
            assert found.code == 0, (arguments, found.code, found.err)
            if arguments is not self.command.arguments:
                self.before = _kept(self.bench.taken())
        self.calls = found.calls
        after = self.bench.taken()
        self.say("a run", self.command.holds(after, True))
        self.say("a run", unseen(self.bench.folder, self.before, self.calls, after))

    def say(self, where: str, found: Iterator[str]) -> None:
        """Note what does not hold."""
        try:
            for what in found:
                self.problems.append(f"{self.command.name}, {where}: {what}")
        except Exception as error:  # noqa: BLE001  (of files that are not whole, anything)
            self.problems.append(f"{self.command.name}, {where}: not read: {error!r:.200}")

    def faults(self) -> list[tuple[int, int]]:
        """Every call and every way in which it can go wrong: (k, how)."""
        grows = ("create", "write", "fsync", "rename", "link", "mkdir")
        chosen = []
        for number, call in enumerate(self.calls, start=1):
            if call.path.endswith("-shm"):  # SQLite's memory, no file that lasts
                continue
            ways = [ONCE, READ_ONLY, KILL]
            ways += [FULL] if call.kind in grows else []
            ways += [TORN] if call.kind == "write" and len(call.content) > 1 else []
            chosen += [(number, how) for how in ways]
        return chosen

    def fault(self, at: int, how: int) -> None:
        """One fault, then the command again to its end."""
        self.bench.put(self.before)
        found = self.bench.run(*self.command.arguments, at=at, how=how)
        where = f"{NAMES[how]} at call {at} ({self.calls[at - 1]})"
        if not found.hits:
            self.counts["fewer calls"] += 1
            return
        self.counts["faults"] += 1
        self.counts[NAMES[how]] += 1
        if how in (KILL, TORN) and found.code >= 0:
            self.problems.append(f"{self.command.name}, {where}: exit code {found.code}")
        self.say(where, said(found))
        self.again(where, found.code == 0)

    def power(self, step: int = 1) -> None:
        """The disk after a loss of power before each call."""
        losses = list(power_losses(self.bench.folder, self.before, self.calls))
        for number, state in [*losses[:-1:step], losses[-1]]:
            self.bench.put({n: data for n, data in state.items() if not n.endswith("-shm")})
            self.counts["losses of power"] += 1
            where = f"power lost before call {number + 1} of {len(self.calls)}"
            self.again(where, number == len(self.calls))

    def again(self, where: str, done: bool) -> None:
        """What holds now, and once the command was run again to its end."""
        before = self.bench.taken()
        self.say(where, self.command.holds(before, done))
        found = self.bench.run(*self.command.arguments)
        where = f"{where}, run again"
        refused = re.search(self.command.spent, found.err)
        if found.code != 0 and not refused:
            self.problems.append(f"{self.command.name}, {where}: {found.code}: {found.err[-300:]}")
        self.counts["finished" if found.code == 0 else "already done" if done else "refused"] += 1
        self.say(where, said(found) if not refused else iter(()))
        after = self.bench.taken()
        self.say(where, self.command.holds(after, done or found.code == 0))
        self.say(where, redrawn(before, after))
        if found.code == 0:
            self.say(where, leftover(after))


def _kept(files: Files) -> dict[str, bytes]:
    return {n: data for n, data in files.items() if not n.startswith("home") and "-queue" not in n}


def said(found: Outcome) -> Iterator[str]:
    """A failure has a sentence that says why, and no traceback; a kill says nothing."""
    if "Traceback" in found.err or found.code == 70:
        yield f"exit code {found.code}: {found.err[-400:]}"
    elif found.code > 0 and not REASONS.search(found.err):
        yield f"exit code {found.code}, and no reason: {found.err[-300:]}"


def unseen(folder: Path, before: Files, calls: Sequence[Call], after: Files) -> Iterator[str]:
    """The calls that were noted make just the files that are there: nothing changed them unseen."""
    disk = Disk(folder, before)
    for call in calls:
        disk.take(call)
    made = disk.after(names=True, content=True)
    for name in sorted(made.keys() | after.keys()):
        if made.get(name) != after.get(name) and not name.endswith("-shm"):
            yield f"{name} was changed by a call that was not counted"


def redrawn(before: Files, after: Files) -> Iterator[str]:
    """What was drawn stays as it is."""
    for name in ("out/release.json", "out/model.npz", "reports/noisy_mean.npz", "own.pem"):
        if name in before and after.get(name) != before[name]:
            yield f"{name} was replaced"


def leftover(files: Files) -> Iterator[str]:
    """Nothing temporary is left where a command succeeded."""
    for name in files:
        # Batches of another seed are kept for the run that resumes with it.
        if name.endswith((".tmp", "probe")) and ".audits/" not in name:
            yield f"{name} is left"


@contextmanager
def trial(place: Path, name: str, sabotage: str = "") -> Iterator[Trial]:
    """A command, ready for faults; ``sabotage``: a guard that is taken away from it."""
    bench = Bench(place, sabotage)
    try:
        yield Trial(bench, COMMANDS[name])
    finally:
        bench.close()


def main(given: Sequence[str]) -> None:
    """Every fault of these commands, or of all; the table, and what did not hold."""
    rows, problems, names, step = [], [], list(given), 1
    if names[:1] == ["--every"]:
        step, names = int(names[1]), names[2:]
    for name in names or COMMANDS:
        with tempfile.TemporaryDirectory() as made, trial(Path(made) / "bench", name) as one:
            for at, how in one.faults()[::step]:
                one.fault(at, how)
            one.power(step)
            c = one.counts
            failing = sum(c[NAMES[how]] for how in (ONCE, FULL, READ_ONLY))
            kills = c["kill"] + c["torn"]
            cells = (name, len(one.calls), failing, kills, c["losses of power"], c["finished"])
            rows.append((*cells, c["refused"] + c["already done"], len(one.problems)))
            problems += one.problems
            sys.stderr.write(f"{rows[-1]} {dict(c)}\n")
    head = ("command", "calls", "that fail", "kills", "losses of power", "then finished",
            "then refused", "violations")  # fmt: skip
    lines = [head, ("---",) * len(head), *rows]
    table = [f"| {' | '.join(map(str, line))} |" for line in lines]
    sys.stdout.write("\n".join([*table, *problems, ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
