"""Certificates as Coq files, and the library of proofs that these need."""

from dpaudit.proofs.export import Exported, exported, theorem_of, written
from dpaudit.proofs.kernel import Accepted, accepted, cited, coqc, library

__all__ = [
    "Accepted",
    "Exported",
    "accepted",
    "cited",
    "coqc",
    "exported",
    "library",
    "theorem_of",
    "written",
]
