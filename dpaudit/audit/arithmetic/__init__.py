"""Leaks through floating-point arithmetic and through running time."""
