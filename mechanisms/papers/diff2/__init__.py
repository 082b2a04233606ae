"""DIFF2 and what it is compared with.

Source: Murata and Suzuki 2023, "DIFF2: Differential Private Optimization via Gradient Differences
for Nonconvex Distributed Learning".
"""
