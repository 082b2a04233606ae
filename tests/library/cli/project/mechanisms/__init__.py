"""Mechanisms for the tests of the command line."""
