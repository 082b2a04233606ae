"""Pairs put on a grid of privacy losses, from above and from below."""
