"""Experiments on the catalogue: what its mechanisms' outputs are worth, one package a paper."""
