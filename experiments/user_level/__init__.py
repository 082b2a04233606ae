"""Experiments on user-level stochastic convex optimisation (Lowy, Liu, Asi 2024)."""
