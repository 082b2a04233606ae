"""One table a calculus, and one file a family of nodes; importing this registers all rules."""

from dpaudit.rules import (
    adaptive,
    approx,
    correlated,
    discrete,
    events,
    gdp,
    groups,
    profile,
    pure,
    rdp,
    response,
    sampling,
    sampling_renyi,
    selection,
    stability,
    tabular,
    zcdp,
)
from dpaudit.rules.approx import APPROX
from dpaudit.rules.gdp import GAUSSIAN
from dpaudit.rules.profile import PROFILE
from dpaudit.rules.pure import PURE
from dpaudit.rules.rdp import RENYI
from dpaudit.rules.zcdp import CONCENTRATED

__all__ = [
    "APPROX",
    "CONCENTRATED",
    "GAUSSIAN",
    "PROFILE",
    "PURE",
    "RENYI",
    "adaptive",
    "approx",
    "correlated",
    "discrete",
    "events",
    "gdp",
    "groups",
    "profile",
    "pure",
    "rdp",
    "response",
    "sampling",
    "sampling_renyi",
    "selection",
    "stability",
    "tabular",
    "zcdp",
]
