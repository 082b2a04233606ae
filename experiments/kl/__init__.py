"""Utility experiments of private minimisation under the Kurdyka-Lojasiewicz condition."""
