"""Accounting and verifying work in a process in which heavy libraries cannot be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Of the core, used in one place each; of extras, used by those who ask for them.
BLOCKED = (
    "cryptography",
    "dask",
    "dp_accounting",
    "duckdb",
    "matplotlib",
    "narwhals",
    "opacus",
    "pandas",
    "polars",
    "psycopg",
    "pyarrow",
    "rfc3161_client",
    "sigstore",
    "sklearn",
    "sqlalchemy",
    "statsmodels",
    "torch",
)
PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

sys.meta_path.insert(0, Blocked())
from dpaudit.cli.main import main
main({arguments!r})
"""


def run(
    *arguments: str, cwd: Path, blocked: tuple[str, ...] = BLOCKED
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own that cannot import some libraries."""
    program = PROGRAM.format(blocked=set(blocked), arguments=list(arguments))
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.quality
@pytest.mark.long("processes that import anew")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("list", "classics"), marks=pytest.mark.quality),
        pytest.param(("show", "noisy_count"), marks=pytest.mark.quality),
        ("account", "poisson_sgd", "--delta", "1e-5"),
    ],
    ids=lambda a: a[0],
)
def test_accounting_needs_none_of_them(arguments: tuple[str, ...], checkout: Path) -> None:
    found = run(*arguments, cwd=checkout)
    assert found.returncode == 0, found.stderr
    assert "blocked" not in found.stderr


@pytest.mark.quality
def test_verifying_needs_none_of_them(checkout: Path, tmp_path: Path) -> None:
    program = (
        "import dpaudit as dp\n"
        "from mechanisms.classics.noisy_count import noisy_count\n"
        f"print(dp.certify(noisy_count, seed=1).save({str(tmp_path)!r}))"
    )
    command = [sys.executable, "-c", program]
    made = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
    found = run("verify", made.stdout.strip(), cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "verified" in found.stdout


@pytest.mark.quality
def test_a_library_that_is_needed_would_be_noticed(checkout: Path) -> None:
    found = run("account", "noisy_count", cwd=checkout, blocked=("flint",))
    assert found.returncode != 0
    assert "ModuleNotFoundError" in found.stderr or "blocked" in found.stderr


@pytest.mark.quality
def test_tables_are_read_without_libraries_of_tables(tmp_path: Path) -> None:
    """Text, JSON and arrays; a Parquet file says what to install."""
    (tmp_path / "in.csv").write_text("who,score\nu,1.5\nv,2.5\n")
    (tmp_path / "out.json").write_text('[{"who": "x", "score": 0.5}, {"who": "y", "score": 1}]')
    found = run("audit", "--scores", "in.csv", "out.json", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "AUC 1" in found.stdout
    (tmp_path / "in.parquet").write_bytes(b"PAR1")
    found = run("audit", "--scores", "in.parquet", "out.json", cwd=tmp_path)
    assert found.returncode == 2
    assert "pip install 'dpaudit[tables]'" in found.stderr
