"""Families of leaves and combinators: a folder each, with node, rules, kernel and theorem.

Nothing lists them: :func:`dpaudit.nodes.registry.load` imports whatever folders there are.
"""
