"""Audit suites: one a mechanism file, each with neighbouring pairs, attacks and expectations."""
