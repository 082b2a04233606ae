"""Mutation testing: plant bugs in a declared program, and see whether ``certify`` finds them."""
