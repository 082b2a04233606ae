"""Privacy profiles, confirmed from a witness alone."""
