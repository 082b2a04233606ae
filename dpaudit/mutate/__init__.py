"""Mutation testing: bugs planted in a declared program, and whether its own audits find them."""
