"""Pages as single HTML files: no script, no network, nothing outside the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from dpaudit.report import summary, view
from dpaudit.report.evidence import NOTHING
from dpaudit.report.say import language, say, speaking
from dpaudit.sign import Signed

if TYPE_CHECKING:
    from jinja2 import Environment


def render_html(
    certificate: Mapping[str, Any],
    signed: Sequence[Signed] = (),
    proved: Mapping[str, Sequence[str]] = NOTHING,
    *,
    spoken: str = "en",
    errata: Sequence[str] = (),
    previous: Mapping[str, Any] | None = None,
    verifier: str = "",
) -> str:
    """The report of one certificate as one HTML page that says only what the certificate says.

    ``certificate`` is the in-toto Statement as parsed JSON; it is shown, not verified.
    ``signed``: its signatures; ``proved``: the sources of the theorems from which a proof kernel
    accepted a claim, by the claim's text; ``spoken``: the language, en, de or fr;
    ``errata``: that it was corrected or withdrawn, which the page says first; ``previous``: the
    certificate of the last release, since which the page says what changed; ``verifier``: the
    address of a page that verifies certificates, to which this one links.
    Errors: CertificateRejected if it lacks a field that the page shows.
    """
    with speaking(spoken):
        page = view.build(certificate, signed, proved, errata, previous)
        return environment().get_template("page.html.j2").render(page=page, verifier=verifier)


def render_index(
    certificates: Mapping[str, Mapping[str, Any]],
    failed: Mapping[str, str] | None = None,
    *,
    spoken: str = "en",
) -> str:
    """A page that links to reports: one row a claim; the keys are the reports' file names.

    ``failed``: for each mechanism without a certificate, the reason.
    Errors: CertificateRejected if one of them lacks a field that the table shows.
    """
    with speaking(spoken):
        index = summary.index(certificates, failed)
        return environment().get_template("index.html.j2").render(index=index)


def render_project(
    certificates: Mapping[str, Mapping[str, Any]],
    signed: Mapping[str, Sequence[Signed]] | None = None,
    failed: Mapping[str, str] | None = None,
    *,
    spoken: str = "en",
) -> str:
    """One page for a project: the index by data set, date and verdict, then every first screen.

    Errors: as :func:`render_html`.
    """
    with speaking(spoken):
        pages = {
            name: view.build(certificate, (signed or {}).get(name, ()))
            for name, certificate in certificates.items()
        }
        index = summary.index(certificates, failed, on_page=frozenset(pages))
        template = environment().get_template("project.html.j2")
        return template.render(index=index, pages=pages)


@cache
def environment() -> Environment:
    """The Jinja environment of all pages: it escapes all text and refuses undefined names."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("dpaudit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(say=say, language=language, section_of=summary.section_of)
    return environment
