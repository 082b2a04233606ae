"""Experiments: what a mechanism's output is worth, measured over a grid of cells.

An experiment is a module-level ``Experiment`` (``experiments.lab.model``) of a project's
``experiments/`` package; ``python -m experiments run NAME`` runs it, judges its checks and writes
its tables and plot.
"""
