"""Who holds the data: what is allowed, drawn and replayed."""
