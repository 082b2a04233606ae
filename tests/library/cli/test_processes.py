"""Commands in processes of their own: start-up, workers, interruptions, a project from init."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpaudit.check.file import load
from tests.library.cli.conftest import call, spawn

HEAVY = (
    "dp_accounting", "flint", "joblib", "matplotlib", "numpy", "pandas", "scipy", "statsmodels",
    "sympy", "jsonschema", "rfc8785", "jinja2",
)  # fmt: skip
PRODUCTS = ("json", "html")


# --- start-up ------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from dpaudit.cli.main import main\n"
        "for arguments in (['--help'], ['certify', '--help'], ['--version']):\n"
        "    assert CliRunner().invoke(main, arguments).exit_code == 0\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(child.stdout.split())
    assert "click" in loaded
    assert loaded & set(HEAVY) == set()


# --- workers and repetitions ---------------------------------------------------------------------


def products(folder: Path, *arguments: str) -> list[bytes]:
    call("certify", "held", "--seed", "11", *arguments, cwd=folder)
    return [(folder / arguments[-1] / f"held.{kind}").read_bytes() for kind in PRODUCTS]


@pytest.mark.quality
def test_the_same_seed_gives_the_same_bytes(project: Path) -> None:
    """Certificates and pages of two processes: one worker, and two."""
    trials = ("--trials", "2200")
    once = products(project, *trials, "--out", "once")
    two = products(project, *trials, "--jobs", "2", "--out", "two")
    assert once == two
    certificate = load(project / "once" / "held.json")["predicate"]
    assert certificate["issued"] == "2023-11-14T22:13:20Z"
    assert certificate["reproduce"]["command"] == "dpaudit certify held --seed 11 --trials 2200"


@pytest.mark.quality
def test_json_is_all_there_is_on_standard_output(project: Path) -> None:
    child = call(
        "audit", "held", "--seed", "1", "--trials", "300", "--jobs", "2", "--json", cwd=project
    )
    assert json.loads(child.stdout)[0]["name"] == "held"
    assert "attacked held" in child.stderr


@pytest.mark.quality
def test_no_colours_where_there_is_no_terminal(project: Path) -> None:
    child = call("audit", "refuted", "--trials", "300", cwd=project, code=1)
    assert "\x1b" not in child.stdout + child.stderr


@pytest.mark.quality
def test_a_reader_that_leaves_gets_no_success(project: Path) -> None:
    """`dpaudit audit refuted | head -0` must not exit as if it were certified."""
    child = spawn("audit", "refuted", "--json", cwd=project)
    assert child.stdout is not None
    child.stdout.close()
    assert child.stderr is not None
    error = child.stderr.read()
    assert child.wait(60) == 1
    assert "Traceback" not in error


# --- interruptions -------------------------------------------------------------------------------

SLOW = ("certify", "slow", "--seed", "21")
BATCHES = 8  # one training and three test batches a side


@pytest.fixture(scope="module")
def uninterrupted(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The files of a run that nobody disturbs."""
    # A copy, as the interrupted ones are: a certificate holds the revision of its sources.
    folder = tmp_path_factory.mktemp("calm") / "project"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(checkout / "tests" / "library" / "cli" / "project", folder, ignore=ignored)
    call(*SLOW, cwd=folder)
    return [(folder / "reports" / f"slow.{kind}").read_bytes() for kind in PRODUCTS]


def wait_for_batches(out: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(list(out.glob(".audits/*/*.npz"))) < count:
        assert time.monotonic() < deadline, "no batch was stored"
        time.sleep(0.02)


@pytest.mark.quality
@pytest.mark.parametrize(
    ("stop", "code", "jobs"),
    [
        pytest.param(signal.SIGINT, 130, "1", id="SIGINT", marks=pytest.mark.quality),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, "1", id="kill -9"),
        pytest.param(
            signal.SIGINT, 130, "2", id="SIGINT with two workers", marks=pytest.mark.quality
        ),
    ],
)
def test_an_interrupted_run_resumes_and_ends_the_same(
    stop: signal.Signals, code: int, jobs: str, project: Path, uninterrupted: list[bytes]
) -> None:
    command = (*SLOW, "--jobs", jobs)
    child = spawn(*command, cwd=project)
    out = project / "reports"
    wait_for_batches(out, 2)
    child.send_signal(stop)
    _, error = child.communicate(timeout=60)
    assert child.returncode == code, error
    assert "Traceback" not in error
    if stop == signal.SIGINT:
        assert error.splitlines()[-1].endswith("with --seed resumes where it stopped")
    left = {path.name for path in out.iterdir()}
    assert left == {".audits"}, "nothing half-written"
    stored = len(list(out.glob(".audits/*/*.npz")))
    assert 2 <= stored < BATCHES

    child_again = call(*command, cwd=project)
    first = next(line for line in child_again.stderr.splitlines() if line.startswith("resuming"))
    assert int(first.split()[2]) >= stored
    assert first.endswith(f"of {BATCHES} batches are stored")
    assert [(out / f"slow.{kind}").read_bytes() for kind in PRODUCTS] == uninterrupted
    assert not (out / ".audits").exists()


# --- a project from init -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "name", "records"),
    [
        pytest.param("noisy_count", "noisy_count", 0, marks=pytest.mark.quality),
        pytest.param("diff2", "diff2_gd", 16_150, marks=pytest.mark.quality),
    ],
)
def test_a_copy_of_a_shipped_mechanism_is_listed_and_certified(
    package: str, name: str, records: int, tmp_path: Path
) -> None:
    call("init", "mine", "--with", package, cwd=tmp_path)
    mine = tmp_path / "mine"
    rows = {row["target"]: row for row in json.loads(call("list", "--json", cwd=mine).stdout)}
    assert rows[name]["root"] == "project"
    assert rows[f"catalogue:{name}"]["root"] == "catalogue"
    call("certify", name, "--seed", "1", "--trials", "400", cwd=mine)
    certificate = load(mine / "reports" / f"{name}.json")["predicate"]
    assert certificate["verdict"]["status"] == "certified_under_assumptions"
    assert certificate["audits"]
    assert certificate["mechanism"]["root"] == "project"
    assert (certificate["run"] or {"records": 0})["records"] == records
    assert "verified" in call("verify", f"reports/{name}.json", cwd=mine).stdout
