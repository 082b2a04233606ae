"""Lower bounds from counts and scores, valid at their stated confidence."""
