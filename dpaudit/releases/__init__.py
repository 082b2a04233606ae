"""Releases of tables: planned, budgeted, drawn once and published."""
