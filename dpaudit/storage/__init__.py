"""Atomic file writes, finished batches on disk, and project roots."""
