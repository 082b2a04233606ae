"""Experiments: what a mechanism's output is worth, measured over a grid of cells.

An experiment is a module-level ``Experiment`` (``dpaudit.experiment.model``) of a project's
``experiments/`` package; ``dpaudit experiment NAME`` runs it, judges its checks and writes its
tables and plot.
"""
