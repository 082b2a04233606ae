"""Mechanisms in any language: what a call may answer, and what ends an audit."""

from __future__ import annotations

import http.server
import json
import math
import os
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dpaudit as dp
from dpaudit.audit import Command, Database, Endpoint, FunctionAudit, audit_function
from dpaudit.audit.blackbox import foreign
from dpaudit.audit.blackbox.draws import read_output
from dpaudit.audit.blackbox.findings import Finding
from dpaudit.audit.blackbox.foreign import Unanswered, read_outputs
from dpaudit.cli.main import main
from dpaudit.errors import InvalidParameter

HEAD = (
    "import json, os, random, sys, time; data = json.load(sys.stdin); "
    "size = int(os.environ['DPAUDIT_SIZE']); random.seed(os.environ['DPAUDIT_SEED'])\n"
)
NOISY = "for _ in range(size): print(sum(data) + random.expovariate({0}) - random.expovariate({0}))"


def program(code: str) -> list[str]:
    """A process of Python without its site packages, which starts quickly."""
    return [sys.executable, "-S", "-c", HEAD + code]


def audit(mechanism: Any, trials: int = 4_000) -> FunctionAudit:
    return audit_function(mechanism, [1, 1], [1, 0], claim=dp.PureDP(1), trials=trials, seed=1)


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "outputs"),
    [
        (b"1.5\n2\n", [1.5, 2.0]),
        (b"1\r\n2\r\n\n", [1, 2]),
        (b"1,2\n3,4", [[1, 2], [3, 4]]),
        (b"[1, 2.5]\n[3, 4]\n", [[1.0, 2.5], [3.0, 4.0]]),
        (b"sum,count\n1,2\n3,4\n", [[1, 2], [3, 4]]),
        (b'{"outputs": [1, 2]}', [1, 2]),
        (b"true\nfalse\n", [True, False]),
        (b"yes\nno\n", ["yes", "no"]),
        (b'"yes"\nnull\n', ["yes", None]),
        (b"NaN\ninf\n", [math.nan, math.inf]),
        (b"1,\n,2\n", [[1.0, math.nan], [math.nan, 2.0]]),
    ],
)
def test_answers_are_lines_of_numbers_csv_or_json(answer: bytes, outputs: list[Any]) -> None:
    read = read_outputs(answer, 2, "it")
    assert str(read.tolist()) == str(outputs)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"1\n", "1 of 2 outputs.*a part of an answer is not used"),
        (b"1\n2\n3\n", "3 of 2 outputs"),
        (b"", "0 of 2 outputs"),
        (b"1\n\n2\n", "line 2 of its answer is blank"),
        (b"1,2\n3\n", "different lengths"),
        (b"\xff\n1\n", "no UTF-8"),
        (b'{"outputs": [1, 2', "expected JSON, whole"),
        (b'{"answer": [1, 2]}', "expected JSON, whole"),
    ],
)
def test_other_answers_are_refused_by_name(answer: bytes, said: str) -> None:
    with pytest.raises(Unanswered, match=f"the command x.*{said}"):
        read_outputs(answer, 2, "the command x")


def test_whole_numbers_beyond_64_bits_are_told_apart() -> None:
    read = read_outputs(b"18446744073709551616\n18446744073709551617\n", 2, "it")
    assert read.tolist() == [2**64, 2**64 + 1]


# --- programs -------------------------------------------------------------------------------------


@pytest.mark.quality
def test_a_wrong_program_is_refuted_and_its_right_twin_is_not() -> None:
    """False-alarm rate 1e-4."""
    found = audit(Command(program(NOISY.format(2))))
    assert str(found.verdict) == "refuted"
    assert found.findings == ()  # seeded by its environment, so reproducible
    assert "mechanism = __import__('dpaudit').audit.Command" in found.reproducer
    assert str(audit(Command(program(NOISY.format(1)))).verdict) == "inconclusive"


@pytest.mark.quality
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_program_of_node_is_refuted_from_the_command_line(tmp_path: Path) -> None:
    script = tmp_path / "count.js"
    script.write_text(
        'const rows = JSON.parse(require("fs").readFileSync(0));\n'
        "const r = () => -Math.log(1 - Math.random());\n"
        "for (let i = 0; i < +process.env.DPAUDIT_SIZE; i++) "
        "console.log(rows[1] + (r() - r()) / 3);\n"
    )
    given = ["[1, 1]", "[1, 0]", "--claim", "1", "--trials", "4000", "--seed", "1", "--json"]
    done = CliRunner().invoke(main, ["audit", "--command", f"node {script}", *given])
    assert done.exit_code == 1, done.output
    shown = json.loads(done.stdout)
    assert shown["verdict"] == "refuted"
    assert "irreproducible" in shown["findings"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("for _ in range(size - 1): print(random.random())", "gave 63 of 64 outputs"),
        ("print('1,2')\nfor _ in range(size - 1): print(1)", "different lengths"),
        ("time.sleep(60)", "did not answer within 0.3 seconds for 64 outputs"),
        ("os.close(1); time.sleep(60)", "did not answer within 0.3 seconds"),
        ("\nif os.fork(): os._exit(0)\ntime.sleep(60)", "did not answer within 0.3 seconds"),
        ("sys.stdout.write('0' * 3_000_000)", "gave more than .* bytes for 64 outputs"),
    ],
)
def test_a_call_without_an_answer_ends_the_audit(code: str, said: str) -> None:
    started = time.perf_counter()
    limit = 0.3 if "0.3" in said else 20
    with pytest.raises(Unanswered, match=said):
        audit(Command(program(code), time_limit=limit))
    assert time.perf_counter() - started < 10


@pytest.mark.quality
def test_a_crash_is_repeated_with_the_same_seed_and_said(tmp_path: Path) -> None:
    mark = tmp_path / "crashed"
    once = f"\nif not os.path.exists({str(mark)!r}):\n    open({str(mark)!r}, 'w'); os.abort()\n"
    found = audit(Command(program(once + NOISY.format(2))))
    assert str(found.verdict) == "refuted"
    assert found.findings == (Finding.RESTARTED,)
    assert "assumes that crashes do not depend on the data" in found.details


@pytest.mark.quality
def test_crashes_are_repeated_a_few_times_only() -> None:
    mechanism = Command(program("os.abort()"))
    with pytest.raises(InvalidParameter, match="ended by SIGABRT, and so did every other call"):
        audit(mechanism)
    assert len(mechanism.restarts) == foreign.MAX_RESTARTS


@pytest.mark.quality
def test_an_exit_code_is_an_output() -> None:
    """The program fails for one data set half of the time: an error rate that 1-DP forbids."""
    code = "\nif sum(data) == 1 and random.random() < 0.9: sys.exit(7)\nprint('1\\n' * size)"
    found = audit(Command(program(code)), trials=60)
    assert Finding.RAISES in found.findings
    assert str(found.verdict) == "refuted"


def test_no_message_quotes_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    command = Command(program("sys.exit('row 7 is Ann')"))
    with pytest.raises(InvalidParameter, match=r"exit code 1 .*DPAUDIT_TRACEBACK=1") as refused:
        audit(command)
    assert "Ann" not in str(refused.value)
    monkeypatch.setenv("DPAUDIT_TRACEBACK", "1")
    with pytest.raises(InvalidParameter, match="row 7 is Ann"):
        audit(command)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Command("no_such_program_here x"), "no program 'no_such_program_here'"),
        (lambda: Command(""), "expected a program"),
        (lambda: Command("true", time_limit=0), "time_limit = 0"),
        (lambda: Endpoint("ftp://localhost"), "expected http://"),
        (lambda: Database("  "), "expected a SQL statement"),
        (lambda: Command("true")({1, 2}, np.random.default_rng(1), 1), "is given JSON"),
        (lambda: Database("SELECT 1")([1], np.random.default_rng(1), 1), "data sets are databases"),
        (
            lambda: Database("SELECT 1")("none.duckdb", np.random.default_rng(1), 1),
            "no DuckDB file",
        ),
    ],
)
def test_bad_mechanisms(make: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        make()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--command", "cat", "0", "--claim", "1"], "needs two data sets and a claim"),
        (["--command", "cat", "0", "1"], "needs two data sets and a claim"),
        (["noisy_mean", "--set", "time_limit=3"], "time_limit: not for declared mechanisms"),
        (["noisy_mean", "--set", "models=8"], "models: not for declared mechanisms"),
        (["json:dumps", "0", "1", "--claim", "1", "--set", "time_limit=3"], "only for a --command"),
        (["nowhere.sql", "a", "b", "--claim", "1"], "nowhere.sql: the query cannot be read"),
    ],
)
def test_bad_commands(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["audit", *arguments])
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        (['"\\ud800"', '"a"'], 2),
        (["1" + "0" * 400, "-1" + "0" * 400, "1.5"], [np.inf, -np.inf, 1.5]),
        (["[" * 100_000, "1.5"], 2),
        (['"a"', '"a\\u0000"'], 2),
    ],
    ids=["half of a character", "beyond floats", "deep", "zero character"],
)
def test_every_line_is_an_output(lines: list[str], values: Any) -> None:
    """Whatever a program prints, reading it raises nothing of dpaudit's own."""
    answer = "\n".join(lines).encode()
    drawn = read_output(read_outputs(answer, len(lines), "it"), len(lines), "it").values[:, 0]
    if isinstance(values, int):
        assert len(set(drawn.tolist())) == values
    else:
        assert drawn.tolist() == values


def test_a_document_that_is_nested_deeply_is_refused() -> None:
    with pytest.raises(Unanswered, match="expected JSON"):
        read_outputs(b'{"outputs":' + b"[" * 100_000, 1, "it")


def test_a_signal_without_a_name_is_an_output() -> None:
    with pytest.raises(foreign.ProgramFailed, match="ended by signal 40"):
        Command(program("os.kill(os.getpid(), 40)"))([], np.random.default_rng(1), 1)


def test_what_a_program_leaves_running_does_not_hold_an_audit() -> None:
    """A child in a session of its own keeps the output open; the time limit holds."""
    left = "subprocess.Popen(['sleep', '5'], start_new_session=True)"
    started = time.monotonic()
    with pytest.raises(Unanswered, match=r"did not answer within 0\.5 seconds"):
        Command(program(f"import subprocess; {left}"), time_limit=0.5)(
            [], np.random.default_rng(1), 1
        )
    assert time.monotonic() - started < 4


# --- endpoints ------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    """Draws; the path says how it goes wrong."""

    dropped: bool = False

    def do_POST(self) -> None:  # the standard library's name
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rng = np.random.default_rng(asked["seed"])
        drawn = sum(asked["data"]) + rng.laplace(0, 0.5, asked["size"])
        body = json.dumps({"outputs": drawn.tolist()}).encode()
        if self.path == "/slow":
            time.sleep(0.6)
        if self.path == "/drip":
            self.send_response(200)
            self.end_headers()
            for _ in range(20):
                self.wfile.write(b" ")
                time.sleep(0.05)
        if self.path == "/once" and not Handler.dropped:
            Handler.dropped = True
            self.close_connection = True
            return
        self.send_response({"/error": 500, "/busy": 503, "/moved": 302}.get(self.path, 200))
        self.send_header("Location", "/")
        self.send_header("Content-Length", "no number" if self.path == "/odd" else str(len(body)))
        self.end_headers()
        self.wfile.write(body[:40] if self.path == "/part" else body)

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Handler.dropped = False
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_endpoint_is_audited(address: str) -> None:
    found = audit(Endpoint(address))
    assert (str(found.verdict), found.findings) == ("refuted", ())
    found = audit(Endpoint(f"{address}/once"))
    assert (str(found.verdict), found.findings) == ("refuted", (Finding.RESTARTED,))


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("/part", Unanswered, "part of its answer|of its answer"),
        ("/slow", Unanswered, "did not answer within 0.2 seconds"),
        ("/drip", Unanswered, "did not answer within 0.2 seconds"),
        ("/busy", Unanswered, "is busy or out of reach"),
        ("/moved", Unanswered, "answers from another address"),
        ("/odd", Unanswered, "not all bytes of its answer"),
        ("/error", InvalidParameter, "HTTP status 500, and so did every other call"),
    ],
)
def test_what_an_endpoint_may_not_do(
    address: str, path: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        audit(Endpoint(address + path, time_limit=0.2))


def test_an_endpoint_that_is_not_there() -> None:
    with pytest.raises(Unanswered, match="cannot be reached: ConnectionRefusedError"):
        audit(Endpoint("http://127.0.0.1:9"))


# --- SQL ------------------------------------------------------------------------------------------


def test_a_query_of_sqlite_is_run_once_an_output(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    urls = []
    for rows in (2, 1):
        path = tmp_path / f"d{rows}.sqlite"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE people (x INTEGER)")
            connection.executemany("INSERT INTO people VALUES (?)", [(1,)] * rows)
        urls.append(f"sqlite:///{path}")
    query = "SELECT count(*) + (abs(random()) % 3 = 0) FROM people"
    found = audit_function(
        Database(query), *urls, claim=dp.PureDP(1), trials=400, refute_at=1e-3, seed=1
    )
    assert str(found.verdict) == "refuted"
    assert Finding.IRREPRODUCIBLE in found.findings


def test_a_query_of_duckdb_is_seeded_and_answers_with_rows(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = str(tmp_path / "people.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE people AS FROM range(3)")
    query = Database("SELECT (SELECT count(*) FROM people), random() FROM range(:size)")
    first, again, other = (
        query(path, np.random.default_rng(seed), 5).tolist() for seed in (1, 1, 2)
    )
    assert first == again != other
    assert [row[0] for row in first] == [3] * 5
    with pytest.raises(Unanswered, match="gave 2 of 5 outputs"):
        Database("FROM range(2) WHERE :size > 0")(path, np.random.default_rng(1), 5)
    slow = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(:size * 1000000) b"
    with pytest.raises(Unanswered, match=r"did not answer within 0\.2 seconds"):
        Database(slow, time_limit=0.2)(path, np.random.default_rng(1), 5)
    with pytest.raises(foreign.ProgramFailed, match="the engine raised CatalogException"):
        Database("SELECT * FROM nobody")(path, np.random.default_rng(1), 5)


def test_the_environment_of_this_process_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SETTING", "4")
    mechanism = Command(program("print((os.environ['MY_SETTING'] + '\\n') * size)"))
    assert mechanism([], np.random.default_rng(1), 2).tolist() == [4, 4]
    assert "DPAUDIT_SIZE" not in os.environ
