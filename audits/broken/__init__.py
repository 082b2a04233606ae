"""Implementations that are wrong on purpose, each beside its correct twin."""
