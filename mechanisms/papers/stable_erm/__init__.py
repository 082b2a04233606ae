"""User-level private convex optimisation by stable subsets, and the baselines it is held against.

Source: Ghazi, Kamath, Kumar, Manurangsi, Meka, Zhang 2023, "On User-Level Private Convex
Optimization".
"""
