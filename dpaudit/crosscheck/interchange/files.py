"""Declarations as files: canonical JSON of a digest table, read through the allow-list of nodes.

Nothing in a file is imported, called or evaluated: a row names a node type of this process, and
every parameter is decoded by :mod:`dpaudit.exact.wire`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact.wire import canonical_bytes
from dpaudit.nodes import Node, postorder
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.storage.evidence import read_once
from dpaudit.storage.files import write_atomically

FORMAT = "dpaudit declaration 1"
LARGEST_FILE = 64 * 2**20  # bytes of a declaration
MOST_NODES = 200_000  # nodes of a declaration
MAX_NESTING = 2_000  # Levels of nesting of a declaration.


def save_declaration(node: Node, path: Path | str) -> None:
    """Write a declaration, all or nothing; equal declarations give equal bytes.

    Errors: OutputNotWritable naming the file; InvalidParameter for a declaration that
    :func:`load_declaration` would refuse for its size.
    """
    if not isinstance(node, Node):
        raise InvalidParameter(f"save_declaration({type(node).__name__}): expected a node")
    _check_depth(node)
    content = canonical_bytes({"format": FORMAT, **to_table(node)}) + b"\n"
    if len(content) > LARGEST_FILE:
        raise InvalidParameter(f"{node.name}: a file of over {LARGEST_FILE} bytes")
    write_atomically(Path(path), content)


def load_declaration(path: Path | str) -> Node:
    """The declaration in a file that :func:`save_declaration` wrote.

    Errors: InvalidParameter for a file that is missing, too large, not JSON, of another format,
    nested deeper than ``MAX_NESTING``, or that holds anything but node types known here.
    """
    table = _json(Path(path))
    if not isinstance(table, dict) or table.pop("format", None) != FORMAT:
        raise InvalidParameter(f"{path}: not a declaration; expected format {FORMAT!r}")
    if set(table) != {"root", "nodes"}:
        raise InvalidParameter(f"{path}: expected root and nodes, and nothing else")
    if isinstance(table["nodes"], dict) and len(table["nodes"]) > MOST_NODES:
        raise InvalidParameter(f"{path}: over {MOST_NODES} nodes")
    node = from_table(table)
    if len(table["nodes"]) != sum(1 for _ in postorder(node)):
        raise InvalidParameter(f"{path}: holds nodes that its root does not use")
    _check_depth(node)
    return node


def _json(path: Path) -> Any:
    try:
        return read_once(path, LARGEST_FILE).json
    except (FileNotFoundError, IsADirectoryError):
        raise InvalidParameter(f"{path}: no such file") from None
    except OSError as error:
        raise InvalidParameter(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidParameter(f"{path}: not a declaration ({str(error)[:80]})") from None


def _check_depth(root: Node) -> None:
    depth: dict[int, int] = {}
    for node in postorder(root):
        depth[id(node)] = 1 + max((depth[id(child)] for child in node.children), default=0)
        if depth[id(node)] > MAX_NESTING:
            raise InvalidParameter(f"{root.name}: nested deeper than {MAX_NESTING}")
