"""Measures of privacy: one file each, with its calculus; conversions between them.

They are imported here in the order in which pages and messages name them.
"""

from dpaudit.measures import pure, approx, zcdp, renyi, gdp, profile  # noqa: I001

__all__ = ["approx", "gdp", "profile", "pure", "renyi", "zcdp"]
