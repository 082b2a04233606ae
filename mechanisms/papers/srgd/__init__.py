"""Accelerated-DP-SRGD, its ablations and what it is compared with.

Source: Choquette-Choo, Ganesh, Thakurta 2024, "Optimal Rates for O(1)-Smooth DP-SCO with a Single
Epoch and Large Batches".
"""
