"""Experiments on user-level optimisation by stable subsets (Ghazi et al. 2023)."""
