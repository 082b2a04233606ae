"""Algorithms, subroutines and baselines of papers, a package each."""
