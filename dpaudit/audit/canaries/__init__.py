"""Canaries: scores of inserted records, over many runs or one."""
