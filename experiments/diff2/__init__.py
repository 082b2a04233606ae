"""Experiments on DIFF2 (Murata and Suzuki 2023)."""
