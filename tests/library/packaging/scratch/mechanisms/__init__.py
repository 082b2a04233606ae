"""The mechanisms of a project that is not the catalogue."""
