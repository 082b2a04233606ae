"""Audits of the five classics: two data sets each that move every release by all it may move."""
