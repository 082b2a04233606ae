"""The version, in a module of its own that everything may import."""

__version__ = "0.1.0"
