"""Projects: mechanisms and suites found by name; new ones."""
