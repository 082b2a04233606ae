"""Start a project from copies of shipped files, which the catalogue's tests and linters check.

A new project gets the mechanism ``noisy_mean`` and two with queries of one's own; `--with` copies
another one and the files that it imports.
"""

from __future__ import annotations

from pathlib import Path

from dpaudit.errors import OutputNotWritable, UnknownTarget
from dpaudit.project.project import foreign_catalogue, foreign_files
from dpaudit.storage.fields import DATES, FIELDS, FILE, RELEASE_TYPES
from dpaudit.storage.files import write_atomically
from dpaudit.storage.imported import imported
from dpaudit.storage.roots import PACKAGES, catalogue_root

# Files of a new project.
FIRST = ("mechanisms/noisy_mean.py", "mechanisms/own_queries.py", "audits/noisy_mean.py")
# Where the catalogue keeps packages that can be copied whole, by the name of a paper.
SHELVES = ("mechanisms/papers", "mechanisms/classics", "audits/classics", "audits")
DATA = ".csv"


def start(folder: Path, copied: str | None) -> list[Path]:
    """Write a new project; returns the files written.

    ``copied``: the name of a mechanism in the catalogue, or of a shipped file or package.  Its
    audit and the files that both import are copied too.
    Errors: OutputNotWritable if a file of the same name exists; UnknownTarget for a name that is
    not shipped.
    """
    root = catalogue_root()
    paths = [root / name for name in FIRST] if copied is None else _shipped(root, copied)
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in _with_data(paths)}
    packages = {f"{name}/__init__.py": f'"""This project\'s {name}."""\n' for name in PACKAGES}
    present = [name for name in files if (folder / name).exists()]
    if present:
        raise OutputNotWritable(f"{folder / present[0]} exists; choose an empty folder")
    empty = {**packages, FILE: fields_to_fill()}
    made = {k: v.encode() for k, v in empty.items() if not (folder / k).exists()}
    for name, content in {**made, **files}.items():
        write_atomically(folder / name, content)
    return [folder / name for name in (*made, *files)]


def fields_to_fill() -> str:
    """The text of an empty ``dpaudit.toml``, with every field as a comment."""
    hints = {"release_type": " # or ".join(f'"{name}"' for name in RELEASE_TYPES)}
    hints |= dict.fromkeys(DATES, '"2027-01-31"')
    lines = [f"# {name} = " + hints.get(name, '"..."') for name in FIELDS]
    return "\n".join(
        [
            "# Facts that no program can know; a certificate shows a missing one as: not stated.",
            "# [fields] holds for all mechanisms, [mechanisms.NAME] for one.",
            "",
            "[fields]",
            *lines,
            "",
            "# Defaults of the command line: what `dpaudit COMMAND --help` marks with a star.",
            "[settings]",
            "# jobs = 2",
            '# ledger = "ledger.sqlite"',
            "",
        ]
    )


def _shipped(root: Path, name: str) -> list[Path]:
    """The files of a mechanism, or of a shipped module or package, and the files they import."""
    if not name.isidentifier():
        raise UnknownTarget(
            f"--with {name!r}: give the name of a shipped file or mechanism, such as noisy_count"
        )
    starts = [path for folder in SHELVES for path in _modules(root, f"{folder}/{name}")]
    if starts:
        files = list(imported(root, starts))
    else:
        names = [row.name for row in foreign_catalogue(root)]
        if name not in names:
            shown = ", ".join(names[:5])
            raise UnknownTarget(
                f"--with {name}: nothing of that name is shipped; shipped are {shown} and more, "
                "see `dpaudit list`"
            )
        files = [root / path for path in foreign_files(root, name)]
    # The new project has its own __init__.py in both packages.
    top = {root / package / "__init__.py" for package in PACKAGES}
    return [path for path in files if path not in top]


def _with_data(paths: list[Path]) -> list[Path]:
    """These files, and the CSV files beside them whose names occur in their source."""
    texts = {path: path.read_text("utf-8") for path in paths}
    beside = (file for path in paths for file in sorted(path.parent.glob(f"*{DATA}")))
    named = [file for file in beside if any(f'"{file.name}"' in text for text in texts.values())]
    return list(dict.fromkeys([*paths, *named]))


def _modules(root: Path, name: str) -> list[Path]:
    """The file of a module, or the files of a package."""
    files = sorted((root / name).glob("*.py")) or [root / f"{name}.py"]
    return [path for path in files if path.is_file()]
