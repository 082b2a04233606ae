"""The items of a release, one file a kind."""
