"""Private algorithms: one family a file, each with declaration, claims, program and source."""
