"""Projects: find mechanisms and suites by name, and start new projects."""
