"""Experiments on accelerated DP-SRGD (Choquette-Choo, Ganesh and Thakurta 2024)."""
