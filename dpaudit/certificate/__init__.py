"""Certificates: made, written, kept and published."""
