"""The comparison that a name or a file names, and the order of each of its methods."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from dpaudit.certificate.order import Order
from dpaudit.compare.comparison import Comparison
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import UnknownTarget
from dpaudit.project.project import Project, implementation, load, place, suite_of
from dpaudit.storage.fields import merged, stated_above
from dpaudit.storage.imported import imported
from dpaudit.storage.roots import (
    catalogue_root,
    digests,
    import_each,
    module_name,
    root_above,
    sources,
)

ATTRIBUTE = "COMPARISON"


@dataclass(frozen=True)
class Found:
    """A comparison, the project that it is in, and the file that defines it."""

    comparison: Comparison
    project: Project
    file: Path

    @property
    def catalogue(self) -> bool:
        """Whether it ships with dpaudit."""
        return self.project.root == catalogue_root()

    def target(self, mechanism: Mechanism) -> str:
        """The name by which `dpaudit certify` finds a mechanism again."""
        return f"catalogue:{mechanism.name}" if self.catalogue else mechanism.name

    def order(self, mechanism: Mechanism) -> Order:
        """A method's mechanism with the files that it depends on, and what this folder states."""
        fields = merged(stated_above(Path.cwd()).of(mechanism.name))
        if self.project.mechanisms.get(mechanism.name) is not mechanism:
            # The file belongs to another project, as a file of the catalogue does in a user's own.
            root = self.project.root
            files = digests(root, imported(root, [self.file]))
            return Order(mechanism, None, "project", files, fields)
        suite_of(self.project, mechanism)
        files = implementation(self.project, mechanism, None)
        root_name = "catalogue" if self.catalogue else "project"
        return Order(mechanism, None, root_name, files, fields, place(self.project, mechanism))


def find(name: str, cwd: Path) -> Found:
    """``srgd``: a comparison of the catalogue; ``path/to/file.py``: the one in a project's file.

    Errors: UnknownTarget, with the names that there are; for a file outside of a project, or
    without a module-level ``COMPARISON``.
    """
    if name.endswith(".py"):
        path = (cwd / name).resolve()
        root = root_above(path.parent) if path.is_file() else None
        if root is None or path not in sources(root):
            raise UnknownTarget(
                f"{name} is no module of a project's mechanisms/; put it there, or start a project "
                "with `dpaudit init`"
            )
        project = load(root)
        refused = project.refused.get(path.relative_to(root).as_posix())
        if refused:
            raise UnknownTarget(refused)
        stated = getattr(sys.modules[module_name(path, root)], ATTRIBUTE, None)
        if not isinstance(stated, Comparison):
            raise UnknownTarget(f"{name}: expected a dpaudit.compare.Comparison, {ATTRIBUTE} = ...")
        return Found(stated, project, path)
    project = load(catalogue_root())
    comparisons = {
        shipped.name: (shipped, module)
        for module in import_each(project.root)[0]
        if isinstance(shipped := vars(module).get(ATTRIBUTE), Comparison)
    }
    if name not in comparisons:
        raise UnknownTarget(
            f"--paper {name[:40]}: there are {', '.join(sorted(comparisons))}, or a file of yours"
        )
    comparison, module = comparisons[name]
    return Found(comparison, project, Path(str(module.__file__)))
