"""What several papers share: losses, clipped gradients as factors, budgets, the RAND rows."""
