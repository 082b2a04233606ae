"""Compositions of pairs by tilted Fourier sums."""
