"""Gray-box checks: what a declared program does beside what it says, each naming the line."""

from dpaudit.audit.graybox.checks import Inspection, Located, inspect_program
from dpaudit.audit.graybox.frequencies import Frequencies, check_frequencies
from dpaudit.audit.graybox.hostile import HOSTILE, Probe, probe
from dpaudit.audit.graybox.watch import Asked, Watched

__all__ = [
    "HOSTILE",
    "Asked",
    "Frequencies",
    "Inspection",
    "Located",
    "Probe",
    "Watched",
    "check_frequencies",
    "inspect_program",
    "probe",
]
