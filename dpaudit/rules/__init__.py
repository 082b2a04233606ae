"""One table a calculus; importing this package registers them all."""

from dpaudit.rules import approx, gdp, pure, rdp, zcdp
from dpaudit.rules.approx import APPROX
from dpaudit.rules.gdp import GAUSSIAN
from dpaudit.rules.pure import PURE
from dpaudit.rules.rdp import RENYI
from dpaudit.rules.zcdp import CONCENTRATED

__all__ = [
    "APPROX",
    "CONCENTRATED",
    "GAUSSIAN",
    "PURE",
    "RENYI",
    "approx",
    "gdp",
    "pure",
    "rdp",
    "zcdp",
]
