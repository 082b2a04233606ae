"""The commands of ``dpaudit``."""
