"""Accounts of declarations, claims on them, and what is solved for them."""
