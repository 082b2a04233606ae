"""The audits of a project that is not the catalogue."""
