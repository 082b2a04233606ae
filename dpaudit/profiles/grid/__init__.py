"""Pairs put on a grid of privacy losses, from above and from below."""

from dpaudit.profiles.grid import allocated, drawn, onestep, reshuffled, scores, tallied

# Whoever asks for a pair on a grid finds every type of pair: these register them.
__all__ = ["allocated", "drawn", "onestep", "reshuffled", "scores", "tallied"]
