"""Audits made again from their seed, and compared with what a certificate says of them."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpaudit.audit.examine import Shape, examine
from dpaudit.audit.verdict import Verdict
from dpaudit.certificate.certify import certify_one, examined
from dpaudit.certificate.order import Options, Order, plan
from dpaudit.errors import CertificateRejected

PLAN = ".toml"
# Fields of an audit that a replay has to give again.
COUNTED = ("trials", "training_trials", "neighbours", "threshold", "counts", "roc", "witness")


@dataclass(frozen=True)
class Command:
    """The command that made a certificate; empty ``targets``: every mechanism of a project.

    ``shape``: of the records that the mechanism was made for, if not for its own; ``values``: what
    its free parameters were set to, as ``KEY=VALUE``.
    """

    targets: tuple[str, ...]
    seed: int
    trials: int | None
    shape: str | None = None
    values: tuple[str, ...] = ()

    @property
    def planned(self) -> bool:
        """Whether it is of a release's plan, and not of mechanisms."""
        return len(self.targets) == 1 and self.targets[0].endswith(PLAN)


def command_of(certificate: Mapping[str, Any]) -> Command:
    """The command of a certificate: names of mechanisms, or a plan, a seed, a number of trials.

    A file that a certificate names is never opened.
    Errors: CertificateRejected for a command of another form.
    """
    text = certificate["predicate"]["reproduce"]["command"]
    refused = CertificateRejected(f"{text[:80]!r}: cannot be replayed; expected dpaudit certify")
    try:
        program, verb, *words = shlex.split(text)
        options = {"--seed": None, "--trials": None} | {
            word: int(words[i + 1])
            for i, word in enumerate(words)
            if word in ("--seed", "--trials")
        }
    except (ValueError, IndexError):
        raise refused from None
    targets = words[: words.index("--seed")] if "--seed" in words else []
    targets, shape, values = _made_for(targets, refused)
    names = [] if targets == ["--all"] else targets
    plain = all(name.removeprefix("catalogue:").isidentifier() for name in names)
    plain |= len(names) == 1 and names[0].endswith(PLAN)
    seed = options["--seed"]
    if (program, verb) != ("dpaudit", "certify") or not (targets and plain) or seed is None:
        raise refused
    return Command(tuple(names), seed, options["--trials"], shape, values)


def _made_for(
    words: list[str], refused: CertificateRejected
) -> tuple[list[str], str | None, tuple[str, ...]]:
    """The targets of a command, ``--shape`` and the values of ``--set``, which stand at its end."""
    if "--shape" not in words:
        return words, None, ()
    place = words.index("--shape")
    shape, *settings = words[place + 1 :] or [""]
    if not shape or len(settings) % 2 or set(settings[::2]) - {"--set"}:
        raise refused
    return words[:place], shape, tuple(settings[1::2])


def differences(
    certificate: Mapping[str, Any], orders: Sequence[Order], command: Command
) -> list[str]:
    """Where a replay differs from the certificate, one line each.

    The data are not touched: only what is audited is made again.
    Errors: CertificateRejected where no order is of the certificate's mechanism.
    """
    predicate, index = certificate["predicate"], _index(certificate, orders)
    if changed := _files(predicate, orders[index].implementation):
        return changed
    remade = _made(orders, index, command, predicate)
    lines = []
    for part in ("digest", "declaration"):
        if remade["mechanism"][part] != predicate["mechanism"][part]:
            lines.append(f"the {part} of the declaration is another")
    again = {row["id"]: row for row in remade["audits"]}
    for row in predicate["audits"]:
        other = again.pop(row["id"], None)
        if other is None:
            lines.append(f"audit {row['id']}: not in the replay")
        else:
            lines += [
                f"audit {row['id']}: {field} {_short(row[field])}, replayed {_short(other[field])}"
                for field in COUNTED
                if row[field] != other[field]
            ]
    lines += [f"audit {name}: in the replay only" for name in again]
    if remade["likelihoods"] != predicate.get("likelihoods", remade["likelihoods"]):
        lines.append("likelihood audits: other losses, weights or bounds in the replay")
    return lines


def refuted_afresh(
    certificate: Mapping[str, Any], orders: Sequence[Order], command: Command, seed: int
) -> list[str]:
    """Refutations of a certificate by audits under another seed, one line each.

    Its files and declaration are committed to by its digests; a seed that is drawn after that
    cannot have been chosen for what it hides.  A right program is found wrong once in 10^4 runs.
    Errors: as :func:`differences`.
    """
    predicate, index = certificate["predicate"], _index(certificate, orders)
    if changed := _files(predicate, orders[index].implementation):
        return changed
    remade = _made(orders, index, replace(command, seed=seed), predicate)
    lines = []
    if remade["mechanism"]["digest"] != predicate["mechanism"]["digest"]:
        lines.append("the digest of the declaration is another")
    for row in remade["conformance"]:
        if row["status"] == "broken":
            lines.append(f"under another seed: {row['check']}: {row['detail']}")
    for row in remade["audits"]:
        if row["verdict"] == "refuted":
            shown = row["witness"]["decisive_lower"]
            lines.append(f"under another seed: audit {row['id']} shows at least {shown}")
    stated = Verdict(predicate["verdict"]["status"])
    if stated is Verdict.CERTIFIED and predicate["run"] is not None:
        stated = Verdict.CERTIFIED_UNDER_ASSUMPTIONS  # a replay has no run that draws exactly
    worse = list(Verdict)[: list(Verdict).index(stated)]
    if not lines and remade["verdict"]["status"] in worse:
        lines.append(f"under another seed: {remade['verdict']['status']}")
    return lines


def _index(certificate: Mapping[str, Any], orders: Sequence[Order]) -> int:
    name = certificate["predicate"]["mechanism"]["name"]
    names = [order.mechanism.name for order in orders]
    if name not in names:
        raise CertificateRejected(f"{name[:80]}: no mechanism of that name is here to be replayed")
    return names.index(name)


def _made(
    orders: Sequence[Order], index: int, command: Command, stated: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The predicate that the command makes again, without reading the data.

    ``stated``: the predicate in the certificate, which gives the shape of the data.
    """
    without = [replace(o, mechanism=replace(o.mechanism, records=None)) for o in orders]
    options = Options(seed=command.seed, trials=command.trials, targets=command.targets)
    run = plan(without, options)
    examination, records = examined(run, run.orders[index]), stated["examination"]["records"]
    if examination.broken and records and orders[index].mechanism.records is not None:
        shape = Shape(records[0], tuple(records[1:]))
        if shape != examination.shape:
            examination = examine(run.orders[index].mechanism, seed=run.seed, shape=shape)
    predicate: Mapping[str, Any] = certify_one(run, index, examination).certificate["predicate"]
    return predicate


def _files(predicate: Mapping[str, Any], here: Mapping[str, str]) -> list[str]:
    listed = {
        row["name"]: row["digest"]["sha256"] for row in predicate["mechanism"]["implementation"]
    }
    return [
        f"{name}: another file than the certificate's"
        for name in sorted({**here, **listed})
        if here.get(name) != listed.get(name)
    ]


def implementation_in(certificate: Mapping[str, Any], folder: Path) -> list[str]:
    """Files of the certificate's implementation that a folder holds otherwise, or not at all."""
    lines = []
    for row in certificate["predicate"]["mechanism"]["implementation"]:
        path = folder / row["name"]
        inside = path.resolve().is_relative_to(folder.resolve())
        if not inside or not path.is_file():
            lines.append(f"{row['name']}: not in {folder}")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != row["digest"]["sha256"]:
            lines.append(f"{row['name']}: another file in {folder}")
    return lines


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
