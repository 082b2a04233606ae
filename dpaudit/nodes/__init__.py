"""The declaration language: immutable trees of nodes.

The families of leaves and combinators are folders of :mod:`dpaudit.families`.
"""

from dpaudit.nodes.core import (
    VALUES,
    Assumption,
    LabelledLeaf,
    Leaf,
    Node,
    Several,
    Status,
    digest_each,
    examine,
    find_path,
    free_in_each,
    free_unknowns,
    hiding,
    postorder,
    require_stated,
    rests_on,
    stated_under,
)

__all__ = [
    "VALUES",
    "Assumption",
    "LabelledLeaf",
    "Leaf",
    "Node",
    "Several",
    "Status",
    "digest_each",
    "examine",
    "find_path",
    "free_in_each",
    "free_unknowns",
    "hiding",
    "postorder",
    "require_stated",
    "rests_on",
    "stated_under",
]
