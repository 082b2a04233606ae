"""Audits of what training does, and bugs that they have to find."""
