"""Audits: neighbours, attacks, estimators, conformance checks, the engine and the verdict."""
