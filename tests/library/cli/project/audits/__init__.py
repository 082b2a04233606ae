"""Audits for the tests of the command line."""
