"""One mechanism certified from Python, and a certificate as an object."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpaudit.audit.suite import Suite
from dpaudit.certificate.certificate import Json, file_bytes
from dpaudit.certificate.certify import certify_one
from dpaudit.certificate.evidence import BOTH
from dpaudit.certificate.order import Options, Order, plan
from dpaudit.certificate.own_check import check_own
from dpaudit.certificate.previous import previous_of
from dpaudit.check import check
from dpaudit.check.file import load, validate
from dpaudit.curator.mechanism import Mechanism
from dpaudit.report import SummaryRow, render_html, summary_rows
from dpaudit.report.verifier import beside
from dpaudit.storage.files import writable, write_made


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """The claims, account and attacks of one mechanism; ``content`` is the statement.

    :func:`certify` makes one.

    >>> import dpaudit as dp
    >>> class Count:
    ...     def declaration(self, scope):
    ...         return dp.Laplace("count", noise_multiplier=1)
    ...     def run(self, curator):
    ...         rows = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1, norm="l1")
    ...         return curator.release("count", rows)
    >>> scope, claims = dp.central("add_remove"), [dp.Claim(dp.PureDP(1), by="its author")]
    >>> count = dp.Mechanism("noisy_count", "A count", "Dwork et al. 2006", Count(), scope, claims)
    >>> dp.certify(count, seed=1)
    Certificate(noisy_count, certified under assumptions)
    """

    content: Json

    @property
    def name(self) -> str:
        """The mechanism's name."""
        return str(self.content["predicate"]["mechanism"]["name"])

    @property
    def verdict(self) -> str:
        """The gravest verdict of its claims, in words."""
        return str(self.content["predicate"]["verdict"]["status"]).replace("_", " ")

    @property
    def claims(self) -> list[SummaryRow]:
        """One row a claim: what is claimed, accounted and attacked, and the verdict."""
        return list(summary_rows([self.content]))

    def page(self) -> str:
        """The report as one HTML page."""
        return render_html(self.content)

    def save(self, folder: str | Path) -> Path:
        """Write NAME.json and NAME.html into a folder; the certificate's path.

        Errors: OutputNotWritable.
        """
        out = Path(folder)
        page, path = out / f"{self.name}.html", out / f"{self.name}.json"
        writable(out, (page.name, path.name))
        previous = previous_of(self.content, folders=(out,))
        text = render_html(self.content, previous=previous, verifier=beside(out))
        write_made({page: text.encode(), path: file_bytes(self.content)})
        return path

    def __str__(self) -> str:
        each = "; ".join(f"{row.claim} {row.verdict}" for row in self.claims)
        return "; ".join(filter(None, (f"{self.name}: {each}", self._reason)))

    @property
    def _reason(self) -> str:
        """The first reason why it is not certified; "" where it is."""
        certified = self.verdict.startswith("certified")
        reasons: list[str] = self.content["predicate"]["verdict"]["reasons"]
        return "" if certified or not reasons else reasons[0]

    def __repr__(self) -> str:
        return f"Certificate({self.name}, {self.verdict})"

    def _repr_html_(self) -> str:
        from dpaudit.report.notebook import card

        rows = [(row.claim, row.accounted, row.attacked, row.verdict) for row in self.claims]
        caption = "; ".join(filter(None, (f"{self.name}: {self.verdict}", self._reason)))
        return card(caption, rows, head=("claim", "accounted", "attacked", "verdict"))


@dataclass(frozen=True, repr=False)
class Verified:
    """A certificate that was re-derived: its verdict, what was confirmed and what is on trust."""

    name: str
    verdict: str
    confirmed: tuple[str, ...]
    on_trust: tuple[str, ...]

    def __str__(self) -> str:
        confirmed, on_trust = len(self.confirmed), len(self.on_trust)
        return f"{self.name}: {self.verdict}; {confirmed} confirmed, {on_trust} taken on trust"

    def __repr__(self) -> str:
        return f"Verified({self.name}, {self.verdict})"

    def _repr_html_(self) -> str:
        from dpaudit.report.notebook import card

        rows = [("confirmed", line) for line in self.confirmed]
        rows += [("on trust", line) for line in self.on_trust]
        return card(f"{self.name}: {self.verdict}", rows)


def certify(
    mechanism: Mechanism,
    suite: Suite | None = None,
    *,
    seed: int | None = None,
    trials: int | None = None,
    jobs: int = 1,
    uncovered: bool = False,
) -> Certificate:
    """Account, attack, run and judge one mechanism.

    ``suite``: how it is attacked; nothing is attacked without one.  ``seed``: of every draw, None
    for fresh ones.  ``trials``: of the test a side, the suite's own number by default.
    ``uncovered``: print metrics that are not computed from what was released, marked so.
    Errors: as `dpaudit certify`; InternalError where the certificate fails our own check.

    >>> import dpaudit as dp
    >>> class Count:
    ...     def declaration(self, scope):
    ...         return dp.Laplace("count", noise_multiplier=1)
    ...     def run(self, curator):
    ...         rows = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1, norm="l1")
    ...         return curator.release("count", rows)
    >>> scope, claims = dp.central("add_remove"), [dp.Claim(dp.PureDP(1), by="its author")]
    >>> count = dp.Mechanism("noisy_count", "A count", "Dwork et al. 2006", Count(), scope, claims)
    >>> certificate = dp.certify(count, seed=1)
    >>> certificate.verdict
    'certified under assumptions'
    """
    called = f"dpaudit.certify({mechanism.name}, seed={seed!r}, trials={trials!r})"
    options = Options(
        seed=seed, trials=trials, jobs=jobs, targets=(mechanism.name,), uncovered=uncovered
    )
    return _certified(mechanism, suite, options, called)


def _certified(
    mechanism: Mechanism, suite: Suite | None, options: Options, called: str
) -> Certificate:
    order = Order(mechanism, suite, "project", _implementation(mechanism, suite))
    run = replace(plan([order], options), command=called)
    certificate = Certificate(certify_one(run, 0).certificate)
    check_own(certificate.content)
    return certificate


def audit_mechanism(
    mechanism: Mechanism,
    suite: Suite,
    *,
    seed: int | None = None,
    trials: int | None = None,
    jobs: int = 1,
    method: str = BOTH,
) -> Certificate:
    """Attack a declared mechanism and judge its claims; its data is not touched.

    ``method``: "plain" counts runs with the noise that the program draws, "likelihood" bounds the
    program with the declared noise from exact likelihoods, "both" does both.  Other arguments and
    errors as :func:`certify`; InvalidParameter for another method.

    >>> import dpaudit as dp
    >>> class Count:
    ...     def declaration(self, scope):
    ...         return dp.Laplace("count", noise_multiplier=1)
    ...     def run(self, curator):
    ...         rows = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1, norm="l1")
    ...         return curator.release("count", rows)
    >>> scope, claims = dp.central("add_remove"), [dp.Claim(dp.PureDP(1), by="its author")]
    >>> count = dp.Mechanism("noisy_count", "A count", "Dwork et al. 2006", Count(), scope, claims)
    >>> one, none = dp.Records([[0.0], [1.0]]), dp.Records([[0.0]])
    >>> pair = dp.Neighbours(one, none, "add_remove", "a record of 1 more")
    >>> suite = dp.Suite("noisy_count", Count(), pair, trials=4_000)
    >>> dp.audit_mechanism(count, suite, seed=1)
    Certificate(noisy_count, certified under assumptions)
    """
    called = (
        f"dpaudit.audit_mechanism({mechanism.name}, seed={seed!r}, trials={trials!r}, "
        f"method={method!r})"
    )
    options = Options(seed=seed, trials=trials, jobs=jobs, targets=(mechanism.name,), method=method)
    return _certified(replace(mechanism, records=None), suite, options, called)


def verify(certificate: Certificate | Mapping[str, Any] | str | Path) -> Verified:
    """Re-derive a certificate, or one in a file, from its witnesses and without the accountant.

    Errors: CertificateRejected naming the first part that was changed or does not follow.

    >>> import dpaudit as dp
    >>> class Count:
    ...     def declaration(self, scope):
    ...         return dp.Laplace("count", noise_multiplier=1)
    ...     def run(self, curator):
    ...         rows = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1, norm="l1")
    ...         return curator.release("count", rows)
    >>> scope, claims = dp.central("add_remove"), [dp.Claim(dp.PureDP(1), by="its author")]
    >>> count = dp.Mechanism("noisy_count", "A count", "Dwork et al. 2006", Count(), scope, claims)
    >>> checked = dp.verify(dp.certify(count, seed=1))
    >>> checked.verdict, checked.confirmed[0]
    ('certified under assumptions', 'digest of the predicate')
    """
    if isinstance(certificate, (str, Path)):
        content = load(Path(certificate))
    else:
        content = certificate.content if isinstance(certificate, Certificate) else dict(certificate)
    validate(content)
    checked, opened = check(content), Certificate(content)
    unchecked = (f"{', '.join(part.fields)}: {part.why}" for part in checked.unchecked)
    return Verified(opened.name, opened.verdict, checked.confirmed, (*checked.on_trust, *unchecked))


def _implementation(mechanism: Mechanism, suite: Suite | None) -> dict[str, str]:
    """SHA-256 of the files that define the programs, by name; one typed at a prompt has none."""
    programs = [mechanism.program, *([] if suite is None else [suite.program])]
    digests = {}
    for program in programs:
        try:
            path = Path(inspect.getfile(type(program)))
            digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, TypeError):
            continue
    return digests
