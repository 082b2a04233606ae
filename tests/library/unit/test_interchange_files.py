"""Declarations as files: what is written comes back, and a hostile file is refused unread."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sympy

from dpaudit.crosscheck.interchange import files, load_declaration, save_declaration
from dpaudit.errors import InvalidParameter, OutputNotWritable
from dpaudit.exact.wire import digest
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.opaque import ApproxDP, NonPrivate
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.nodes import Assumption, Node, Status

K = sympy.Symbol("k", integer=True, positive=True)
LEAF = Gaussian("gaussian", Fraction(11, 10))


def deep(levels: int) -> Node:
    node: Node = LEAF
    for _ in range(levels - 1):
        node = Repeat(node, 2)
    return node


DECLARATIONS: list[Node] = [
    LEAF,
    Gaussian("ε", sympy.sqrt(2) / sympy.Symbol("beta", positive=True)),
    Repeat(Gaussian("gaussian", sympy.Function("T", positive=True)(K)), 10, K),
    Compose(LEAF, LEAF, Laplace("laplace", 2)),
    Parallel(PoissonSampled(LEAF, 0.01), SampledWithoutReplacement(LEAF, 6, 60)),
    Assuming(LEAF, Assumption("smooth", "the loss is smooth", Status.TESTED)),
    CorrelatedGaussian("tree", 1, 8),
    Compose(ApproxDP(1, 1e-6, source="them"), NonPrivate("a count")),
    deep(300),
]


@pytest.mark.parametrize("node", DECLARATIONS, ids=lambda node: node.head[:40])
def test_a_declaration_comes_back(node: Node, tmp_path: Path) -> None:
    target = tmp_path / "declaration.json"
    save_declaration(node, target)
    assert load_declaration(str(target)) == node
    assert [file.name for file in tmp_path.iterdir()] == ["declaration.json"]


def test_equal_declarations_give_equal_bytes(tmp_path: Path) -> None:
    shared = Laplace("laplace", 2)
    for name, node in (
        ("one", Compose(shared, shared)),
        ("two", Compose(Laplace("laplace", 2), Laplace("laplace", 2.0))),
    ):
        save_declaration(node, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_shared_tree_is_a_short_file(tmp_path: Path) -> None:
    node: Node = LEAF
    for _ in range(300):
        node = Compose(node, node)
    save_declaration(node, tmp_path / "tree")
    assert (tmp_path / "tree").stat().st_size < 100_000
    assert load_declaration(tmp_path / "tree") == node


def table(node: Node, tmp_path: Path) -> Any:
    save_declaration(node, tmp_path / "good.json")
    return json.loads((tmp_path / "good.json").read_text())


def change(path: str, value: Any) -> Callable[[Any], None]:
    """Overwrite one place of the root's row, whose digest is then made to fit."""

    def apply(content: Any) -> None:
        row = content["nodes"].pop(content["root"])
        *outer, last = path.split("/")
        place = row
        for key in outer:
            place = place[key]
        place[last] = value
        content["root"] = digest(row)
        content["nodes"][content["root"]] = row

    return apply


HOSTILE: list[tuple[str, Callable[[Any], None]]] = [
    ("a class of another module", change("type", "subprocess.Popen")),
    ("a function", change("type", "system")),
    ("an abstract node", change("type", "Node")),
    ("a base of nodes", change("type", "Leaf")),
    ("no type", change("type", None)),
    ("a list as type", change("type", ["Gaussian"])),
    ("a dunder parameter", change("parameters/__class__", {"number": "1/1"})),
    ("one parameter too many", change("parameters/module_name", {"text": "os"})),
    ("an expression as text", change("parameters/noise_multiplier", {"text": "__import__('os')"})),
    ("a plain number", change("parameters/noise_multiplier", 1.0)),
    ("an unknown head", change("parameters/noise_multiplier", {"number": ["Lambda", "1/1"]})),
    ("an evaluated head", change("parameters/noise_multiplier", {"number": ["sympify", "1/1"]})),
    (
        "a power that fills the memory",
        change("parameters/noise_multiplier", {"number": ["Pow", "9/1", ["Pow", "9/1", "99/1"]]}),
    ),
    ("a fraction over zero", change("parameters/noise_multiplier", {"number": "1/0"})),
    ("a negative noise", change("parameters/noise_multiplier", {"number": "-1/1"})),
    ("an infinite noise", change("parameters/noise_multiplier", {"number": ["Infinity"]})),
    ("a number of many digits", change("parameters/noise_multiplier", {"number": "9" * 9999})),
    ("a value of an unknown kind", change("parameters/label", {"value": "Popen", "fields": {}})),
    ("a label that is no text", change("parameters/label", {"number": "1/1"})),
    ("a child that is missing", change("children", ["0" * 64])),
    ("children that are no list", change("children", "0" * 64)),
    ("no nodes", lambda content: content.update(nodes={})),
    ("nodes in a list", lambda content: content.update(nodes=[])),
    ("no root", lambda content: content.pop("root")),
    ("another root", lambda content: content.update(root="0" * 64)),
    ("a root that is no text", lambda content: content.update(root=["x"])),
    ("another format", lambda content: content.update(format="dpaudit declaration 2")),
    ("no format", lambda content: content.pop("format")),
    ("something else beside it", lambda content: content.update(module_name="os")),
    (
        "a node that nothing uses",
        lambda content: content["nodes"].update({(Laplace("l", 1)).digest: Laplace("l", 1).row()}),
    ),
    (
        "a digest of something else",
        lambda content: content["nodes"][content["root"]]["parameters"].update(
            noise_multiplier={"number": "9/1"}
        ),
    ),
]


@pytest.mark.parametrize(("what", "spoil"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_a_hostile_file_is_refused(what: str, spoil: Callable[[Any], None], tmp_path: Path) -> None:
    content = table(LEAF, tmp_path)
    before = set(sys.modules)
    spoil(content)
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(InvalidParameter):
        load_declaration(tmp_path / "bad.json")
    assert not {"antigravity", "subprocess.Popen"} & (set(sys.modules) - before)


def test_a_node_that_contains_itself_is_refused(tmp_path: Path) -> None:
    content = table(Repeat(LEAF, 2), tmp_path)
    content["nodes"][content["root"]]["children"] = [content["root"]]
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(InvalidParameter, match="itself"):
        load_declaration(tmp_path / "bad.json")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '"x"',
        "{",
        '{"format": NaN}',
        '{"root": 1, "root": 2}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_declaration_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InvalidParameter, match=r"bad\.json"):
        load_declaration(tmp_path / "bad.json")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidParameter, match=r"bad\.json"):
        load_declaration(tmp_path / "bad.json")


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(InvalidParameter, match="no such file"):
            load_declaration(path)
    (tmp_path / "file").touch()
    with pytest.raises(OutputNotWritable):
        save_declaration(LEAF, tmp_path / "file" / "inside.json")
    with pytest.raises(InvalidParameter, match="expected a node"):
        save_declaration("gaussian", tmp_path / "text.json")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "value", "word"),
    [("LARGEST_FILE", 100, "bytes"), ("MOST_NODES", 19, "nodes"), ("MAX_NESTING", 19, "deeper")],
)
def test_files_have_limits(
    limit: str, value: int, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "declaration.json"
    save_declaration(deep(20), target)
    assert load_declaration(target) == deep(20)
    monkeypatch.setattr(files, limit, value)
    with pytest.raises(InvalidParameter, match=word):
        load_declaration(target)


def test_what_could_not_be_loaded_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="deeper"):
        save_declaration(deep(files.MAX_NESTING + 1), tmp_path / "declaration.json")
    assert list(tmp_path.iterdir()) == []
