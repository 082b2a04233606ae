"""Measures of privacy: one file each, with its calculus; conversions between them.

They are imported here in the order in which pages and messages name them.
"""

from dpaudit.measures import profile, pure, approx, gdp, zcdp, renyi  # noqa: I001

__all__ = ["approx", "gdp", "profile", "pure", "renyi", "zcdp"]
