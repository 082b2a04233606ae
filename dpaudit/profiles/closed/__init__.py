"""Pairs whose profile has a closed form."""
