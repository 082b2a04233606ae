"""Private empirical risk minimisation under the Kurdyka-Lojasiewicz condition.

Source: Menart, Ullah, Arora, Bassily, Guzman, "Differentially Private Non-Convex Optimization under
the KL Condition with Optimal Rates".
"""
