"""Imports go one way, and the command line starts without the heavy libraries."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKER = "dpaudit.check"
CHECKER_MAY_IMPORT = {
    "dpaudit",
    "dpaudit.errors",
    "dpaudit.exact",
    "dpaudit.nodes",
    "dpaudit.pairs",
    "dpaudit.scope",
    "dpaudit.storage",
    "dpaudit.version",
}
# Of a family the checker loads nodes and theorems, by name, and nothing else.
OF_A_FAMILY = re.compile(r"dpaudit\.families(\.\w+(\.(\w+_)?(node|theorem))?)?")
CATALOGUE = "dpaudit never imports a catalogue, nor mechanisms their audits"
ROOMS = "the rooms of dpaudit, from the highest to the lowest"
LABORATORY = "the laboratory knows no paper"
SMALL = "the checker needs no NumPy, no SciPy, and no process"
OPTIONAL = {  # of the extras, and pytest for the plugin
    "pyspark",
    "cryptography",
    "dask",
    "distributed",
    "duckdb",
    "narwhals",
    "opacus",
    "psycopg",
    "pyarrow",
    "pytest",
    "rfc3161_client",
    "sigstore",
    "sklearn",
    "sqlalchemy",
    "sqlglot",
    "threadpoolctl",  # scikit-learn requires it
    "torch",
    "weasyprint",
}
HEAVY = ("dp_accounting", "matplotlib", "scipy.stats", "statsmodels", "sympy")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Every import in the project, found in the source text."""
    return grimp.build_graph("dpaudit", "mechanisms", "audits", "experiments", cache_dir=None)


def circles(graph: grimp.ImportGraph) -> list[tuple[str, str]]:
    """Pairs of modules of which each imports the other, directly or by way of others."""
    above = {module: graph.find_upstream_modules(module) for module in graph.modules}
    return [
        (module, other)
        for module in sorted(above)
        for other in sorted(above[module])
        if module < other and module in above[other]
    ]


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports that only a type checker reads are left out."""
    graph = grimp.build_graph("dpaudit", exclude_type_checking_imports=True, cache_dir=None)
    assert circles(graph) == []


def test_a_circle_of_three_modules_is_found() -> None:
    graph = grimp.ImportGraph()
    names = ["a", "b", "c"]
    for name in names:
        graph.add_module(name)
    for importer, imported in zip(names, ["b", "c", "a"], strict=True):
        graph.add_import(importer=importer, imported=imported)
    assert circles(graph) == [("a", "b"), ("a", "c"), ("b", "c")]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """The import contracts of the pyproject.toml in a folder, checked in a process of their own."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_contracts_hold(checkout: Path) -> None:
    result = lint_imports(checkout)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("importer", "line", "contract"),
    [
        ("dpaudit/errors", "from dpaudit import project\n", ROOMS),
        (
            "dpaudit/nodes/tables",
            "def late() -> None:\n    import dpaudit.project.project\n",
            ROOMS,
        ),
        ("dpaudit/stranger", "", ROOMS),
        ("dpaudit/project/project", "import mechanisms\n", CATALOGUE),
        ("mechanisms", "import audits\n", CATALOGUE),
        ("mechanisms", "import experiments\n", CATALOGUE),
        ("dpaudit/project/project", "import experiments\n", CATALOGUE),
        ("experiments/lab", "import experiments.diff2\n", LABORATORY),
        ("dpaudit/check/claims", "def late() -> None:\n    import numpy\n", SMALL),
    ],
)
def test_contracts_can_break(
    importer: str,
    line: str,
    contract: str,
    checkout: Path,
    graph: grimp.ImportGraph,
    tmp_path: Path,
) -> None:
    for module in {importer.replace("/", "."), *graph.modules}:
        folder = tmp_path / module.replace(".", "/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    (tmp_path / importer / "__init__.py").write_text(line)
    (tmp_path / "pyproject.toml").write_bytes((checkout / "pyproject.toml").read_bytes())

    result = lint_imports(tmp_path)

    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{contract} BROKEN" in result.stdout


def test_contracts_order_rooms_and_keep_the_checker_small(checkout: Path) -> None:
    """A module in no room breaks the contract; the checker's processes alone are ignored."""
    tool = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]
    contracts = tool["importlinter"]["contracts"]
    *others, small = sorted(contracts, key=lambda contract: contract["type"], reverse=True)
    assert [contract["type"] for contract in others] == ["layers", "layers", "layers"]
    assert not any("ignore_imports" in contract for contract in others)
    assert small["type"] == "forbidden"
    assert small["ignore_imports"] == ["dpaudit.check.process -> *"]
    assert contracts[1]["exhaustive"] is True


def test_the_checker_needs_no_accountant() -> None:
    """Pairs name grids in their types, and load them when they are put on one."""
    graph = grimp.build_graph("dpaudit", exclude_type_checking_imports=True, cache_dir=None)
    rooms = {name for name in graph.modules if f"{name}.".startswith(f"{CHECKER}.")}
    rooms |= {name for name in graph.modules if OF_A_FAMILY.fullmatch(name)}
    assert {CHECKER, "dpaudit.families.additive.theorem"} <= rooms
    for room in rooms:
        reached = graph.find_modules_directly_imported_by(room) | graph.find_upstream_modules(room)
        ours = {name for name in reached if name.startswith("dpaudit")} - rooms
        assert {".".join(name.split(".")[:2]) for name in ours} <= CHECKER_MAY_IMPORT, room


def test_a_process_that_checks_loads_no_accountant(checkout: Path) -> None:
    """Of sampled Gaussian rounds, whose profile is composed: no grid of the accountant's either."""
    certificate = checkout / "reports" / "diff2_bvr_local_sgd.json"
    program = (
        "import json, sys, dpaudit.check\nfrom dpaudit.nodes.registry import load\n"
        "load('node'), load('theorem')\n"
        f"dpaudit.check.check(json.loads(open({str(certificate)!r}).read()))\n"
        "print(*sorted({'.'.join(name.split('.')[:2]) for name in sys.modules}), sep=',')"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name for name in child.stdout.strip().split(",") if name.startswith("dpaudit")}
    assert loaded == CHECKER_MAY_IMPORT | {CHECKER, "dpaudit.families", "dpaudit.version"}


def test_every_library_used_is_declared(checkout: Path) -> None:
    ours = ("dpaudit", "mechanisms", "audits", "experiments")
    graph = grimp.build_graph(*ours, include_external_packages=True, cache_dir=None)
    used = {name for name in graph.modules if graph.is_module_squashed(name)}
    declared = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["dependencies"]
    core = {canonicalize_name(Requirement(line).name) for line in declared}
    owners = packages_distributions()
    known = {name for name in used if core & {canonicalize_name(o) for o in owners.get(name, [])}}
    assert {"numpy", "flint"} <= known
    assert used - known - sys.stdlib_module_names <= OPTIONAL


def test_every_extra_has_code(checkout: Path) -> None:
    """Each library of an extra is imported somewhere, or named where a driver is chosen."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    text = "\n".join(file.read_text() for file in checkout.glob("dpaudit/**/*.py"))
    modules = {"scikit-learn": "sklearn", "dask": "dask"}
    for extra, lines in project["optional-dependencies"].items():
        if extra in ("dev", "docs"):
            continue
        for line in lines:
            name = canonicalize_name(Requirement(line).name)
            assert re.search(rf"\b{modules.get(name, name)}\b", text), (extra, name)


def test_the_command_line_starts_light() -> None:
    program = (
        "import sys, dpaudit.cli.main\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules], sep=',')"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() == ""


def test_the_accountant_starts_without_numerics() -> None:
    """They are loaded by the first question that no closed form answers."""
    program = (
        "import sys\n"
        "def loaded():\n"
        "    names = ('flint', 'numpy', 'scipy', 'sympy')\n"
        "    print(*(name for name in names if name in sys.modules), sep=',')\n"
        "import dpaudit.accountant.account as opened; loaded()\n"
        "from dpaudit.families.additive import Gaussian\n"
        "from dpaudit.scope import central\n"
        "found = opened.account(Gaussian('count', 4), central('add_remove'))\n"
        "assert found.epsilon('1e-6').width < 1e-6; loaded()"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    at_import, after = child.stdout.split("\n")[:2]
    assert at_import == ""
    assert set(after.split(",")) <= {"flint", "sympy"}


# What a person or another library starts from, besides the command line and `dpaudit` itself.
ENTRIES = (
    "dpaudit",
    "dpaudit.__main__",
    "dpaudit.audit",
    "dpaudit.catalogue",
    "dpaudit.check.__main__",
    "dpaudit.check.page",  # the browser's
    "dpaudit.cli.main",
    "dpaudit.crosscheck.consensus",
    "dpaudit.crosscheck.interchange.accountant",
    "dpaudit.exact.array_twin",  # where there is no NumPy
    "dpaudit.membership",
    "dpaudit.membership.program_target",
    "dpaudit.pytest_plugin",
    "dpaudit.releases.generator",  # a target of membership audits
    "dpaudit.report.verifier.bytecode",  # run by the page's own Python
    "dpaudit.tabular",
)


def reached(graph: grimp.ImportGraph, starts: set[str]) -> set[str]:
    """Modules that these import, at any depth, with the packages around them."""
    found, pending = set(starts), list(starts)
    while pending:
        for name in graph.find_modules_directly_imported_by(pending.pop()):
            parts = name.split(".")
            around = {".".join(parts[:count]) for count in range(1, len(parts) + 1)} - found
            found |= around
            pending += around
    return found


def test_no_module_is_an_orphan(graph: grimp.ImportGraph) -> None:
    """Whatever the wheel holds can be come by from an entry; families register themselves."""
    ours = {name for name in graph.modules if name.split(".")[0] == "dpaudit"}
    starts = {*ENTRIES, *(name for name in ours if name.startswith("dpaudit.families."))}
    assert ours - reached(graph, starts) == set()
    fewer = reached(graph, starts - {"dpaudit.check.__main__"})
    assert ours - fewer == {"dpaudit.check.__main__"}


@pytest.mark.quality
def test_a_release_of_a_file_loads_no_pandas(tmp_path: Path) -> None:
    """It takes .3 s to import; the sums, the attack's tables and the Parquet do without."""
    (tmp_path / "people.csv").write_text("sex,age\nf,1\nm,2\n")
    code = (
        "import sys; from pathlib import Path\n"
        "from dpaudit.families.opaque import ApproxDP\n"
        "from dpaudit.releases.items.counts import Count\n"
        "from dpaudit.releases.plan import Release\n"
        "from dpaudit.releases.program import GeneratedTables\n"
        "from dpaudit.releases.publish import NO_LEDGER, publish\n"
        "from dpaudit.releases.attacked import records_like\n"
        "from dpaudit.tabular import Category, Number, Schema\n"
        "import numpy as np\n"
        "schema = Schema('people', {'sex': Category(('f', 'm')), 'age': Number(0, 100)})\n"
        "budget = ApproxDP(1, '1e-6')\n"
        "release = Release('t', schema, 'add_remove', budget, (Count(name='n', by='sex'),))\n"
        "plan = release.plan()\n"
        "publish(plan, 'people.csv', Path('out'), ledger=NO_LEDGER, trials=0)\n"
        "tables = GeneratedTables(release)\n"
        "tables.values(records_like(plan, np.random.default_rng(0)))\n"
        "print('pandas' in sys.modules)"
    )
    child = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert child.stdout.strip() == "False"
