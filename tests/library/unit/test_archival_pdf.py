"""An archive's pages as PDF/A-1b, in every language, held to the standard by a validator.

pip install 'dpaudit[pdf]'; apt install libpdfbox2-java libjaxb-api-java libactivation-java
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dpaudit.cli.main import main
from dpaudit.errors import InvalidParameter
from dpaudit.report import pdf, render_html
from dpaudit.report.say import LANGUAGES

pytest.importorskip("weasyprint", reason="PDF/A needs WeasyPrint")

EXAMPLE = Path(__file__).parents[2] / "data" / "example_certificate.json"
JARS = [
    Path("/usr/share/java") / f"{name}.jar"
    for name in (
        *("preflight", "pdfbox2", "xmpbox", "fontbox2", "commons-logging", "commons-io"),
        *("javax.activation", "jaxb-api"),
    )
]
VALIDATOR = """
import java.io.File;
import org.apache.pdfbox.preflight.PreflightDocument;
import org.apache.pdfbox.preflight.ValidationResult.ValidationError;
import org.apache.pdfbox.preflight.parser.PreflightParser;
public class Validator {
    public static void main(String[] names) throws Exception {
        PreflightParser parser = new PreflightParser(new File(names[0]));
        parser.parse();
        PreflightDocument document = parser.getPreflightDocument();
        document.validate();
        System.out.println("valid: " + document.getResult().isValid());
        for (ValidationError error : document.getResult().getErrorsList())
            System.out.println(error.getErrorCode() + " " + error.getDetails());
    }
}
"""


@pytest.fixture(scope="module")
def certificate() -> Any:
    return json.loads(EXAMPLE.read_text("utf-8"))


def validated(content: bytes, folder: Path) -> str:
    """The answer of Apache PDFBox Preflight, which holds files to ISO 19005-1, level B."""
    if shutil.which("java") is None or not all(jar.exists() for jar in JARS):
        pytest.skip("no java with PDFBox Preflight")
    (folder / "Validator.java").write_text(VALIDATOR)
    (folder / "page.pdf").write_bytes(content)
    jars = ":".join(map(str, JARS))
    command = ["java", "-cp", jars, "Validator.java", "page.pdf"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.quality
@pytest.mark.parametrize("spoken", LANGUAGES)
def test_a_page_is_valid_pdf_a(certificate: Any, spoken: str, tmp_path: Path) -> None:
    made = pdf.archival_pdf(render_html(certificate, spoken=spoken))
    assert b'pdfaid:part="1" pdfaid:conformance="B"' in made
    assert b"/Encrypt" not in made
    assert len(re.findall(rb"/Type ?/Page\b", made)) >= 4  # the auditor's part is open
    assert validated(made, tmp_path).startswith("valid: true")


@pytest.mark.quality
def test_the_validator_sees_transparency(
    certificate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "_archival", lambda *_: None)
    found = validated(pdf.archival_pdf(render_html(certificate)), tmp_path)
    assert found.startswith("valid: false")
    assert "transparency" in found


def test_a_page_is_made_twice_alike_and_loads_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = (tmp_path / "style.css").as_uri()
    (tmp_path / "style.css").write_text("body { font-size: 99px }")
    page = f'<title>t</title><link rel="stylesheet" href="{place}"><body>text'
    assert pdf.archival_pdf(page) == pdf.archival_pdf(page)
    assert any(place in one.getMessage() for one in caplog.records if one.levelname == "ERROR")


@pytest.mark.quality
def test_an_archive_holds_the_pages_of_every_language_and_verifies(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from dpaudit.certificate.certificate import save
    from tests.library.cli.bench import pure

    save(pure(), tmp_path / "pure.json")
    words = ["report", str(tmp_path / "pure.json"), "--format", "archive", "--out", str(tmp_path)]
    kept = CliRunner().invoke(main, words)
    assert kept.exit_code == 0, kept.output
    shutil.unpack_archive(tmp_path / "pure.zip", tmp_path / "open")
    pages = sorted(path.name for path in (tmp_path / "open" / "pages").glob("*.pdf"))
    assert pages == [f"pure.{spoken}.pdf" for spoken in sorted(LANGUAGES)]
    assert "PDF/A-1b" in (tmp_path / "open" / "README.txt").read_text("utf-8")
    found = CliRunner().invoke(main, ["verify", str(tmp_path / "pure.zip"), "--json"])
    (row,) = json.loads(found.stdout)
    assert row["verified"]
    assert any("pure.de.pdf" in text for text in row["on_trust"])


def test_without_pango_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    real = builtins.__import__

    def refused(name: str, *rest: Any, **more: Any) -> Any:
        if name == "weasyprint":
            raise OSError("cannot load library libpango")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refused)
    with pytest.raises(InvalidParameter, match="apt install libpango"):
        pdf.archival_pdf("<p>")
