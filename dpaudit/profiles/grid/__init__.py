"""Stacks of pairs on a grid, triangles of replaced records, delta next to the largest loss."""
