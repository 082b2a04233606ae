"""Paper 1: outlier removal and threshold tests for user-level private convex optimisation.

Source: Lowy, Liu, Asi 2024, "Faster Algorithms for User-Level Private Stochastic Convex
Optimization".
"""
